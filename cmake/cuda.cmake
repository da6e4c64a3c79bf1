# ufp4 - ufp4::cuda in a build of ours or of a project that added this directory. Where it cannot be had, UFP4_CUDA is
# turned off and the reason is reported.
# SPDX-License-Identifier: Apache-2.0
#
# Whether CUDA is a language is for the project above to say; a build of our own makes it one where there is an nvcc.
if(PROJECT_IS_TOP_LEVEL)
  include(${CMAKE_CURRENT_LIST_DIR}/optional.cmake)
  ufp4_find_optional(CUDA "the CUDA build of examples/embed_kernel")
  if(NOT CUDA_FOUND)
    set(UFP4_CUDA OFF)
    return()
  endif()
  # CMake 3.25 does not know how nvcc 13 is told of C++20.
  foreach(kind IN ITEMS STANDARD EXTENSION)
    if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
      set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
    endif()
  endforeach()
endif()

include(${CMAKE_CURRENT_LIST_DIR}/ufp4Cuda.cmake)
if(ufp4_cuda_missing)
  message(STATUS "ufp4: the target ufp4::cuda is left out: ${ufp4_cuda_missing}")
  set(UFP4_CUDA OFF)
else()
  set_target_properties(ufp4::cuda PROPERTIES IMPORTED_GLOBAL ON) # for the project that added this directory
endif()
