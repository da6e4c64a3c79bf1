#!/usr/bin/env bash
# ufp4 - a program unloads shared libraries whose code the threads of the pool run, with hidden symbols and without, and goes on.
# SPDX-License-Identifier: Apache-2.0
# Environment: CXX and CLANG (g++, clang++-19), UFP4_BUILD_DIR.
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
work=$(mktemp -d -p "$ufp4_build") # programs are run from it, which a TMPDIR may forbid
trap 'rm -rf "$work"' EXIT
cd "$source_dir"
ran=0
for compiler in "${CXX:-g++}" "${CLANG:-clang++-19}"; do
  command -v "$compiler" >/dev/null || { echo "no $compiler: left out"; continue; }
  for visibility in hidden default; do
    "$compiler" -std=c++20 -O1 -I include -fPIC -shared "-fvisibility=$visibility" tests/cpu/unload/plugin.cpp -o "$work/$visibility.so" -pthread
  done
  "$compiler" -std=c++20 tests/cpu/unload/main.cpp -o "$work/main" -ldl
  for libraries in "$work/hidden.so" "$work/default.so" "$work/default.so $work/hidden.so"; do
    # shellcheck disable=SC2086 # one library or two
    timeout 60 "$work/main" $libraries | grep -qx unloaded || { echo "FAILED: $compiler: $libraries"; exit 1; }
    ran=$((ran + 1))
  done
done
echo "$ran programs unloaded their libraries"
