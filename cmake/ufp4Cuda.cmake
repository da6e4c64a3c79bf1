# ufp4 - the target ufp4::cuda, for files that are CUDA to CMake: ufp4::ufp4, and C++20 for them.
# SPDX-License-Identifier: Apache-2.0
#
# Included by the installed package for find_package(ufp4 COMPONENTS cuda), and by cuda.cmake where UFP4_CUDA is on. CUDA is
# a language of the project by then; its compiler brings the toolkit's headers and runtime. Sets ufp4_cuda_missing to a
# message where there is no target.
set(ufp4_cuda_missing "")
if(NOT TARGET ufp4::cuda)
  if(NOT CMAKE_CUDA_COMPILER_LOADED)
    set(ufp4_cuda_missing "ufp4::cuda needs CUDA as a language of the project, with enable_language(CUDA) before find_package(ufp4)")
  elseif(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
    set(ufp4_cuda_missing "ufp4::cuda needs nvcc 12.4 or newer, and ${CMAKE_CUDA_COMPILER} is ${CMAKE_CUDA_COMPILER_VERSION}")
  else()
    add_library(ufp4::cuda INTERFACE IMPORTED)
    target_link_libraries(ufp4::cuda INTERFACE ufp4::ufp4)
    if("cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
      target_compile_features(ufp4::cuda INTERFACE cuda_std_20)
    else() # a CMake that does not know how this nvcc is told of C++20, as Debian 12's
      target_compile_options(ufp4::cuda INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>")
    endif()
  endif()
endif()
