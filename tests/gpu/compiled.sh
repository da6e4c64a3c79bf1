#!/usr/bin/env bash
# ufp4 - every operation on the compiled code of sm_80 and sm_90a, and the native products of sm_100a and sm_120a, in the PTX interpreter.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/gpu/compiled.sh [--out FOLDER] [--write-budgets]
  --write-budgets   writes tests/gpu/ptx/budgets.txt anew, instead of comparing with it
Needs nvcc and Catch2, and no GPU. Without them the exit status is 77, with a message.'
set -uo pipefail

unset CDPATH
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${UFP4_BUILD_DIR:-$source_dir/build}/compiled write_budgets=
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift ;;
    --write-budgets) write_budgets=yes ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
  shift
done

# shellcheck source=cmake/bare_machine.sh
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
if ! nvcc=$(find_nvcc); then
  echo "SKIPPED: there is no nvcc here, so no compiled code ran in the PTX interpreter"
  exit 77
fi
if ! have_catch2; then
  echo "SKIPPED: no Catch2, so no compiled code ran in the PTX interpreter"
  exit 77
fi
mkdir -p "$out" && out=$(cd -- "$out" && pwd) && ln -sfn "$source_dir" "$out/source" && cd "$out" || exit 2
rm -f ./*.log ./counts.* ./launches.* ./*.table
version=$("$nvcc" --version | sed -n 's/^Cuda compilation tools, release \([0-9.]*\),.*/\1/p')
echo "nvcc $version"

# ---- Compile: the operations for both architectures, the CPU kernels, Catch2; then the interpreter, and link ----
# shellcheck disable=SC2317 # called through xargs
work() {
  case $1 in
    operations)
      "$nvcc" -x cu -std=c++20 -Isource/include -Isource/tests -DUFP4_EXTERNAL_KERNELS --threads 2 --no-compress \
        -gencode arch=compute_80,code=compute_80 -gencode arch=compute_90a,code=compute_90a \
        -c source/tests/gpu/ptx/operations.cu -o operations.o ;;
    tcgen05_products | block_mma_products)
      local target=100a
      [ "$1" = tcgen05_products ] || target=120a
      "$nvcc" -x cu -std=c++20 -Isource/include -Isource/tests -DUFP4_EXTERNAL_KERNELS --no-compress \
        -gencode "arch=compute_$target,code=compute_$target" -c "source/tests/gpu/ptx/$1.cu" -o "$1.o" ;;
    kernels) g++ -std=c++20 -O1 -Isource/include -Isource/tests -c source/tests/support/kernels.cpp -o cpu_kernels.o ;;
    main) g++ -std=c++20 -Isource/include -Isource/tests -c source/tests/support/main.cpp -o main.o ;;
    *) "$nvcc" -std=c++20 -O2 -Isource/tests -Xcompiler -Wall,-Wextra -c "source/tests/gpu/ptx/$1.cpp" -o "ptx_$1.o" ;;
  esac >"$1.log" 2>&1 || { echo "does not compile: $1"; cat "$1.log"; exit 255; }
}
export nvcc
export -f work
interpreter=$(cd "$source_dir/tests/gpu/ptx" && for f in *.cpp; do echo "${f%.cpp}"; done)
# shellcheck disable=SC2086 # a list of words
printf '%s\n' operations tcgen05_products block_mma_products kernels main $interpreter |
  xargs -P "${UFP4_JOBS:-$(nproc)}" -I {} bash -c 'work {}' || exit 1
libraries=(-lpthread -ldl)
if has_header catch2/catch_all.hpp; then libraries=(-lCatch2 "${libraries[@]}"); fi
for program in operations tcgen05_products block_mma_products; do
  g++ "$program.o" cpu_kernels.o main.o ptx_*.o "${libraries[@]}" -o "$program" || exit 1
done
echo "compiled: $SECONDS s"

status=0
fail() {
  echo "FAILED: $1"
  status=1
}
# run DEVICE ORDER LOG [TEST CASE]
run() {
  local program=operations
  case $1 in 100) program=tcgen05_products ;; 120) program=block_mma_products ;; esac
  UFP4_PTX_DEVICE=$1 UFP4_PTX_ORDER=$2 timeout 600 "./$program" "${@:4}" >"$3" 2>&1
}

