#!/usr/bin/env bash
# ufp4 - compiles a CUDA program to PTX and links it with the interpreter instead of a CUDA runtime; needs nvcc, no GPU.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/gpu/ptx/build.sh OUTPUT "TARGETS" FILE.cu [NVCC OPTION]...
  tests/gpu/ptx/build.sh try 90a try.cu -DUFP4_EXPERIMENTAL && ./try
The interpreter is compiled once, into $UFP4_PTX_OBJECTS or the folder ptx_objects beside OUTPUT. An object among the options is linked.'
set -euo pipefail
[ $# -ge 3 ] || { echo "$usage" >&2; exit 2; }
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
output=$1 targets=$2 file=$3
shift 3
nvcc=${nvcc:-nvcc}
objects=${UFP4_PTX_OBJECTS:-$(dirname "$output")/ptx_objects}
mkdir -p "$objects"

export nvcc objects source_dir
# shellcheck disable=SC2016 # expanded by the inner shell
printf '%s\n' "$source_dir"/tests/gpu/ptx/*.cpp | grep -v '_test\.cpp$' | xargs -P "${UFP4_JOBS:-$(nproc)}" -I {} bash -c '
  object=$objects/$(basename {} .cpp).o
  [ "$object" -nt {} ] && [ -z "$(find "$source_dir/tests/gpu/ptx" -name "*.hpp" -newer "$object")" ] ||
    "$nvcc" -std=c++20 -O2 -I"$source_dir/tests" -Xcompiler -Wall,-Wextra -c {} -o "$object"'

codes=()
for target in $targets; do codes+=(-gencode "arch=compute_$target,code=compute_$target"); done
"$nvcc" -std=c++20 -I"$source_dir/include" -I"$source_dir/tests" "${codes[@]}" --no-compress -cudart none "$@" "$file" \
  "$objects"/*.o -o "$output"
