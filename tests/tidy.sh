#!/usr/bin/env bash
# ufp4 - clang-tidy 19 over include/ufp4 and the tool with the checks of .clang-tidy.
# SPDX-License-Identifier: Apache-2.0
#
# One file that includes every header, so that each is looked at once; a second time as aarch64 where Debian's cross
# compiler has left its headers (g++-aarch64-linux-gnu), for the kernels of NEON. Those for GPUs as the executor of
# tests/gpu compiles them; not what only CUDA's or HIP's own headers make whole.
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
tidy=${CLANG_TIDY:-clang-tidy-19}
if ! command -v "$tidy" >/dev/null; then
  echo "SKIPPED: there is no $tidy (apt-get install clang-tidy-19)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Not: lane headers, which those of instruction sets include; mdspan, which libstdc++ 12 lacks; Eigen's bridge where Eigen is not; the stand-ins of rtc/.
# Of the kernels those for the other architecture, which its argument names, neither.
headers() {
  find include/ufp4 -name '*.hpp' | sort | grep -v -E '^include/ufp4/((gpu|cuda|hip)/|(cuda|hip)\.hpp|interop/mdspan|cpu/.*lane|cpu/(kernels|simd)/.*'"($1))" |
    sed 's|^include/||'
}
includes() {
  for header in $(headers "$1"); do
    if [ "$header" = ufp4/interop/eigen.hpp ] && [ ! -d /usr/include/eigen3 ]; then continue; fi
    echo "#include <$header>"
  done
}
includes neon >"$work/all.cpp"
includes 'avx|amx' >"$work/aarch64.cpp"
{
  echo '#define UFP4_SIMT_HEADER "gpu/simt.hpp"'
  find include/ufp4/{gpu,cuda,hip} -name '*.hpp' | sort | grep -v -E '/(vendor|[a-z]*_shims|cublas|library_gemm)\.hpp$' |
    sed 's|^include/|#include <|; s|$|>|'
  echo '#include <ufp4/gpu/vendor.hpp>'
} >"$work/gpu.cpp"
echo "$(cat "$work"/*.cpp | grep -c '#include') headers, and examples/ufp4"

status=0
# look FILE [OPTION]...
look() {
  local file=$1
  shift
  # The filter of .clang-tidy wants whole paths: under a relative one it would show nothing.
  "$tidy" --config-file=.clang-tidy --quiet "$file" -- -std=c++20 -I"$PWD/include" -isystem /usr/include/eigen3 "$@" \
    >"$work/log" 2>"$work/noise" && return
  status=1
  grep -A 3 -E 'error:|warning:' "$work/log" | head -n 200
  grep -E 'error:' "$work/noise" | head -n 20
}
look "$work/all.cpp"
look "$work/gpu.cpp" -I"$PWD/tests"
look "$PWD/examples/ufp4/main.cpp"
for operation in inspect quantize dequantize; do look "$PWD/examples/ufp4/$operation.cpp" -DUFP4_EXTERNAL_KERNELS; done
if [ -d /usr/aarch64-linux-gnu/include ]; then
  look "$work/aarch64.cpp" --target=aarch64-linux-gnu -isystem /usr/aarch64-linux-gnu/include
else
  echo "SKIPPED: no headers of aarch64, so the kernels of NEON were not looked at (apt-get install g++-aarch64-linux-gnu)"
fi
[ $status -eq 0 ] && echo "clean"
exit $status
