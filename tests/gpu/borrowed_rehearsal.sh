#!/usr/bin/env bash
# ufp4 - every command of borrowed.sh without a GPU: the compiler builds the CPU simulator, the vendors' tools are scripts.
# SPDX-License-Identifier: Apache-2.0
# Checks what the commands leave: also where a test fails or hangs, where the archive's programs do not run, without a GPU.
usage='usage: tests/gpu/borrowed_rehearsal.sh [LIBRARY]: libufp4_gpu_kernels.a of a build; it is compiled without it'
set -uo pipefail
unset CDPATH
[ $# -le 1 ] || { echo "$usage" >&2; exit 2; }
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
if ! have_catch2 || ! have_programs xz cmake; then
  echo "SKIPPED: no Catch2, xz or cmake, so borrowed.sh was not rehearsed"
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
case $* in --tool\ *check\ --error-exitcode\ 99\ ./gpu_*) exec "${@:5}" ;; esac
echo "unexpected: $*"; exit 1
END
tool ncu <<'END'
case $1 in --version) echo ncu; exit ;; esac
case $* in "--clock-control none --profile-from-start off --launch-count "*) ;; *) echo "unexpected: $*"; exit 1 ;; esac
while [ "$1" != ./gpu_bench ]; do shift; done
case $* in *8192x*) exit ;; esac # a shape that a rehearsal leaves out
"$@" | grep '"us"' || { echo "no row: $*"; exit 1; }
END

export PATH=$place/tools:$PATH UFP4_BUILD_DIR=$place/machine UFP4_BORROWED_FLAGS=-O0 UFP4_BORROWED_SMALL=--small \
  UFP4_BORROWED_FUZZ=1 UFP4_BORROWED_TESTS='graph|fuzz|kernel_choice' UFP4_BORROWED_EXPERIMENTAL=experimental
status=0
# run STATUS COMMAND...: its output is $place/<command>.txt.
run() {
  local wanted=$1 began=$SECONDS got
  OUT=$place/out bash "$source_dir/tests/gpu/borrowed.sh" "${@:2}" >"$place/$2.txt" 2>&1
  got=$?
  echo "$2: exit status $got, $((SECONDS - began)) s"
  [ "$got" -eq "$wanted" ] || { echo "FAILED: wanted $wanted"; cat "$place/$2.txt"; status=1; }
}
# expect FILE TEXT...
expect() {
  local text
  for text in "${@:2}"; do
    grep -q -- "$text" "$1" 2>/dev/null || { echo "FAILED: ${1#"$place"/} has no '$text'"; status=1; }
  done
}

ready=$place/machine/borrowed/ready
run 0 prepare
expect "$place/prepare.txt" 'packed: .*ready.tar.xz'
expect "$ready/tests.tsv" '^graph_test' '^fuzz_test' '^kernel_choice_test' '^experimental_test, experimental.*gpu_experimental'

rm -rf "$ready"
run 0 call1
expect "$place/call1.txt" '^"specific": true' '^graph_test.*passed' '^kernel_choice_test.*passed' \
  'call1: 4 steps, 0 not passed'
expect "$place/out/device.txt" 'CPU simulator' '== nvidia-smi'

printf 'fails\t9\techo the whole log; exit 1\nhangs\t1\tsleep 60\n' >>"$ready/tests.tsv"
run 1 call1
expect "$place/out/call1.tsv" 'fails.FAILED' 'hangs.took too long' 'graph_test.passed'
expect "$place/out/call1.failures.log" '==== fails: FAILED' '^the whole log' '==== hangs'

# Of a call whose time is over, the table has what did not begin.
run 1 call1 --seconds 0
expect "$place/out/call1.tsv" 'graph_test.not begun' 'hangs.not begun'

run 0 call2
expect "$place/out/call2.tsv" 'gpu_limits.passed' 'gpu_bench.passed' 'ncu quantize_both/nvfp4/bf16.passed'
expect "$place/out/bench.json" '"kind": "run"' '"name": "probe/mma.sync.f16"' '"kernel": "gemm_bf16_sm80"'
run 0 page "$place/out/bench.json" "$place/out/performance-gpu.md"
expect "$place/out/performance-gpu.md" '^| decode/e2m1 to f16 |' '^| mma.sync.f16 | 28 | 28 | nearest | kept | yes |' \
  '^| copy | .* | 1.00 |' '^| 64x64x64 | nvfp4 | exact_blocks | gemm_blocks' '^\*\*A rehearsal'

run 0 call3
expect "$place/out/call3.tsv" 'memcheck.*passed' 'synccheck.*passed' 'racecheck.*passed' 'fuzz of gpu_tests, seed .*passed'

# The probe of accumulators finds what the simulator does.
UFP4_SIMT_SUMS=truncated "$ready/gpu_limits" --small --only probe >"$place/probe.txt"
expect "$place/probe.txt" 'mma.sync.bf16", "kept_bits": 23, "kept_bits_with_sum": 23, "rounding": "truncated", .*"bound": true'

# Where the bench alone does not run, the tests do. The archive's programs do not run: they are built there. Without a GPU nothing is.
UFP4_BORROWED_TESTS=graph UFP4_BORROWED_EXPERIMENTAL=none
printf '#!/bin/sh\necho no library >&2; exit 127\n' >"$ready/gpu_bench"
sed -i '/^fails\|^hangs/d' "$ready/tests.tsv"
run 0 call1
expect "$place/call1.txt" '^no library' 'the tests do' '^graph_test.*passed'
for program in "$ready"/gpu_*; do printf '#!/bin/sh\nexit 1\n' >"$program"; done
run 0 call1
expect "$place/call1.txt" 'do not run here' 'call1: 1 steps, 0 not passed'
printf '#!/bin/sh\nexit 77\n' >"$ready/gpu_bench"
run 77 call2

# The same for AMD, whose rows name AMD's kernels.
rm -rf "$place/out"
export UFP4_SIMT_TARGET=gfx90a UFP4_BORROWED_TESTS='graph|fuzz'
run 0 prepare --vendor amd
rm -rf "$ready"
run 0 call1 --vendor amd
expect "$place/call1.txt" '^graph_test.*passed' 'call1: 2 steps, 0 not passed'
run 0 call2 --vendor amd
expect "$place/out/call2.tsv" 'gpu_bench.passed'
expect "$place/out/bench.json" '"kernel": "gemm_bf16_gfx90a"' '"kernel": "gemm_blocks_gfx90a"'
run 0 page --vendor amd "$place/out/bench.json" "$place/out/performance-gpu-amd.md"
expect "$place/out/performance-gpu-amd.md" '^| 64x64x64 | nvfp4 | exact_blocks | gemm_blocks_gfx90a'
run 0 call3 --vendor amd
expect "$place/out/call3.tsv" 'compute-sanitizer.skipped' 'fuzz of gpu_tests, seed .*passed'

files=$(find "$place/out" -type f | wc -l)
[ "$files" -le 8 ] || { echo "FAILED: $files files in OUT, of which eight return"; status=1; }
echo "rehearsed in $SECONDS s"
exit $status
