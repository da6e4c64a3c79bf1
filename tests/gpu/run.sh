#!/usr/bin/env bash
# ufp4 - on a machine with a GPU: builds the tests for it and runs them, measures, and runs them under compute-sanitizer. One call,
# under ten minutes.
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # $OUT is the reader's
usage='usage: tests/gpu/run.sh [--vendor nvidia|amd] [--page FILE] [--no-bench] [--only WORD] [--dry-run]
  --vendor      whose compiler and GPU; without it nvidia, or amd where only such a GPU is there
  --page FILE   the results page; without it $OUT/performance-gpu.md where OUT is set, else docs/performance-gpu.md, which neither
                --no-bench nor --only overwrites; with AMD performance-gpu-amd.md
  --no-bench    tests alone
  --only WORD   the tests whose names contain it
  --dry-run     prints what would be run for gfx90a or sm_80, whether or not there is a GPU, and ends
Environment: UFP4_BUILD_DIR, where to build; UFP4_CATCH2_INCLUDE, the folder that holds catch2/, where it is not installed.
Needs nvcc or hipcc, g++, Catch2 and a GPU; with nvcc cuBLAS for the bench and its own test. Exit status 77, with a message,
where the compiler or a GPU is missing.'
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
page='' with_bench=yes only='' vendor='' dry=''
while [ $# -gt 0 ]; do
  case $1 in
    --page) page=$2; shift ;;
    --no-bench) with_bench= ;;
    --vendor) vendor=$2; shift ;;
    --dry-run) dry=yes ;;
    --only) only=$2; shift ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
  shift
done

# What is left of nine and a half minutes; at least 1, since `timeout 0` sets no limit.
left() { echo $((SECONDS < 569 ? 570 - SECONDS : 1)); }
# at_most S: S seconds, or what is left where that is less.
at_most() { echo $(($1 < $(left) ? $1 : $(left))); }
# limited S COMMAND...: one that runs for S seconds hangs, status 1; 124 is one for which less was left.
limited() {
  local limit status
  limit=$(at_most "$1")
  timeout "$limit" "${@:2}"
  status=$?
  if [ $status -eq 124 ] && [ "$limit" -eq "$1" ]; then status=1; fi
  return $status
}

for folder in ${CUDA_HOME:-} ${CUDA_PATH:-} /usr/local/cuda; do [ ! -x "$folder/bin/nvcc" ] || PATH=$PATH:$folder/bin; done
PATH=$PATH:${ROCM_PATH:-/opt/rocm}/bin
if [ -z "$vendor" ]; then
  vendor=nvidia
  if [ -e /dev/kfd ] && ! nvidia-smi -L >/dev/null 2>&1; then vendor=amd; fi
fi
page_name=performance-gpu.md
[ "$vendor" = nvidia ] || page_name=performance-gpu-$vendor.md
if [ -z "$page" ] && [ -n "${OUT:-}" ]; then page=$OUT/$page_name; fi
if [ -z "$page" ] && [ -n "$with_bench" ] && [ -z "$only" ]; then page=$source_dir/docs/$page_name; fi
case $page in '' | /*) ;; *) page=$PWD/$page ;; esac
# Sets compiler, gpu (its name), arch, code (the compiler option for it) and release.
describe_nvidia() {
  compiler=nvcc
  gpu=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null | head -n 1)
  [ -z "$dry" ] || gpu=${gpu:-a GPU that is not here, 8.0}
  local capability=${gpu##*, }
  arch=sm_${capability/./}
  case $arch in sm_9* | sm_1[0-9]*) arch=${arch}a ;; esac # with the features that only this family has
  gpu=${gpu%, "$capability"}
  code="-gencode arch=compute_${arch#sm_},code=$arch"
  release="nvcc $(nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
}
describe_amd() {
  compiler=hipcc
  # gfx000 is the processor
  arch=$(rocm_agent_enumerator 2>/dev/null | grep -v gfx000 | head -n 1)
  gpu=$([ -z "$arch" ] || rocminfo 2>/dev/null | sed -n "/Name: *$arch *\$/,/Marketing Name/s/.*Marketing Name: *\(.*[^ ]\) *\$/\1/p" | head -n 1)
  if [ -n "$arch" ]; then gpu=${gpu:-$arch}; fi
  [ -z "$dry" ] || { gpu=${gpu:-a GPU that is not here} arch=${arch:-gfx90a}; }
  code="--offload-arch=$arch"
  release="hipcc $(hipcc --version 2>/dev/null | sed -n 's/^HIP version: *//p')"
}
case $vendor in
  nvidia) compiler=nvcc ;;
  amd) compiler=hipcc ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
