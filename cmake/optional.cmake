# ufp4 - optional dependencies of the examples, tests and benches. Each must build a program before a target uses it.
# SPDX-License-Identifier: Apache-2.0
#
#   ufp4_find_optional(<name> <what>)   sets <name>_FOUND; if it is false, reports that <what> is left out, and why
#
# find_package alone is not enough. FindMPI defines MPI::MPI_CXX where there is no MPI, and a package file whose library
# or headers are missing stops the configuration or breaks the build. So a small project of its own, in a second
# process, searches for the dependency and links a program with it; if that fails, the dependency is treated as absent.
# Success is cached. Failure is not, so that the next configuration finds what was installed after this one.

# ufp4_dependency(<name> ...) describes one:
#   TITLE    its name in messages; GET: how to get it
#   FIND     code that searches for it and sets <name>_FOUND
#   WHERE    the cache variable with the place where FIND found it
#   MINIMUM  the oldest version accepted, compared with <name>_VERSION; 0: any
#   LINK     what a program links, if anything
#   CODE     the program; none if FIND links one itself, as FindMPI and FindOpenMP do
function(ufp4_dependency name)
  set(keys TITLE GET FIND WHERE MINIMUM LINK CODE)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "${keys}" "")
  foreach(key IN LISTS keys)
    set(ufp4_${name}_${key} "${arg_${key}}" PARENT_SCOPE)
  endforeach()
endfunction()

# Headers without a library are not compiled, which takes a second in each new build folder; that they exist is enough.
# No version is given to find_package: then a package that is too old is found, and can be reported as too old.
ufp4_dependency(Eigen3 TITLE Eigen GET "apt-get install libeigen3-dev"
  FIND [[find_package(Eigen3 QUIET NO_MODULE)]] WHERE Eigen3_DIR MINIMUM 3.3
  LINK Eigen3::Eigen CODE [[
    #if !__has_include(<Eigen/Core>) || !__has_include(<Eigen/src/Core/Matrix.h>)
    #error headers of Eigen are missing
    #endif
    int main() {}]])
ufp4_dependency(MPI TITLE MPI GET "apt-get install libopenmpi-dev openmpi-bin"
  FIND [[find_package(MPI COMPONENTS CXX QUIET)]] WHERE MPI_CXX_COMPILER MINIMUM 0)
