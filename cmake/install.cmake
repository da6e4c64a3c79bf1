# ufp4 - install rules: licence, headers, CMake package, pkg-config file, nothing else.
# SPDX-License-Identifier: Apache-2.0
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Headers have no architecture, so the package lies under share/ and its version file says nothing of pointer sizes.
set(ufp4_package_dir ${CMAKE_INSTALL_DATAROOTDIR}/cmake/ufp4)

install(
  TARGETS ufp4
  EXPORT ufp4Targets
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILE_SET guest_headers DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILE_SET bodies DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ufp4Targets NAMESPACE ufp4:: DESTINATION ${ufp4_package_dir})

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/ufp4Config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/ufp4Config.cmake
  INSTALL_DESTINATION ${ufp4_package_dir}
  NO_SET_AND_CHECK_MACRO)
# Below 1.0 a new minor number may change the interface.
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/ufp4ConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ufp4Config.cmake ${CMAKE_CURRENT_BINARY_DIR}/ufp4ConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/ufp4Cuda.cmake ${CMAKE_CURRENT_LIST_DIR}/ufp4Hip.cmake
        DESTINATION ${ufp4_package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/licenses/ufp4)

# Found from where the file lies, so that the installed tree can be moved; unless the user's folders are absolute.
set(ufp4_pc_dir ${CMAKE_INSTALL_DATAROOTDIR}/pkgconfig)
if(IS_ABSOLUTE "${ufp4_pc_dir}")
  set(ufp4_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH ufp4_pc_prefix "/prefix/${ufp4_pc_dir}" "/prefix")
  string(REGEX REPLACE "/$" "" ufp4_pc_prefix "\${pcfiledir}/${ufp4_pc_prefix}")
endif()
set(ufp4_pc_includedir "\${prefix}")
cmake_path(APPEND ufp4_pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}") # an absolute one replaces the prefix
configure_file(${CMAKE_CURRENT_LIST_DIR}/ufp4.pc.in ${CMAKE_CURRENT_BINARY_DIR}/ufp4.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ufp4.pc DESTINATION ${ufp4_pc_dir})
