#!/usr/bin/env bash
# ufp4 - tests: the command-line tool as a program: exit status, help, manual page, installation.
# SPDX-License-Identifier: Apache-2.0
# usage: tool_program_test.sh TOOL BUILD-FOLDER
set -uo pipefail
unset CDPATH DESTDIR # cd would enter another folder, and cmake --install would install under DESTDIR
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tool=$1 build=$2 page=$root/examples/ufp4/ufp4.1
folder=$(mktemp -d -p "$build") || exit 1 # programs are run from it, which a TMPDIR may forbid
trap 'rm -rf "$folder"' EXIT
failed=0

fail() {
  echo "FAILED: $*"
  failed=1
}
# ends STATUS ARGUMENT...: checks the exit status of the tool, and after a failure that it printed one message on stderr
# and nothing on stdout. Leaves the output in $folder/out and $folder/err.
ends() {
  local want=$1 got
  shift
  "$tool" "$@" >"$folder/out" 2>"$folder/err"
  got=$?
  [ $got = "$want" ] || fail "ufp4 $* ended with $got, not $want: $(cat "$folder/err")"
  [ "$want" = 0 ] && return
  [ "$(wc -l <"$folder/err")" = 1 ] || fail "ufp4 $* printed not exactly one message: $(cat "$folder/err")"
  grep -q '^ufp4' "$folder/err" || fail "ufp4 $* does not begin its message with ufp4: $(cat "$folder/err")"
  [ ! -s "$folder/out" ] || fail "ufp4 $* failed and wrote to stdout"
}
# contains WORDS FILE
contains() { grep -qF -- "$1" "$2" || fail "'$1' is not in: $(cat "$2")"; }

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

commands='inspect quantize dequantize cast formats bench compare'
ends 0 --help
for command in $commands; do contains "  $command " "$folder/out"; done
ends 0 --version
grep -qE '^ufp4 [0-9]+\.[0-9]+\.[0-9]+$' "$folder/out" || fail "--version prints $(cat "$folder/out")"
ends 2
contains 'ufp4: no command is given;' "$folder/err"
ends 2 nonsense
ends 2 $'\e[31mred'
grep -q $'\e' "$folder/err" && fail 'an escape sequence from the command line reached the terminal'
for command in $commands; do
  ends 2 "$command" --nonsense
  contains "ufp4 $command --help" "$folder/err"
  ends 0 "$command" --help
  contains "usage: ufp4 $command" "$folder/out"
  contains 'examples' "$folder/out"
  contains 'exit status: 0 done; 1 ' "$folder/out"
done
for command in inspect quantize dequantize cast; do
  ends 2 "$command"
  contains "ufp4 $command: no FILE is given;" "$folder/err"
done
ends 1 inspect "$folder/absent.npy"
ends 1 quantize "$folder/absent.npy" -f nvfp4 -o "$folder/out.safetensors"
ends 1 dequantize "$folder/absent.safetensors" -o "$folder/out.safetensors"
ends 1 cast "$folder/absent.safetensors" -f nvfp4 -o "$folder/out.safetensors"
ends 1 cast "$folder/x.npy" -f nvfp4 -o "$folder/out.safetensors"
contains 'is not a .safetensors file; `ufp4 cast` reads and writes those only' "$folder/err"
ends 1 compare --npy "$folder/absent.npy"
ends 1 formats --json "$folder/absent/out.json"
ends 1 inspect "$folder/x.npy" --json "$folder/absent/out.json"
ends 1 bench --json "$folder/absent/out.json"
for arguments in '--isa z80' '--isa neon_bf16 --isa amx' '--json=' '--format=all'; do
  # shellcheck disable=SC2086  # words of a command line; of two architectures' instructions a machine lacks one
  ends 2 bench $arguments
  grep -qF 'cpu::' "$folder/err" && fail "bench $arguments mentions names of the library: $(cat "$folder/err")"
done
ends 2 bench --isa neon_bf16 --isa amx
grep -qE -- '--isa (neon_bf16|amx) is not available on this machine, which has scalar' "$folder/err" ||
  fail "instructions of another machine: $(cat "$folder/err")"
