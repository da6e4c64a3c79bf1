#!/usr/bin/env bash
# ufp4 - what a small program costs to compile, and its size: JSON on standard output.
# SPDX-License-Identifier: Apache-2.0
#
# usage: bench/compile_cost.sh WORK_FOLDER      (CXX names the compiler; g++ without it)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$1
cxx=${CXX:-g++}
compile=("$cxx" -std=c++20 -I "$here/../include")
TIMEFORMAT=%U

# The least processor time of three runs; the first shows what the compiler has to say.
seconds_of() {
  "$@" >&2 || return 1
  local _
  for _ in 1 2 3; do { time "$@" >/dev/null 2>&1; } 2>&1; done | sort -g | head -n 1
}
# Code and constants of a program, in bytes.
bytes_of() { size "$1" | awk 'NR == 2 { print $1 }'; }

printf '#include <ufp4/ufp4.hpp>\n' >"$work/include_only.cpp"
printf 'int main() {}\n' >"$work/empty.cpp"
include=$(seconds_of "${compile[@]}" -fsyntax-only "$work/include_only.cpp")
gemm=$(seconds_of "${compile[@]}" -O2 -c "$here/compile_cost.cpp" -o "$work/compile_cost.o")
"$cxx" "$work/compile_cost.o" -o "$work/compile_cost" -pthread
"${compile[@]}" -O2 "$work/empty.cpp" -o "$work/empty" -pthread
kilobytes=$((($(bytes_of "$work/compile_cost") - $(bytes_of "$work/empty") + 512) / 1024))

cat <<JSON
[
  {"what": "\`#include <ufp4/ufp4.hpp>\`, -fsyntax-only", "seconds": $include, "goal": "0.8"},
  {"what": "one call of quantized_gemm, -O2", "seconds": $gemm, "goal": "10", "kilobytes": $kilobytes}
]
JSON
