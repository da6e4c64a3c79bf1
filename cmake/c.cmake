# ufp4 - the target ufp4::c: a static library, or a shared one with BUILD_SHARED_LIBS, that exports the functions of ufp4.h alone.
# SPDX-License-Identifier: Apache-2.0
file(STRINGS ${PROJECT_SOURCE_DIR}/include/ufp4/ufp4.h ufp4_abi_version REGEX "^#define UFP4_ABI_VERSION ")
string(REGEX MATCH "[0-9]+$" ufp4_abi_version "${ufp4_abi_version}")

add_library(ufp4_c ${CMAKE_CURRENT_LIST_DIR}/c.cpp)
add_library(ufp4::c ALIAS ufp4_c)
set_target_properties(
  ufp4_c
  PROPERTIES EXPORT_NAME c
             OUTPUT_NAME ufp4
             POSITION_INDEPENDENT_CODE ON
             SOVERSION ${ufp4_abi_version}
             VERSION ${ufp4_abi_version}.${PROJECT_VERSION}
             CXX_VISIBILITY_PRESET hidden
             VISIBILITY_INLINES_HIDDEN ON)
target_compile_options(ufp4_c PRIVATE $<$<CONFIG:>:-O3>) # a build without a type would not optimize the kernels
target_compile_features(ufp4_c PRIVATE cxx_std_20)
target_include_directories(ufp4_c PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
target_link_libraries(ufp4_c PRIVATE $<BUILD_INTERFACE:ufp4> Threads::Threads)
if(NOT BUILD_SHARED_LIBS) # a program in C does not link the library of C++ by itself
  target_link_libraries(ufp4_c INTERFACE $<$<LINK_LANGUAGE:C>:stdc++> $<$<LINK_LANGUAGE:C>:m>)
endif()
if(BUILD_SHARED_LIBS AND CMAKE_EXECUTABLE_FORMAT STREQUAL "ELF")
  # Templates of the C++ library have default visibility, whatever the option says: the script hides them too. The threads of
  # the pool run the library's code, so it stays loaded.
  target_link_options(ufp4_c PRIVATE LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/c.map LINKER:-z,nodelete)
  set_target_properties(ufp4_c PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/c.map)
endif()
