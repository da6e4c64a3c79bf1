#!/usr/bin/env bash
# ufp4 - kernels on processors that this machine is not: emulated x86-64 without AVX-512 and without AVX, emulated aarch64.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/emulated.sh SOURCE_DIR BUILD_DIR [--all]
Runs the tests named below, from BUILD_DIR/gcc/tests (the gcc step of run.sh builds them), under QEMU as a Haswell and as a
Nehalem: code for a newer processor that is reached by mistake dies there. Builds the same tests for aarch64 and runs them
as a machine with int8 and bf16 matrix instructions, one with dot products only, and one with neither. Without --all: there, and as
a Nehalem, the tests of kernels and not of the verbs that run them; where there are int8 instructions those of products, the
others being the same everywhere. Builds and runs the programs of tests/cpu/odr. Exit status 0, 1, or 77 where nothing could be run.'
set -uo pipefail
unset CDPATH # where it is set, cd may go elsewhere, and says so on stdout

everything=${3:-}
{ [ $# -eq 2 ] || [ "$everything" = --all ]; } || { echo "$usage" >&2; exit 2; }
source_dir=$(cd -- "$1" && pwd) && mkdir -p "$2" && ufp4_build=$(cd -- "$2" && pwd) || exit 2
. "$source_dir/cmake/bare_machine.sh"

# A file under tests/, and which of its test cases where not all. Those of dispatch_test that start the program anew would
# leave the emulator.
verbs=(
  "explain_test"
  "gemm_exact_test"
  "gemm_plain_test"
  "gemm_prepacked_test"
  "gemm_grouped_test"
  "gemm_bias_test"
  "hadamard_test"
  "dequantize_test"
  "quantize_transform_test"
)
tests=("cpu/dispatch_test [tiers]")
for file in "$source_dir"/tests/cpu/*_test.cpp; do
  file=$(basename "$file" .cpp)
  case $file in *amx*) ;; *gemm* | *kernels*) tests+=("cpu/$file") ;; esac
done

kernels=("${tests[@]}") products=()
for file in "${kernels[@]}"; do
  case $file in *dispatch* | *gemm*) products+=("$file") ;; esac
done

work=$ufp4_build/emulated
rm -rf "$work"
mkdir -p "$work/logs" || exit 2
jobs=$(nproc)

# As tests/CMakeLists.txt names them: the room, then the test; the top of tests/ is the room ufp4.
binary_of() {
  local name=${1%_test}
  case $name in */*) echo "${name//\//_}" ;; *) echo "ufp4_$name" ;; esac
}

verdict() { # verdict WORD WHERE WHAT SECONDS
  printf '%-8s %-12s %-28s %3d s\n' "$@" | tee -a "$work/verdicts"
}

# judge WHERE WHAT SECONDS COMMAND...: passed, skipped (77: all of it was, aloud) or failed, with the last words.
judge() {
  local where=$1 what=$2 limit=$3 began=$SECONDS
  shift 3
  local log=$work/logs/$where-$what.log
  timeout "$limit" "$@" >"$log" 2>&1
  case $? in
    0) verdict passed "$where" "$what" $((SECONDS - began)) ;;
    77) verdict skipped "$where" "$what" $((SECONDS - began)) ;;
    *)
      verdict FAILED "$where" "$what" $((SECONDS - began))
      grep -v "TCG doesn't support" "$log" | tail -n 25 ;;
  esac
}

# run_test EMULATOR CPU FOLDER TEST [CASES]
run_test() {
  local emulator=$1 processor=$2 binary
  binary=$3/$(binary_of "$4")
  if [ ! -x "$binary" ]; then
    echo "there is no $binary"
    verdict FAILED "$processor" "${binary##*/}" 0
    return
  fi
  judge "$processor" "${binary##*/}" 120 env -u UFP4_ISA "$emulator" -cpu "$processor" "$binary" ${5:+"$5"}
}

# check_tier EMULATOR CPU FOLDER TIER: what the library makes of that processor.
check_tier() {
  local found
  found=$(env -u UFP4_ISA "$1" -cpu "$2" "$3/cpu_dispatch" '[.answer]' 2>/dev/null | sed -n 's/.*<tier>\(.*\)<\/tier>.*/\1/p')
  [ "$found" = "$4" ] || echo "$2 should get $4 and got '$found'"
  judge "$2" "tier_$4" 5 [ "$found" = "$4" ]
}

# build_test FOLDER TEST: for aarch64. Static, so that the emulator needs no foreign libraries.
build_test() {
  local folder=$1 test=$2 binary
  binary=$(binary_of "$test")
  local log=$work/logs/build-$binary.log
  if ! aarch64-linux-gnu-g++ -std=c++20 -O2 -static -D_GLIBCXX_ASSERTIONS -Wall -Wextra -Wpedantic -Wconversion -Wshadow \
    -Werror -I"$source_dir/include" -I"$source_dir/tests" -DUFP4_SOURCE_DIR="\"$source_dir\"" -DUFP4_KERNELS_ELSEWHERE \
    "$source_dir/tests/$test.cpp" "$folder/main.o" "$folder/kernels.o" -o "$folder/$binary" -pthread >"$log" 2>&1; then
    verdict FAILED aarch64 "build_$binary" 0
    grep -A 8 -m 5 -E '(error|Error):' "$log"
  fi
}

