# ufp4 - the inputs that libFuzzer found worth keeping, replayed. Not optimized: compiled in seconds, and the inputs are small.
# SPDX-License-Identifier: Apache-2.0
set(ufp4_corpus ${CMAKE_CURRENT_BINARY_DIR}/fuzz)
add_custom_command(
  OUTPUT ${ufp4_corpus}/unpacked
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${ufp4_corpus}/corpus
  COMMAND ${CMAKE_COMMAND} -E chdir ${ufp4_corpus} ${CMAKE_COMMAND} -E tar xf ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus.tar.xz
  COMMAND ${CMAKE_COMMAND} -E touch ${ufp4_corpus}/unpacked
  DEPENDS fuzz/corpus.tar.xz)
file(MAKE_DIRECTORY ${ufp4_corpus})
add_custom_target(fuzz_corpus ALL DEPENDS ${ufp4_corpus}/unpacked)

file(GLOB ufp4_fuzz_sources CONFIGURE_DEPENDS fuzz/*_fuzz.cpp)
foreach(source IN LISTS ufp4_fuzz_sources)
  cmake_path(GET source STEM name)
  string(REGEX REPLACE "_fuzz$" "" name ${name})
  add_executable(fuzz_${name} ${source} fuzz/replay.cpp ${ufp4_kernels_object})
  add_dependencies(fuzz_${name} fuzz_corpus)
  target_link_libraries(fuzz_${name} PRIVATE ufp4::ufp4)
  target_include_directories(fuzz_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(fuzz_${name} PRIVATE UFP4_EXTERNAL_KERNELS)
  target_compile_options(fuzz_${name} PRIVATE -O0)
  ufp4_strict(fuzz_${name})
  add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${ufp4_corpus}/corpus/${name})
  set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz TIMEOUT 300)
endforeach()
