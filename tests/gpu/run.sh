#!/usr/bin/env bash
# ufp4 - on a machine with a GPU: builds the tests for it and runs them, under compute-sanitizer too, and measures. One call, under
# ten minutes.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/gpu/run.sh [--page FILE] [--no-bench] [--only WORD]
  --page FILE   the results page; without it $OUT/performance-gpu.md where OUT is set, else docs/performance-gpu.md
  --no-bench    tests alone
  --only WORD   the tests whose names contain it
Environment: UFP4_BUILD_DIR, where to build; UFP4_CATCH2_INCLUDE, the folder that holds catch2/, where it is not installed.
Needs nvcc, g++, Catch2 and a GPU; cuBLAS for the bench. Exit status 77, and a line that says so, where nvcc or a GPU is missing.'
set -uo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
page='' with_bench=yes only=''
while [ $# -gt 0 ]; do
  case $1 in
    --page) page=$2; shift ;;
    --no-bench) with_bench= ;;
    --only) only=$2; shift ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
  shift
done
[ -n "$page" ] || page=${OUT:-$source_dir/docs}/performance-gpu.md

for folder in ${CUDA_HOME:-} ${CUDA_PATH:-} /usr/local/cuda; do [ ! -x "$folder/bin/nvcc" ] || PATH=$PATH:$folder/bin; done
if ! command -v nvcc >/dev/null; then
  echo "SKIPPED: there is no nvcc here; without a GPU, tests/run.sh runs the kernels' logic on the CPU"
  exit 77
fi
gpu=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null | head -n 1)
if [ -z "$gpu" ]; then
  echo "SKIPPED: there is no GPU here (nvidia-smi names none); tests/run.sh runs the kernels' logic on the CPU"
  exit 77
fi
capability=${gpu##*, }
arch=sm_${capability/./}
case $arch in sm_9* | sm_1[0-9]*) arch=${arch}a ;; esac # with the features that only this family has
echo "$gpu: compiling for $arch"
export code="-gencode arch=compute_${arch#sm_},code=$arch"

choose_build_folder "$source_dir"
build=$ufp4_build/gpu/$arch
mkdir -p "$build"
[ -n "${UFP4_CATCH2_INCLUDE:-}" ] || install_packages g++ catch2 || exit 1

export build source_dir arch
export flags="-std=c++20 -O2 -I$source_dir/include -I$source_dir/tests ${UFP4_CATCH2_INCLUDE:+-I$UFP4_CATCH2_INCLUDE}
 -DUFP4_SOURCE_DIR=\"$source_dir\""
# shellcheck disable=SC2317 # called through xargs
# object SOURCE: a support file, a test, or the bench.
object() {
  local name log status=0
  name=$(basename "$1")
  log=$build/$name.log
  # shellcheck disable=SC2086 # several words
  case $1 in
    */support/*) g++ $flags -c "$1" -o "$build/$name.o" >"$log" 2>&1 || status=1 ;;
    *_bench.cu)
      nvcc $flags $code "$1" -lcublas -lcublasLt -o "$build/gpu_bench" >"$log" 2>&1 || status=1 ;;
    *) nvcc -x cu $flags $code -DUFP4_KERNELS_ELSEWHERE -c "$1" -o "$build/$name.o" >"$log" 2>&1 || status=1 ;;
  esac
  [ $status -eq 0 ] || { echo "does not compile: $1"; head -n 20 "$log"; }
  return 0
}
export -f object

mapfile -t tests < <(printf '%s\n' "$source_dir"/tests/gpu/*_test.cpp | grep -e "$only")
rm -f "$build"/*.o "$build"/gpu_bench
sources=("$source_dir/tests/support/main.cpp" "$source_dir/tests/support/kernels.cpp" "${tests[@]}")
[ -z "$with_bench" ] || sources=("$source_dir/bench/gpu_bench.cu" "${sources[@]}")
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} bash -c 'object "$1"' _ {}
echo "built in $SECONDS s"

passed=0 failed=0 skipped=0
lines=()
# verdict NAME STATUS SECONDS LOG
verdict() {
  local word
  case $2 in
    0) word=passed passed=$((passed + 1)) ;;
    77) word=skipped skipped=$((skipped + 1)) ;;
    124) word='skipped: took too long' skipped=$((skipped + 1)) ;;
    *) word=FAILED failed=$((failed + 1)); tail -n 25 "$4" ;;
  esac
  lines+=("| $1 | $word | $3 s |")
  printf '%-44s %-24s %s s\n' "$1" "$word" "$3"
}

for test in "${tests[@]}"; do
  name=$(basename "$test" .cpp) began=$SECONDS
  [ -e "$build/$name.cpp.o" ] || { failed=$((failed + 1)); lines+=("| $name | does not compile | |"); continue; }
  log=$build/$name.run.log
  # shellcheck disable=SC2086
  if ! nvcc $code "$build/$name.cpp.o" "$build"/{main,kernels}.cpp.o -ldl -o "$build/$name" >"$log" 2>&1; then
    verdict "$name" 1 $((SECONDS - began)) "$log"
    continue
  fi
  timeout 90 "$build/$name" >"$log" 2>&1
  status=$?
  [ $status -ne 124 ] || status=1 # here it is a hang
  verdict "$name" $status $((SECONDS - began)) "$log"
done
if [ -x "$(command -v compute-sanitizer)" ]; then
  for tool in memcheck racecheck; do
    for test in "${tests[@]}"; do
      name=$(basename "$test" .cpp) began=$SECONDS log=$build/$name.$tool.log
      [ -x "$build/$name" ] && [ "$name" != nvrtc_test ] || continue
      # What is left of eight minutes, and half a minute a test at most: memcheck slows a kernel down tenfold, racecheck more.
      [ $SECONDS -lt 440 ] || { skipped=$((skipped + 1)); lines+=("| $name under $tool | skipped: no time left | |"); continue; }
      timeout 30 compute-sanitizer --tool $tool --error-exitcode 99 "$build/$name" >"$log" 2>&1
      verdict "$name under $tool" $? $((SECONDS - began)) "$log"
    done
  done
else
  echo "SKIPPED: no compute-sanitizer here, so memcheck and racecheck did not run"
  lines+=("| compute-sanitizer | skipped: not here | |")
fi

{
  echo "# Performance on a GPU"
  echo
  echo "Written by tests/gpu/run.sh on $(date -u +%F): ${gpu/%, $capability/}, nvcc $(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p'), $arch."
} >"$build/page.md"
if [ -n "$with_bench" ] && [ -x "$build/gpu_bench" ]; then
  if timeout 200 "$build/gpu_bench" >"$build/bench.md" 2>"$build/bench.log"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    cat "$build/bench.log"
    echo "the bench failed"
  fi
  { echo; cat "$build/bench.md"; } >>"$build/page.md"
  cat "$build/bench.md"
fi
{
  printf '\n## Tests on this device\n\n| test | | |\n|---|---|---|\n'
  printf '%s\n' "${lines[@]}"
} >>"$build/page.md"
cp "$build/page.md" "$page" && echo "written: $page"
echo "$passed passed, $failed failed, $skipped skipped; $((SECONDS / 60)):$(printf %02d $((SECONDS % 60))) min"
[ $failed -eq 0 ]
