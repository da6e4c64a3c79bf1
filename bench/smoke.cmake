# ufp4 - test: every bench runs its smallest rows, and render.py writes a report of them. The test does not check the measured values.
# SPDX-License-Identifier: Apache-2.0
#   cmake -D BENCHES="a;b" -D PEAKS=peaks -D RENDER=render.py -D PYTHON=python3 -D WORK=folder -P smoke.cmake
cmake_minimum_required(VERSION 3.23)

function(run)
  execute_process(COMMAND ${ARGV} OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}\nended with ${status}\n${out}${err}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

function(require text pattern what)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "${what}: nothing there matches '${pattern}':\n${text}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${PEAKS} --quick --json ${WORK}/peaks.json)
require("${output}" "read, memory +[0-9.]+" peaks)

foreach(bench IN LISTS BENCHES)
  cmake_path(GET bench FILENAME name)
  run(${bench} --quick --benchmark_filter=/64KB/1$|/1x4096x4096/1$ --benchmark_min_time=0.001 --benchmark_repetitions=1
      --benchmark_out=${WORK}/${name}.json)
  string(REPLACE _bench "" operation ${name})
  require("${output}" "row +best +median" ${name})
  require("${output}" "${operation}/[^/]+/[a-z0-9_]+/[^/]+/1 +[0-9.]+ +[0-9.]+ G[A-Z]+/s" ${name})
  file(READ ${WORK}/${name}.json json)
  require("${json}" "\"label\": \"[a-z0-9_]+.* [|] " "${name}: kernel and limit")
endforeach()

if(PYTHON)
  run(${PYTHON} ${RENDER} ${WORK} --out ${WORK}/performance.md)
  file(READ ${WORK}/performance.md report)
  foreach(title IN ITEMS "Limits of this machine" Multiply Quantize Hadamard Dequantize "Every row")
    require("${report}" "\n## ${title}\n" "the report")
  endforeach()
  require("${report}" "[|] nvfp4 fast [|]" "the report")
else()
  message(STATUS "no python3: no report was written")
endif()
