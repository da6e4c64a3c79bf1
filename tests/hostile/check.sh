#!/usr/bin/env bash
# ufp4 - the library under other settings: warnings as errors, hostile macros, no exceptions, no RTTI, dialects.
# SPDX-License-Identifier: Apache-2.0
#
#   check.sh [--all] [COMPILER]...     (default: g++ and clang++-19; with --all g++-11 and clang++-16 too; those there are)
#
# | headers | all that need no GPU's compiler, in one file behind macros.hpp; --all: every one in a file of its own  |
# | program | program.cpp compiled in each setting; by the first compiler also built and run: the same bits in all  |
# | mdspan  | --all: its test, with a standard library that has <mdspan>                                              |
#
# Environment: UFP4_BUILD_DIR, the folder of temporary files.
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
work=$(mktemp -d -p "$ufp4_build") || exit 1 # programs are run from it, which a TMPDIR may forbid
trap 'rm -rf "$work"' EXIT
cd "$source_dir" || exit
passed=0 failed=0 all=no compilers=()
for word in "$@"; do
  if [ "$word" = --all ]; then all=yes; else compilers+=("$word"); fi
done
if [ ${#compilers[@]} -eq 0 ]; then
  wanted=(g++ clang++-19)
  [ $all = yes ] && wanted+=(g++-11 clang++-16)
  for name in "${wanted[@]}"; do
    if command -v "$name" >/dev/null; then compilers+=("$name"); else echo "SKIPPED: there is no $name"; fi
  done
fi
[ ${#compilers[@]} -gt 0 ] || exit 77

strict='-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wdouble-promotion -Wshadow -Wold-style-cast -Wundef -Werror'
# clang 19 sees std::stable_sort of libstdc++ 12 call something deprecated.
strict+=' -Wno-deprecated-declarations'
verdict() { # STATUS WHAT: the log is in $work/log
  if [ "$1" -eq 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n' "$2"
    head -n 20 "$work/log"
  fi
}

# compile COMPILER OPTION...
compile() { LC_ALL=C "$@" -Iinclude -Itests/hostile -iquote "$work" -isystem /usr/include/eigen3 >"$work/log" 2>&1; }

# The headers of the standard that ufp4 includes, and the compiler's own, come before the macros.
{
  grep -rhoE '^#include <[a-z_0-9./]+>' include/ufp4 | grep -vE 'ufp4|hip/|cuda|mdspan|omp\.h' | sort -u |
    sed -E 's/#include (<.*>)/#if __has_include(\1)\n#include \1\n#endif/'
  printf '#if defined(__x86_64__)\n#include <immintrin.h>\n#endif\n#if __has_include(<Eigen/Core>)\n#include <Eigen/Core>\n#endif\n'
  echo '#include "macros.hpp"'
} >"$work/before.hpp"
headers=$(find include/ufp4 -name '*.hpp' | sort | grep -v -E '^include/ufp4/((gpu|cuda|hip)/|(cuda|hip)\.hpp|interop/mdspan)' |
  sed 's|^include/||')
[ -d /usr/include/eigen3 ] || headers=$(grep -v eigen <<<"$headers")
for header in $headers; do echo "#include <$header>"; done >"$work/all.cpp"

for compiler in "${compilers[@]}"; do
  bare='-std=c++20 -fno-exceptions -fno-rtti -include before.hpp'
  for setting in "$bare" '-std=gnu++20' '-std=c++2b -march=native' '-std=c++20 -fno-exceptions -D_GLIBCXX_ASSERTIONS -D_FORTIFY_SOURCE=2 -O1'; do
    # shellcheck disable=SC2086 # several words
    compile "$compiler" $setting $strict -DUFP4_EXTERNAL_KERNELS -fsyntax-only tests/hostile/program.cpp
    verdict $? "$compiler $setting: program.cpp"
  done
  for setting in "$bare" '-std=gnu++20'; do
    # shellcheck disable=SC2086
    compile "$compiler" $setting $strict -fsyntax-only "$work/all.cpp"
    verdict $? "$compiler $setting: all headers in one file"
  done
  [ $all = yes ] && for header in $headers; do
    echo "#include <$header>" >"$work/one.cpp"
    # shellcheck disable=SC2086
    compile "$compiler" $bare $strict -fsyntax-only "$work/one.cpp"
    verdict $? "$compiler $bare: $header alone"
  done
done

# ran NAME OPTION...: the program's bits, and its message before it aborts.
ran() {
  local name=$1
  shift
  if ! compile "${compilers[0]}" -o "$work/$name" "$@" tests/hostile/program.cpp "$work/kernels.o"; then
    verdict 1 "$name: program.cpp does not build"
    return
  fi
  bits[$name]=$("$work/$name" 2>"$work/log")
  verdict $? "$name: program.cpp does not run"
  ("$work/$name" mistake; exit $?) >"$work/log" 2>&1 # in a subshell, which prints "Aborted"
  [ $? -eq 134 ] && grep -q 'dequantize: out is 1 x 1, but the quantized matrix is 5 x 70' "$work/log"
  verdict $? "$name: an error must print a message and abort"
}
declare -A bits
echo '#include <ufp4/cpu/kernels.hpp>' >"$work/kernels.cpp"
if ! compile "${compilers[0]}" -std=c++20 -O1 -fno-exceptions -fno-rtti -include before.hpp -DUFP4_COMPILE_KERNELS -c \
  -o "$work/kernels.o" "$work/kernels.cpp"; then
  verdict 1 "the kernels do not compile without exceptions, behind the macros"
else
  ran plain -std=c++20 -O1 -DUFP4_EXTERNAL_KERNELS
  ran bare -std=c++20 -O1 -DUFP4_EXTERNAL_KERNELS -fno-exceptions -fno-rtti -include before.hpp
  ran unsafe -std=c++20 -O3 -DUFP4_EXTERNAL_KERNELS -ffp-contract=fast -fno-math-errno -fno-trapping-math -fwrapv -fno-strict-aliasing
  [ -n "${bits[plain]-}" ] && [ "${bits[plain]}" = "${bits[bare]-}" ] && [ "${bits[plain]}" = "${bits[unsafe]-}" ]
  verdict $? "the bits differ: ${bits[*]}"
fi
# <mdspan> is in libc++ from 17 on, and in no libstdc++ before 15. Catch2 3 is compiled for libstdc++ alone.
if [ $all = yes ]; then
  for compiler in "${compilers[@]}"; do
    [[ $compiler = clang* ]] || continue
    echo '#include <mdspan>' >"$work/one.cpp"
    if ! "$compiler" -std=c++23 -stdlib=libc++ -fsyntax-only "$work/one.cpp" 2>/dev/null || [ -e /usr/include/catch2/catch_all.hpp ]; then
      echo "SKIPPED: $compiler has no libc++ with <mdspan>, or Catch2 is not version 2"
      continue
    fi
    compile "$compiler" -std=c++23 -stdlib=libc++ -Itests -o "$work/mdspan" tests/interop/mdspan_test.cpp tests/support/main.cpp &&
      "$work/mdspan" >"$work/log" 2>&1
    verdict $? "$compiler -stdlib=libc++: mdspan_test"
  done
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
