# ufp4 - tests of programs: the examples, what the pages of docs/ quote, the benches, the drivers of the oracles.
# SPDX-License-Identifier: Apache-2.0

# ufp4_script_test(NAME SCRIPT [ARGUMENT]...): a bash script; it returns 77 where it skips, after a line that gives the reason.
function(ufp4_script_test name script)
  if(NOT UFP4_TEST_SCRIPTS)
    return()
  endif()
  add_test(NAME ${name} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "examples;script" TIMEOUT 300 SKIP_RETURN_CODE 77)
endfunction()

# Programs of the examples take the kernels that the tests have compiled; examples/readme.cpp alone compiles its own, as a user's does.
function(ufp4_share_kernels target)
  target_sources(${target} PRIVATE ${ufp4_kernels_object})
  target_compile_definitions(${target} PRIVATE UFP4_EXTERNAL_KERNELS)
endfunction()

# The programs that oracle/check.py and outside/*_check.py run. Not optimized: every format with every policy takes
# minutes to optimize, and seconds to run.
if(UFP4_TEST_SCRIPTS)
  set(ufp4_driver_names oracle_driver scalar_driver block_driver interop_driver)
  set(ufp4_driver_sources oracle/driver.cpp outside/scalar_driver.cpp outside/block_driver.cpp
                          outside/interop_driver.cpp)
  foreach(target source IN ZIP_LISTS ufp4_driver_names ufp4_driver_sources)
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE ufp4::ufp4)
    target_compile_options(${target} PRIVATE -O0)
    ufp4_share_kernels(${target})
    ufp4_strict(${target})
  endforeach()
endif()

if(NOT UFP4_BUILD_EXAMPLES)
  return()
endif()

# The tour of the public interface: the test that the interface is still the one documented.
ufp4_share_kernels(api_tour)
ufp4_strict(api_tour)
add_test(NAME api_tour COMMAND api_tour)
set_tests_properties(api_tour PROPERTIES LABELS examples TIMEOUT 300)

# README's program is examples/readme.cpp, and what it prints is what README shows.
add_test(NAME readme COMMAND ${CMAKE_COMMAND} -D README=${PROJECT_SOURCE_DIR}/README.md
                             -D SOURCE=${PROJECT_SOURCE_DIR}/examples/readme.cpp -D PROGRAM=$<TARGET_FILE:readme>
                             -P ${CMAKE_CURRENT_SOURCE_DIR}/readme.cmake)
set_tests_properties(readme PROPERTIES LABELS examples TIMEOUT 60)

# What the pages quote compiles, and asserts what they state.
file(GLOB ufp4_snippet_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/snippets/*.cpp)
foreach(source IN LISTS ufp4_snippet_sources)
  cmake_path(GET source STEM name)
  if(TARGET snippet_${name})
    ufp4_share_kernels(snippet_${name})
    ufp4_strict(snippet_${name})
    add_test(NAME docs_${name} COMMAND snippet_${name})
    set_tests_properties(docs_${name} PROPERTIES LABELS docs TIMEOUT 300)
  endif()
endforeach()

if(TARGET snippet_cpu) # OpenMP is an executor of docs/cpu.md
  target_compile_options(snippet_cpu PRIVATE -Wno-unknown-pragmas)
  if(TARGET OpenMP::OpenMP_CXX)
    target_link_libraries(snippet_cpu PRIVATE OpenMP::OpenMP_CXX)
  endif()
endif()

# The command-line tool as a program, its manual page, and its installation.
if(UFP4_INSTALL)
  ufp4_script_test(examples_tool_program examples/tool_program_test.sh $<TARGET_FILE:ufp4_tool> ${PROJECT_BINARY_DIR})
endif()

# The page that compares all presets.
if(TARGET ufp4_tool)
  ufp4_script_test(examples_side_by_side support/python.sh sys ${CMAKE_CURRENT_SOURCE_DIR}/examples/side_by_side_test.py
                   $<TARGET_FILE:ufp4_tool> $<TARGET_FILE:te_four_over_six>)
endif()

# The page of the bias of rounding policies and scale rules.
ufp4_share_kernels(rounding_bias)
ufp4_strict(rounding_bias)
ufp4_script_test(examples_rounding_bias support/python.sh sys ${CMAKE_CURRENT_SOURCE_DIR}/examples/rounding_bias_test.py
                 $<TARGET_FILE:rounding_bias>)

# The study of examples/train_lm, with a stand-in for the program; long, so it starts first. Then demo.sh's last part.
if(UFP4_TEST_LEVEL STREQUAL nightly)
  ufp4_script_test(examples_train_lm_study support/python.sh numpy,scipy ${CMAKE_CURRENT_SOURCE_DIR}/examples/train_lm_study_test.py)
  if(UFP4_TEST_SCRIPTS)
    set_tests_properties(examples_train_lm_study PROPERTIES COST 100)
  endif()
endif()
ufp4_script_test(examples_train_lm_demo examples/train_lm_demo_test.sh ${PROJECT_BINARY_DIR})
if(TARGET train_lm)
  ufp4_script_test(examples_train_lm_mpi examples/train_lm_mpi_test.sh $<TARGET_FILE:train_lm>)
  ufp4_script_test(examples_train_lm_study_program support/python.sh numpy,scipy
                   ${CMAKE_CURRENT_SOURCE_DIR}/examples/train_lm_study_program_test.py $<TARGET_FILE:train_lm>
                   $<TARGET_FILE:train_lm_depth>)
endif()