# build_odr NAME COMPILER FLAG...: both units at one level of optimisation, linked in both orders.
build_odr() {
  local name=$1 compiler=$2 odr=$source_dir/tests/cpu/odr out=$work/odr/$1
  shift 2
  mkdir -p "$work/odr"
  if ! { "$compiler" -std=c++20 "$@" -I"$source_dir/include" -c "$odr/baseline.cpp" -o "$out.baseline.o" &&
    "$compiler" -std=c++20 "$@" -I"$source_dir/include" -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mf16c \
      -c "$odr/newer.cpp" -o "$out.newer.o" &&
    "$compiler" "$out.newer.o" "$out.baseline.o" -o "$out.newer_first" -pthread &&
    "$compiler" "$out.baseline.o" "$out.newer.o" -o "$out.baseline_first" -pthread; } >"$work/logs/build-odr_$name.log" 2>&1; then
    verdict FAILED x86-64 "build_odr_$name" 0
    grep -A 8 -m 5 -E '(error|Error):' "$work/logs/build-odr_$name.log"
  fi
}

# The hash of one's own verbs, on an old processor, whichever unit the linker saw first; and where this machine has the
# instructions, of both units.
run_odr() {
  local out=$work/odr/$1 order hash expected=2b7cf5b653b640a0
  for order in newer_first baseline_first; do
    hash=$(qemu-x86_64-static -cpu Nehalem "$out.$order" 2>/dev/null)
    [ "$hash" = $expected ] || { echo "$1, $order, Nehalem: '$hash' instead of $expected"; return 1; }
    grep -q -w avx512_vnni /proc/cpuinfo || continue
    hash=$("$out.$order" both | tr '\n' ' ')
    [ "$hash" = "$expected $expected " ] || { echo "$1, $order, here: '$hash'"; return 1; }
  done
}

export -f binary_of verdict judge run_test build_test build_odr run_odr
export work source_dir

# in_parallel: runs each line as a command, several at a time.
in_parallel() { xargs -P "$jobs" -d '\n' -I '{}' bash -c '{}'; }

# command_line WORD...: quoted, since a folder's name may have blanks.
command_line() { printf '%q ' "$@" && echo; }
each_test() { # each_test WORD...: a line for each test
  local test words
  for test in "${tests[@]}"; do
    words=("$@" "${test%% *}")
    case $test in *' '*) words+=("${test#* }") ;; esac
    command_line "${words[@]}"
  done
}

if ! install_packages qemu-user-static || ! command -v qemu-x86_64-static >/dev/null; then
  echo "SKIPPED: there is no qemu-user-static, so no other processor can be emulated"
  exit 77
fi

tests=("${verbs[@]}" "${kernels[@]}")
{
  if [ "$(uname -m)" = x86_64 ]; then
    for processor in Haswell Nehalem; do
      # What a verb runs on the older of the two is the scalar kernels, whose tests stay.
      [ $processor = Haswell ] || [ "$everything" = --all ] || tests=("${kernels[@]}")
      each_test run_test qemu-x86_64-static $processor "$ufp4_build/gcc/tests"
    done
  fi
} >"$work/x86"
if [ -s "$work/x86" ]; then
  in_parallel <"$work/x86"
  check_tier qemu-x86_64-static Haswell "$ufp4_build/gcc/tests" avx2
  check_tier qemu-x86_64-static Nehalem "$ufp4_build/gcc/tests" scalar
  { echo "build_odr gcc_O0 g++ -O0"; echo "build_odr gcc_O2 g++ -O2"; } | in_parallel
  for name in gcc_O0 gcc_O2; do judge Nehalem "odr_$name" 60 bash -c "run_odr $name"; done
else
  echo "SKIPPED: the x86-64 half, on $(uname -m)"
  verdict skipped x86-64 everything 0
fi

[ "$everything" = --all ] || tests=("${kernels[@]}")
aarch64=$work/aarch64
mkdir -p "$aarch64"
if ! install_packages g++-aarch64-linux-gnu; then
  echo "SKIPPED: the aarch64 half: there is no g++-aarch64-linux-gnu"
  verdict skipped aarch64 everything 0
elif ! echo '#include <catch2/catch.hpp>' | aarch64-linux-gnu-g++ -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; then
  echo "SKIPPED: the aarch64 half: only Catch2 2.13, which is headers alone, can be compiled for another processor"
  verdict skipped aarch64 everything 0
else
  aarch64-linux-gnu-g++ -std=c++20 -Og -I"$source_dir/tests" -c "$source_dir/tests/support/main.cpp" -o "$aarch64/main.o" &
  aarch64-linux-gnu-g++ -std=c++20 -O2 -I"$source_dir/include" -c "$source_dir/tests/support/kernels.cpp" -o "$aarch64/kernels.o"
  wait
  each_test build_test "$aarch64" | in_parallel
  for processor in max neoverse-n1 cortex-a53; do
    # What the newer two have beyond the last is for products; the other kernels are the same there.
    if [ "$everything" != --all ]; then
      tests=("${products[@]}")
      [ $processor != cortex-a53 ] || tests=("${kernels[@]}")
    fi
    each_test run_test qemu-aarch64-static $processor "$aarch64"
  done | in_parallel
  check_tier qemu-aarch64-static max "$aarch64" neon_bf16
  check_tier qemu-aarch64-static neoverse-n1 "$aarch64" neon_dotprod
  check_tier qemu-aarch64-static cortex-a53 "$aarch64" neon
fi

count() { grep -c "^$1" "$work/verdicts" 2>/dev/null; }
echo "emulated: $((SECONDS / 60)):$(printf %02d $((SECONDS % 60))) min; $(count passed) passed, $(count FAILED) failed, $(count skipped) skipped"
[ "$(count passed)" != 0 ] || [ "$(count FAILED)" != 0 ] || exit 77
[ "$(count FAILED)" = 0 ]
