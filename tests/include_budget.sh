#!/usr/bin/env bash
# ufp4 - what including the public headers costs, against the budgets of the architecture.
# SPDX-License-Identifier: Apache-2.0
#
# CPU time (user + system) of g++ -fsyntax-only on one #include, best of three, in hundredths of the same for six headers of the standard
# library, measured beside it: machines differ in speed, and other programs slow both.
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
cxx=${CXX:-g++}
status=0
export LC_ALL=C # a number's point is one, and not a comma
TIMEFORMAT='%3U %3S'
unit=$(printf '#include <%s>\n' algorithm cmath functional string thread vector)

# cost SOURCE: milliseconds of CPU time in `ms`; the compiler's messages in `said` and 1 if it is not accepted.
cost() {
  local user system
  said=$({ time "$cxx" -std=c++20 -Iinclude -fsyntax-only -x c++ - <<<"$1"; } 2>&1) || return
  read -r user system <<<"${said##*$'\n'}"
  ms=$((10#${user/./} + 10#${system/./}))
}

# budget HUNDREDTHS HEADER
budget() {
  local limit=$1 header=$2 least=999999 unit_least=999999 ratio word=ok
  for _ in 1 2 3; do
    cost "$unit" && [ "$ms" -lt "$unit_least" ] && unit_least=$ms
    if ! cost "#include <ufp4/$header>"; then
      printf 'FAILED: %s cannot be included:\n%s\n' "$header" "$said"
      status=1
      return
    fi
    [ "$ms" -lt "$least" ] && least=$ms
  done
  ratio=$((100 * least / unit_least))
  [ $ratio -gt "$limit" ] && word='FAILED: over budget' status=1
  printf '%3d of %3d  %-28s %s\n' $ratio "$limit" "$header" "$word"
}

for header in include/ufp4/format/*.hpp; do
  [ "${header##*/}" = io.hpp ] || budget 25 "${header#include/ufp4/}"
done
budget 200 format/io.hpp # <format>, where the library has it, and for that reason in no other header
budget 50 device.hpp
budget 300 ufp4.hpp
exit $status
