#!/usr/bin/env bash
# ufp4 - tests: an editor that opens a lane header alone, as clangd does, compiles its text, and finds no error.
# SPDX-License-Identifier: Apache-2.0
#
# usage: lane_headers.sh [COMPILER ...]    the default: g++ and clang++, those that are installed
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
headers=$(grep -l '^UFP4_BEGIN_LANES' -r include/ufp4/cpu | sort)
compilers=("$@")
[ $# -gt 0 ] || compilers=(g++ clang++)
failed=0 compiled=0

fail() {
  echo "$1" >&2
  failed=1
}

for compiler in "${compilers[@]}"; do
  command -v "$compiler" >"$folder/path" || continue
  machine=$("$compiler" -dumpmachine)
  for header in $headers; do
    case $machine:$header in
      x86_64*:*neon* | aarch64*:*avx* | aarch64*:*x86*) continue ;;
    esac
    "$compiler" -std=c++20 -I include -fsyntax-only -w -x c++ "$header" || fail "$compiler: $header: does not compile alone"
    sed 's/^UFP4_BEGIN_LANES.*/&\n#error its text is compiled/' "$header" >"$folder/alone.cpp"
    if "$compiler" -std=c++20 -I include -E -w "$folder/alone.cpp" >"$folder/text" 2>&1; then
      fail "$compiler: $header: an include guard hides its text"
    fi
    compiled=$((compiled + 1))
  done
done
[ "$compiled" -gt 0 ] || fail "no compiler of: ${compilers[*]}"
[ "$failed" -eq 0 ] && echo "$compiled headers compiled"
exit "$failed"
