#!/usr/bin/env bash
# ufp4 - translation units compiled with different flags are linked in pairs, and every pair that this processor can run is run: one definition of
# each symbol, the same types, one thread pool, the same bytes.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/cpu/odr/pairs.sh KERNELS-OBJECT
Environment: CXX and CLANG (g++, clang++-19), UFP4_BUILD_DIR. The object is compiled with UFP4_COMPILE_KERNELS.'
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
[ -f "${1:-}" ] || { echo "$usage" >&2; exit 2; }
kernels=$(realpath "$1")
choose_build_folder "$source_dir"
work=$(mktemp -d -p "$ufp4_build") # programs are run from it, which a TMPDIR may forbid
trap 'rm -rf "$work"' EXIT
[ "$(uname -m)" = x86_64 ] || { echo "SKIPPED: the flags are those of x86-64"; exit 77; }
cxx=${CXX:-g++} clang=${CLANG:-clang++-19}

declare -A flags=([baseline]='' [v3]='-march=haswell' [skylake]='-march=skylake-avx512' [sapphirerapids]='-march=sapphirerapids'
  [openmp]='-fopenmp' [no_exceptions]='-fno-exceptions' [some_isas]='-UUFP4_EXTERNAL_KERNELS -DUFP4_ISAS=scalar' [clang]='')
units=(baseline v3 skylake sapphirerapids openmp no_exceptions some_isas)
if command -v "$clang" >/dev/null; then units+=(clang); else echo "no $clang: its unit is left out"; fi

cd "$source_dir"
compile() { # COMPILER OPTION...
  "$1" -std=c++20 -O1 -I include -I tests/cpu/odr -DUFP4_EXTERNAL_KERNELS -c "${@:2}"
}
compile "$cxx" tests/cpu/odr/pair.cpp -o "$work/pair.o"
for unit in "${units[@]}"; do
  compiler=$cxx
  [ "$unit" != clang ] || compiler=$clang
  # shellcheck disable=SC2086 # several words
  compile "$compiler" ${flags[$unit]} "-DUFP4_TEST_UNIT=$unit" tests/cpu/odr/unit.cpp -o "$work/$unit.o"
  # Functions of ufp4 that another unit may define too. (V and u are variables: constants, the pool.) Not the
  # implicit destructors (D1, D2) of vocabulary types, which free memory and do nothing else.
  nm --defined-only "$work/$unit.o" | awk '$2 == "W" && $3 ~ /4ufp4/ && $3 !~ /D[12]Ev$/ { print $3 }' | sort >"$work/$unit.functions"
done

# can_run UNIT: whether this processor has the instruction sets that the unit is compiled for.
can_run() {
  case $1 in
    v3) grep -qw avx2 /proc/cpuinfo ;;
    skylake | sapphirerapids) grep -qw avx512vl /proc/cpuinfo ;;
  esac
}
failed=0 not_run=0
for ((i = 0; i < ${#units[@]}; ++i)); do
  for ((j = i + 1; j < ${#units[@]}; ++j)); do
    a=${units[i]} b=${units[j]}
    # OpenMP changes no text of ufp4's: its unit has the key of the baseline.
    comm -12 "$work/$a.functions" "$work/$b.functions" >"$work/both"
    if [ "$a $b" != 'baseline openmp' ] && [ -s "$work/both" ]; then
      echo "FAILED: $a and $b define the same functions:"
      c++filt <"$work/both" | head -n 5
      failed=1
    fi
    for order in "$a $b" "$b $a"; do
      read -r first second <<<"$order"
      "$cxx" "$work/pair.o" "$work/$first.o" "$work/$second.o" "$kernels" -o "$work/pair" -pthread -fopenmp
      if ! can_run "$a" || ! can_run "$b"; then not_run=$((not_run + 1)); continue; fi
      "$work/pair" >"$work/output" || { echo "FAILED: $order"; cat "$work/output"; failed=1; }
    done
  done
done
[ $not_run = 0 ] || echo "$not_run programs were linked but not run: this processor lacks instruction sets of one of their files"
echo "${#units[@]} units in pairs: $([ $failed = 0 ] && echo passed || echo failed)"
exit $failed
