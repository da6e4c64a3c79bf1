#!/usr/bin/env bash
# ufp4 - mistakes that must not compile, and the error messages that the compiler must print for them.
# SPDX-License-Identifier: Apache-2.0
#
#   check.sh [COMPILER]...     (default: g++ and clang++-19, if installed; amd.cpp is always compiled by hipcc, if installed)
#
# 1. Without their mistakes host.cpp, gpu.cpp and amd.cpp compile; with them each function causes its message, at its lines.
# 2. Every #error of include/ufp4 is caused by a command of rejections().
# 3. Before C++20 each header reports that, in a few lines.
# 4. An argument of a type that no operation takes is reported in at most 15 lines, the first of which is the message.
# 5. Every message of a static_assert or #error in include/ufp4 is among these, or in `unreachable` below.
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

wrong() {
  printf 'FAILED: %s\n' "$*"
  failed=$((failed + 1))
}
right() { passed=$((passed + 1)); }

# Messages that no program here can cause, with the reason.
unreachable=(
  'rename UFP4_TYPES and UFP4_CODE with the version' # for maintainers: it compares two macros of one header
  'ufp4: an instruction set of UFP4_EACH_ISA has no macro UFP4_SAME_' # the same
  'AVX2 has no instruction that rounds to bf16' # between the tiers of a kernel
  'the bf16 instructions are not used: not every aarch64 machine has them' # the same
  'a thread loads the scales of one row' # between the tiles of a kernel
  'an instruction multiplies 16 columns' # the same
  "sixteen rows of every wave's sums" # the same
  'ufp4: this compiler cannot compile the CPU kernels: define UFP4_EXTERNAL_KERNELS (docs/gpu.md)' # of nvcc: tests/gpu/compile.sh
  'ufp4: tensor files are little-endian and copied as they are' # no supported compiler is big-endian
)

# compile COMPILER ARGUMENT...: prints what the library's users would see.
compile() {
  local compiler=$1
  shift
  LC_ALL=C "$compiler" -std=c++20 -Iinclude -Itests -DUFP4_EXTERNAL_KERNELS -fsyntax-only "$@" 2>&1
}

# markers FILE...: LINE:MESSAGE for each "// error: MESSAGE". A message continues on the lines below that begin with
# "//" and eight blanks; its parts are joined with one blank.
markers() {
  awk '
    function print_marker() { if (message != "") print line ":" message; message = "" }
    (at = index($0, "// error: ")) { print_marker(); line = FNR; message = substr($0, at + 10); next }
    message != "" && /^\/\/        [^ ]/ { message = message " " substr($0, 11); next }
    { print_marker() }
    END { print_marker() }' "$@"
}

