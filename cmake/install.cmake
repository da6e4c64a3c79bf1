# ufp4 - install rules: licence, headers, CMake package, pkg-config file, nothing else.
# SPDX-License-Identifier: Apache-2.0
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Headers have no architecture: their package is installed under share/, and its version file does not compare pointer
# sizes. With a compiled library it depends on the architecture and is installed under lib/.
set(ufp4_package_dir ${CMAKE_INSTALL_DATAROOTDIR}/cmake/ufp4)
set(ufp4_independent ARCH_INDEPENDENT)
if(UFP4_KERNELS OR UFP4_C OR UFP4_CUDA_KERNELS OR UFP4_HIP_KERNELS)
  set(ufp4_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ufp4)
  set(ufp4_independent "")
endif()
if(UFP4_KERNELS)
  install(TARGETS ufp4_kernels EXPORT ufp4KernelsTargets)
  install(EXPORT ufp4KernelsTargets NAMESPACE ufp4:: DESTINATION ${ufp4_package_dir})
endif()
foreach(vendor IN ITEMS Cuda Hip)
  string(TOLOWER ${vendor} lower)
  if(TARGET ufp4_${lower}_kernels)
    install(TARGETS ufp4_${lower}_kernels EXPORT ufp4${vendor}KernelsTargets)
    install(EXPORT ufp4${vendor}KernelsTargets NAMESPACE ufp4:: DESTINATION ${ufp4_package_dir})
  endif()
endforeach()
if(UFP4_C)
  install(TARGETS ufp4_c EXPORT ufp4CTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT ufp4CTargets NAMESPACE ufp4:: DESTINATION ${ufp4_package_dir})
endif()

install(
  TARGETS ufp4
  EXPORT ufp4Targets
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILE_SET guest_headers DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILE_SET rtc_headers DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ufp4Targets NAMESPACE ufp4:: DESTINATION ${ufp4_package_dir})

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/ufp4Config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/ufp4Config.cmake
  INSTALL_DESTINATION ${ufp4_package_dir}
  NO_SET_AND_CHECK_MACRO)
# Below 1.0 a new minor number may change the interface.
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/ufp4ConfigVersion.cmake COMPATIBILITY SameMinorVersion ${ufp4_independent})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ufp4Config.cmake ${CMAKE_CURRENT_BINARY_DIR}/ufp4ConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/ufp4Cuda.cmake ${CMAKE_CURRENT_LIST_DIR}/ufp4Hip.cmake
        DESTINATION ${ufp4_package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/licenses/ufp4)

# ufp4_pkgconfig(NAME FOLDER): the prefix is relative to the file, so that the installed tree can be moved; unless the
# user's folders are absolute.
function(ufp4_pkgconfig name folder)
  if(IS_ABSOLUTE "${folder}")
    set(ufp4_pc_prefix "${CMAKE_INSTALL_PREFIX}")
  else()
    file(RELATIVE_PATH ufp4_pc_prefix "/prefix/${folder}" "/prefix")
    string(REGEX REPLACE "/$" "" ufp4_pc_prefix "\${pcfiledir}/${ufp4_pc_prefix}")
  endif()
  set(ufp4_pc_includedir "\${prefix}")
  cmake_path(APPEND ufp4_pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}") # an absolute one replaces the prefix
  set(ufp4_pc_libdir "\${prefix}")
  cmake_path(APPEND ufp4_pc_libdir "${CMAKE_INSTALL_LIBDIR}")
  set(ufp4_pc_isas "")
  if(UFP4_ISAS)
    set(ufp4_pc_isas " -DUFP4_ISAS=${ufp4_isas}")
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${folder})
endfunction()
ufp4_pkgconfig(ufp4 ${CMAKE_INSTALL_DATAROOTDIR}/pkgconfig)
if(UFP4_KERNELS)
  ufp4_pkgconfig(ufp4-kernels ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
if(UFP4_C)
  ufp4_pkgconfig(ufp4-c ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
