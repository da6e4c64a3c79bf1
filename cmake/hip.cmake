# ufp4 - ufp4::hip in our own build. Where it cannot be had, UFP4_HIP is turned off and the reason is reported.
# SPDX-License-Identifier: Apache-2.0
if(PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_COMPILER_ID MATCHES "Clang") # ufp4Hip.cmake reports another compiler
  include(${CMAKE_CURRENT_LIST_DIR}/optional.cmake)
  ufp4_find_optional(hip "the target ufp4::hip")
  if(NOT hip_FOUND)
    set(UFP4_HIP OFF)
    return()
  endif()
endif()

include(${CMAKE_CURRENT_LIST_DIR}/ufp4Hip.cmake)
if(ufp4_hip_missing)
  message(STATUS "ufp4: the target ufp4::hip is left out: ${ufp4_hip_missing}")
  set(UFP4_HIP OFF)
else()
  set_target_properties(ufp4::hip PROPERTIES IMPORTED_GLOBAL ON) # for the project that added this directory
endif()
