#!/usr/bin/env bash
# ufp4 - the machine code that nvcc makes of every kernel: local memory, generic addresses, divisions in loops, registers, budgets.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/gpu/sass_check.sh [--out FOLDER] [--targets "80 90a 100a 120a"] [--write-budgets | --table | --write-table]
  --write-budgets   writes tests/gpu/cost/budgets.txt instead of comparing with it
  --table           prints the table of predictions (tests/gpu/cost/cost.py); --write-table writes it to docs/gpu.md
The rules are in tests/gpu/cost/sass_check.py, the exceptions in tests/gpu/cost/expectations.py. Takes the cubins that compile.sh has left
in the folder, or compiles them. Without nvcc, nvdisasm (beside nvcc, or from PyPI) or python3 the exit status is 77, with a message.'
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
out=$ufp4_build/gpu targets='80 90a 100a 120a' command=check
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift ;;
    --targets) targets=$2; shift ;;
    --write-budgets | --table | --write-table) command=${1#--} ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
  shift
done

skip() {
  echo "SKIPPED: $*, so no machine code was checked"
  exit 77
}
nvcc=$(find_nvcc) || skip "there is no nvcc here"
python=$(python_with sys) || skip "there is no python3 here"
command -v c++filt >/dev/null || skip "there is no c++filt here (package binutils)"

# Prints the path of an nvdisasm: beside nvcc, on PATH, else from PyPI (which has none for CUDA 13.0; a newer one reads its files).
find_nvdisasm() {
  local path python
  for path in "$(dirname "$nvcc")/nvdisasm" "$(command -v nvdisasm || echo /none)"; do
    if have_programs "$path"; then echo "$path"; return; fi
  done
  python=$(make_venv nvdisasm 'nvidia-cuda-nvdisasm==13.2.*') || return
  "$python" -c 'import nvidia, pathlib; print(pathlib.Path(nvidia.__path__[0], "cu13/bin/nvdisasm"))'
}
nvdisasm=$(find_nvdisasm) || skip "there is no nvdisasm here"

mkdir -p "$out" && out=$(cd -- "$out" && pwd) || exit 2
inputs=() stale=
for target in $targets; do
  cubin=$out/kernels.$target.cubin log=$out/kernels.$target.log
  if [ ! -e "$cubin" ] || [ ! -e "$log" ] ||
    [ -n "$(find "$source_dir/include" "$source_dir/tests/gpu/kernels.cu" -newer "$cubin" -print -quit)" ]; then stale=yes; fi
  inputs+=("$target=$cubin,$log")
done
if [ -n "$stale" ]; then
  bash "$source_dir/tests/gpu/compile.sh" --out "$out" --targets "$targets" >"$out/sass_compile.txt" 2>&1 ||
    { tail -n 20 "$out/sass_compile.txt"; echo "FAILED   the kernels do not compile"; exit 1; }
fi

release=$("$nvcc" --version | sed -n 's/^Cuda compilation tools, release [^,]*, V//p')
tool=sass_check.py
case $command in
  *table)
    tool=cost.py
    for target in gfx942 gfx950; do
      assembly=$out/hip/kernels.$target.s
      if [ ! -e "$assembly" ] || [ -n "$(find "$source_dir/include" -newer "$assembly" -print -quit)" ]; then
        bash "$source_dir/tests/gpu/compile_hip.sh" --out "$out/hip" --targets "gfx942 gfx950" >"$out/sass_compile.txt" 2>&1
      fi
      [ -e "$assembly" ] || { tail -n 5 "$out/sass_compile.txt"; skip "the kernels do not compile for $target here"; }
      inputs+=("$target=$assembly")
    done ;;
esac
PYTHONDONTWRITEBYTECODE=1 "$python" "$source_dir/tests/gpu/cost/$tool" "$command" "$nvdisasm" "$release" "${inputs[@]}"
