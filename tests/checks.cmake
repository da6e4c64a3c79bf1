# ufp4 - tests that are scripts: oracles, documents, packages, compilers of GPUs, what must not compile.
# SPDX-License-Identifier: Apache-2.0
#
# A script returns 77 where it skips, after a line SKIPPED: REASON. Those that need packages get them from tests/run.sh, which installs
# the sets of cmake/packages.txt; Python packages from PyPI come into environments of the build folder.

# ufp4_check(NAME TIMEOUT COMMAND...)
function(ufp4_check name timeout)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "checks;script" TIMEOUT ${timeout} SKIP_RETURN_CODE 77
                       ENVIRONMENT "UFP4_BUILD_DIR=${PROJECT_BINARY_DIR}/checks;UFP4_NO_INSTALL=1;PYTHONDONTWRITEBYTECODE=1")
endfunction()
# ufp4_bash_check(NAME TIMEOUT SCRIPT ARGUMENT...): the script's path from the top of the tree.
function(ufp4_bash_check name timeout script)
  ufp4_check(${name} ${timeout} bash ${PROJECT_SOURCE_DIR}/${script} ${ARGN})
endfunction()
# ufp4_python_check(NAME PACKAGES SCRIPT ARGUMENT...): with a python3 that has the packages.
function(ufp4_python_check name packages script)
  ufp4_bash_check(${name} 900 tests/support/python.sh ${packages} ${PROJECT_SOURCE_DIR}/${script} ${ARGN})
endfunction()

# An independent implementation of numerics.md in Python gives the same bits.
ufp4_python_check(oracle numpy tests/oracle/check.py --driver $<TARGET_FILE:oracle_driver>)
set_tests_properties(oracle PROPERTIES COST 200) # long, so it starts first
ufp4_python_check(docs_links sys docs/site/check_links.py ${PROJECT_SOURCE_DIR})
ufp4_python_check(docs_words sys docs/site/check_words.py ${PROJECT_SOURCE_DIR})
ufp4_python_check(packaging_lists yaml tests/packaging/lists_test.py)

# Translation units with different flags in one program.
ufp4_bash_check(cpu_odr_pairs 300 tests/cpu/odr/pairs.sh ${ufp4_kernels_object})
ufp4_bash_check(cpu_unload 120 tests/cpu/unload.sh)

# The ways to get the library, each in a project of its own.
set(ufp4_ways package)
if(NOT UFP4_TEST_LEVEL STREQUAL default)
  set(ufp4_ways hip_package hip_subdirectory cuda_package cuda_subdirectory conan vcpkg readme include package subdirectory
      fetch_found fetch_missing pkgconfig components kernels c one_header)
endif()
if(UFP4_TEST_LEVEL STREQUAL nightly)
  list(APPEND ufp4_ways meson bazel bazel_program xmake spack cpm)
endif()
ufp4_bash_check(packages_install 300 tests/consume/run.sh install)
set_tests_properties(packages_install PROPERTIES FIXTURES_SETUP packages)
foreach(way IN LISTS ufp4_ways)
  ufp4_bash_check(packages_${way} 900 tests/consume/run.sh ${way})
  set_tests_properties(packages_${way} PROPERTIES FIXTURES_REQUIRED packages)
endforeach()

if(UFP4_TEST_LEVEL STREQUAL default)
  return()
endif()
set_tests_properties(packages_cuda_package packages_cuda_subdirectory PROPERTIES RESOURCE_LOCK nvcc) # one may fetch it

# The C interface from C, Python and Rust, and compared with its committed description.
foreach(program IN ITEMS c python rust abi)
  ufp4_bash_check(c_${program} 300 tests/c/programs.sh ${program})
endforeach()
set_tests_properties(c_c PROPERTIES FIXTURES_SETUP c_library COST 100) # builds it
set_tests_properties(c_python c_rust PROPERTIES FIXTURES_REQUIRED c_library)

# Random formats of a program's own, against the oracle; fuzz_user_formats compares the instruction sets alone.
set(seconds 60)
if(UFP4_TEST_LEVEL STREQUAL nightly)
  set(seconds 3600)
