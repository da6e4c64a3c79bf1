#!/usr/bin/env bash
# ufp4 - every function of an object file has one ODR key (detail/odr_key.hpp): with the headers, and so the target regions, in one order, and
# with precompiled headers in the other; files with different flags have different keys and work in one program.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/cpu/odr/one_key.sh COMPILER FOLDER      (FOLDER: where to build)'
set -euo pipefail
unset CDPATH
[ $# -eq 2 ] || { echo "$usage" >&2; exit 2; }
compiler=$1 work=$2
[ "$(uname -m)" = x86_64 ] || { echo "SKIPPED: the flags are those of x86-64"; exit 77; }
mkdir -p "$work"
work=$(cd "$work" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

# Every header of a kernel contains target regions. Lane headers are read through those of their instruction sets.
headers=$(find include/ufp4/cpu/kernels -name '*.hpp' ! -name '*_lanes.hpp' ! -name 'lane_*.hpp' ! -name '*neon*' | sed 's|^include/||' | sort)
sed 's/.*/#include <&>/' <<<"$headers" >"$work/forward.hpp"
sort -r <<<"$headers" | sed 's/.*/#include <&>/' >"$work/backward.hpp"

failed=0
fail() { echo "FAILED: $compiler: $*"; failed=1; }
# Without optimization no function of the library is left out because it was inlined.
compile() { "$compiler" -std=c++20 -O0 -I include -I "$work" "$@"; }
# keys OBJECT: the names of namespaces UFP4_CODE in its symbols, those of the kernels inside target regions included.
keys() { nm --defined-only "$1" | grep -oE 'v0_1_[0-9a-f]{10}_[0-9a-f]{2}' | sort -u; }

grep -q __AVX2__ < <("$compiler" -march=native -dM -E -x c++ /dev/null) ||
  { echo "SKIPPED: this processor has no AVX2, so -march=native is no other instruction set"; exit 77; }

declare -A flags=([baseline]='' [newer]='-march=native') key
for unit in baseline newer; do
  for order in forward precompiled; do
    object=$work/$unit.$order.o
    # shellcheck disable=SC2086 # no word or one
    case $order in
      precompiled)
        if [[ $compiler = clang* ]]; then
          compile ${flags[$unit]} -x c++-header "$work/backward.hpp" -o "$work/$unit.pch" || fail "$unit: the headers do not precompile"
          header=(-include-pch "$work/$unit.pch")
        else # a folder of its own, where g++ finds no header that it could read instead
          mkdir -p "$work/$unit"
          compile ${flags[$unit]} -x c++-header "$work/backward.hpp" -o "$work/$unit/all.hpp.gch" || fail "$unit: the headers do not precompile"
          header=(-I "$work/$unit" -include all.hpp -Winvalid-pch -Werror=invalid-pch)
        fi ;;
      *) header=(-include "$order.hpp") ;;
    esac
    # shellcheck disable=SC2086
    compile ${flags[$unit]} "${header[@]}" -c "tests/cpu/odr/$unit.cpp" -o "$object" || { fail "$unit, headers $order: does not compile"; continue; }
    found=$(keys "$object") || true
    [ "$(wc -w <<<"$found")" -eq 1 ] || fail "$unit, headers $order: the object has the keys" $found
    [ "${key[$unit]:=$found}" = "$found" ] || fail "$unit, headers $order: the key is $found, and ${key[$unit]} in another order"
  done
done
[ $failed -eq 0 ] || exit 1
[ "${key[baseline]}" != "${key[newer]}" ] || fail "objects with and without -march=native have the same key, ${key[newer]}"

for order in forward precompiled; do
  "$compiler" "$work/baseline.$order.o" "$work/newer.precompiled.o" -o "$work/program" -pthread
  "$work/program" both >"$work/output" || fail "the program of baseline, headers $order, and newer does not run"
  [ "$(sort -u "$work/output" | wc -l)" -eq 1 ] || fail "two units compute different bytes:" $(cat "$work/output")
done
[ $failed -eq 0 ] && echo "$compiler: one key an object: ${key[*]}"
exit $failed
