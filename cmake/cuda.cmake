# ufp4 - CUDA as a language of our own build, where there is an nvcc; UFP4_CUDA is turned off aloud where there is none.
# SPDX-License-Identifier: Apache-2.0
#
# A user needs none of this: ufp4::ufp4 is an include path, so link it to a CUDA target and say
#   set_target_properties(app PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc) # often not on PATH
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "ufp4: UFP4_CUDA=OFF: there is no nvcc here, so the CUDA example is not built")
  set(UFP4_CUDA OFF)
  return()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80) # and, through its PTX, whatever is newer
endif()
enable_language(CUDA)
# CMake 3.25 does not know how nvcc 13 is told of C++20.
foreach(kind IN ITEMS STANDARD EXTENSION)
  if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
  endif()
endforeach()
