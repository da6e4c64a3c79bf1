#!/usr/bin/env bash
# ufp4 - what including the public headers costs, against the budgets of the architecture.
# SPDX-License-Identifier: Apache-2.0
#
# CPU time (user + system) of g++ -fsyntax-only on one #include, best of three: less noisy than the clock on a shared
# machine. Over budget is reported; over twice the budget fails, because machines differ by less than that.
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
cxx=${CXX:-g++}
status=0
export LC_ALL=C # a number's point is one, and not a comma
TIMEFORMAT='%3U %3S'

# budget MILLISECONDS HEADER
budget() {
  local limit=$1 header=$2 best=999999 said user system ms word
  for _ in 1 2 3; do
    if ! said=$({ time echo "#include <ufp4/$header>" | "$cxx" -std=c++20 -Iinclude -fsyntax-only -x c++ -; } 2>&1); then
      printf 'FAILED: %s cannot be included:\n%s\n' "$header" "$said"
      status=1
      return
    fi
    read -r user system <<<"${said##*$'\n'}"
    ms=$((10#${user/./} + 10#${system/./}))
    [ $ms -lt $best ] && best=$ms
  done
  word=ok
  [ $best -gt "$limit" ] && word='over budget'
  [ $best -gt $((2 * limit)) ] && word='FAILED: over twice the budget' && status=1
  printf '%5d ms of %4d  %-28s %s\n' $best "$limit" "$header" "$word"
}

for header in include/ufp4/format/*.hpp; do
  [ "${header##*/}" = io.hpp ] || budget 120 "${header#include/ufp4/}"
done
budget 800 format/io.hpp # <format>, where the library has it, and for that reason in no other header
for pair in "200 device.hpp" "800 ufp4.hpp"; do
  # shellcheck disable=SC2086 # two words
  [ -e "include/ufp4/${pair#* }" ] && budget $pair
done
exit $status
