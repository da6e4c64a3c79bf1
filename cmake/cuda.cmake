# ufp4 - ufp4::cuda in a build of ours or of a project that added this directory. If it cannot be had, UFP4_CUDA is turned
# off and the reason is reported.
# SPDX-License-Identifier: Apache-2.0
#
# Whether CUDA is an enabled language is the decision of the project above; a build of our own enables it if there is nvcc.
include(${CMAKE_CURRENT_LIST_DIR}/gpu_target.cmake)
if(PROJECT_IS_TOP_LEVEL)
  ufp4_find_gpu_tools(UFP4_CUDA CUDA "the CUDA build of examples/embed_kernel")
  # CMake 3.25 does not know the option of nvcc 13 for C++20.
  foreach(kind IN ITEMS STANDARD EXTENSION)
    if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
      set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
    endif()
  endforeach()
endif()
ufp4_add_gpu_target(UFP4_CUDA cuda ufp4Cuda.cmake)
