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

# ufp4_add_gpu_target(OPTION VENDOR FILE): the target ufp4::VENDOR by FILE, and ufp4::VENDOR_kernels where OPTION_KERNELS is
# on; if the first cannot be had, turns both options off and reports the reason.
macro(ufp4_add_gpu_target option vendor file)
  include(${CMAKE_CURRENT_LIST_DIR}/${file})
  if(ufp4_${vendor}_missing)
    message(STATUS "ufp4: the target ufp4::${vendor} is left out: ${ufp4_${vendor}_missing}")
    set(${option} OFF)
    set(${option}_KERNELS OFF)
  else()
    set_target_properties(ufp4::${vendor} PROPERTIES IMPORTED_GLOBAL ON) # for the project that added this directory
  endif()
  if(${option}_KERNELS)
    file(GLOB ufp4_kernels_source ${CMAKE_CURRENT_LIST_DIR}/${vendor}_kernels.*)
    add_library(ufp4_${vendor}_kernels ${ufp4_kernels_source}) # static, or shared with BUILD_SHARED_LIBS
    add_library(ufp4::${vendor}_kernels ALIAS ufp4_${vendor}_kernels)
    set_target_properties(ufp4_${vendor}_kernels PROPERTIES EXPORT_NAME ${vendor}_kernels POSITION_INDEPENDENT_CODE ON
                                                            SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
    target_compile_definitions(ufp4_${vendor}_kernels PRIVATE UFP4_COMPILE_GPU_KERNELS INTERFACE UFP4_EXTERNAL_GPU_KERNELS)
    target_compile_options(ufp4_${vendor}_kernels PRIVATE $<$<CONFIG:>:-O3>)
    target_link_libraries(ufp4_${vendor}_kernels PUBLIC ufp4 ufp4::${vendor})
  endif()
endmacro()
