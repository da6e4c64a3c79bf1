#!/usr/bin/env bash
# ufp4 - the tests and measurements for a GPU machine that is borrowed, offline, and available for minutes, in commands of at most ten.
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2317 # $OUT is the reader's; functions called through xargs
usage='usage: tests/gpu/borrowed.sh COMMAND [--vendor nvidia|amd] [--targets "90a 80 100a 120a"] [--seconds N]
  prepare   on a machine with nvcc (hipcc) and Catch2: builds the programs and packs them into build/borrowed/ready.tar.xz. The
            first target gets code, the others PTX; with AMD every target gets code: "gfx90a gfx942 gfx950 gfx1100 gfx1201"
  call1     on the GPU machine, at most 6 minutes: the device; every test against the host; the capture of cold kernels
  call2     at most 9 minutes: limits, accumulators, benches and, with NVIDIA, ncu of seven kernels: bench.json
  call3     at most 9 minutes: compute-sanitizer on small shapes (NVIDIA), then random shapes against the host for 3 minutes
  page      [bench.json [PAGE]]: writes docs/performance-gpu.md from bench.json
  rehearse  runs all of it here, without a GPU: tests/gpu/borrowed_rehearsal.sh
--seconds gives a call less (or more) time; its steps are in the order of their value, and those that did not begin are listed. With
15 minutes in all: call1 --seconds 240, call2 --seconds 300, call3 --seconds 120.
The machine needs the tree and ready.tar.xz at its place. Where the programs do not run there, call1 builds them, if nvcc (hipcc),
g++ and cmake are there. Results are in $OUT (else build/borrowed/out), each when it is known: at most seven files.
Environment: UFP4_BUILD_DIR, the build folder; UFP4_BORROWED_TESTS, an expression for the names of the tests to build.'
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
. "$source_dir/tests/gpu/borrowed_build.sh"
command=${1:-} vendor=nvidia targets='' seconds='' arguments=()
shift
while [ $# -gt 0 ]; do
  case $1 in
    --vendor) vendor=$2; shift ;;
    --targets) targets=$2; shift ;;
    --seconds) seconds=$2; shift ;;
    -*) echo "$usage" >&2; exit 2 ;;
    /*) arguments+=("$1") ;;
    *) arguments+=("$PWD/$1") ;;
  esac
  shift
done
case $vendor in
  nvidia) targets=${targets:-90a 80 100a 120a} ;;
  amd) targets=${targets:-gfx90a gfx942 gfx950 gfx1100 gfx1201} ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
for folder in ${CUDA_HOME:-} /usr/local/cuda /opt/nvidia/nsight-compute/*; do
  [ ! -d "$folder" ] || PATH=$PATH:$folder:$folder/bin
done
PATH=$PATH:${ROCM_PATH:-/opt/rocm}/bin

choose_build_folder "$source_dir"
place=$ufp4_build/borrowed
archive=$place/ready.tar.xz
out=${OUT:-$place/out}
export vendor place verdicts=$out/$command.tsv failures=$out/$command.failures.log
mkdir -p "$place/ready" "$out" && ln -sfn "$source_dir" "$place/ready/source" && cd "$place/ready" || exit 2

# ---- Time ----

# begin SECONDS: the time of this call, unless --seconds gave it.
begin() {
  rm -f "$place"/*.log "$place"/*.jsonl "$verdicts" "$failures"
  export deadline=$(($(date +%s) + ${seconds:-$1}))
}
left() { echo $((deadline - $(date +%s))); }

# ---- Programs ----

prepare() {
  local headers
  rm -rf ./* && ln -sfn "$source_dir" source
  headers=$(dirname "$(echo '#include <catch2/catch.hpp>' | g++ -M -x c++ - 2>/dev/null | grep -o '[^ ]*/catch\.hpp' | head -n 1)")
  if [ -e "$headers/catch.hpp" ]; then mkdir catch2 && cp "$headers/catch.hpp" catch2; fi
  build_programs "$targets" && pack_programs "$archive"
}