# ---- Every operation on two architectures, native products on two others; products again in another order of warps and copies ----
for device in 80 90 100 120; do
  export UFP4_PTX_COUNTS=$out/launches.$device UFP4_PTX_WRITE=$out/operations.$device.ptx
  run "$device" 0 "run.$device.log" || { fail "sm_$device"; grep -v '^count' "run.$device.log" | head -60; }
  unset UFP4_PTX_COUNTS UFP4_PTX_WRITE
  run "$device" 1 "run.$device.backwards.log" 'products with*,the products of tcgen05 in *,block-scaled products of *' || { fail "sm_$device, backwards"; head -60 "run.$device.backwards.log"; }
  grep '^count' "run.$device.log" | sed 's/^count //' >"counts.$device"
done
echo "every operation: $SECONDS s"

# ---- Which kernels ran ----
# Those of other architectures are traps in this code, or prepare what Blackwell multiplies; the probe is never launched.
not_here='block_mma_tiles|tcgen05_tiles|compiled_probe|swizzle_rows|widen_codes'
for device in 80 90 100 120; do
  wgmma=''
  [ "$device" = 90 ] || wgmma='|wgmma|multiply_block_sums|decode_scales'
  required=.
  case $device in # the others are compiled beside them
    100) not_here=compiled_probe required='tcgen05_tiles|multiply_simt' ;;
    120) not_here=compiled_probe required=block_mma_tiles ;;
  esac
  entries=$(sed -n 's/^\(\.visible \)\?\(\.weak \)\?\.entry \([A-Za-z0-9_$]*\).*/\3/p' "operations.$device.ptx")
  ran=()
  for entry in $entries; do
    if grep -q "^$entry " "launches.$device"; then
      ran+=("$entry")
    elif [[ $entry =~ $required ]] && ! [[ $entry =~ $not_here$wgmma ]]; then
      fail "sm_$device: no operation launched $(c++filt "$entry")"
    fi
  done
  echo "sm_$device: ${#ran[@]} kernels ran in $(wc -l <"launches.$device") launches:"
  printf '%s\n' "${ran[@]}" | c++filt | sed 's/^void //; s/([a-z0-9_:]*)\([0-9]\)/\1/g; s/(.*//; s/v[0-9_]*cuda:://g; s/ufp4::gpu:://g; s/^/  /'
done

# ---- Instructions ----
echo
printf '%-6s %-42s %12s %12s %9s\n' target operation 'per warp' 'per element' products
cat counts.80 counts.90 counts.100 counts.120 | while read -r target name warp element products; do
  printf '%-6s %-42s %12s %12s %9s\n' "$target" "$name" "$warp" "$element" "$products"
done | tee counts.table
budgets=$source_dir/tests/gpu/ptx/budgets.txt
if [ -n "$write_budgets" ]; then
  {
    echo "# ufp4 - instructions of PTX per element of each operation; compiled.sh fails if a count is more than 1% higher."
    echo "# SPDX-License-Identifier: Apache-2.0"
    echo "nvcc $version"
    cat counts.80 counts.90 counts.100 counts.120 | awk '{ print $1, $2, $4 }'
  } >"$budgets"
elif [ "$(sed -n 's/^nvcc //p' "$budgets")" != "$version" ]; then
  echo "budgets.txt was written with nvcc $(sed -n 's/^nvcc //p' "$budgets"): no count is compared"
