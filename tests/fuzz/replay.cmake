# ufp4 - the inputs that libFuzzer found worth keeping, replayed; and user formats from random bytes, for ten seconds, a minute or an
# hour. Those that replay are not optimized: compiled in seconds, and the inputs are small.
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
  set(runner replay)
  if(name STREQUAL user_formats) # no corpus: random bytes
    set(runner random)
  endif()
  add_executable(fuzz_${name} ${source} fuzz/${runner}.cpp ${ufp4_kernels_object})
  add_dependencies(fuzz_${name} fuzz_corpus)
  target_link_libraries(fuzz_${name} PRIVATE ufp4::ufp4)
  target_include_directories(fuzz_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(fuzz_${name} PRIVATE UFP4_EXTERNAL_KERNELS)
  ufp4_strict(fuzz_${name})
  if(runner STREQUAL random)
    set(seconds_default 10)
    set(seconds_full 60)
    set(seconds_nightly 3600)
    target_compile_options(fuzz_${name} PRIVATE -O1)
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${seconds_${UFP4_TEST_LEVEL}})
    math(EXPR timeout "300 + 2 * ${seconds_${UFP4_TEST_LEVEL}}")
  else()
    set(timeout 300)
    target_compile_options(fuzz_${name} PRIVATE -O0)
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${ufp4_corpus}/corpus/${name})
  endif()
  set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz TIMEOUT ${timeout})
endforeach()