if ! command -v $compiler >/dev/null; then
  echo "SKIPPED: there is no $compiler here; without a GPU, tests/run.sh runs the kernels' logic on the CPU"
  exit 77
fi
"describe_$vendor"
if [ -z "$gpu" ]; then
  echo "SKIPPED: there is no GPU here ($([ "$vendor" = amd ] && echo rocm_agent_enumerator || echo nvidia-smi) names none); tests/run.sh runs the kernels' logic on the CPU"
  exit 77
fi
echo "$gpu: compiling for $arch"
export vendor compiler code

choose_build_folder "$source_dir"
build=$ufp4_build/gpu/$arch
catch2=${UFP4_CATCH2_INCLUDE:+$(realpath -m -- "$UFP4_CATCH2_INCLUDE")}
# Everything is compiled and run in that folder, from links in it: paths without blanks, whatever the tree's own is, for lists of
# words and for compilers that are scripts.
mkdir -p "$build" && ln -sfn "$source_dir" "$build/source" && cd "$build" || exit 2
[ -z "$catch2" ] || ln -sfn "$catch2" catch2_include || exit 2
[ -n "${UFP4_CATCH2_INCLUDE:-}" ] || install_packages g++ catch2 || exit 1

# has HEADER: whether the compilers find it.
# shellcheck disable=SC2086 # several words
has() { printf '#if !__has_include(<%s>)\n#error none\n#endif\n' "$1" | $compiler $flags -x $language -E - >/dev/null 2>&1; }

export build arch language=cu math_libraries='-lcublas -lcublasLt'
if [ "$vendor" = amd ]; then language=hip math_libraries=''; fi
export flags="-std=c++20 -O2 -Isource/include -Isource/tests ${catch2:+-Icatch2_include} -DUFP4_SOURCE_DIR=\"source\""
libraries=-ldl
if has catch2/catch_all.hpp; then libraries+=' -lCatch2'; fi # Catch2 2 is headers alone
if [ "$vendor" = nvidia ] && has cublasLt.h; then flags+=' -DUFP4_WITH_CUBLAS' libraries+=' -lcublasLt'; fi
# shellcheck disable=SC2317 # called through xargs
# object SOURCE: a support file, a test, or the bench.
object() {
  local name log status=0
  name=$(basename "$1")
  log=$build/$name.log
  # shellcheck disable=SC2086 # several words
  case $1 in
    */support/*) g++ $flags -c "$1" -o "$name.o" >"$log" 2>&1 || status=1 ;;
    *_bench.cu)
      $compiler -x $language $flags $code "$1" $math_libraries -o gpu_bench >"$log" 2>&1 || status=1 ;;
    *) $compiler -x $language $flags $code -DUFP4_EXTERNAL_KERNELS -c "$1" -o "$name.o" >"$log" 2>&1 || status=1 ;;
  esac
  [ $status -eq 0 ] || { echo "does not compile: $1"; head -n 20 "$log"; }
  return 0
}
export -f object

mapfile -t tests < <(cd source/tests/gpu && printf '%s\n' *_test.cpp | grep -e "$only" | sed 's|^|source/tests/gpu/|')
if [ "$vendor" = amd ]; then # without those of the other vendor's instructions
  mapfile -t tests < <(grep -L '^#include <ufp4/cuda/' "${tests[@]}")
fi
if [ -n "$dry" ]; then
  echo "would compile with: $compiler -x $language $flags $code; and link with: $libraries"
  printf 'would run %s\n' "${tests[@]##*/}" ${with_bench:+gpu_bench}
  exit 0
