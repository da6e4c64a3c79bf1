#!/usr/bin/env bash
# ufp4 - tests: the command-line tool as a program: exit status, help, manual page, installation.
# SPDX-License-Identifier: Apache-2.0
# usage: tool_program_test.sh TOOL BUILD-FOLDER
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tool=$1 build=$2 page=$root/examples/ufp4/ufp4.1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

fail() {
  echo "FAILED: $*"
  failed=1
}
# ends STATUS ARGUMENT...: the tool ends so; on failure with one sentence on stderr, and nothing on stdout. Its words lie
# in $folder/out and $folder/err.
ends() {
  local want=$1 got
  shift
  "$tool" "$@" >"$folder/out" 2>"$folder/err"
  got=$?
  [ $got = "$want" ] || fail "ufp4 $* ended with $got, not $want: $(cat "$folder/err")"
  [ "$want" = 0 ] && return
  [ "$(wc -l <"$folder/err")" = 1 ] || fail "ufp4 $* says other than one sentence: $(cat "$folder/err")"
  grep -q '^ufp4' "$folder/err" || fail "ufp4 $* does not say who speaks: $(cat "$folder/err")"
  [ ! -s "$folder/out" ] || fail "ufp4 $* failed and wrote to stdout"
}
# says WORDS FILE
says() { grep -qF -- "$1" "$2" || fail "'$1' is not in: $(cat "$2")"; }

# 2 x 32 floats: 1 and then zeros, twice.
array() {
  local dictionary="{'descr': '<f4', 'fortran_order': False, 'shape': (2, 32), }"
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$dictionary"
  for _ in 1 2; do
    printf '\x00\x00\x80\x3F'
    head -c 124 /dev/zero
  done
}
array >"$folder/x.npy"

verbs='inspect quantize dequantize formats bench compare'
ends 0 --help
for verb in $verbs; do says "  $verb " "$folder/out"; done
ends 0 --version
grep -qE '^ufp4 [0-9]+\.[0-9]+\.[0-9]+$' "$folder/out" || fail "--version says $(cat "$folder/out")"
ends 2
ends 2 nonsense
ends 2 $'\e[31mred'
grep -q $'\e' "$folder/err" && fail 'a verb from the command line steered the terminal'
for verb in $verbs; do
  ends 2 "$verb" --nonsense
  says "ufp4 $verb --help" "$folder/err"
  ends 0 "$verb" --help
  says "usage: ufp4 $verb" "$folder/out"
  says 'examples' "$folder/out"
done
for verb in inspect quantize dequantize; do ends 2 "$verb"; done
ends 1 inspect "$folder/absent.npy"
ends 1 quantize "$folder/absent.npy" -f nvfp4 -o "$folder/out.safetensors"
ends 1 dequantize "$folder/absent.safetensors" -o "$folder/out.safetensors"
ends 1 compare --npy "$folder/absent.npy"
ends 1 formats --json "$folder/absent/out.json"
ends 1 inspect "$folder/x.npy" --json "$folder/absent/out.json"
ends 1 bench --json "$folder/absent/out.json"
ends 2 bench --isa z80

# One matrix there and back; every format holds a lone 1 exactly but for its scale.
ends 0 inspect "$folder/x.npy" --format int4_f32 --rht 0
says 'x  <f4 2 x 32' "$folder/out"
ends 0 quantize "$folder/x.npy" -f mxfp4 --layout ufp4 -o "$folder/q.safetensors"
ends 0 inspect "$folder/q.safetensors"
says 'x  mxfp4 2 x 32, ufp4 layout' "$folder/out"
ends 0 dequantize "$folder/q.safetensors" -o "$folder/back.npy"
cmp -s "$folder/x.npy" "$folder/back.npy" || fail 'x.npy, quantized and dequantized, is another file'
ends 0 bench --size 8 8 32 --threads 1 --json
says '"kernel": "quantize_' "$folder/out"
says '"what": "plain binary32 loop"' "$folder/out"
ends 0 formats
if [ -e /dev/full ]; then
  "$tool" formats >/dev/full 2>"$folder/err"
  [ $? = 1 ] || fail 'a full disk is no failure'
  says 'could not be written' "$folder/err"
fi

# A file larger than what the program may have: 512 MiB of floats, of which a few rows are asked for, in 300 MB.
{
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (65536, 2048), }"
} >"$folder/large.npy"
truncate -s $((128 + 65536 * 2048 * 4)) "$folder/large.npy"
(
  ulimit -v 300000 2>/dev/null
  "$tool" inspect "$folder/large.npy" --rows 100 --threads 1 >"$folder/out" 2>"$folder/err"
) || fail "a file larger than memory: $(cat "$folder/err")"
says '100 of 65536 rows' "$folder/out"

# Every flag of every verb's help stands in the manual page, where a hyphen may be written \-.
sed 's/\\-/-/g' "$page" >"$folder/page"
for verb in $verbs; do
  ends 0 "$verb" --help
  grep -q "^\.Ss $verb\$" "$page" || fail "the manual page has no part on $verb"
  for flag in $(grep -v jq "$folder/out" | grep -oE '(^|[ ,(])--?[a-z][a-z-]*' | grep -oE -- '--?[a-z-]+' | sort -u); do
    grep -qE "^\.(It|Op|Fl|Nm|Cm).* ?Fl ${flag#-}( |\$)|^\.Fl ${flag#-}( |\$)" "$folder/page" ||
      fail "ufp4 $verb --help has $flag, and the manual page has not"
  done
done
if command -v groff >/dev/null; then
  complaints=$(groff -ww -mandoc -Tutf8 -z "$page" 2>&1)
  [ -z "$complaints" ] || fail "groff: $complaints"
else
  echo 'SKIPPED: no groff, so the manual page was not typeset'
fi
if command -v mandoc >/dev/null; then
  complaints=$(mandoc -T lint -W warning "$page" 2>&1) || fail "mandoc: $complaints"
else
  echo 'SKIPPED: no mandoc, so the manual page was not checked by it'
fi

# The component has the tool and its page, the plain installation neither.
if cmake --install "$build" --prefix "$folder/prefix" --component tool >"$folder/log" 2>&1; then
  installed=$(cd "$folder/prefix" && find . -type f | sort | tr '\n' ' ')
  [ "$installed" = './bin/ufp4 ./share/man/man1/ufp4.1 ' ] || fail "the component has: $installed"
  [ "$("$folder/prefix/bin/ufp4" --version)" = "$("$tool" --version)" ] || fail 'the installed program does not run'
  cmp -s "$page" "$folder/prefix/share/man/man1/ufp4.1" || fail 'the installed page is another'
else
  fail "cmake --install: $(cat "$folder/log")"
fi
cmake --install "$build" --prefix "$folder/plain" >"$folder/log" 2>&1 || fail "cmake --install: $(cat "$folder/log")"
{ [ -e "$folder/plain/bin" ] || [ -e "$folder/plain/share/man" ]; } && fail 'the plain installation has the tool'
[ -e "$folder/plain/include/ufp4/ufp4.hpp" ] || fail 'the plain installation has no header'
exit $failed