# mistakes COMPILER FILE [OPTION]...
mistakes() {
  local compiler=$1 file=$2 log=$work/log line message next lines limit=-fmax-errors=0
  shift 2
  [[ $compiler == *clang* || $compiler == hipcc ]] && limit='-ferror-limit=0 -ftemplate-backtrace-limit=0'
  if ! compile "$compiler" "$@" "$file" -Wall -Wextra -Werror >"$log"; then
    wrong "$compiler: $file does not compile without its mistakes:"
    head -n 20 "$log"
    return
  fi
  # shellcheck disable=SC2086 # several words
  compile "$compiler" "$@" -DMISTAKE $limit "$file" >"$log"
  mapfile -t lines < <(markers "$file")
  for i in "${!lines[@]}"; do
    line=${lines[i]%%:*} message=${lines[i]#*:} next=1000000
    [ "$i" -lt $((${#lines[@]} - 1)) ] && next=${lines[i + 1]%%:*}
    if ! grep -qF -- "$message" "$log"; then
      wrong "$compiler: $file:$line: no diagnostic contains '$message'"
    elif ! grep -o "${file##*/}:[0-9]*" "$log" | awk -F: -v a="$line" -v b="$next" '$2 >= a && $2 < b {f = 1} END {exit !f}'; then
      wrong "$compiler: $file:$line: no diagnostic names a line of this function"
    else
      right
    fi
  done
}

# rejection COMPILER MESSAGE SOURCE OPTION...: #error, which the preprocessor alone meets.
rejection() {
  local compiler=$1 message=$2 source=$3
  shift 3
  echo "$message" >>"$work/errors"
  if printf '%s\n' "$source" | LC_ALL=C "$compiler" -std=c++20 -Iinclude -x c++ -E -o /dev/null "$@" - >"$work/log" 2>&1; then
    wrong "$compiler $*: '$source' is not rejected"
  elif ! grep -qF -- "$message" "$work/log"; then
    wrong "$compiler $*: '$source' does not report '$message'"
  else
    right
  fi
}

rejections() {
  local compiler=$1 flag fast_math macros
  fast_math='ufp4: -ffast-math (or a part of it) changes the bits that ufp4 promises; compile this file without it.'
  macros='__((FAST|ASSOCIATIVE|RECIPROCAL)_MATH__|NO_SIGNED_ZEROS__|FINITE_MATH_ONLY__ 1)'
  for flag in -ffast-math '-O3 -ffast-math' -ffinite-math-only -funsafe-math-optimizations -freciprocal-math \
    '-fassociative-math -fno-signed-zeros -fno-trapping-math' -fno-signed-zeros; do
    # shellcheck disable=SC2086 # several words
    if ! "$compiler" -x c++ $flag -dM -E - </dev/null | grep -E "$macros" >/dev/null; then # all of it: -q would end the pipe
      echo "$compiler $flag: no macro reports this option, so ufp4 cannot reject it"
      continue
    fi
    # shellcheck disable=SC2086
    rejection "$compiler" "$fast_math" '#include <ufp4/format/fp4.hpp>' $flag
  done
  rejection "$compiler" 'ufp4: MSVC is not supported: nobody has run ufp4 with it; use g++ 11 or newer, or clang 16 or newer.' \
    '#include <ufp4/format/fp4.hpp>' -U__clang__ -D_MSC_VER=1940
  rejection "$compiler" 'ufp4: float arithmetic is done in a wider type here (x87); compile with -mfpmath=sse -msse2.' \
    '#include <ufp4/format/fp4.hpp>' -U__FLT_EVAL_METHOD__ -D__FLT_EVAL_METHOD__=2
  for flag in avx3 avx2,avx-512 1 automatic; do
    rejection "$compiler" \
      'ufp4: UFP4_ISAS must list instruction sets of ufp4, as -DUFP4_ISAS=avx2,avx512 (names: ufp4/cpu/isa.hpp)' \
      '#include <ufp4/format/fp4.hpp>' "-DUFP4_ISAS=$flag"
  done
  rejection "$compiler" 'ufp4: interop/mdspan.hpp needs a standard library with <mdspan> (C++23)' \
    '#include <ufp4/interop/mdspan.hpp>'
  rejection "$compiler" 'ufp4: cuda.hpp needs nvcc, or clang -x cuda: include <ufp4/ufp4.hpp> in files that an ordinary compiler builds.' \
    '#include <ufp4/cuda.hpp>'
  rejection "$compiler" 'ufp4: hip.hpp needs hipcc, or clang -x hip: include <ufp4/ufp4.hpp> in files that an ordinary compiler builds.' \
    '#include <ufp4/hip.hpp>'
  rejection "$compiler" "ufp4: include/ufp4/rtc is for compilers without standard headers; take it off this one's include path." \
    '#include <cstdint>' -Iinclude/ufp4/rtc
}

# before_cxx20 COMPILER: each header that programs include, in C++17: one #error, and at most 15 lines in all.
before_cxx20() {
  local compiler=$1 header error
  local message='ufp4: this library needs C++20 (-std=c++20); for C and older C++ there is its C interface, <ufp4/ufp4.h>'
  echo "$message" >>"$work/errors"
  for header in include/ufp4/*.hpp include/ufp4/{analysis,block,format,hadamard,interop,matrix,recipe,round}/*.hpp; do
    [[ $header == */version.hpp || $header == */config.hpp ]] && continue # macros and a constant, for any C++
    printf '#include <%s>\n' "${header#include/}" |
      LC_ALL=C "$compiler" -std=c++17 -Iinclude -fsyntax-only -x c++ - >"$work/log" 2>&1
    error=$(grep 'error: ' "$work/log" | grep -v 'fatal error: .*needs C++20')
    if [[ $error != *"$message"* ]] || [ "$(wc -l <<<"$error")" -ne 1 ] || [ "$(wc -l <"$work/log")" -gt 15 ]; then
      wrong "$compiler -std=c++17: $header gives more than one #error '$message' in 15 lines:"
      head -n 20 "$work/log"
    else
      right
    fi
  done
}

# short_messages COMPILER: of arguments of another type.
short_messages() {
  local compiler=$1 call error
  for call in 'quantize<nvfp4>(std::vector<double>(64))' 'quantize<nvfp4>(std::vector<double>(64), cpu::context{})' \
    'dequantize(cpu::context{}, q, x)' \
    'dequantize<bf16>(cpu::context{}, q)' 'quantized_gemm(cpu::context{}, q, q, x)' 'quantized_gemm(cpu::context{}, q, q, x, {})' \
    'quantize<fp4<E2M1>>(x)' 'quantize<nvfp4>(x, std::round)' 'quantize<nvfp4>(x, 42)' \
    'quantize(spec_of<nvfp4>, std::vector<double>(64))' 'quantized_gemm(q, q, std::vector<float>(64))' \
    'quantized_gemm(q, q, std::vector<float>(64), {}, cpu::context{})' 'dequantize(q, std::vector<float>(64))'; do
    printf '#include <cmath>\n#include <vector>\n#include <ufp4/ufp4.hpp>\nusing namespace ufp4;
void f(const matrix<float>& x, const quantized_matrix<nvfp4>& q) { %s; }\n' "$call" |
      compile "$compiler" -x c++ - >"$work/log"
    error=$(grep -m 1 'error: ' "$work/log")
    if [[ $error != *static*assert* && $error != *'static assertion'* ]] || [ "$(wc -l <"$work/log")" -gt 15 ]; then
      wrong "$compiler: $call: more than 15 lines, or the first error is no message of ufp4:"
      head -n 20 "$work/log"
    else
      right
    fi
  done
}

# The messages of the headers' static_asserts and #errors, a line each; literals that stand side by side are one, and macros that are a
# literal, or a literal after their argument, are replaced.
messages() {
  # shellcheck disable=SC2016 # the variables are Perl's
  find include/ufp4 -type f -print0 | sort -z | xargs -0 cat | perl -0777 -ne '
    s/\\\n//g;
    my ($literal, %text) = qr/"(?:[^"\\]|\\.)*"/;
    $text{$1} = $2 while /^#define (UFP4_\w+)(?:\(\w+\) \w+)? ($literal)$/mg;
    s/(UFP4_\w+)(?:\(($literal)\))?/exists $text{$1} ? ($2 \/\/ "") . $text{$1} : $&/ge;
    while (/static_assert\s*\(((?:[^";]|$literal)*)\)\s*;/g) {
      my $text = join "", map { substr $_, 1, -1 } $1 =~ /($literal)/g;
      print "$text\n" if $text ne "";
    }
    while (/#\s*error\s+"((?:[^"\\]|\\.)*)"/g) { print "$1\n" }'
}

every_message_is_tested() {
  local message
  markers tests/compile_fail/*.cpp | cut -d: -f2- >"$work/tested"
  cat "$work/errors" >>"$work/tested"
  printf '%s\n' "${unreachable[@]}" >>"$work/tested"
  messages | sort -u >"$work/all"
  [ "$(wc -l <"$work/all")" -ge 30 ] || wrong "only $(wc -l <"$work/all") messages were found in include/ufp4"
  while IFS= read -r message; do
    # a macro writes a name before a message that begins with a colon
    if grep -qxF -- "$message" "$work/tested" || { [[ $message = :* ]] && grep -qF -- "$message" "$work/tested"; }; then right; else wrong "no case of tests/compile_fail causes '$message'"; fi
  done <"$work/all"
  for message in "${unreachable[@]}"; do
    grep -qxF -- "$message" "$work/all" || wrong "no header contains '$message': remove it from the list of unreachable messages"
  done
}

compilers=("$@")
if [ ${#compilers[@]} -eq 0 ]; then
  for name in g++ clang++-19; do
    if command -v "$name" >/dev/null; then compilers+=("$name"); else echo "SKIPPED: there is no $name"; fi
  done
fi
[ ${#compilers[@]} -gt 0 ] || exit 77
for compiler in "${compilers[@]}"; do
  mistakes "$compiler" tests/compile_fail/host.cpp
  mistakes "$compiler" tests/compile_fail/gpu.cpp
  rejections "$compiler"
  before_cxx20 "$compiler"
  short_messages "$compiler"
done
PATH=$PATH:${ROCM_PATH:-/opt/rocm}/bin
if command -v hipcc >/dev/null; then
  mistakes hipcc tests/compile_fail/amd.cpp -x hip -nogpulib --cuda-device-only --offload-arch=gfx900 -Wno-unused-command-line-argument
else
  echo "SKIPPED: there is no hipcc, so amd.cpp was not compiled"
fi
every_message_is_tested
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
