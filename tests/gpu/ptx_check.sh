#!/usr/bin/env bash
# ufp4 - checks which instructions the kernels' PTX contains, and that none changes the promised bits.
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/gpu/ptx_check.sh TARGET FILE.ptx    (TARGET: 80, 90a, 100a, 120a; compile.sh calls this; UFP4_PTX_NAMES=1 names
# the kernels)
# Prints for each instruction family of the target which kernels contain it, and whether the tests run it in the CPU simulator;
# exit status 1 if a family is missing, or if any instruction flushes subnormals (.ftz) or approximates (.approx).
set -uo pipefail
target=$1 ptx=$2

# targets | instruction, as a regular expression | what it is of | how its logic is tested without a GPU
families=(
  "80 90a 100a 120a|mma\.sync\.aligned\.m16n8k32\.row\.col\.s32\.s8|exact_blocks, blocks of 32 and more|run in the CPU simulator"
  "80 90a 100a 120a|mma\.sync\.aligned\.m16n8k16\.row\.col\.s32\.s8|exact_blocks, blocks of 16|run in the CPU simulator"
  "80 90a 100a 120a|mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16|fast, decoded to bf16|run in the CPU simulator"
  "80 90a 100a 120a|mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16|fast with few rows, decoded to fp16|run in the CPU simulator"
  "80 90a 100a 120a|ldmatrix\.sync|operands out of shared memory|run in the CPU simulator"
  "80 90a 100a 120a|cp\.async\.c[ag]\.|several stages of copies|run in the CPU simulator"
  "80 90a 100a 120a|shfl\.sync\.bfly|transforms and amax across lanes|run in the CPU simulator"
  "90a|wgmma\.mma_async|fast on Hopper, experimental|run in the PTX interpreter"
  "90a|cp\.async\.bulk|its copies|run in the PTX interpreter"
  "100a|tcgen05\.mma|native blocks on Blackwell (data centre), experimental|run in the PTX interpreter"
  "120a|cp\.async\.bulk|copies of codes for native products|run in the CPU simulator"
  "120a|kind::mxf4nvf4|native nvfp4|run in the CPU simulator"
  "120a|kind::mxf4\.|native mxfp4|run in the CPU simulator"
  "120a|kind::mxf8f6f4|uniform grids in containers|run in the CPU simulator"
)

# kernels_with PATTERN: the names of the entries whose bodies match.
kernels_with() {
  awk -v pattern="$1" '
    /^(\.visible |\.weak )*\.(entry|func) / { name = $0; sub(/.*\.(entry|func) (\(.*\) )?/, "", name); sub(/\(.*/, "", name) }
    name != "" && $0 ~ pattern { found[name] = 1 }
    END { for (n in found) print n }' "$ptx" | c++filt | sed -e 's/v0_1_cuda:://g; s/v0_1_baseline:://g; s/v0_1:://g' \
    -e 's/^void //; s/ufp4::gpu::kernels:://g; s/ufp4::gpu:://g; s/ufp4:://g; s/(.*//; s/<void>$//' | sort
}

status=0
for family in "${families[@]}"; do
  IFS='|' read -r targets pattern what how <<<"$family"
  case " $targets " in *" $target "*) ;; *) continue ;; esac
  kernels=$(kernels_with "$pattern")
  if [ -z "$kernels" ]; then
    printf 'FAILED                   sm_%-5s %-46s in no kernel: %s\n' "$target" "${pattern//\\/}" "$what"
    status=1
  else
    printf '%-24s sm_%-5s %-46s in %2d kernels: %s\n' "$how" "$target" "${pattern//\\/}" "$(wc -l <<<"$kernels")" "$what"
    [ -z "${UFP4_PTX_NAMES:-}" ] || sed 's/^/    /' <<<"$kernels"
  fi
done

for word in '\.ftz' '\.approx'; do
  kernels=$(kernels_with "$word")
  [ -z "$kernels" ] && continue
  echo "FAILED   sm_$target: ${word#\\} in" $kernels
  status=1
done
[ $status -ne 0 ] || echo "sm_$target: no .ftz and no .approx in $(grep -c '\.entry ' "$ptx") kernels"
exit $status