else
  over=$(cat counts.80 counts.90 counts.100 counts.120 | awk '
    NR == FNR { if (NF == 3) budget[$1 " " $2] = $3; next }
    !(($1 " " $2) in budget) { print $1, $2, "has no budget"; next }
    $4 > budget[$1 " " $2] * 1.01 { print $1, $2, $4, "instructions per element, budget", budget[$1 " " $2] }
  ' "$budgets" -)
  [ -z "$over" ] || fail "$over"
fi

# ---- Mutants: each change of the compiled code must be noticed ----
# An operand register of every line that matches is replaced by its exclusive or with a constant.
descriptor='s/^\(.*wgmma\.mma_async.*}.*, \)\(%rd[0-9]*\), \([a-z0-9]\|%p\)\(.*;\)/{ .reg .b64 mutant; xor.b64 mutant, \2, CHANGE; \1mutant, \3\4 }/'
tensor_descriptor='s/^\(.*tcgen05\.mma[^,]*, \)\(%rd[0-9]*\)\(.*;\)/{ .reg .b64 mutant; xor.b64 mutant, \2, CHANGE; \1mutant\3 }/'
mutants=(
  "swizzle 90 0 ${descriptor/CHANGE/0xC000000000000000}"
  "descriptor_stride 90 0 ${descriptor/CHANGE/0x200000000}"
  "barrier_phase 90 0 s/\(mbarrier\.try_wait\.parity[^;]*\], \)[^;,]*/\10/"
  "expected_bytes 90 0 s/\(mbarrier\.arrive\.expect_tx[^;]*\], \)[^;,]*/\116/"
  "async_fence 90 0 s/fence\.proxy\.async[^;]*;//"
  "wgmma_fence 90 0 s/wgmma\.fence[^;]*;//"
  "wgmma_wait 90 1 s/\(wgmma\.wait_group[a-z.]*\) [0-9]*;/\1 7;/"
  "copy_wait 80 0 s/\(cp\.async\.wait_group\) [0-9]*;/\1 7;/"
  "block_barrier 80 1 s/bar\.sync\(.*\);//"
  "shuffle 80 0 s/shfl\.sync\.bfly/shfl.sync.down/"
  "tcgen05_descriptor 100 0 ${tensor_descriptor/CHANGE/0x4000000000000000}"
  "tcgen05_scales 100 0 s/\(tcgen05\.mma[^[]*\[[^]]*\][^[]*\[\)[^]]*\(\], \[\)\([^]]*\)/\1\3\2\3/"
  "tcgen05_commit 100 0 s/tcgen05\.commit[^;]*;//"
  "tcgen05_wait 100 0 s/tcgen05\.wait::ld[^;]*;//"
  "tcgen05_fence_before 100 0 s/tcgen05\.fence::before_thread_sync;//"
  "tcgen05_fence_after 100 0 s/tcgen05\.fence::after_thread_sync;//"
  "tcgen05_phase 100 0 s/\(mbarrier\.try_wait\.parity[^;]*\], \)[^;,]*/\10/"
  "tcgen05_async_fence 100 0 s/fence\.proxy\.async[^;]*;//"
  "pair_phase 100 0 s/\(mbarrier\.try_wait\.parity\.acquire\.cluster[^;]*\], \)[^;,]*/\11/"
  "pair_commit 100 0 s/\(tcgen05\.commit[^;]*multicast[^;]*\], \)[^;]*/\11/"
  "pair_arrival 100 0 s/mbarrier\.arrive\.release\.cluster[^;]*;//"
  "block_mma_phase 120 0 s/\(mbarrier\.try_wait\.parity[^;]*\], \)[^;,]*/\10/"
  "block_mma_expected_bytes 120 0 s/\(mbarrier\.arrive\.expect_tx[^;]*\], \)[^;,]*/\116/"
  "block_mma_box_column 120 0 s/\(cp\.async\.bulk\.tensor[^{]*{\)[^,]*,/\10,/"
  "block_mma_copy_wait 120 0 s/\(cp\.async\.wait_group\) [0-9]*;/\1 7;/"
  "block_mma_arrivals 120 1 s/\(mbarrier\.init[^;]*\], \)[^;]*;/\11;/"
)
echo
# mutant NAME DEVICE ORDER SED: prints a line; the status is 0 if a test failed.
mutant() {
  sed "$4" "operations.$2.ptx" >"mutant.$1.ptx"
  if cmp -s "operations.$2.ptx" "mutant.$1.ptx"; then
    echo "mutant $1: changes nothing"
    return 1
  fi
  local cases='products with*'
  case $1 in
    shuffle) cases='quantize*' ;;
    tcgen05_*) cases='the products of tcgen05 in one*' ;;
    pair_*) cases='the products of tcgen05 in pairs*' ;;
    block_mma_*) cases='block-scaled products of codes that TMA copies*' ;;
  esac
  if UFP4_PTX_REPLACE=mutant.$1.ptx run "$2" "$3" "mutant.$1.log" "$cases"; then
    echo "mutant $1: not noticed"
    return 1
  fi
  local why
  why=$(sed -n 's/^ptx: .*warp [0-9]*: //p; s/^ptx: .*line 0: //p' "mutant.$1.log" | cut -c 1-90 | head -n 1)
  echo "mutant $1: noticed: ${why:-other bits}"
  rm -f "mutant.$1.ptx"
}
for m in "${mutants[@]}"; do
  read -r name device order change <<<"$m"
  mutant "$name" "$device" "$order" "$change" || fail "mutant $name"
done

echo
echo "\"interpreted\": the PTX that nvcc made ran, instruction by instruction; ptxas, the hardware's rounding and time did not."
echo "compiled.sh: $SECONDS s"
exit $status