for isa in foo z80; do
  for command in inspect quantize bench compare; do
    case $command in
      inspect) arguments=("$folder/x.npy") ;;
      quantize) arguments=("$folder/x.npy" -f mxfp4 -o "$folder/q.safetensors") ;;
      *) arguments=() ;;
    esac
    UFP4_ISA=$isa ends 2 $command "${arguments[@]}"
    contains "UFP4_ISA: $isa is not an instruction set" "$folder/err"
  done
done

# One matrix quantized and dequantized; every format represents a single 1 exactly, except for its scale.
ends 0 inspect "$folder/x.npy" --format int4_f32 --rht 0
contains 'x  <f4 2 x 32' "$folder/out"
ends 0 quantize "$folder/x.npy" -f mxfp4 --layout ufp4 -o "$folder/q.safetensors"
ends 0 inspect "$folder/q.safetensors"
contains 'x  mxfp4 2 x 32, ufp4 layout' "$folder/out"
ends 0 dequantize "$folder/q.safetensors" -o "$folder/back.npy"
cmp -s "$folder/x.npy" "$folder/back.npy" || fail 'x.npy, quantized and dequantized, is another file'
ends 0 bench --size 8 8 32 --threads 1 --json
contains '"kernel": "quantize_' "$folder/out"
contains '"what": "plain binary32 loop"' "$folder/out"
ends 0 formats
if [ -e /dev/full ]; then
  "$tool" formats >/dev/full 2>"$folder/err"
  [ $? = 1 ] || fail 'a full disk is no failure'
  contains 'could not be written to its end: No space left on device' "$folder/err"
  for words in --version --help 'inspect --help'; do
    # shellcheck disable=SC2086
    "$tool" $words >/dev/full 2>"$folder/err"
    [ $? = 1 ] || fail "$words on a full disk is no failure"
    contains 'standard output: could not be written' "$folder/err"
  done
fi

# Files larger than what the program may have, 150 MB: 192 MiB of floats there and back, and 512 MiB of which a few rows are
# asked for.
zeros() { # zeros ROWS FILE: an array of ROWS x 2048
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($1, 2048), }" >"$2"
  truncate -s $((128 + $1 * 2048 * 4)) "$2"
}
in_little_memory() {
  (
    ulimit -v 150000
    "$tool" "$@" --threads 1 >"$folder/out" 2>"$folder/err"
  ) || fail "a file larger than memory: $*: $(cat "$folder/err")"
}
# The limit can be set, and a block of 200 MB is more than it allows.
limit_holds() { (ulimit -v 150000 && ! dd if=/dev/zero of=/dev/null bs=200000000 count=1) 2>/dev/null; }
if limit_holds; then
  zeros 65536 "$folder/large.npy"
  in_little_memory inspect "$folder/large.npy" --rows 100
  contains '100 of 65536 rows' "$folder/out"
  zeros 24576 "$folder/large.npy"
  in_little_memory inspect "$folder/large.npy" -f mxfp4
  contains 'large  <f4 24576 x 2048' "$folder/out"
  for kind in safetensors gguf; do
    in_little_memory quantize "$folder/large.npy" -f mxfp4 -o "$folder/large.$kind"
    in_little_memory dequantize "$folder/large.$kind" -o "$folder/back.npy"
    cmp -s "$folder/large.npy" "$folder/back.npy" || fail "large.npy, quantized into .$kind and back, is another file"
    rm -f "$folder/large.$kind" "$folder/back.npy"
  done
  rm "$folder/large.npy"
else
  echo 'SKIPPED: no limit on memory holds here, so no file was larger than it'
fi

