#!/usr/bin/env bash
# ufp4 - the gdb printers and the Natvis file of cmake/debugger on a program with debug information.
# SPDX-License-Identifier: Apache-2.0
# usage: tests/debugger/run.sh      exit status 77, with the reason, without a gdb that has Python
set -uo pipefail
unset CDPATH
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
gdb -batch -ex 'python import gdb.printing' >/dev/null 2>&1 || { echo "SKIPPED: there is no gdb with Python here"; exit 77; }
# shellcheck disable=SC2154
out=$ufp4_build/debugger
mkdir -p "$out" && cd "$source_dir" &&
  g++ -std=c++20 -g -O0 -Iinclude tests/debugger/main.cpp -o "$out/main" -pthread || exit 1
gdb -nx -batch -ex 'source cmake/debugger/ufp4_gdb.py' -ex 'source tests/debugger/check.py' "$out/main"