# The programs of the archive, or those of an earlier call, if the tests run; else they are built here. Where only the bench does not
# run, its steps fail and tell why.
make_ready() {
  [ -x gpu_bench ] || { [ -e "$archive" ] && xz -dc "$archive" | tar x; }
  [ ! -x gpu_bench ] || find_libraries ./gpu_bench
  timeout 60 ./gpu_bench --facts >/dev/null 2>facts.log && return
  local status=$?
  if [ $status -eq 77 ]; then echo "SKIPPED: there is no GPU here"; exit 77; fi
  cat facts.log
  if timeout 60 ./gpu_tests --help >/dev/null 2>&1; then
    echo "gpu_bench does not run here (exit status $status), the tests do"
    return
  fi
  echo "the prepared programs do not run here (exit status $status): building them"
  timeout -k 5 "$(left)" bash "$source_dir/tests/gpu/borrowed.sh" build --vendor "$vendor" --targets "$(this_device)" &&
    timeout 60 ./gpu_bench --facts >/dev/null
}
# The target of the device that is here, with the features that only its family has.
this_device() {
  if [ "$vendor" = amd ]; then rocm_agent_enumerator | grep -v gfx000 | head -n 1; return; fi
  local capability
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)
  capability=${capability/./}
  echo "$capability$([ "$capability" -lt 90 ] || echo a)"
}
# A library that a program needs and the loader does not find, where another package brings it.
find_libraries() { # PROGRAM
  local name found known
  for name in $(ldd "$1" | sed -n 's/^\s*\(.*\) => not found/\1/p'); do
    found=$(timeout 20 find /usr /opt "$HOME" -name "$name" -print -quit 2>/dev/null)
    known=${LD_LIBRARY_PATH:-}
    [ -z "$found" ] || export LD_LIBRARY_PATH=$known:${found%/*}
  done
}

# ---- Steps: each adds its verdict to the call's table, and a failure adds the end of its log to another file, when it ends ----

# step NAME SECONDS COMMAND...
step() {
  local name=$1 began=$SECONDS time status word log=$place/${1//[^A-Za-z0-9_]/_}.log
  time=$(left)
  if [ "$time" -lt 1 ]; then
    printf '%s\tnot begun\t0 s\n' "$name" | tee -a "$verdicts"
    return
  fi
  timeout -k 5 $((time < $2 ? time : $2)) bash -c "${*:3}" >"$log" 2>&1
  status=$?
  case $status in
    0) word=passed ;;
    77) word=skipped ;;
    124 | 137) word='took too long' ;;
    *) word=FAILED ;;
  esac
  printf '%s\t%s\t%s s\n' "$name" "$word" $((SECONDS - began)) | tee -a "$verdicts"
  [ $status -eq 0 ] || [ $status -eq 77 ] || { echo "==== $name: $word ($status)"; tail -c 512K "$log"; } >>"$failures"
}
export -f step left
# steps NUMBER: lines "NAME<TAB>SECONDS<TAB>COMMAND" of stdin, so many at a time, each within what is left.
steps() {
  xargs -d '\n' -P "$1" -I{} bash -c 'IFS=$(printf "\t") read -r name seconds command <<<"$1"; step "$name" "$seconds" "$command"' _ {}
}
# The status is 1 if a step failed or did not begin.
finish() {
  local bad
  bad=$(grep -cv 'passed\|skipped' "$verdicts")
  printf '%s: %s steps, %s not passed, %s s\n' "$command" "$(wc -l <"$verdicts")" "$bad" $SECONDS
  [ ! -e "$failures" ] || tail -n 60 "$failures"
  [ "$bad" -eq 0 ]
}

# ---- The calls ----

describe_device() {
  ./gpu_bench --facts
  for tool in "nvidia-smi" "nvidia-smi -q -d CLOCK,POWER,ECC" "nvcc --version" "rocminfo" "ncu --version" "uname -a" nproc; do
    # shellcheck disable=SC2086 # several words
    command -v ${tool%% *} >/dev/null && echo "== $tool" && timeout 20 $tool
  done
}
call1() {
  begin 350
  make_ready || exit 1
  describe_device >"$out/device.txt" 2>&1
  # Was the code that runs compiled for this family alone? If not, kernels of that family are not chosen.
  grep -o '"specific": [a-z]*' "$out/device.txt"
  head -n 1 "$out/device.txt"
  grep '^graph_test' tests.tsv | steps 1 # alone and first: no kernel is loaded
  grep -v '^graph_test' tests.tsv | steps 8
  finish
}

profiled=("quantize/nvfp4/bf16 + RHT-16 + SR" quantize_both/nvfp4/bf16 dequantize/nvfp4/bf16 gemm/nvfp4/fast/1x gemm/nvfp4/fast/64x
  gemm/nvfp4/fast/8192x gemm/nvfp4/exact_blocks/8192x)
ncu_lines() {
  local row sections='--section SpeedOfLight --section Occupancy --section WarpStateStats --section MemoryWorkloadAnalysis'
  for row in "${profiled[@]}"; do
    printf 'ncu %s\t60\t%s\n' "$row" "ncu --clock-control none --profile-from-start off --launch-count 6 $sections --section \
ComputeWorkloadAnalysis --section LaunchStats ./gpu_bench --once $small --only '$row' >>'$out/ncu.txt' 2>&1"
  done
}
# The lines of the benches as one array.
write_bench_json() {
  {
    echo '['
    printf '{"kind": "run", "date": "%s", "commit": "%s"}\n' "$(date -u +%F)" "$(git -C "$source_dir" rev-parse --short HEAD 2>/dev/null)"
    cat "$place"/*.jsonl 2>/dev/null | grep '^{.*}$' | sed 's/^/,/'
    echo ']'
  } >"$out/bench.json"
}
call2() {
  begin 530
  make_ready || exit 1
  small=${UFP4_BORROWED_SMALL:-}
  [ ! -x gpu_limits ] || step gpu_limits 90 "./gpu_limits $small >'$place/1limits.jsonl'"
  write_bench_json
  step gpu_bench 300 "./gpu_bench $small >'$place/2bench.jsonl'"
  write_bench_json
  if [ "$vendor" = nvidia ]; then
    rm -f "$out/ncu.txt"
    if command -v ncu >/dev/null; then ncu_lines | steps 1; else printf 'ncu\tskipped\tnot here\n' >>"$verdicts"; fi
  fi
  finish
}

# experimental TEST: the program in which it chooses experimental kernels, where there is one.
experimental() { if grep -q "^$1, experimental" tests.tsv; then echo gpu_experimental; else echo gpu_tests; fi; }
sanitizer_lines() {
  local tool program fuzz=UFP4_FUZZ_SECONDS=${UFP4_BORROWED_FUZZ:-8}
  for tool in memcheck synccheck racecheck; do
    for program in './gpu_bench --small' "$fuzz ./$(experimental fuzz_test) -# [#fuzz_test]" "$fuzz ./gpu_tests -# [#fuzz_test]" \
      "./$(experimental experimental_test) -# [#experimental_test]"; do
      printf '%s of %s\t110\t%s\n' $tool "${program##*./}" \
        "${program%./*}compute-sanitizer --tool $tool --error-exitcode 99 ./${program##*./}"
    done
  done
}
fuzz_lines() { # 180 seconds in each of eight processes: four kinds of cases of 45
  local i seed program
  for i in 1 2 3 4 5 6 7 8; do
    seed=$((RANDOM * 8 + i)) program=gpu_tests
    [ $((i % 2)) -eq 0 ] || program=$(experimental fuzz_test)
    printf 'fuzz of %s, seed %s\t250\t%s\n' "$program" $seed \
      "UFP4_TEST_SEED=$seed UFP4_FUZZ_SECONDS=${UFP4_BORROWED_FUZZ:-45} ./$program -# [#fuzz_test]"
  done
}
call3() {
  begin 530
  make_ready || exit 1
  if [ "$vendor" = nvidia ] && command -v compute-sanitizer >/dev/null; then
    sanitizer_lines | steps 3
  else
    printf 'compute-sanitizer\tskipped\tnot here\n' >>"$verdicts"
  fi
  fuzz_lines | steps 8
  finish
}

case $command in
  prepare | call1 | call2 | call3) "$command" ;;
  build) build_programs "$targets" ;; # by a call, where the programs of the archive do not run
  page)
    python=$(python_with json) || { echo "SKIPPED: there is no python3"; exit 77; }
    page_name=performance-gpu$([ "$vendor" = nvidia ] || echo "-$vendor").md
    "$python" "$source_dir/bench/gpu/page.py" "${arguments[0]:-$out/bench.json}" "${arguments[1]:-$source_dir/docs/$page_name}" ;;
  rehearse) exec bash "$source_dir/tests/gpu/borrowed_rehearsal.sh" "${arguments[@]}" ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
