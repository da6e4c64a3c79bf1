# ufp4 - test: with a dependency absent or broken the source tree configures and reports in one line what it leaves out.
# SPDX-License-Identifier: Apache-2.0
#
#   cmake -P check.cmake                                                                             lists the cases
#   cmake -D CASE=<case> -D SOURCE=<source tree> -D WORK=<folder> [-D COMPILER=g++] -P check.cmake   runs one
#
# A case that needs what this machine lacks prints a line that begins with "SKIPPED: <case>:".
cmake_minimum_required(VERSION 3.23)
set(cases "")

function(fail text what)
  message("${text}")
  message(FATAL_ERROR "${CASE}: ${what}")
endfunction()

function(require text pattern)
  if(NOT text MATCHES "${pattern}")
    fail("${text}" "nothing above matches '${pattern}'")
  endif()
endfunction()

function(reject text pattern)
  if(text MATCHES "${pattern}")
    fail("${text}" "'${CMAKE_MATCH_0}' is above")
  endif()
endfunction()

# run(<expected status> <program> <argument>...) sets output. Programs in WORK/bin come before all others on PATH.
function(run expected)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env "PATH=${WORK}/bin:$ENV{PATH}" ${ARGN}
                  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status WORKING_DIRECTORY ${SOURCE})
  if(NOT status EQUAL expected)
    fail("${output}" "exit status ${status}, not ${expected}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# program(<name> <line of sh>): a program in WORK/bin.
function(program name line)
  file(WRITE ${WORK}/bin/${name} "#!/bin/sh\n${line}\n")
  file(CHMOD ${WORK}/bin/${name} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

# package(<name> <kind>): a CMake package in WORK/<name>.
# | kind       | what it is                                                                                |
# |------------|-------------------------------------------------------------------------------------------|
# | headers    | the package file names a folder of headers that does not exist                            |
# | library    | headers, and the name of a library that does not exist                                    |
# | exported   | the same, as install(EXPORT) writes it: the package file stops where a library is missing |
# | complete   | headers                                                                                   |
# | old        | the same, of version 1.0                                                                  |
set(target_Eigen3 Eigen3::Eigen)
set(files_Eigen3 Eigen/Core Eigen/src/Core/Matrix.h)
set(target_Catch2 Catch2::Catch2)
set(files_Catch2 catch2/catch.hpp)
set(target_benchmark benchmark::benchmark)
set(files_benchmark benchmark/benchmark.h)
set(text_benchmark "namespace benchmark { void AddCustomContext(const char*, const char*), RunSpecifiedBenchmarks(); }")
set(target_Torch torch)
set(files_Torch torch/torch.h c10/core/Allocator.h)
set(text_Torch "namespace c10 { enum class DeviceType { CPU }; void* GetAllocator(DeviceType); }")
set(target_hip hip::device)
set(files_hip hip/hip_runtime.h)
set(text_hip "enum { hipSuccess }; int hipDeviceSynchronize();")
function(package name kind)
  set(folder ${WORK}/${name})
  set(target ${target_${name}})
  set(version 9.0)
  set(code "set(TORCH_LIBRARIES torch)\nadd_library(${target} STATIC IMPORTED)\n")
  if(kind STREQUAL "exported")
    string(APPEND code "message(FATAL_ERROR \"${target} references a file that does not exist\")\n")
  elseif(kind MATCHES "^(headers|complete|old)$")
    set(code "add_library(${target} INTERFACE IMPORTED)\n")
  endif()
  string(APPEND code "set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${folder}/include
                        IMPORTED_LOCATION ${folder}/libabsent.a)\n")
  if(kind STREQUAL "old")
    set(version 1.0)
  endif()
  file(WRITE ${folder}/${name}Config.cmake "${code}")
  file(WRITE ${folder}/${name}ConfigVersion.cmake "set(PACKAGE_VERSION ${version})\n")
  if(NOT kind STREQUAL "headers")
    foreach(file IN LISTS files_${name})
      file(WRITE ${folder}/include/${file} "#pragma once\n${text_${name}}\n")
    endforeach()
  endif()
endfunction()

# begin_case() adds the case `name` of the calling function to the list and returns from that function unless it is CASE.
macro(begin_case)
  set(cases ${cases} ${name} PARENT_SCOPE)
  if(NOT CASE STREQUAL name)
    return()
  endif()
endmacro()

# configure(<case> ...) configures the source tree.
# | keyword | meaning                                                                                            |
# |---------|----------------------------------------------------------------------------------------------------|
# | BUILD   | parts of the source tree: EXAMPLES, TESTS, BENCH                                                   |
# | SEARCH  | dependencies that CMake searches for; all others are disabled                                      |
# | HIDDEN  | what is installed on this machine is not found                                                     |
# | PACKAGE | a dependency and the kind of package that it has                                                   |
# | PROGRAM | a program on PATH and the sh script that it runs                                                   |
# | HEADER  | a header in WORK and its text                                                                      |
# | CXX     | the compiler, if not COMPILER                                                                      |
# | ENV     | environment variables                                                                              |
# | ARGS    | arguments of cmake                                                                                 |
# | AGAIN   | arguments of cmake for a second configuration; before it, the package of PACKAGE is removed        |
# | NEEDS   | a regex: the case is skipped if the configuration reports that something of this name is not found |
# | REPORT  | a regex: what one line reports. Without REPORT no dependency of SEARCH may be left out             |
# | WITH    | a regex: what compile_commands.json has; WITHOUT: what it has not                                  |
# | COMPILE | a target that is built                                                                             |
function(configure name)
  begin_case()
  cmake_parse_arguments(PARSE_ARGV 1 arg "HIDDEN" "CXX;NEEDS;REPORT;WITH;WITHOUT;COMPILE"
                        "BUILD;SEARCH;PACKAGE;PROGRAM;HEADER;ENV;ARGS;AGAIN")
  if(arg_PROGRAM)
    program(${arg_PROGRAM})
  endif()
  if(arg_HEADER)
    list(POP_FRONT arg_HEADER header)
    file(WRITE ${WORK}/${header} "${arg_HEADER}\n")
  endif()
  set(build ${WORK}/build)
  find_program(ninja ninja REQUIRED)
  if(NOT arg_CXX)
    set(arg_CXX ${COMPILER})
  endif()
  find_program(compiler ${arg_CXX} HINTS ${WORK}/bin)
  if(NOT compiler)
    message("SKIPPED: ${CASE}: there is no ${arg_CXX}")
    return()
  endif()
  set(command ${CMAKE_COMMAND} --no-warn-unused-cli -S ${SOURCE} -B ${build} -G Ninja -D CMAKE_MAKE_PROGRAM=${ninja}
              -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_BUILD_TYPE=Debug -D CMAKE_EXPORT_COMPILE_COMMANDS=ON
              -D UFP4_INSTALL=OFF -D UFP4_TRAIN_LM_AVX2=OFF)
  foreach(part IN ITEMS EXAMPLES TESTS BENCH)
    set(value OFF)
    if(part IN_LIST arg_BUILD)
      set(value ON)
    endif()
    list(APPEND command -D UFP4_BUILD_${part}=${value})
  endforeach()
  foreach(dependency IN ITEMS Eigen3 MPI Catch2 benchmark OpenMP Torch CUDA hip cuda_fp4 Python3)
    if(NOT dependency IN_LIST arg_SEARCH)
      list(APPEND command -D CMAKE_DISABLE_FIND_PACKAGE_${dependency}=ON)
    endif()
  endforeach()
  if(arg_HIDDEN)
    list(APPEND command -D CMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF -D CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF
                -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -D CMAKE_IGNORE_PATH=/usr/local/cuda/include)
  endif()
  if(arg_PACKAGE)
    package(${arg_PACKAGE})
    list(GET arg_PACKAGE 0 dependency)
    list(APPEND command -D ${dependency}_DIR=${WORK}/${dependency})
  endif()

  run(0 ${arg_ENV} ${command} ${arg_ARGS})
  if(arg_AGAIN)
    if(arg_PACKAGE)
      file(REMOVE_RECURSE ${WORK}/${dependency})
    endif()
    run(0 ${command} ${arg_AGAIN})
  endif()
  if(arg_NEEDS AND output MATCHES "(${arg_NEEDS}) is not found")
    message("SKIPPED: ${CASE}: ${CMAKE_MATCH_0}")
    return()
  endif()
  reject("${output}" "CMake (Error|Warning)")
  if(arg_REPORT)
    require("${output}" "(^|\n)-- ufp4: [^\n]*${arg_REPORT}")
  else()
    string(REGEX REPLACE "[^\n]*left out: CMAKE_DISABLE[^\n]*" "" rest "${output}")
    reject("${rest}" "[^\n]* is left out: [^\n]*")
  endif()
  file(READ ${build}/compile_commands.json commands)
  require("${commands}" "${arg_WITH}")
  if(arg_WITHOUT)
    reject("${commands}" "${arg_WITHOUT}")
  endif()
  if(arg_COMPILE)
    run(0 ${CMAKE_COMMAND} --build ${build} --target ${arg_COMPILE})
  endif()
endfunction()

# script(<case> ...) runs a script that installs nothing and cannot reach PyPI.
# | keyword | meaning                                                            |
# |---------|--------------------------------------------------------------------|
# | MODULES | Python modules that no Python has                                  |
# | BROKEN  | programs on PATH that fail                                         |
# | COMMAND | the command, in the source tree; STATUS: its exit status           |
# | REPORT  | a regex: what it prints; ONCE: what exactly one line begins with    |
function(script name)
  begin_case()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "STATUS;REPORT;ONCE" "MODULES;BROKEN;COMMAND")
  foreach(program IN LISTS arg_BROKEN ITEMS apt-get sudo)
    program(${program} "exit 1")
  endforeach()
  foreach(module IN LISTS arg_MODULES)
    file(WRITE ${WORK}/python/${module}.py "raise ImportError('${module} is absent in this test')\n")
  endforeach()
  run(${arg_STATUS} PYTHONPATH=${WORK}/python UFP4_BUILD_DIR=${WORK}/build
      PIP_CONFIG_FILE=/dev/null PIP_INDEX_URL=http://127.0.0.1:9/simple PIP_FIND_LINKS= ${arg_COMMAND})
  require("${output}" "${arg_REPORT}")
  if(arg_ONCE)
    string(REGEX MATCHALL "(^|\n)${arg_ONCE}" lines "${output}")
    list(LENGTH lines count)
    if(NOT count EQUAL 1)
      fail("${output}" "${count} lines above begin with '${arg_ONCE}', not 1")
    endif()
  endif()
endfunction()

if(NOT DEFINED COMPILER)
  set(COMPILER g++)
endif()
if(CASE)
  file(REMOVE_RECURSE ${WORK})
  file(MAKE_DIRECTORY ${WORK}/bin)
endif()

# ---- the cases
set(fails "does not build a program, see ")
set(tests "support/main\\.cpp")
set(benches "_bench\\.cpp")

configure(all_absent BUILD EXAMPLES TESTS BENCH HIDDEN SEARCH Eigen3 MPI Catch2 benchmark OpenMP Torch cuda_fp4 Python3
  REPORT "examples/train_lm is left out: Eigen is not found [(]apt-get install libeigen3-dev[)]"
  WITH "ufp4/main\\.cpp" WITHOUT "${tests}|${benches}|train_lm|torch_linear|embed_kernel")

set(model "examples/train_lm is left out:")
configure(eigen_absent BUILD EXAMPLES HIDDEN SEARCH Eigen3
  REPORT "${model} Eigen is not found" WITHOUT train_lm)
configure(eigen_without_headers BUILD EXAMPLES SEARCH Eigen3 PACKAGE Eigen3 headers
  REPORT "${model} Eigen in [^ ]*/Eigen3 ${fails}" WITHOUT train_lm)
configure(eigen_old BUILD EXAMPLES SEARCH Eigen3 PACKAGE Eigen3 old
  REPORT "${model} Eigen 1.0 in [^ ]*/Eigen3 is older than 3.3" WITHOUT train_lm)
configure(eigen_removed BUILD EXAMPLES HIDDEN SEARCH Eigen3 PACKAGE Eigen3 complete AGAIN -U Eigen3_DIR
  REPORT "${model} Eigen is not found" WITHOUT train_lm)
configure(eigen_present BUILD EXAMPLES SEARCH Eigen3 NEEDS Eigen WITH "train_lm/main\\.cpp")
configure(eigen_absent_from_tests BUILD TESTS SEARCH Catch2 NEEDS Catch2
  REPORT "every test of examples/train_lm and interop/eigen.hpp is left out" WITH "${tests}" WITHOUT train_lm)
configure(eigen_absent_from_bench BUILD BENCH SEARCH benchmark NEEDS "Google Benchmark"
  REPORT "the comparison with Eigen in the benches is left out" WITH "${benches}" WITHOUT UFP4_BENCH_EIGEN)

set(ranks "the option --ranks of examples/train_lm is left out:")
set(wrapper ARGS -D MPI_CXX_COMPILER=${WORK}/bin/mpicxx PROGRAM mpicxx)
configure(mpi_absent BUILD EXAMPLES SEARCH Eigen3 NEEDS Eigen
  REPORT "${ranks} CMAKE_DISABLE_FIND_PACKAGE_MPI" WITH "train_lm/main\\.cpp" WITHOUT TRAIN_LM_MPI COMPILE train_lm)
configure(mpi_wrapper_fails BUILD EXAMPLES SEARCH Eigen3 MPI ${wrapper} "exit 1" NEEDS Eigen
  REPORT "${ranks} MPI in [^ ]*/mpicxx does not build" WITH "train_lm/main\\.cpp" WITHOUT TRAIN_LM_MPI)
configure(mpi_without_headers_and_library BUILD EXAMPLES SEARCH Eigen3 MPI
  ${wrapper} "echo ${COMPILER} -I${WORK}/bin -L${WORK}/bin -labsent" NEEDS Eigen
  REPORT "${ranks} MPI in [^ ]*/mpicxx does not build" WITH "train_lm/main\\.cpp" WITHOUT TRAIN_LM_MPI)
configure(mpi_repaired BUILD EXAMPLES SEARCH Eigen3 MPI ARGS -D MPI_CXX_COMPILER=/bin/false AGAIN -U MPI_CXX_COMPILER
  NEEDS "Eigen|MPI" WITH TRAIN_LM_MPI)
configure(mpi_present BUILD EXAMPLES SEARCH Eigen3 MPI NEEDS "Eigen|MPI" WITH TRAIN_LM_MPI)

configure(catch2_absent BUILD TESTS BENCH HIDDEN SEARCH Catch2
  REPORT "every test is left out: Catch2 is not found [(]apt-get install catch2[)]" WITHOUT "${tests}")
configure(catch2_absent_benchmark_present BUILD TESTS BENCH SEARCH benchmark NEEDS "Google Benchmark"
  REPORT "every test is left out" WITH "${benches}" WITHOUT "${tests}")
configure(catch2_exported_without_library BUILD TESTS SEARCH Catch2 PACKAGE Catch2 exported
  REPORT "every test is left out: Catch2 in [^ ]*/Catch2 ${fails}" WITHOUT "${tests}")
configure(catch2_without_headers BUILD TESTS SEARCH Catch2 PACKAGE Catch2 headers
  REPORT "every test is left out: Catch2 in [^ ]*/Catch2 ${fails}" WITHOUT "${tests}")
configure(catch2_old BUILD TESTS SEARCH Catch2 PACKAGE Catch2 old
  REPORT "every test is left out: Catch2 1.0 in [^ ]*/Catch2 is older than 2.13" WITHOUT "${tests}")
configure(catch2_present BUILD TESTS SEARCH Catch2 Eigen3 NEEDS "Catch2|Eigen" WITH "${tests}")

set(every_bench "every bench is left out: Google Benchmark")
configure(benchmark_absent BUILD BENCH HIDDEN SEARCH benchmark
  REPORT "${every_bench} is not found [(]apt-get install libbenchmark-dev[)]" WITHOUT "${benches}")
foreach(fault library exported)
  configure(benchmark_without_${fault} BUILD BENCH SEARCH benchmark PACKAGE benchmark ${fault}
    REPORT "${every_bench} in [^ ]*/benchmark ${fails}" WITHOUT "${benches}")
endforeach()
configure(benchmark_present BUILD BENCH SEARCH benchmark Eigen3 NEEDS "Google Benchmark|Eigen" WITH "${benches}")

set(linear "examples/torch_linear is left out: libtorch")
configure(torch_absent BUILD EXAMPLES HIDDEN SEARCH Torch
  REPORT "${linear} is not found [(]apt-get install libtorch-dev[)]" WITHOUT torch_linear)
configure(torch_without_library BUILD EXAMPLES SEARCH Torch PACKAGE Torch library
  REPORT "${linear} in [^ ]*/Torch ${fails}" WITHOUT torch_linear)
configure(torch_without_cuda_toolkit BUILD EXAMPLES SEARCH Torch PACKAGE Torch exported
  REPORT "${linear} in [^ ]*/Torch ${fails}" WITHOUT torch_linear)
configure(torch_present BUILD EXAMPLES SEARCH Torch OpenMP NEEDS libtorch WITH "torch_linear/main\\.cpp")

configure(openmp_rejected BUILD TESTS SEARCH Catch2 OpenMP NEEDS Catch2
  CXX cxx_without_openmp PROGRAM cxx_without_openmp "case $* in *-fopenmp*) exit 1\nesac\nexec ${COMPILER} \"$@\""
  REPORT "OpenMP in the tests is left out: OpenMP is not found" WITH "${tests}" WITHOUT -fopenmp)
configure(openmp_present BUILD TESTS SEARCH Catch2 OpenMP NEEDS "Catch2|OpenMP" WITH -fopenmp)

set(kernel "the CUDA build of examples/embed_kernel is left out: nvcc")
configure(cuda_absent BUILD EXAMPLES SEARCH CUDA ENV CUDACXX=${WORK}/nvcc
  REPORT "${kernel} is not found [(]NVIDIA's CUDA toolkit" WITHOUT embed_kernel)
configure(cuda_nvcc_fails BUILD EXAMPLES SEARCH CUDA ENV CUDACXX=${WORK}/bin/nvcc PROGRAM nvcc "exit 1"
  REPORT "${kernel} in [^ ]*/bin/nvcc ${fails}" WITHOUT embed_kernel)
configure(cuda_present BUILD EXAMPLES SEARCH CUDA NEEDS nvcc WITH "embed_kernel\\.cu")

set(oracle "the comparison of conversions with NVIDIA's headers is left out: cuda_fp4.h")
configure(cuda_fp4_absent BUILD TESTS HIDDEN SEARCH cuda_fp4 Catch2 PACKAGE Catch2 complete ENV CUDA_HOME= CUDA_PATH=
  REPORT "${oracle} is not found [(]NVIDIA's CUDA toolkit" WITH "${tests}")
configure(cuda_fp4_broken BUILD TESTS SEARCH cuda_fp4 Catch2 PACKAGE Catch2 complete
  HEADER cuda/cuda_fp4.h "#include <cuda_fp16_absent.h>" ARGS -D UFP4_CUDA_INCLUDE_DIR=${WORK}/cuda
  REPORT "${oracle} in [^ ]*/cuda ${fails}" WITH "${tests}" WITHOUT "${WORK}/cuda")
configure(cuda_fp4_present BUILD TESTS SEARCH cuda_fp4 Catch2 PACKAGE Catch2 complete NEEDS "cuda_fp4\\.h"
  WITH "-isystem [^ ]*cuda")

set(hip "the target ufp4::hip is left out:")
configure(hip_of_gcc BUILD EXAMPLES SEARCH hip ARGS -D UFP4_HIP=ON
  REPORT "${hip} ufp4::hip needs hipcc" WITHOUT embed_kernel)
configure(hip_absent BUILD EXAMPLES HIDDEN SEARCH hip CXX clang++ ARGS -D UFP4_HIP=ON
  REPORT "${hip} HIP is not found [(]apt-get install hipcc[)]" WITHOUT embed_kernel)
configure(hip_without_library BUILD EXAMPLES SEARCH hip CXX clang++ PACKAGE hip library ARGS -D UFP4_HIP=ON
  REPORT "${hip} HIP in [^ ]*/hip ${fails}" WITHOUT embed_kernel)
configure(hip_present BUILD EXAMPLES SEARCH hip CXX hipcc ARGS -D UFP4_HIP=ON NEEDS HIP WITH "embed_kernel\\.cu")

configure(python_absent BUILD TESTS BENCH SEARCH Catch2 benchmark NEEDS "Catch2|Google Benchmark" WITH "${benches}"
  REPORT "the page in the test bench_smoke is left out: Python 3 is not found [(]apt-get install python3[)]")

set(helpers "source cmake/bare_machine.sh && choose_build_folder . &&")
set(venv "^ufp4: package from PyPI is left out:")
script(numpy_absent MODULES numpy COMMAND bash tests/support/python.sh numpy,scipy study_test.py STATUS 77
  REPORT "^SKIPPED: no python3 here has numpy,scipy, so study_test.py did not run\n$")
script(ensurepip_absent MODULES ensurepip COMMAND bash -c "${helpers} make_venv name package" STATUS 1
  REPORT "${venv} no python3 here has ensurepip and venv [(]apt-get install python3-venv[)]\n$")
script(pypi_unreachable COMMAND bash -c "${helpers} make_venv name package" STATUS 1
  REPORT "${venv} [^\n]*No matching distribution found for package, see [^\n]*\n$")
script(ensurepip_absent_step MODULES ensurepip COMMAND bash tests/outside/run.sh ml_dtypes driver STATUS 77
  REPORT "SKIPPED: [^\n]* could not be had from PyPI" ONCE SKIPPED:)
script(pypi_unreachable_step COMMAND bash tests/outside/run.sh ml_dtypes driver STATUS 77
  REPORT "SKIPPED: [^\n]* could not be had from PyPI" ONCE SKIPPED:)
script(mkdocs_absent MODULES mkdocs COMMAND bash docs/build.sh STATUS 77
  REPORT "SKIPPED: mkdocs-material is available neither from PyPI nor with apt" ONCE SKIPPED:)
set(consume "mkdir -p ${WORK}/build/packages/moved\\ here && bash tests/consume/run.sh") # as after its way `install`
script(conan_absent COMMAND bash -c "${consume} conan" STATUS 77 REPORT "SKIPPED: Conan could not be had" ONCE SKIPPED:)

# A program that exists and does not run is absent.
script(pkg_config_fails BROKEN pkg-config COMMAND bash -c "${consume} pkgconfig" STATUS 77
  REPORT "^SKIPPED: there is no working pkg-config here\n$")
script(broken_packages BROKEN mpicxx mpirun pkg-config git MODULES numpy ensurepip STATUS 0 REPORT "^$"
  COMMAND bash -c "${helpers} for package in libopenmpi-dev openmpi-bin pkg-config git python3-numpy python3-venv
                   do ! have_package $package || echo $package\ndone")

if(NOT CASE)
  list(JOIN cases "\n" cases)
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${cases}")
elseif(NOT CASE IN_LIST cases)
  message(FATAL_ERROR "there is no case '${CASE}'")
endif()