# Debian 12 and Ubuntu 22.04 have 2.13, which has no library; tests/support/catch.hpp hides the difference.
ufp4_dependency(Catch2 TITLE Catch2 GET "apt-get install catch2"
  FIND [[find_package(Catch2 QUIET)]] WHERE Catch2_DIR MINIMUM 2.13
  LINK Catch2::Catch2 CODE [[
    #if __has_include(<catch2/catch_session.hpp>)
    #include <catch2/catch_session.hpp>
    int main() { return Catch::Session().run(); }
    #elif __has_include(<catch2/catch.hpp>)
    int main() {}
    #endif]])
ufp4_dependency(benchmark TITLE "Google Benchmark" GET "apt-get install libbenchmark-dev"
  FIND [[find_package(benchmark QUIET)]] WHERE benchmark_DIR MINIMUM 0
  LINK benchmark::benchmark CODE [[
    #include <benchmark/benchmark.h>
    int main() {
      benchmark::AddCustomContext("name", "value"); // since 1.6
      benchmark::RunSpecifiedBenchmarks();
    }]])
ufp4_dependency(OpenMP TITLE OpenMP GET "for clang++: apt-get install libomp-dev"
  FIND [[find_package(OpenMP COMPONENTS CXX QUIET)]] WHERE OpenMP_CXX_FLAGS MINIMUM 0)

# QUIET does not reach the files that Torch's own file includes: they print what they find, and one warns developers.
# <torch/torch.h> compiles for half a minute; a header of c10 does not.
set(ufp4_torch_minimum 0)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # clang rejects 1.13 as C++20, where std::vector is constexpr: a header uses a vector of the incomplete IValue.
  set(ufp4_torch_minimum 2)
endif()
ufp4_dependency(Torch TITLE libtorch GET "apt-get install libtorch-dev"
  FIND [[
    set(ufp4_log_level "${CMAKE_MESSAGE_LOG_LEVEL}")
    set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
    set(FPHSA_NAME_MISMATCHED TRUE)
    find_package(Torch QUIET)
    unset(FPHSA_NAME_MISMATCHED)
    set(CMAKE_MESSAGE_LOG_LEVEL "${ufp4_log_level}")]]
  WHERE Torch_DIR MINIMUM ${ufp4_torch_minimum}
  LINK [[${TORCH_LIBRARIES}]] CODE [[
    #include <c10/core/Allocator.h>
    #if !__has_include(<torch/torch.h>)
    #error torch/torch.h is missing
    #endif
    int main() { return c10::GetAllocator(c10::DeviceType::CPU) == nullptr; }]])

# nvcc is often not on PATH. Through its PTX, code for compute capability 8.0 runs on every newer GPU.
ufp4_dependency(CUDA TITLE nvcc GET "NVIDIA's CUDA toolkit, 12.4 or newer"
  FIND [[
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80)
    endif()
    if(NOT DEFINED ENV{CUDACXX})
      find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin)
    endif()
    enable_language(CUDA)
    set(CUDA_FOUND TRUE)]]
  WHERE CMAKE_CUDA_COMPILER MINIMUM 0
  CODE "int main() {}")
ufp4_dependency(hip TITLE HIP GET "apt-get install hipcc"
  FIND [[find_package(hip QUIET CONFIG)]] WHERE hip_DIR MINIMUM 0
  LINK hip::device CODE [[
    #include <hip/hip_runtime.h>
    int main() { return hipDeviceSynchronize() != hipSuccess; }]])
# NVIDIA's headers emulate the conversions of cuda_fp4.h on a plain host.
ufp4_dependency(cuda_fp4 TITLE cuda_fp4.h GET "NVIDIA's CUDA toolkit, 12.8 or newer"
  FIND [[
    find_path(UFP4_CUDA_INCLUDE_DIR cuda_fp4.h
              PATHS $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda PATH_SUFFIXES include NO_DEFAULT_PATH)
    mark_as_advanced(UFP4_CUDA_INCLUDE_DIR)
    if(UFP4_CUDA_INCLUDE_DIR)
      set(cuda_fp4_FOUND TRUE)
      add_library(ufp4_cuda_fp4 INTERFACE IMPORTED)
      target_include_directories(ufp4_cuda_fp4 INTERFACE ${UFP4_CUDA_INCLUDE_DIR})
    endif()]]
  WHERE UFP4_CUDA_INCLUDE_DIR MINIMUM 0
  LINK ufp4_cuda_fp4 CODE [[
    #include <cuda_fp4.h>
    #include <cuda_fp8.h>
    int main() { return __nv_cvt_float_to_fp4(1.f, __NV_E2M1, cudaRoundNearest) != 2; }]])

# ufp4_left_out(<what> <reason>): once in a configuration.
function(ufp4_left_out what reason)
  get_property(reported GLOBAL PROPERTY ufp4_left_out)
  if(NOT what IN_LIST reported)
    set_property(GLOBAL APPEND PROPERTY ufp4_left_out "${what}")
    message(STATUS "ufp4: ${what} is left out: ${reason}")
  endif()
endfunction()

# ufp4_explain(<name> <place> <version> <log>) sets the global property ufp4_<name>_missing: why it cannot be used.
function(ufp4_explain name place version log)
  set(what "${ufp4_${name}_TITLE}")
  set(get "${ufp4_${name}_GET}")
  set(minimum "${ufp4_${name}_MINIMUM}")
  if(NOT place)
    set(reason "${what} is not found")
  elseif(version AND version VERSION_LESS minimum)
    set(reason "${what} ${version} in ${place} is older than ${minimum}")
  else()
    set(reason "${what} in ${place} does not build a program")
    string(REPLACE "apt-get install" "apt-get install --reinstall" get "${get}")
    if(log)
      string(APPEND reason ", see ${log}")
    endif()
  endif()
  set_property(GLOBAL PROPERTY ufp4_${name}_missing "${reason} (${get})")
endfunction()

# ufp4_try(<name>) sets UFP4_<name>_USABLE in the cache or calls ufp4_explain.
function(ufp4_try name)
  set(folder "${CMAKE_BINARY_DIR}/CMakeFiles/ufp4_try/${name}")
  file(REMOVE_RECURSE "${folder}")
  file(WRITE "${folder}/main.cpp" "${ufp4_${name}_CODE}\n")
  file(WRITE "${folder}/CMakeLists.txt" "cmake_minimum_required(VERSION 3.23)
project(ufp4_try LANGUAGES CXX)
${ufp4_${name}_FIND}
set(UFP4_FOUND_VERSION \"\${${name}_VERSION}\" CACHE STRING \"\")
if(${name}_FOUND AND NOT UFP4_FOUND_VERSION VERSION_LESS ${ufp4_${name}_MINIMUM})
  add_executable(ufp4_try main.cpp)
  target_compile_features(ufp4_try PRIVATE cxx_std_20)
  target_link_libraries(ufp4_try PRIVATE ${ufp4_${name}_LINK})
endif()\n")

  # The project is given what the user and the preset have set.
  get_cmake_property(variables CACHE_VARIABLES)
  foreach(variable IN LISTS variables)
    get_property(type CACHE ${variable} PROPERTY TYPE)
    if(NOT type MATCHES "^(INTERNAL|STATIC)$")
      file(APPEND "${folder}/cache.cmake" "set(${variable} [===[$CACHE{${variable}}]===] CACHE STRING \"\")\n")
    endif()
  endforeach()

  set(log "${folder}/configure.log")
  execute_process(COMMAND ${CMAKE_COMMAND} -G ${CMAKE_GENERATOR} -C cache.cmake -S . -B build -Wno-dev
                  WORKING_DIRECTORY "${folder}" OUTPUT_FILE "${log}" ERROR_FILE "${log}" RESULT_VARIABLE failed)
  if(NOT failed)
    set(log "${folder}/build.log")
    execute_process(COMMAND ${CMAKE_COMMAND} --build build --target ufp4_try
                    WORKING_DIRECTORY "${folder}" OUTPUT_FILE "${log}" ERROR_FILE "${log}" RESULT_VARIABLE failed)
  endif()
  if(failed)
    load_cache("${folder}/build" READ_WITH_PREFIX "try_" ${ufp4_${name}_WHERE} UFP4_FOUND_VERSION)
    ufp4_explain(${name} "${try_${ufp4_${name}_WHERE}}" "${try_UFP4_FOUND_VERSION}" "${log}")
  else()
    set(UFP4_${name}_USABLE TRUE CACHE INTERNAL "A program was linked with ${ufp4_${name}_TITLE}")
  endif()
endfunction()

# A macro: FIND sets variables for its caller, and enable_language is not allowed in a function.
macro(ufp4_find_optional name what)
  set(${name}_FOUND FALSE)
  get_property(ufp4_missing GLOBAL PROPERTY ufp4_${name}_missing)
  if(CMAKE_DISABLE_FIND_PACKAGE_${name})
    set(ufp4_missing "CMAKE_DISABLE_FIND_PACKAGE_${name} is set")
  elseif(ufp4_${name}_CODE AND NOT UFP4_${name}_USABLE AND NOT ufp4_missing)
    ufp4_try(${name})
    get_property(ufp4_missing GLOBAL PROPERTY ufp4_${name}_missing)
  endif()
  if(NOT ufp4_missing)
    get_cmake_property(ufp4_cached CACHE_VARIABLES)
    cmake_language(EVAL CODE "${ufp4_${name}_FIND}")
    if(NOT ${name}_FOUND)
      ufp4_explain(${name} "${${ufp4_${name}_WHERE}}" "" "")
      get_property(ufp4_missing GLOBAL PROPERTY ufp4_${name}_missing)
      ufp4_forget("${ufp4_cached}")
      unset(UFP4_${name}_USABLE CACHE) # it was removed after an earlier configuration
    endif()
  endif()
  if(ufp4_missing)
    ufp4_left_out("${what}" "${ufp4_missing}")
  endif()
endmacro()

# ufp4_forget(<variables>) removes every other variable from the cache: FindMPI would keep its failure.
function(ufp4_forget known)
  get_cmake_property(variables CACHE_VARIABLES)
  list(REMOVE_ITEM variables ${known})
  foreach(variable IN LISTS variables)
    unset(${variable} CACHE)
  endforeach()
endfunction()
