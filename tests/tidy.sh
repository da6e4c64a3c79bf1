#!/usr/bin/env bash
# ufp4 - clang-tidy 19 over include/ufp4 with the checks of .clang-tidy: all but the headers that need a GPU's compiler.
# SPDX-License-Identifier: Apache-2.0
#
# One file that includes every header, so that each is looked at once; a second time as aarch64 where Debian's cross
# compiler has left its headers (g++-aarch64-linux-gnu), for the kernels of NEON.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
tidy=${CLANG_TIDY:-clang-tidy-19}
if ! command -v "$tidy" >/dev/null; then
  echo "SKIPPED: there is no $tidy (apt-get install clang-tidy-19)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Not: mdspan, which libstdc++ 12 lacks; Eigen's bridge where Eigen is not; the stand-ins of rtc/.
headers() {
  find include/ufp4 -name '*.hpp' | sort | grep -v -E '^include/ufp4/((gpu|cuda|hip)/|(cuda|hip)\.hpp|interop/mdspan)' |
    sed 's|^include/||'
}
for header in $(headers); do
  if [ "$header" = ufp4/interop/eigen.hpp ] && [ ! -d /usr/include/eigen3 ]; then continue; fi
  echo "#include <$header>"
done >"$work/all.cpp"
echo "$(wc -l <"$work/all.cpp") headers"

status=0
look() {
  # The filter of .clang-tidy wants whole paths: under a relative one it would show nothing.
  "$tidy" --config-file=.clang-tidy --quiet "$work/all.cpp" -- -std=c++20 -I"$PWD/include" -isystem /usr/include/eigen3 "$@" \
    >"$work/log" 2>"$work/noise" && return
  status=1
  grep -A 3 -E 'error:|warning:' "$work/log" | head -n 200
  grep -E 'error:' "$work/noise" | head -n 20
}
look
if [ -d /usr/aarch64-linux-gnu/include ]; then
  look --target=aarch64-linux-gnu -isystem /usr/aarch64-linux-gnu/include
else
  echo "SKIPPED: no headers of aarch64, so the kernels of NEON were not looked at (apt-get install g++-aarch64-linux-gnu)"
fi
[ $status -eq 0 ] && echo "clean"
exit $status
