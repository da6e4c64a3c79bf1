# An overlay port of the source tree that it lies in: vcpkg install ufp4 --overlay-ports=cmake/packaging/vcpkg
# vcpkg's binary cache sees this folder and not the headers: after a change to them, use --no-binarycaching.
set(VCPKG_BUILD_TYPE release) # headers; the kernels are optimized for a debug build too

get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
if(NOT EXISTS "${SOURCE_PATH}/include/ufp4/version.hpp")
    message(FATAL_ERROR "This port builds the source tree that it lies in, and ${SOURCE_PATH} has no "
                        "include/ufp4/version.hpp. Use it where it lies, in a clone of ufp4: "
                        "--overlay-ports=ufp4/cmake/packaging/vcpkg")
endif()

vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES kernels UFP4_KERNELS)
set(config_path share/cmake/ufp4)
if("kernels" IN_LIST FEATURES)
    set(config_path lib/cmake/ufp4)
endif()

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        -DUFP4_BUILD_TESTS=OFF
        -DUFP4_BUILD_EXAMPLES=OFF
        -DUFP4_BUILD_BENCH=OFF
        ${options}
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH ${config_path})
# vcpkg wants a .pc file with Libs in lib; the prefix in it is relative to the file, and the same from there.
file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/lib/pkgconfig")
file(RENAME "${CURRENT_PACKAGES_DIR}/share/pkgconfig/ufp4.pc" "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/ufp4.pc")
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/pkgconfig")
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/licenses")

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
