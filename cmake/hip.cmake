# ufp4 - ufp4::hip in our own build; UFP4_HIP is turned off aloud where it cannot be had.
# SPDX-License-Identifier: Apache-2.0
include(${CMAKE_CURRENT_LIST_DIR}/ufp4Hip.cmake)
if(ufp4_hip_missing)
  message(STATUS "ufp4: UFP4_HIP=OFF: ${ufp4_hip_missing}")
  set(UFP4_HIP OFF)
else()
  set_target_properties(ufp4::hip PROPERTIES IMPORTED_GLOBAL ON) # for the project that added this directory
endif()
