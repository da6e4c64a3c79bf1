#!/usr/bin/env bash
# ufp4 - fuzzing: every target of tests/fuzz replays its corpus, then generates new inputs.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/fuzz/run.sh [--seconds N] [--target NAME]... [--out FOLDER] [--keep]
  --seconds N    time for new inputs of each target, after its corpus; default 5
  --target NAME  this one only; may be given again: quantize gemm_shapes user_formats c npy safetensors gguf model
  --out FOLDER   for the programs, the unpacked corpus, new inputs and findings, default build/fuzz
  --keep         adds to tests/fuzz/corpus.tar.xz the new inputs that reach code which the corpus does not
Ends with one line per target. A finding is saved as FOLDER/findings/TARGET-crash-...; tests/fuzz/README.md tells how to add it.
Needs clang 19 with its libFuzzer; exit status 77 without.'
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"

seconds=5 targets=() out='' keep=no
while [ $# -gt 0 ]; do
  case $1 in
    --seconds | --target | --out)
      [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
      case $1 in --seconds) seconds=$2 ;; --target) targets+=("$2") ;; --out) out=$2 ;; esac
      shift ;;
    --keep) keep=yes ;;
    --help | -h) echo "$usage"; exit 0 ;;
    *) echo "unknown argument '$1'" >&2; echo "$usage" >&2; exit 2 ;;
  esac
  shift
done
[[ $seconds =~ ^[0-9]+$ ]] || { echo "--seconds is '$seconds', not a number" >&2; exit 2; }
[ ${#targets[@]} -gt 0 ] || targets=(quantize gemm_shapes user_formats c npy safetensors gguf model)
for target in "${targets[@]}"; do
  [ -e "$source_dir/tests/fuzz/${target}_fuzz.cpp" ] || { echo "there is no target '$target'" >&2; exit 2; }
done

choose_build_folder "$source_dir"
out=${out:-$ufp4_build/fuzz}
mkdir -p "$out/findings" || exit 2
install_packages cmake || exit 1
[ $keep = no ] || install_packages xz-utils || exit 1
bash "$source_dir/tests/fuzz/corpus.sh" unpack "$out" || exit 1
install_packages clang-19 libclang-rt-19-dev
# shellcheck disable=SC2054 # -fsanitize has commas
cxx=(clang++-19 -std=c++20 -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -Wall -Wextra -Werror
  -I"$source_dir/include" -I"$source_dir/tests")
if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
  "${cxx[@]}" -fsanitize=fuzzer -x c++ - -o "$out/probe" 2>/dev/null; then
  echo "SKIPPED: there is no clang++-19 with libFuzzer (apt-get install clang-19 libclang-rt-19-dev), so nothing was fuzzed"
  exit 77
fi

# up_to_date FILE: was it built after the last change of any source?
up_to_date() {
  [ -e "$1" ] && [ -z "$(find "$source_dir"/{include,tests/support,tests/fuzz} -newer "$1" \
    \( -name '*.hpp' -o -name '*.inl' -o -name '*.cpp' \) -print -quit)" ]
}
# build NAME COMPILER-ARGUMENT...
build() {
  local name=$1
  shift
  up_to_date "$out/$name" || "${cxx[@]}" "$@" -o "$out/$name" >"$out/$name.build.log" 2>&1
}
# at_once FUNCTION ARGUMENT...: in the background, as many as there are processors.
at_once() {
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  "$@" &
}

# The kernels are compiled once, for the targets that call them.
needs_kernels() { grep -q 'ufp4/\(gemm\|quantize\|c/functions\)\.hpp' "$source_dir/tests/fuzz/$1_fuzz.cpp"; }
for target in "${targets[@]}"; do
  if needs_kernels "$target"; then
    at_once build kernels.o -fsanitize=fuzzer-no-link -c "$source_dir/tests/support/kernels.cpp"
    break
  fi
done
for target in "${targets[@]}"; do
  at_once build "$target.o" -fsanitize=fuzzer-no-link -DUFP4_EXTERNAL_KERNELS -c "$source_dir/tests/fuzz/${target}_fuzz.cpp"
done
wait
for target in "${targets[@]}"; do
  kernels=()
  needs_kernels "$target" && kernels=("$out/kernels.o")
  build "$target" -fsanitize=fuzzer "$out/$target.o" "${kernels[@]}"
done

# A small input is as good as a large one here, and quicker. NaNs and sizes that do not fit are cases, not mistakes.
options=(-max_len=1024 -rss_limit_mb=2048 -timeout=60 -verbosity=0)
# fuzz TARGET: returns 1 for one that does not build or has a finding.
fuzz() {
  local target=$1
  local corpus=$out/corpus/$target found=$out/found/$target log=$out/$target.log
  mkdir -p "$found" "$corpus"
  if [ ! -x "$out/$target" ] || ! up_to_date "$out/$target"; then
    echo "$target: does not build:"
    cat "$out"/{kernels,"$target"}.o.build.log "$out/$target.build.log" 2>/dev/null | head -n 40
    return 1
  fi
  if ! "$out/$target" "${options[@]}" -runs=0 -artifact_prefix="$out/findings/$target-" "$corpus" >"$log" 2>&1 ||
    ! "$out/$target" "${options[@]}" -max_total_time="$seconds" -artifact_prefix="$out/findings/$target-" \
      -print_final_stats=1 "$found" "$corpus" >>"$log" 2>&1; then
    echo "$target: finding in $out/findings; log: $log; first lines:"
    grep -m 1 -E -A 12 'FOUND|ERROR: |runtime error' "$log"
    return 1
  fi
  if [ $keep = yes ]; then
    "$out/$target" "${options[@]}" -use_counters=0 -set_cover_merge=1 "$corpus" "$found" >>"$log" 2>&1
  fi
  echo "$target: $(find "$corpus" -type f | wc -l) inputs of the corpus, then" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1) in $seconds s: nothing found"
}
judge() { fuzz "$1" && : >"$out/$1.passed"; }
rm -f "$out"/*.passed
for target in "${targets[@]}"; do at_once judge "$target"; done
wait
status=0
for target in "${targets[@]}"; do [ -e "$out/$target.passed" ] || status=1; done
if [ $keep = yes ]; then bash "$source_dir/tests/fuzz/corpus.sh" pack "$out" || status=1; fi
exit $status
