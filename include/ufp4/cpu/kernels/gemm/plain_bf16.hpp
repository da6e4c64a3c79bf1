// ufp4 - plain operands as sums of bf16 numbers, for kernels that multiply bf16 without a rounding of operands.
// SPDX-License-Identifier: Apache-2.0
//
// A bf16 element is one term. A binary16 element, of 11 significant bits, is the sum of two: its value rounded to bf16,
// and the rest, which has at most 3. Elements of binary32 would need three; kernels in binary32 multiply them.
//
// bf16 units treat subnormal operands as zeros, and some flush sums below 2^-126. Elements below least_plain are
// therefore multiplied by fma, in the same order, from the same words. For all others a product with a value of a grid
// that has_plain_values accepts is a multiple of 2^-126, and so are all sums of such products: none is subnormal.
#pragma once

#include <ufp4/cpu/kernels/gemm/gemm_integers.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// Bits of 2^-95, whose last place in bf16 is 2^-102. All binary16 numbers but 0 and their terms are larger.
inline constexpr std::uint32_t least_plain_bits = (127u - 95) << 23;

/// How many bf16 numbers an element is the exact sum of; 0: more than two.
constexpr std::size_t bf16_terms(const gemm_operand& side) {
  if (side.is_quantized || side.plain.transform.n != 1) return 0;
  if (side.plain.x.kind == dtype::bf16 || side.plain.rounds_input_to_bf16) return 1;
  return side.plain.x.kind == dtype::fp16 ? 2 : 0;
}

/// Values are bf16 numbers and multiples of 2^-24, at most 2^40.
inline bool has_plain_values(const gemm_operand& side) {
  return side.exact() && side.q.format.grid.unit >= 0x1p-24f && has_short_values(side.q.format, 8);
}

/// What kernels of the fast mode for plain operands need: a plain left one of few terms, and weights on the right.
inline bool plain_fits(const gemm_job& job) {
  return job.mode == accumulate::fast && job.block % 8 == 0 && bf16_terms(job.left) != 0 && has_plain_values(job.right);
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
