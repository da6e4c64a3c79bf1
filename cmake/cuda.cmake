# ufp4 - ufp4::cuda in a build of ours or of a project that added this directory; UFP4_CUDA is turned off aloud where it cannot be had.
# SPDX-License-Identifier: Apache-2.0
#
# Whether CUDA is a language is for the project above to say; a build of our own makes it one where there is an nvcc.
if(PROJECT_IS_TOP_LEVEL)
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
endif()

include(${CMAKE_CURRENT_LIST_DIR}/ufp4Cuda.cmake)
if(ufp4_cuda_missing)
  message(STATUS "ufp4: UFP4_CUDA=OFF: ${ufp4_cuda_missing}")
  set(UFP4_CUDA OFF)
else()
  set_target_properties(ufp4::cuda PROPERTIES IMPORTED_GLOBAL ON) # for the project that added this directory
endif()