fi
rm -f "$build"/*.o "$build"/*_test "$build"/gpu_bench "$build"/bench.md
sources=(source/tests/support/main.cpp source/tests/support/kernels.cpp "${tests[@]}")
[ -z "$with_bench" ] || sources=(source/bench/gpu_bench.cu "${sources[@]}")
# shellcheck disable=SC2016 # the inner shell's
printf '%s\n' "${sources[@]}" | timeout "$(left)" xargs -P "$(nproc)" -I{} bash -c 'object "$1"' _ {}
echo "built in $SECONDS s"

passed=0 failed=0 skipped=0
lines=()
# verdict NAME STATUS SECONDS LOG
verdict() {
  local word
  case $2 in
    0) word=passed passed=$((passed + 1)) ;;
    77) word=skipped skipped=$((skipped + 1)); grep SKIPPED "$4" | sort -u ;;
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
  if ! timeout "$(left)" $compiler $code "$name.cpp.o" {main,kernels}.cpp.o $libraries -o "$name" >"$log" 2>&1; then
    verdict "$name" 1 $((SECONDS - began)) "$log"
    continue
  fi
  limited 90 "$build/$name" >"$log" 2>&1
  verdict "$name" $? $((SECONDS - began)) "$log"
done
run_bench() {
  if [ ! -x "$build/gpu_bench" ]; then
    failed=$((failed + 1))
    lines+=("| gpu_bench | does not compile | |")
    return
  fi
  local began=$SECONDS
  limited 200 "$build/gpu_bench" >"$build/bench.md" 2>"$build/bench.log"
  verdict gpu_bench $? $((SECONDS - began)) "$build/bench.log"
  cat "$build/bench.md"
}
# The page is written after every step, so that an interrupted run leaves one.
write_page() {
  [ -n "$page" ] || return 0
  {
    echo "# Performance on a GPU"
    echo
    echo "Written by tests/gpu/run.sh on $(date -u +%F): $gpu, $release, $arch."
    if [ -s "$build/bench.md" ]; then echo && cat "$build/bench.md"; fi
    printf '\n## Tests on this device\n\n| test | | |\n|---|---|---|\n'
    printf '%s\n' "${lines[@]}"
  } >"$build/page.md"
  cp "$build/page.md" "$page" && echo "written: $page"
}
[ -z "$with_bench" ] || run_bench
write_page

if [ "$vendor" = nvidia ] && [ -x "$(command -v compute-sanitizer)" ]; then
  for tool in memcheck racecheck; do
    for test in "${tests[@]}"; do
      name=$(basename "$test" .cpp) began=$SECONDS log=$build/$name.$tool.log
      if [ ! -x "$build/$name" ] || [ "$name" = nvrtc_test ]; then continue; fi
      # Half a minute a test at most: memcheck slows a kernel down tenfold, racecheck more.
      [ $SECONDS -lt 560 ] || { skipped=$((skipped + 1)); lines+=("| $name under $tool | skipped: no time left | |"); continue; }
      timeout "$(at_most 30)" compute-sanitizer --tool $tool --error-exitcode 99 "$build/$name" >"$log" 2>&1
      verdict "$name under $tool" $? $((SECONDS - began)) "$log"
    done
  done
else
  echo "SKIPPED: no compute-sanitizer here, so memcheck and racecheck did not run"
  lines+=("| compute-sanitizer | skipped: not here | |")
fi
write_page
echo "$passed passed, $failed failed, $skipped skipped; $((SECONDS / 60)):$(printf %02d $((SECONDS % 60))) min"
[ $failed -eq 0 ]
