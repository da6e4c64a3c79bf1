#!/usr/bin/env bash
# ufp4 - every command of borrowed.sh without a GPU: the compiler builds the CPU simulator, the vendors' tools are scripts.
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # backquotes of a page
# Checks what the commands leave: also where a test fails or hangs, where the time ends, where there is no xz, where the archive's
# programs do not run, on a GPU that is not a Hopper, without a GPU.
usage='usage: tests/gpu/borrowed_rehearsal.sh [LIBRARY]: libufp4_gpu_kernels.a of a build; it is compiled without it'
set -uo pipefail
unset CDPATH
[ $# -le 1 ] || { echo "$usage" >&2; exit 2; }
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
if ! have_catch2 || ! have_programs xz cmake python3; then
  echo "SKIPPED: no Catch2, xz, cmake or python3, so borrowed.sh was not rehearsed"
  exit 77
fi
choose_build_folder "$source_dir"
place=$ufp4_build/rehearsal
rm -rf "$place" && mkdir -p "$place/tools" "$place/machine" || exit 2
tables=${1:-}
[ -e "$tables" ] || tables=$place/tables.o
[ -e "$tables" ] || g++ -std=c++20 -O0 -I"$source_dir/include" -I"$source_dir/tests" -c "$source_dir/tests/gpu/kernel_tables.cpp" \
  -o "$tables" || exit 1
tables=$(realpath "$tables")

# ---- Tools ----

# tool NAME: a script of stdin.
tool() { { echo '#!/usr/bin/env bash'; cat; } >"$place/tools/$1" && chmod +x "$place/tools/$1"; }
# Compiles what does not change between the commands once.
gxx=$(command -v g++)
tool g++ <<END
case "\$*" in *batch_* | *" -E "*) exec $gxx "\$@" ;; *" -c "*) ;; *) exec $gxx "\$@" ;; esac
kept=$place/\$(printf '%s' "\$*" | md5sum | cut -c1-32).o
while [ "\$1" != -o ] || ! to=\$2; do words+=("\$1"); shift; done
[ -e "\$kept" ] || $gxx "\${words[@]}" "\${@:3}" -o "\$kept" || exit
cp "\$kept" "\$to"
END
# g++ without the options of nvcc and hipcc; a program that is linked gets the kernels of the simulator.
tool nvcc <<END
words=() linking=yes
while [ \$# -gt 0 ]; do
  case \$1 in
    -gencode | -cudart | -Xcompiler) shift ;;
    --offload-arch=*) ;;
    --version) exit ;;
    -x) shift; words+=(-x c++) ;;
    -c | -E) linking=; words+=("\$1") ;;
    kernels.o) ;;
    *) words+=("\$1") ;;
  esac
  shift
done
[ -z "\$linking" ] || words+=($tables kernels.o)
exec g++ "\${words[@]}"
END
ln -s nvcc "$place/tools/hipcc"
tool rocm_agent_enumerator <<'END'
echo gfx000; echo gfx90a
END
tool nvidia-smi <<'END'
case $* in *compute_cap*) echo 9.0 ;; *) echo a simulator ;; esac
END
tool compute-sanitizer <<'END'
case $* in --tool\ memcheck\ --error-exitcode\ 99\ *) exec "${@:5}" ;; esac
echo "unexpected: $*"; exit 1
END
tool ncu <<'END'
case $1 in --version) echo ncu; exit ;; esac
case $* in "--clock-control none --profile-from-start off --launch-count 2 "*) ;; *) echo "unexpected: $*"; exit 1 ;; esac
while [ "$1" != ./gpu_bench ]; do shift; done
case $* in *8192x*) exit ;; esac # a shape that a rehearsal leaves out
"$@" | grep '"us"' || { echo "no row: $*"; exit 1; }
END
# python3 with a PyTorch that has CUDA; pip and the scripts for it do nothing but what the steps look at.
python=$(command -v python3)
tool python3 <<END
case \$* in
  *torch.cuda.is_available*) exit ;;
  "-m pip install"*--target*"cmake.define.CMAKE_CUDA_ARCHITECTURES=90a-real") echo built; exit ;;
  *torch_step.py*) echo '{"kind": "torch", "name": "torch/nn.Linear, bf16/step", "us": 1, "tflops": 1}'; exit ;;
  "-m pytest"*) exit ;;
