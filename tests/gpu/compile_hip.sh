#!/usr/bin/env bash
# ufp4 - every kernel compiled for AMD's architectures, linked where hipcc knows the architecture, and the instructions in it.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/gpu/compile_hip.sh [--out FOLDER] [--targets "gfx90a gfx942 gfx950 gfx1100 gfx1201"]
hipcc compiles and links what it knows; a newer clang, where one is found, compiles the device code of the others over hipcc'"'"'s
headers. Needs no GPU. Without hipcc the exit status is 77, with a message.'
set -uo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/compile_common.sh"
read_arguments hip 'gfx90a gfx942 gfx950 gfx1100 gfx1201' "$@"

PATH=$PATH:${ROCM_PATH:-/opt/rocm}/bin
if ! command -v hipcc >/dev/null; then
  echo "SKIPPED: there is no hipcc here, so no kernel was compiled for AMD's GPUs; tests in the CPU simulator run the kernels' sources"
  exit 77
fi
make_out

# knows COMPILER TARGET
knows() { echo | "$1" -x hip -nogpuinc -nogpulib --cuda-device-only --offload-arch="$2" -emit-llvm -S - -o /dev/null >/dev/null 2>&1; }
# The newest clang beside hipcc. hipcc before 6 (clang 17) has half of what gfx11 needs, so only gfx90a is left to it.
release=$(echo __clang_major__ | hipcc -x c -E -P - 2>/dev/null | tail -n 1)
clang=''
for name in clang++-{35..18} "${ROCM_PATH:-/opt/rocm}/llvm/bin/clang++" clang++; do
  command -v "$name" >/dev/null && knows "$name" gfx1201 && clang=$name && break
done
headers=$(dirname "$(dirname "$(for f in {/usr,"${ROCM_PATH:-/opt/rocm}"}/include/hip/hip_runtime.h; do [ ! -e "$f" ] || echo "$f"; done | head -n 1)")")
echo "hipcc over clang $release; for newer architectures ${clang:-no other clang}${clang:+ ($("$clang" -dumpversion))}"

export clang headers
export warnings='-Wall -Wextra -Wno-unused-parameter -Wno-unused-command-line-argument -Werror'
export flags="-std=c++20 -O2 -Isource/include -Isource/tests $warnings"

# shellcheck disable=SC2317,SC2086 # called through xargs; several words
# One line of work: "linked TARGET", "device TARGET" or "example FILE".
work() {
  local kind=$1 what=$2 began=$SECONDS answer name linked=no ran=-
  case $kind in
    linked)
      name=kernels.$what
      mkdir -p "$name"
      answer=$(logged "$name" hipcc -x hip $flags --offload-arch="$what" --save-temps=obj -DUFP4_COMPILE_GPU_KERNELS \
        -c source/cmake/hip_kernels.cpp -o "$name/kernels.o")
      # The program has no kernels but that of a compat preset, and links those of the library.
      [ "$answer" = no ] || linked=$(logged "$name" hipcc -x hip $flags --offload-arch="$what" -DUFP4_EXTERNAL_GPU_KERNELS \
        -c source/tests/gpu/kernels.cu -o "$name/program.o")
      [ "$linked" = no ] || linked=$(logged "$name" hipcc --offload-arch="$what" "$name"/{program,kernels}.o -o "$name.run")
      [ "$linked" = no ] || ran=$(try_run "./$name.run" "$name.log")
      mv "$name"/hip_kernels-hip-*"$what".s "$name.s"
      rm -rf "${name:?}"
      answer="$answer $linked $ran" ;;
    device)
      name=kernels.$what
      local wave=64
      case $what in gfx1?*) wave=32 ;; esac
      # Old headers need a macro that new compilers no longer define.
      answer=$(logged "$name" "$clang" -x hip $flags -nogpulib --cuda-device-only -S --offload-arch="$what" \
        -D__AMDGCN_WAVEFRONT_SIZE=$wave -I"$headers" source/tests/gpu/kernels.cu -o "$name.s")
      answer="$answer - -" ;;
    example)
      name=$kind.$(basename "$what" .cu)
      answer=$(logged "$name" hipcc -x hip $flags --offload-arch=gfx90a "$what" -o "$name.run")
      rm -f "$name.run" ;;
  esac
  verdict "$name" "$answer" $((SECONDS - began))
}
export -f work

compiled_here=()
for target in $targets; do
  if knows hipcc "$target" && { [ "$target" = gfx90a ] || [ "$release" -ge 17 ]; }; then list+=("linked $target")
  elif [ -n "$clang" ] && knows "$clang" "$target"; then list+=("device $target")
  else
    echo "SKIPPED: no compiler here knows $target"
    continue
  fi
  compiled_here+=("$target")
done
examples=(embed_kernel snippets/gpu)
for example in "${examples[@]}"; do list+=("example source/examples/$example.cu"); done
work_through_list

# simulated TARGET: how many tests run on that simulated architecture, by its number in the source or because CTest sets it.
simulated() {
  local tests as=none
  case $1 in gfx90a | gfx950 | gfx1100 | gfx1201) as='^// ctest:.* amd\b|^// ctest: amd\b' ;; esac
  tests=$(grep -l -E "0x${1#gfx}\b|$as" "$source_dir"/tests/gpu/*_test.cpp | wc -l)
  if [ "$tests" -eq 0 ]; then echo no; else echo "by $tests tests"; fi
}
printf '\n%-8s %-10s %-8s %-16s %-16s %s\n' target compiled linked simulated run seconds
for target in "${compiled_here[@]}"; do
  read -r compiled linked ran seconds <"$out/kernels.$target.verdict"
  printf '%-8s %-10s %-8s %-16s %-16s %s\n' "$target" "$compiled" "$linked" "$(simulated "$target")" "$ran" "$seconds"
  if [ "$compiled" != yes ] || [ "$linked" = no ]; then failed "kernels.$target"; fi
done
for example in "${examples[@]}"; do tell "example.${example##*/}" "examples/$example.cu: compiled and linked"; done

echo
for target in "${compiled_here[@]}"; do
  [ ! -e "$out/kernels.$target.s" ] || bash "$source_dir/tests/gpu/isa_check.sh" "$target" "$out/kernels.$target.s" || status=1
done
echo
echo "\"simulated\": the number of test files that run the kernels' sources on that architecture in the CPU simulator, instruction by"
echo "instruction. tests/run.sh runs those tests; this script does not."
echo "compile_hip.sh: $SECONDS s"
exit $status