endif()
math(EXPR timeout "${seconds} + 300")
ufp4_python_check(oracle_user_formats numpy tests/oracle/check.py --driver $<TARGET_FILE:oracle_driver> --family user/* --seconds ${seconds})
set_tests_properties(oracle_user_formats PROPERTIES TIMEOUT ${timeout})

# Every optional dependency absent, broken, too old and present.
include(dependencies/tests.cmake)

# Other projects' packages give the same bits.
set(ufp4_outside_checks ml_dtypes blocks interop weights)
if(UFP4_TEST_LEVEL STREQUAL nightly)
  list(APPEND ufp4_outside_checks gfloat packers) # PyTorch, 5 GB
endif()
foreach(check IN LISTS ufp4_outside_checks)
  set(driver scalar_driver)
  if(check STREQUAL blocks)
    set(driver block_driver)
  elseif(check MATCHES "^(interop|weights|packers)$")
    set(driver interop_driver)
  endif()
  set(seconds 900)
  if(check STREQUAL packers)
    set(seconds 1800) # PyTorch
  endif()
  ufp4_bash_check(outside_${check} ${seconds} tests/outside/run.sh ${check} $<TARGET_FILE:${driver}>)
  set_tests_properties(outside_${check} PROPERTIES RESOURCE_LOCK outside)
endforeach()
if(UFP4_TEST_LEVEL STREQUAL nightly) # PyTorch again
  ufp4_bash_check(outside_quantizers 1800 tests/outside/run.sh quantizers $<TARGET_FILE:oracle_driver>)
  set_tests_properties(outside_quantizers PROPERTIES RESOURCE_LOCK outside)
endif()

# The Python package: built by pip, its bits, its first steps, its source distribution. They share an environment of Python.
set(ufp4_python_checks tests first_steps sdist)
if(UFP4_TEST_LEVEL STREQUAL nightly)
  list(APPEND ufp4_python_checks cuda readme from_sdist sanitize torch) # PyTorch: 5 GB
endif()
ufp4_bash_check(python_wheel 900 tests/python/run.sh wheel)
set_tests_properties(python_wheel PROPERTIES FIXTURES_SETUP python_wheel RESOURCE_LOCK python COST 100)
if(TARGET ufp4_tool)
  set(ufp4_python_tool $<TARGET_FILE:ufp4_tool>)
endif()
foreach(check IN LISTS ufp4_python_checks)
  ufp4_bash_check(python_${check} 1800 tests/python/run.sh ${check} ${ufp4_python_tool})
  set_tests_properties(python_${check} PROPERTIES FIXTURES_REQUIRED python_wheel)
endforeach()

# Every header that needs no other library compiles as the only include of a file, with all warnings.
ufp4_check(headers 600 ${CMAKE_CTEST_COMMAND} --build-and-test ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/headers
           --build-generator Ninja --build-target verify --build-options
           -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DUFP4_BUILD_TESTS=OFF -DUFP4_BUILD_EXAMPLES=OFF -DUFP4_BUILD_BENCH=OFF
           "-DCMAKE_CXX_FLAGS=-O0 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror")
ufp4_bash_check(lane_headers 600 tests/cpu/lane_headers.sh)
ufp4_bash_check(names 300 tests/names.sh)
ufp4_bash_check(budgets 300 tests/include_budget.sh)
ufp4_bash_check(debugger 300 tests/debugger/run.sh)
ufp4_bash_check(format 300 tests/format_check.sh)
ufp4_bash_check(docs_site 600 docs/build.sh)
ufp4_python_check(docs_api sys docs/site/api_reference.py --check ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/api_check)
ufp4_bash_check(misuse 900 tests/compile_fail/check.sh)

# Every kernel compiled by the vendors' compilers for each architecture, and the instructions in it.
set(ufp4_cuda_targets "80 90a")
if(UFP4_TEST_LEVEL STREQUAL nightly)
  string(APPEND ufp4_cuda_targets " 100a 120a")
endif()
ufp4_bash_check(gpu_compile_cuda 1800 tests/gpu/compile.sh --out ${PROJECT_BINARY_DIR}/gpu --targets ${ufp4_cuda_targets})
# Every GPU test and the bench, without the assembler; with it: gpu_prepare.
ufp4_bash_check(gpu_sources 900 tests/gpu/borrowed.sh check)
ufp4_bash_check(gpu_sass 900 tests/gpu/sass_check.sh --out ${PROJECT_BINARY_DIR}/gpu --targets ${ufp4_cuda_targets}) # the cubins of gpu_compile_cuda
set_tests_properties(gpu_compile_cuda gpu_sources gpu_sass PROPERTIES RUN_SERIAL TRUE) # they use every core
set_tests_properties(gpu_sass PROPERTIES DEPENDS gpu_compile_cuda)

if(UFP4_TEST_LEVEL STREQUAL full)
  return()
endif()

# What runs on a borrowed GPU, end to end without one.
ufp4_bash_check(gpu_borrowed 600 tests/gpu/borrowed_rehearsal.sh $<TARGET_FILE:ufp4_gpu_kernels>)
ufp4_bash_check(gpu_sources_hip 900 tests/gpu/borrowed.sh check --vendor amd)
ufp4_bash_check(gpu_compile_hip 1800 tests/gpu/compile_hip.sh --out ${PROJECT_BINARY_DIR}/hip)
ufp4_bash_check(gpu_compiled 5400 tests/gpu/compiled.sh --out ${PROJECT_BINARY_DIR}/compiled)
# The compilers of this distribution, in every dialect and setting.
ufp4_bash_check(compilers 28800 tests/compilers.sh --all)
ufp4_bash_check(tidy 7200 tests/tidy.sh)
ufp4_bash_check(gpu_prepare 3600 tests/gpu/borrowed.sh prepare)
ufp4_bash_check(gpu_interpreted 3600 tests/gpu/borrowed.sh interpret)
ufp4_bash_check(nightly_fuzz 7200 tests/fuzz/run.sh --seconds 300 --out ${PROJECT_BINARY_DIR}/fuzz)
set(use_every_core gpu_borrowed gpu_sources_hip gpu_compile_hip gpu_compiled compilers tidy gpu_prepare gpu_interpreted nightly_fuzz)
set_tests_properties(${use_every_core} PROPERTIES RUN_SERIAL TRUE)
