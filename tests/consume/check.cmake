# ufp4 - installs the library, looks at what was installed, and builds a stranger's project both ways.
# SPDX-License-Identifier: Apache-2.0
# cmake -D UFP4=<source> -D UFP4_BUILD=<its build> -D GENERATOR=… -D COMPILER=… -D WORK=<scratch> -P check.cmake
cmake_minimum_required(VERSION 3.23)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed (${status}): ${command}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${UFP4_BUILD} --prefix ${WORK}/prefix)

file(GLOB_RECURSE installed RELATIVE ${WORK}/prefix ${WORK}/prefix/*)
set(expected
    share/cmake/ufp4/ufp4Config.cmake share/cmake/ufp4/ufp4ConfigVersion.cmake share/cmake/ufp4/ufp4Hip.cmake share/cmake/ufp4/ufp4Targets.cmake
    share/licenses/ufp4/LICENSE)
file(GLOB_RECURSE headers RELATIVE ${UFP4} ${UFP4}/include/*)
list(APPEND expected ${headers})
set(missing ${expected})
list(REMOVE_ITEM missing ${installed})
set(surplus ${installed})
list(REMOVE_ITEM surplus ${expected})
if(missing OR surplus)
  message(FATAL_ERROR "cmake --install: missing: ${missing}; not asked for: ${surplus}")
endif()

foreach(how IN ITEMS package subdirectory)
  run(${CMAKE_COMMAND} --no-warn-unused-cli -S ${UFP4}/tests/consume -B ${WORK}/${how} -G ${GENERATOR}
      -D CMAKE_CXX_COMPILER=${COMPILER} -D HOW=${how} -D UFP4=${UFP4} -D CMAKE_PREFIX_PATH=${WORK}/prefix)
  run(${CMAKE_COMMAND} --build ${WORK}/${how})
  run(${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/${how} --output-on-failure)
endforeach()

# A stranger who compiles for AMD's GPUs, both ways; the program needs none of them to end well.
find_program(hipcc NAMES hipcc PATHS $ENV{ROCM_PATH}/bin /opt/rocm/bin)
if(NOT hipcc)
  message("SKIPPED: there is no hipcc here, so ufp4::hip was not tried")
  return()
endif()
foreach(how IN ITEMS package subdirectory)
  run(${CMAKE_COMMAND} --no-warn-unused-cli -S ${UFP4}/tests/consume/hip -B ${WORK}/hip_${how} -G ${GENERATOR}
      -D CMAKE_CXX_COMPILER=${hipcc} -D HOW=${how} -D UFP4=${UFP4} -D CMAKE_PREFIX_PATH=${WORK}/prefix
      -D AMDGPU_TARGETS=gfx90a -D GPU_TARGETS=gfx90a)
  run(${CMAKE_COMMAND} --build ${WORK}/hip_${how})
  run(${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/hip_${how} --output-on-failure)
endforeach()
