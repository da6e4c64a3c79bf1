#!/usr/bin/env bash
# ufp4 - every kernel compiled and linked by nvcc for each architecture, with warnings as errors, and the instructions in it.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/gpu/compile.sh [--out FOLDER] [--targets "80 90a 100a 120a"] [--tests]
  --tests   compiles every GPU test and the bench for sm_80 as well, those that use cuBLAS where it is: some minutes more
Needs no GPU: what it links does not run without one. Exit status 77, and a line that says so, where there is no nvcc.'
set -uo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${UFP4_BUILD_DIR:-$source_dir/build}/gpu targets='80 90a 100a 120a' with_tests=
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift ;;
    --targets) targets=$2; shift ;;
    --tests) with_tests=yes ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
  shift
done

nvcc=$(command -v nvcc || true)
for folder in ${CUDA_HOME:-} ${CUDA_PATH:-} /usr/local/cuda; do
  [ -n "$nvcc" ] || { [ -x "$folder/bin/nvcc" ] && nvcc=$folder/bin/nvcc; }
done
if [ -z "$nvcc" ]; then
  echo "SKIPPED: there is no nvcc here, so no kernel was compiled for a GPU; the executor's tests ran their logic all the same"
  exit 77
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -f "$out"/*.verdict "$out"/*.log
echo "$("$nvcc" --version | sed -n 's/^Cuda compilation tools, //p'), warnings as errors, no --expt-relaxed-constexpr"

export nvcc source_dir out
# Where the flags of a test's host code stand too: what -Wall finds in nvcc's own generated code is not ours to mend.
export flags="-std=c++20 -I$source_dir/include -I$source_dir/tests -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-unused-parameter"

# shellcheck disable=SC2317 # called through xargs
# One line of work: "kernels TARGET" or "test FILE" or "refusal". Leaves <name>.verdict and <name>.log.
work() {
  local kind=$1 what=$2 began=$SECONDS verdict name
  case $kind in
    kernels)
      name=kernels.$what
      mkdir -p "$out/$name"
      # shellcheck disable=SC2086 # several words
      if ! "$nvcc" -x cu $flags -gencode "arch=compute_$what,code=sm_$what" -DUFP4_EXPERIMENTAL --keep --keep-dir "$out/$name" \
        -c "$source_dir/tests/gpu/kernels.cu" -o "$out/$name.o" >"$out/$name.log" 2>&1; then
        verdict='no no -'
      elif ! "$nvcc" -gencode "arch=compute_$what,code=sm_$what" "$out/$name.o" -o "$out/$name.run" >>"$out/$name.log" 2>&1; then
        verdict='yes no -'
      else
        mv "$out/$name/kernels.ptx" "$out/$name.ptx"
        "$out/$name.run" >>"$out/$name.log" 2>&1
        case $? in 0) verdict='yes yes yes' ;; 77) verdict='yes yes no-GPU' ;; *) verdict='yes yes not-on-this-GPU' ;; esac
      fi
      rm -rf "${out:?}/$name" ;;
    test)
      name=$(basename "$what" .cpp)
      # shellcheck disable=SC2086
      if "$nvcc" -x cu $flags $cublas -arch=sm_80 -DUFP4_KERNELS_ELSEWHERE -DUFP4_SOURCE_DIR='"."' -c "$what" \
        -o "$out/$name.o" >"$out/$name.log" 2>&1; then verdict=yes; else verdict=no; fi
      rm -f "$out/$name.o" ;;
    refusal)
      name=refusal
      # Flags that flush subnormals must not compile; the assembler's message is the sentence.
      if "$nvcc" -std=c++20 -I"$source_dir/include" -arch=sm_80 --use_fast_math -c "$source_dir/examples/embed_kernel.cu" \
        -o "$out/refusal.o" >"$out/refusal.log" 2>&1; then verdict=no
      elif grep -q ufp4_must_be_compiled_without_use_fast_math "$out/refusal.log"; then verdict=yes; else verdict=no; fi ;;
    bench)
      name=$(basename "$what" .cu)
      # shellcheck disable=SC2086
      if "$nvcc" $flags -arch=sm_80 "$what" -lcublas -lcublasLt -o "$out/$name.run" >"$out/$name.log" 2>&1
      then verdict=yes; else verdict=no; fi
      rm -f "$out/$name.run" ;;
    example)
      name=example.$(basename "$what" .cu)
      # shellcheck disable=SC2086
      if "$nvcc" $flags -arch=sm_80 "$what" -o "$out/$name.run" >"$out/$name.log" 2>&1; then verdict=yes; else verdict=no; fi ;;
  esac
  echo "$verdict $((SECONDS - began))" >"$out/$name.verdict"
}
export -f work

list=()
for target in $targets; do list+=("kernels $target"); done
examples=(embed_kernel snippets/gpu)
list+=("refusal -")
for example in "${examples[@]}"; do list+=("example $source_dir/examples/$example.cu"); done
export cublas=''
if [ -n "$with_tests" ]; then
  if printf '#include <cublasLt.h>\n' | "$nvcc" -x cu -E - >/dev/null 2>&1; then
    cublas=-DUFP4_WITH_CUBLAS
    list+=("bench $source_dir/bench/gpu_bench.cu")
  else
    echo "SKIPPED: no cublasLt, so what uses it was not compiled"
  fi
  if printf '#include "support/catch.hpp"\n' | g++ -std=c++20 -I"$source_dir/tests" -x c++ -fsyntax-only - 2>/dev/null; then
    for test in "$source_dir"/tests/gpu/*_test.cpp; do list+=("test $test"); done
  else
    with_tests=
    echo "SKIPPED: no Catch2, so the tests were not compiled by nvcc"
  fi
fi
printf '%s\n' "${list[@]}" | xargs -P "${UFP4_JOBS:-$(nproc)}" -L 1 bash -c 'work "$0" "$1"'

status=0
failed() {
  status=1
  head -n 30 "$out/$1.log"
}
printf '\n%-8s %-10s %-8s %-10s %s\n' target compiled linked run seconds
for target in $targets; do
  read -r compiled linked ran seconds <"$out/kernels.$target.verdict"
  printf '%-8s %-10s %-8s %-10s %s\n' "sm_$target" "$compiled" "$linked" "$ran" "$seconds"
  [ "$linked" = yes ] || failed "kernels.$target"
done
for example in "${examples[@]}"; do
  name=example.${example##*/}
  read -r verdict seconds <"$out/$name.verdict"
  echo "examples/$example.cu: compiled and linked: $verdict ($seconds s)"
  [ "$verdict" = yes ] || failed "$name"
