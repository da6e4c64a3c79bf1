#!/usr/bin/env bash
# ufp4 - checks which instructions the kernels' code for an AMD architecture contains, and that values are kept in registers.
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/gpu/isa_check.sh TARGET FILE.s    (compile_hip.sh calls this; UFP4_ISA_NAMES=1 names the kernels)
# Prints for each instruction family of the target which kernels contain it. Exit status 1 if there are no kernels, if a family is
# missing, if a kernel keeps values in memory ("scratch", which its threads have instead of a stack) beyond what is explained below,
# if one approximates a quotient, or takes subnormal numbers for zero.
set -uo pipefail
target=$1 assembly=$2

# targets | instruction, as a regular expression | what it is of
families=(
  "gfx90a|v_mfma_f32_[0-9x]*_?f16|exact_blocks, blocks as fp16"
  "gfx90a|v_mfma_f32_[0-9x]*_?bf16|fast, decoded to bf16"
  "gfx942 gfx950|v_mfma_f32_16x16x16_f16|exact_blocks, blocks as fp16"
  "gfx942 gfx950|v_mfma_f32_16x16x16_bf16|fast, decoded to bf16"
  "gfx950|v_mfma_f32_16x16x32_bf16|fast, decoded to bf16"
  "gfx950|v_mfma_scale_f32_16x16x128_f8f6f4|native blocks"
  "gfx1100 gfx1201|v_wmma_f32_16x16x16_f16|exact_blocks, blocks as fp16"
  "gfx1100 gfx1201|v_wmma_f32_16x16x16_bf16|fast, decoded to bf16"
  "gfx1100 gfx1201|v_wmma_i32_16x16x16_iu4|exact_blocks, grids of 4-bit integers"
  "gfx1201|v_wmma_i32_16x16x32_iu4|exact_blocks, grids of 4-bit integers, blocks of 32 and longer"
  "gfx90a gfx942 gfx950 gfx1100 gfx1201|ds_bpermute_b32|transforms and amax across lanes"
)
# kernel, as a regular expression | bytes of scratch a thread | why
scratch=(
  "quantize_blocks|2000|the codec as it stands: a reference, whose loops over a block and a grid index memory"
  "quantize_extended|4700|the codec with every choice: up to 256 values of a block, three times; a block's exponents and its grid are indexed"
  "d[a-z]*_extended|910|the grid that a block chose is indexed"
  "quantize_[a-z]*<2|160|a grid without a plan: sixteen values and their random bits, indexed in a loop"
  "quantize_tiles<[01], true|40|scalar registers that are kept in vector registers"
)
# clang 15 copies a kernel's parameter whose elements are indexed at run time, which newer versions read in place.
if grep -q 'clang version 1[0-6]\.' "$assembly"; then
  scratch+=("quantize_[a-z]*<2|2900|clang 15 copies the formats of both sides, each with four grids"
    "quantize_blocks|4000|clang 15 copies three formats" "quantize_[a-z]*<[01]|32|scalar registers, as above")
fi

# per_kernel: one line a kernel, "name scratch spilled-vector-registers", from the metadata at the file's end.
per_kernel() {
  awk '$1 == ".name:" && $2 !~ /^(block|x|y)$/ { name = $2 } $1 == ".private_segment_fixed_size:" { size = $2 }
    $1 == ".vgpr_spill_count:" { print name, size, $2 }' "$assembly" | c++filt |
    sed -e 's/v0_1_hip:://g; s/v0_1_baseline:://g; s/v0_1:://g; s/void //; s/ufp4::gpu::kernels:://g; s/ufp4::gpu:://g; s/ufp4:://g; s/<void>//' \
      -e 's/([a-z_]*)\([0-9]\)/\1/g' -e 's/(.*) \([0-9]* [0-9]*\)$/ \1/'
}
# kernels_with PATTERN
kernels_with() {
  awk -v pattern="$1" '/^_Z[A-Za-z0-9_]*:/ { name = $1 } $0 ~ pattern { found[name] = 1 } END { for (n in found) print n }' "$assembly" |
    tr -d : | c++filt | sed 's/(.*//; s/v0_1_hip:://g; s/^void //; s/ufp4::gpu::kernels:://g; s/ufp4:://g; s/<void>$//' | sort
}
# A reciprocal is corrected to the quotient, which v_div_fixup ends, or is the begin of a quotient of 64-bit integers, which
# multiplies it by 2^64 less a little.
approximate() {
  awk '/^_Z[A-Za-z0-9_]*:/ { name = $1 } /v_(s_)?rcp_f32/ { ++reciprocals[name] } /v_div_fixup_f32|0x5f7ffffc/ { ++uses[name] }
    END { for (n in reciprocals) if (reciprocals[n] > uses[n]) print n }' "$assembly" | tr -d : | c++filt | sed 's/(.*//'
}

status=0
for family in "${families[@]}"; do
  IFS='|' read -r targets pattern what < <(awk -F'|' '{ p = $2; for (i = 3; i < NF; ++i) p = p "\001" $i; print $1 "|" p "|" $NF }' <<<"$family")
  pattern=${pattern//$'\001'/|}
  case " $targets " in *" $target "*) ;; *) continue ;; esac
  kernels=$(kernels_with "$pattern")
  if [ -z "$kernels" ]; then
    printf 'FAILED   %-8s %-40s in no kernel: %s\n' "$target" "$pattern" "$what"
    status=1
  else
    printf '%-8s %-40s in %2d kernels: %s\n' "$target" "$pattern" "$(wc -l <<<"$kernels")" "$what"
    [ -z "${UFP4_ISA_NAMES:-}" ] || sed 's/^/    /' <<<"$kernels"
  fi
done

count=0
while read -r line; do
  spilled=${line##* } line=${line% *}
  size=${line##* } name=${line% *} allowed=0
  count=$((count + 1))
  for entry in "${scratch[@]}"; do
    IFS='|' read -r pattern bytes _ <<<"$entry"
    if [[ $name =~ $pattern ]] && [ "$bytes" -gt $allowed ]; then allowed=$bytes; fi
  done
  [ "$size" -gt $allowed ] || continue
  echo "FAILED   $target: $name keeps $size bytes of a thread in memory ($spilled registers spilled)"
  status=1
done < <(per_kernel)
if [ "$count" -eq 0 ]; then
  echo "FAILED   $target: no kernels in $assembly"
  status=1
fi
while read -r name; do
  [ -n "$name" ] || continue
  echo "FAILED   $target: $name approximates a quotient: it must be compiled without -fno-hip-fp32-correctly-rounded-divide-sqrt"
  status=1
done < <(approximate)
if grep -q 'amdhsa_float_denorm_mode_32 [0-2]' "$assembly"; then
  echo "FAILED   $target: subnormal numbers become zero: it must be compiled without -fgpu-flush-denormals-to-zero"
  status=1
fi
[ $status -ne 0 ] || echo "$target: $count kernels, none with values in memory that belong in registers, approximate quotients or lost subnormals"
exit $status