esac
exec $python "\$@"
END
# Every program but xz.
mkdir "$place/without_xz"
for program in $(compgen -c | sort -u | grep -v '^\(xz\|unxz\|xzcat\)$'); do
  path=$(type -P "$program") && [ ! -e "$place/without_xz/$program" ] && ln -s "$path" "$place/without_xz/$program"
done

# ---- Commands ----

export PATH=$place/tools:$PATH UFP4_BUILD_DIR=$place/machine UFP4_BORROWED_FLAGS=-O0 UFP4_BORROWED_SMALL=--small \
  UFP4_BORROWED_PYPI=no UFP4_BORROWED_FUZZ=1 UFP4_FUZZ_SECONDS=1 UFP4_BORROWED_TESTS='graph|fuzz' UFP4_BORROWED_EXPERIMENTAL=experimental
status=0
# run STATUS COMMAND...: its output is $place/<command>.txt.
run() {
  local wanted=$1 began=$SECONDS got
  OUT=$place/out "$source_dir/tests/gpu/borrowed.sh" "${@:2}" >"$place/$2.txt" 2>&1
  got=$?
  echo "${*:2}: exit status $got, $((SECONDS - began)) s"
  [ "$got" -eq "$wanted" ] || { echo "FAILED: wanted $wanted"; cat "$place/$2.txt"; status=1; }
}
# expect FILE TEXT...
expect() {
  local text
  for text in "${@:2}"; do
    grep -q -- "$text" "$1" 2>/dev/null || { echo "FAILED: ${1#"$place"/} has no '$text'"; status=1; }
  done
}
# pretend PROGRAM < its script.
pretend() { { echo '#!/bin/sh'; cat; } >"$ready/$1" && chmod +x "$ready/$1"; }

ready=$place/machine/borrowed/ready
run 0 prepare
expect "$place/prepare.txt" 'packed: .*ready.tar.xz, .* for: 90a'
expect "$ready/tests.tsv" '^graph_test' '^fuzz_test' '^first_call:gemm_wgmma_sm90_keeps_the_bound_of_fast_for_nvfp4.*gpu_experimental'

# A and B of a machine without xz.
rm -rf "$ready" "$place/out"
PATH=$place/tools:$place/without_xz run 0 a
expect "$place/a.txt" '^device.passed.specific: true, architecture 80, compiled for 90a' '^graph_test.*passed' ', 0 not passed'
expect "$place/out/a.tsv" '^first_call:gemm_wgmma.*skipped' 'bench.memory.passed' 'bench.layers.passed' 'bench.products.passed' 'torch.package.passed' 'torch.step.passed' 'torch.tests.passed' 'limits.passed' \
  'ncu quantize_both/nvfp4/bf16 + RHT-16 + SR.passed'
expect "$place/out/device.txt" 'CPU simulator' '== nvidia-smi'
expect "$place/out/bench.json" '"kind": "run"' '"name": "probe/mma.sync.f16"' '"kernel": "gemm_bf16_sm80"' '"kind": "torch"' \
  '"name": "layer/ufp4/step".*"launches": 9, "bytes": 118784, "needed": 57344'
cp "$place/out/bench.json" "$place/a.json"
run 0 b --tests graph_test --profile 'gemm/nvfp4/fast/64x;quantize/nvfp4/bf16 + RHT-16 + SR of'
expect "$place/out/b.tsv" 'graph_test.passed' 'memcheck of graph_test.passed' 'three_blocks: own.passed' 'library_first: again.passed' \
  'clusters_of_4: clusters_of_4.passed' 'ncu gemm/nvfp4/fast/64x.passed' 'SR of.passed'
expect "$place/out/b.log" '^==== graph_test' 'All tests passed' '^==== memcheck of graph_test'
expect "$place/out/bench.json" '"variant": "three_blocks: own"' '"variant": "three_blocks: three_blocks"'
run 0 page "$place/a.json" "$place/out/bench.json" "$place/out/performance-gpu.md"
expect "$place/out/performance-gpu.md" '^| decode/e2m1 to f16 |' '^| mma.sync.f16 | 28 | 28 | nearest | kept | yes |' \
  '^| copy | .* | 1.00 |' '^| 64x64x64 | nvfp4 | exact_blocks | gemm_blocks' '^\*\*A rehearsal' '^| three_blocks | quantize/nvfp4/bf16 |' \
  '^| ufp4 | step | .* | 9 |' '^| nn.Linear, bf16/step | 1.0 |' '^| quantize, bf16, RHT-16 + SR | `quantize_lanes` | 0.[0-9]* |'