# The progress line appears on a terminal only, and is removed there.
"$tool" inspect "$folder/x.npy" >"$folder/out" 2>"$folder/err"
[ ! -s "$folder/err" ] || fail "no terminal, and on stderr there is $(cat "$folder/err")"
# shows_progress WORDS ARGUMENT...: the command shows a progress line and then prints WORDS
shows_progress() {
  local words=$1
  shift
  script -qec "$(printf '%q ' "$tool" "$@")" /dev/null >"$folder/terminal" </dev/null
  contains $'\r\e[K[....' "$folder/terminal"
  grep -q $'\r\e\\[K\\[[#.]*\\] [^\r]*\r\e\\[K[^[]' "$folder/terminal" || fail "the progress line of $* stays"
  contains "$words" "$folder/terminal"
}
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
  shows_progress 'the highest SQNR' inspect "$folder/x.npy"
  shows_progress '1 of 1 tensors converted' quantize "$folder/x.npy" -f mxfp4 -o "$folder/q.gguf"
  shows_progress '1 of 1 tensors converted' dequantize "$folder/q.gguf" -o "$folder/back.npy"
else
  echo 'SKIPPED: no script(1), so the progress line was not checked on a terminal'
fi

# A report is complete or does not exist; UFP4_ISA is checked before anything is printed.
UFP4_ISA=foo ends 2 inspect "$folder/x.npy" --json "$folder/report.json"
[ ! -e "$folder/report.json" ] || fail 'a run that failed left a report'
ln -s "$folder/new.safetensors" "$folder/dangling.json"
ends 2 quantize "$folder/x.npy" -f mxfp4 -o "$folder/new.safetensors" --json "$folder/dangling.json"
[ ! -e "$folder/new.safetensors" ] || fail 'the report and OUT took one name'
ln "$folder/x.npy" "$folder/hard.json"
for command in inspect 'compare --no-html --npy'; do
  # shellcheck disable=SC2086
  ends 2 $command "$folder/x.npy" --json "$folder/hard.json"
  contains 'would overwrite' "$folder/err"
  array | cmp -s - "$folder/hard.json" || fail "$command destroyed its input"
done
for command in inspect quantize dequantize cast; do
  case $command in
    inspect) arguments=() ;;
    quantize) arguments=(-f mxfp4 -o "$folder/new.gguf") ;;
    dequantize) arguments=(-o "$folder/new.npy") ;;
    cast) arguments=(-f mxfp4 -o "$folder/new.safetensors") ;;
  esac
  for rest in '' "$folder/q.safetensors"; do
    ends 2 $command "${arguments[@]}" --json "$folder/x.npy" ${rest:+"$rest"}
    contains "--json $folder/x.npy would be the report's name, and it ends like a file of tensors" "$folder/err"
    array | cmp -s - "$folder/x.npy" || fail "$command --json took FILE for the report's name"
  done
done
for words in 'formats --json' 'bench --json' 'compare --json' 'compare --csv' 'compare --html'; do
  # shellcheck disable=SC2086
  ends 2 $words "$folder/x.npy"
  contains "${words#* } $folder/x.npy would be the report's name, and it ends like a file of tensors" "$folder/err"
  array | cmp -s - "$folder/x.npy" || fail "$words overwrote a file of tensors"
done

# Every flag of every command's help stands in the manual page, where a hyphen may be written \-.
sed 's/\\-/-/g' "$page" >"$folder/page"
for command in $commands; do
  ends 0 "$command" --help
  grep -q "^\.Ss $command\$" "$page" || fail "the manual page has no part on $command"
  # shellcheck disable=SC2013 # words
  for flag in $(grep -v jq "$folder/out" | grep -oE '(^|[ ,(])--?[a-z][a-z-]*' | grep -oE -- '--?[a-z-]+' | sort -u); do
    grep -qE "^\.(It|Op|Fl|Nm|Cm).* ?Fl ${flag#-}( |\$)|^\.Fl ${flag#-}( |\$)" "$folder/page" ||
      fail "ufp4 $command --help has $flag, and the manual page has not"
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

# docs/tool.md shows the output of `ufp4 formats`.
sed -n '/^\$ ufp4 formats$/,/^```$/p' "$root/docs/tool.md" | sed '1d;$d' >"$folder/shown"
ends 0 formats
[ -s "$folder/shown" ] || fail 'docs/tool.md does not show ufp4 formats'
diff "$folder/shown" "$folder/out" || fail 'docs/tool.md shows other formats than the tool'

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