done
read -r verdict seconds <"$out/refusal.verdict"
echo "--use_fast_math is refused by name: $verdict ($seconds s)"
[ "$verdict" = yes ] || failed refusal
if [ -n "$cublas" ]; then
  read -r verdict seconds <"$out/gpu_bench.verdict"
  echo "bench/gpu_bench.cu: compiled and linked: $verdict ($seconds s)"
  [ "$verdict" = yes ] || failed gpu_bench
fi
if [ -n "$with_tests" ]; then
  count=0
  for test in "$source_dir"/tests/gpu/*_test.cpp; do
    name=$(basename "$test" .cpp)
    read -r verdict seconds <"$out/$name.verdict"
    if [ "$verdict" = yes ]; then count=$((count + 1)); else echo "FAILED   $name does not compile"; failed "$name"; fi
  done
  echo "tests: $count compiled for sm_80"
fi

echo
for target in $targets; do
  [ -e "$out/kernels.$target.ptx" ] || continue
  bash "$source_dir/tests/gpu/ptx_check.sh" "$target" "$out/kernels.$target.ptx" || status=1
done
echo
echo "\"played by the executor\": its tests ran the kernels' sources on the CPU, instruction by instruction; \"only compiled\": nothing ran."
echo "compile.sh: $SECONDS s"
exit $status
