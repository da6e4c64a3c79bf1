# ufp4 - what cuda.cmake and hip.cmake share.
# SPDX-License-Identifier: Apache-2.0

# ufp4_find_gpu_tools(OPTION DEPENDENCY PURPOSE): in a build of ours, turns OPTION off and returns from the caller if
# DEPENDENCY cannot be found; the reason is reported.
macro(ufp4_find_gpu_tools option dependency purpose)
  include(${CMAKE_CURRENT_LIST_DIR}/optional.cmake)
  ufp4_find_optional(${dependency} "${purpose}")
  if(NOT ${dependency}_FOUND)
    set(${option} OFF)
    return()
  endif()
endmacro()

# ufp4_add_gpu_target(OPTION VENDOR FILE): the target ufp4::VENDOR by FILE; if it cannot be had, turns OPTION off and
# reports the reason.
macro(ufp4_add_gpu_target option vendor file)
  include(${CMAKE_CURRENT_LIST_DIR}/${file})
  if(ufp4_${vendor}_missing)
    message(STATUS "ufp4: the target ufp4::${vendor} is left out: ${ufp4_${vendor}_missing}")
    set(${option} OFF)
  else()
    set_target_properties(ufp4::${vendor} PROPERTIES IMPORTED_GLOBAL ON) # for the project that added this directory
  endif()
endmacro()