# A test that fails, and one that hangs; B has the whole log. An experimental kernel that hangs is not measured.
printf '%s\n' $'fails\t9\techo the whole log; exit 1' $'hangs\t1\tsleep 60' $'first_call:gemm_bf16_sm80_keeps_nothing\t1\tsleep 60' >>"$ready/tests.tsv"
run 1 a --seconds 240
expect "$place/out/a.tsv" 'fails.FAILED' 'hangs.took too long' 'graph_test.passed'
expect "$place/out/a.failures.log" '==== fails: FAILED' '^the whole log' '==== hangs'
! grep -q '"kernel": "gemm_bf16_sm80"' "$place/out/bench.json" || { echo "FAILED: a kernel that hangs was measured"; status=1; }
run 1 b --tests fails --variants - --profile 'gemm/nvfp4/fast/64x'
expect "$place/out/b.log" '^==== fails' '^the whole log'
run 0 b --tests 'h_test none' --variants 'five_blocks' --profile 'gemm/nvfp4/fast/64x' --leave-out gemm_bf16_sm80
expect "$place/out/b.tsv" '^h_test.skipped.there is no such test' '^none.skipped' 'five_blocks.skipped'

# Of a command whose time is over, the table has what did not begin. The time that later steps need is kept for them.
run 1 a --seconds 0
expect "$place/out/a.tsv" 'graph_test.not begun' 'hangs.not begun' 'bench.memory.not begun'
run 1 a --seconds 180
expect "$place/out/a.tsv" 'graph_test.not begun' 'bench.memory.passed'
# A bench that ends in the middle runs again without the kernels that have not run before.
mv "$ready/gpu_bench" "$ready/own_bench"
pretend gpu_bench <<'END'
case $* in *"|gemm_wgmma_sm90|"*) exec ./own_bench "$@" ;; esac
./own_bench "$@" | grep -v '"end"'; exit 1
END
run 1 a
expect "$place/out/a.tsv" 'bench.layers.FAILED' 'bench.layers.again.passed'
mv "$ready/own_bench" "$ready/gpu_bench"

# The probe of accumulators finds what the simulator does.
UFP4_SIMT_SUMS=truncated "$ready/gpu_limits" --small --only probe >"$place/probe.txt"
expect "$place/probe.txt" 'mma.sync.bf16", "kept_bits": 23, "kept_bits_with_sum": 23, "rounding": "truncated", .*"bound": true'

# A GPU for which the programs have no code; code of another family's; programs that do not start; no GPU; no archive. Each says why.
pretend gpu_limits <<<'echo "bench: no code for this GPU" >&2; exit 78'
run 1 a
expect "$place/a.txt" 'the programs have code for 90a: bench: no code for this GPU. Prepare with --targets 90a'
pretend gpu_limits <<<'echo "{\"specific\": false, \"architecture\": 100}"'
run 1 a
expect "$place/out/a.tsv" '^device.FAILED.specific: false, architecture 100'
expect "$place/a.txt" 'no kernel of this family would be chosen: prepare with --targets'
pretend gpu_limits <<<'echo no library >&2; exit 127'
run 1 b
expect "$place/b.txt" 'do not run here (exit status 127): no library'
pretend gpu_limits <<<'exit 77'
run 77 a
rm -rf "$ready" && mv "$place/machine/borrowed/ready.tar.xz" "$place"
run 1 a
expect "$place/a.txt" 'ready.tar.xz is missing'

# The same for AMD, whose rows name AMD's kernels.
rm -rf "$place/out"
export UFP4_SIMT_TARGET=gfx90a
run 0 prepare --vendor amd
rm -rf "$ready"
run 0 a --vendor amd
expect "$place/out/a.tsv" '^graph_test.*passed' 'bench.products.passed' 'torch.step.skipped.no package'
expect "$place/out/bench.json" '"kernel": "gemm_bf16_gfx90a"' '"kernel": "gemm_blocks_gfx90a"'
run 0 page --vendor amd "$place/out/bench.json" "$place/out/performance-gpu-amd.md"
expect "$place/out/performance-gpu-amd.md" '^| 64x64x64 | nvfp4 | exact_blocks | gemm_blocks_gfx90a'
run 0 b --vendor amd --tests graph_test --variants three_blocks
expect "$place/out/b.tsv" 'graph_test.passed' 'three_blocks: again.passed'

files=$(find "$place/out" -type f | wc -l)
[ "$files" -le 8 ] || { echo "FAILED: $files files in OUT, of which eight return"; status=1; }
echo "rehearsed in $SECONDS s"
exit $status
