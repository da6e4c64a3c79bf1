# ufp4 - ufp4::hip in our own build. If it cannot be had, UFP4_HIP is turned off and the reason is reported.
# SPDX-License-Identifier: Apache-2.0
include(${CMAKE_CURRENT_LIST_DIR}/gpu_target.cmake)
if(PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_COMPILER_ID MATCHES "Clang") # ufp4Hip.cmake reports another compiler
  ufp4_find_gpu_tools(UFP4_HIP hip "the target ufp4::hip")
endif()
ufp4_add_gpu_target(UFP4_HIP hip ufp4Hip.cmake)
