#!/usr/bin/env bash
# ufp4 - every kernel compiled and linked by nvcc for each architecture, with warnings as errors, and the instructions in it.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/gpu/compile.sh [--out FOLDER] [--targets "80 90a 100a 120a"]
Needs no GPU: what it links does not run without one. Without nvcc the exit status is 77, with a message. borrowed.sh check compiles the
tests and the bench.'
set -uo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/compile_common.sh"
read_arguments gpu '80 90a 100a 120a' "$@"

. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
if ! nvcc=$(find_nvcc); then
  echo "SKIPPED: there is no nvcc here, so no kernel was compiled for a GPU; tests in the CPU simulator run the kernels' sources"
  exit 77
fi
make_out
echo "$("$nvcc" --version | sed -n 's/^Cuda compilation tools, //p'), warnings as errors, no --expt-relaxed-constexpr"

export nvcc
# Where the flags of a test's host code stand too: what -Wall finds in nvcc's own generated code is not ours to mend.
export flags="-std=c++20 -Isource/include -Isource/tests -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-unused-parameter"

# shellcheck disable=SC2317,SC2086 # called through xargs; several words
# One line of work: "kernels TARGET", "example FILE", "library" or "rejection".
work() {
  local kind=$1 what=$2 began=$SECONDS answer name linked=no ran=-
  case $kind in
    kernels)
      local code="arch=compute_$what,code=sm_$what"
      name=kernels.$what
      mkdir -p "$name"
      answer=$(logged "$name" "$nvcc" -x cu $flags -gencode "$code" -DUFP4_EXPERIMENTAL --keep --keep-dir "$name" \
        -c source/tests/gpu/kernels.cu -o "$name.o")
      [ "$answer" = no ] || linked=$(logged "$name" "$nvcc" -gencode "$code" "$name.o" -o "$name.run")
      if [ "$linked" = yes ]; then
        mv "$name/kernels.ptx" "$name.ptx"
        mv "$name"/*.cubin "$name.cubin" # for sass_check.sh
        ran=$(try_run "./$name.run" "$name.log")
      fi
      answer="$answer $linked $ran"
      rm -rf "${name:?}" ;;
    rejection)
      name=rejection
      # Flags that flush subnormals must not compile; the assembler's message is the message.
      answer=$(logged rejection "$nvcc" -std=c++20 -Isource/include -arch=sm_80 --use_fast_math \
        -c source/examples/embed_kernel.cu -o rejection.o)
      if [ "$answer" = no ] && grep -q ufp4_must_be_compiled_without_use_fast_math rejection.log; then answer=yes
      else answer=no; fi
      # So must a file with CPU kernels, with one message.
      echo '#include <ufp4/ufp4.hpp>' >rejection.cu
      if "$nvcc" -std=c++20 -Isource/include -c rejection.cu -o rejection.o >>rejection.log 2>&1 ||
        [ "$(grep -c 'error: #error "ufp4: this compiler cannot compile the CPU kernels' rejection.log)" -ne 1 ]; then answer=no; fi ;;
    library)
      name=library
      # A program without kernels links the compiled library; only the coder of a compat preset is its own.
      local ptx='arch=compute_80,code=compute_80'
      answer=$(logged library "$nvcc" $flags -gencode $ptx -DUFP4_COMPILE_GPU_KERNELS -c source/cmake/cuda_kernels.cu -o library.o)
      [ "$answer" = no ] || answer=$(logged library "$nvcc" -x cu $flags -gencode $ptx -DUFP4_EXTERNAL_GPU_KERNELS \
        -c source/tests/gpu/kernels.cu -o program.o)
      [ "$answer" = no ] || answer=$(logged library "$nvcc" -gencode $ptx program.o library.o -o library.run)
      if nm -C program.o | grep ' t .*__wrapper__device_stub_' | grep -v 'te_nvfp4\|compiled_probe' >>library.log; then answer=no; fi ;;
    example)
      name=example.$(basename "$what" .cu)
      answer=$(logged "$name" "$nvcc" $flags -gencode arch=compute_80,code=compute_80 "$what" -o "$name.run") ;;
  esac
  verdict "$name" "$answer" $((SECONDS - began))
}
export -f work

for target in $targets; do list+=("kernels $target"); done
examples=(embed_kernel snippets/gpu)
list+=("rejection -" "library -")
for example in "${examples[@]}"; do list+=("example source/examples/$example.cu"); done
work_through_list

printf '\n%-8s %-10s %-8s %-10s %s\n' target compiled linked run seconds
for target in $targets; do
  read -r compiled linked ran seconds <"$out/kernels.$target.verdict"
  printf '%-8s %-10s %-8s %-10s %s\n' "sm_$target" "$compiled" "$linked" "$ran" "$seconds"
  [ "$linked" = yes ] || failed "kernels.$target"
done
for example in "${examples[@]}"; do tell "example.${example##*/}" "examples/$example.cu: compiled to PTX and linked"; done
tell library 'a program with UFP4_EXTERNAL_GPU_KERNELS has no kernels and links the compiled library'
tell rejection '--use_fast_math, and CPU kernels, are rejected by name'

echo
for target in $targets; do
  [ -e "$out/kernels.$target.ptx" ] || continue
  bash "$source_dir/tests/gpu/ptx_check.sh" "$target" "$out/kernels.$target.ptx" || status=1
done
echo
echo "\"run in the CPU simulator\": tests run the kernels' sources on the CPU; \"run in the PTX interpreter\": compiled.sh runs the PTX."
echo "compile.sh: $SECONDS s"
exit $status
