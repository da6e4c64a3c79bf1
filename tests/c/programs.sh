#!/usr/bin/env bash
# ufp4 - the C interface as other languages use it: the commands of examples/c/first.c, and the same program in Python and Rust.
# SPDX-License-Identifier: Apache-2.0
# usage: programs.sh c | python | rust | abi
#   c       builds the shared library and the C99 program with the two commands that the program shows, and formats.c
#   python  runs first.py (ctypes), rust runs first.rs: they print what first.c prints
#   abi     compares types and symbols with tests/c/ufp4.abi (abidiff). After a change that is meant: programs.sh abi --write
# Environment: CXX and CC (g++, gcc), UFP4_BUILD_DIR. Exit status 0, 1, or 77 after SKIPPED: and the reason.
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
out=$ufp4_build/c
mkdir -p "$out"
cd "$out"
ln -sfn "$source_dir"/{include,cmake,examples} .

# command FILE WORD: the command with that first word in the head of an example, run by this shell.
command_of() { sed -n "s/^[ /*#]*\($2 .*\)/\1/p" "examples/c/$1" | head -1; }
build_library() {
  local build
  build=$(command_of first.c g++)
  [ -f libufp4.so ] && [ -z "$(find -L include/ufp4 cmake/c.cpp -newer libufp4.so -print -quit)" ] || eval "${build/#g++/${CXX:-g++}}"
}
need() { command -v "$1" >/dev/null || { echo "SKIPPED: there is no $1 here ($2)"; exit 77; }; }
expected="  -145.376   -881.522   1806.576
  -490.386    498.664   -295.676
ufp4_gemm: shape mismatch: C has 2 columns, B has 3 rows"
expected_formats="20 presets, 20 of them decode to numbers near those quantized
grids by the largest error: others
mxfp4 to nvfp4: 0 of 64 blocks differ, nothing is lost
nv_e1m2 to nvint4: 0 of 64 blocks differ, nothing is lost
nvfp4 to mxfp4: 32 of 32 blocks differ, above 10 dB
nvfp4 to if4: 0 of 64 blocks differ, nothing is lost
if4 to hif4: 16 of 16 blocks differ, above 10 dB
ufp4_cast: a format with elements of one byte cannot be cast"
prints_expected() { diff <(echo "$expected") <("$@"); }

case ${1:-} in
  c)
    build_library
    compile=$(command_of first.c gcc)
    strict="${CC:-gcc} -Wall -Wextra -Wpedantic -Wconversion -Werror"
    eval "${compile/#gcc/$strict}" | diff <(echo "$expected") -
    # Every preset, choose_grid and casts.
    $strict -std=c99 -I include "$source_dir/tests/c/formats.c" -L . -lufp4 -Wl,-rpath,. -o formats
    ./formats | diff <(echo "$expected_formats") -
    # The header is C++ too, and exports what it declares and nothing else.
    echo '#include <ufp4/ufp4.h>' | "${CXX:-g++}" -std=c++11 -Wall -Wextra -Wpedantic -Werror -I include -fsyntax-only -x c++ -
    bash "$source_dir/tests/c/exports.sh" libufp4.so
    ;;
  python)
    build_library
    prints_expected python3 examples/c/first.py ./libufp4.so
    ;;
  rust)
    need rustc "apt-get install rustc"
    build_library
    rustc -O -D warnings examples/c/first.rs -L . -C link-arg=-Wl,-rpath,. -o first_rs
    prints_expected ./first_rs
    ;;
  abi)
    need abidw "apt-get install abigail-tools"
    # Functions without bodies have no debugging information, so the header gets some.
    sed '/^UFP4_C_API/,/;$/s/;$/ { return 0; }/' include/ufp4/ufp4.h >stubs.c
    "${CC:-gcc}" -std=c99 -g -w -shared -fPIC -x c stubs.c -o stubs.so
    abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --type-id-style hash --out-file now.abi stubs.so
    sed -i -e "/<abi-instr/s/ path='[^']*'//" -e '/<abi-corpus/s/ architecture=.[^ >]*//' now.abi
    if [ "${2:-}" = --write ]; then cp now.abi "$source_dir/tests/c/ufp4.abi"; fi
    abidiff "$source_dir/tests/c/ufp4.abi" now.abi && echo "the interface is that of tests/c/ufp4.abi"
    ;;
  *) sed -n 's/^# usage: /usage: /p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
