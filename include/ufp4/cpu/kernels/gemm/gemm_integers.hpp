// ufp4 - the grids of a GEMM: how large their integers and products are, and how sums of integers become binary32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/cpu/elements.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// The least and the largest integer of an element format; zero is between them.
struct integer_range {
  int low, high;
  constexpr int amax() const { return -low > high ? -low : high; }
  constexpr bool fits_bytes() const { return low >= -128 && high <= 127; }
};
[[gnu::noinline]] constexpr integer_range integers_of_several_grids(const format_spec& format) {
  integer_range r{0, 0};
  const grid_integers all = integers_of_grids(format);
  for (const auto& integers : all.integer)  // zeros where there is no grid
    for (const int i : integers) {
      r.low = i < r.low ? i : r.low;
      r.high = i > r.high ? i : r.high;
    }
  return r;
}
constexpr integer_range integers_of(const format_spec& format) {
  if (format.choice.count != 0) return integers_of_several_grids(format);
  const int power = 1 << exponent_levels(format.block);
  return {format.grid.low * power, format.grid.high * power};
}

/// Two exact grids whose block dot products, integers below 2^24 times the product of the units, are binary32 numbers.
constexpr bool exact_dots(const gemm_job& job) {
  if (!job.left.exact() || !job.right.exact()) return false;
  const int exponent = floor_log2(integer_unit(job.left.q.format)) + floor_log2(integer_unit(job.right.q.format));
  return exponent >= -149 && exponent <= 103;
}

/// The bits of m = 1.5 * 2^23 * unit, whose last place is worth one unit (the product of the units of both grids). They
/// plus an integer n, |n| <= 2^22, are the bits of m + n * unit; minus m that is n * unit, exactly, and +0 for 0.
/// Inlined: g++ calls it from vector code without vzeroupper (-fipa-ra), which takes 0.3 us a call.
[[gnu::always_inline]] inline std::uint32_t magic_bits(const gemm_job& job) {
  const int exponent = floor_log2(integer_unit(job.left.q.format)) + floor_log2(integer_unit(job.right.q.format));
  return static_cast<std::uint32_t>(exponent + 23 + 127) << 23 | 0x00400000u;
}

/// Integers of a pair of grids fit signed bytes, and dot products of a block are 2^22 at most.
constexpr bool integers_fit_bytes(const gemm_job& job) {
  return exact_dots(job) && integers_of(job.left.q.format).fits_bytes() && integers_of(job.right.q.format).fits_bytes();
}

/// Whether value * scale is a bf16 number, so that folded_bf16 is the exact product. Near the ends of the range of e8m0
/// it may be a subnormal number of more bits than bf16 has; not rounding it is more exact.
constexpr bool folds_exactly(const quantized_source& q) {
  int odd_factor = q.format.has_bytes() ? 127 : 0;  // the largest of the integers
  for (const std::int16_t value : q.format.grid.integer) {
    int i = value < 0 ? -value : value;
    while (i != 0 && i % 2 == 0) i /= 2;
    odd_factor = i > odd_factor ? i : odd_factor;
  }
  const scale_kind kind = q.format.scale;
  return kind == scale_kind::e8m0 || (scale_bytes(kind) == 1 && odd_factor < 16);
}

/// For quantized operands: whether the exact product is what the mode requires.
constexpr bool mode_is_exact(const gemm_job& job) {
  return job.mode != accumulate::folded_bf16 || (folds_exactly(job.left.q) && folds_exactly(job.right.q));
}

/// What every kernel of 8-bit integers needs of a job.
[[gnu::noinline]] constexpr bool int8_fits(const gemm_job& job) {
  return job.block % 16 == 0 && integers_fit_bytes(job) && mode_is_exact(job);
}
/// Whether half the products of a block, as unsigned times signed bytes, add up in 16 bits.
constexpr bool half_blocks_fit_16_bits(const gemm_job& job) {
  const integer_range left = integers_of(job.left.q.format), right = integers_of(job.right.q.format);
  return static_cast<int>(job.block / 2) * left.amax() * (right.high - right.low) <= 32767;
}
/// Whether the same products of 16 k do.
constexpr bool steps_fit_16_bits(const gemm_job& job) {
  const integer_range left = integers_of(job.left.q.format), right = integers_of(job.right.q.format);
  return 8 * left.amax() * (right.high - right.low) <= 32767;
}
/// Whether all products of a block, of signed bytes, do.
constexpr bool blocks_fit_16_bits(const gemm_job& job) {
  const int product = integers_of(job.left.q.format).amax() * integers_of(job.right.q.format).amax();
  return static_cast<int>(job.block) * product <= 32767;
}
/// Whether the 8-bit integer kernels of all tiers take every product of two formats in a mode, and its transpose.
constexpr bool integers_suffice(const format_spec& left, const format_spec& right, accumulate mode) {
  const auto taken = [mode](const format_spec& a, const format_spec& b) {
    const gemm_job job{.left = {.q = {.format = a}},
                       .right = {.q = {.format = b}},
                       .block = static_cast<std::size_t>(a.block.cols),
                       .mode = mode};
    return int8_fits(job) && half_blocks_fit_16_bits(job) && blocks_fit_16_bits(job);
  };
  const auto usual = [](const format_spec& f) { return !f.has_bytes() && !has_extended_blocks(f); };
  return usual(left) && usual(right) && left.block.cols == right.block.cols && taken(left, right) && taken(right, left);
}

// ---- Whether element value times block scale is a normal bf16 number, which matrix units need.

/// Magnitudes from low to high, as the bits of binary32 numbers.
struct magnitude_range {
  std::uint32_t low, high;

  /// Zero and NaN are also accepted.
  bool accepts(std::uint32_t magnitude) const {
    return (magnitude >= low && magnitude <= high) || magnitude == 0 || magnitude > infinity_bits;
  }
};
/// Of the values of an element format except 0.
inline magnitude_range range_of(const format_spec& format) {
  if (format.has_bytes()) return {to_bits(format.grid.unit), to_bits(128 * format.grid.unit)};
  magnitude_range r{infinity_bits, 0};
  for (const float v : format.grid.value) {
    const std::uint32_t m = magnitude_bits(v);
    r.low = m != 0 && m < r.low ? m : r.low;
    r.high = m > r.high ? m : r.high;
  }
  return r;
}
/// Whether all values but 0 lie between 2^-40 and 2^40 and have at most `bits` significant bits.
inline bool has_short_values(const format_spec& format, int bits) {
  const magnitude_range r = range_of(format);
  std::uint32_t used = format.has_bytes() ? to_bits(127.0f) : 0;
  for (const float v : format.grid.value) used |= to_bits(v);
  return r.low >= to_bits(0x1p-40f) && r.high <= to_bits(0x1p40f) && (used & ((1u << (24 - bits)) - 1)) == 0;
}

/// Whether the scales have 8 bits and all products of value and scale are bf16 numbers (4 significant bits by 4, or 8
/// by 1), except near the ends of the range of e8m0.
inline bool products_fit(const quantized_source& q) {
  const scale_kind kind = q.format.scale;
  if (scale_bytes(kind) != 1) return false;
  return has_short_values(q.format, kind == scale_kind::e8m0 ? 8 : 4);
}

/// Scales whose products with all values of the grid are normal numbers.
inline magnitude_range scales_in_range(const quantized_source& q) {
  const magnitude_range v = range_of(q.format);
  const int low = floor_log2(to_float(v.low));
  const int high = floor_log2(to_float(v.high));
  return {to_bits(exp2i(-126 - (low < 0 ? low : 0))), to_bits(exp2i(127 - (high > 0 ? high : 0)))};
}
/// Whether all elements of a block are 0. In mx formats such a block has the smallest scale.
inline bool is_zero_block(const quantized_source& q, std::size_t row, std::size_t k) {
  for (std::size_t e = 0; e < static_cast<std::size_t>(q.format.block.cols); e += 2) {
    const std::uint8_t pair = q.codes[q.code_index(row, k + e)];
    if (q.format.has_bytes() && (pair | q.codes[q.code_index(row, k + e + 1)]) != 0) return false;
    if (q.format.grid.value[pair & 15u] != 0.0f || q.format.grid.value[pair >> 4] != 0.0f) return false;
  }
  return true;
}
/// Whether no product of value and scale in these rows is subnormal or beyond the range of bf16: block by block.
inline bool blocks_fit(const quantized_source& q, std::size_t row, std::size_t live, std::size_t k, std::size_t depth) {
  const magnitude_range scales = scales_in_range(q);
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  for (std::size_t r = row; r < row + live; ++r)
    for (std::size_t at = k; at < k + depth; at += length) {
      const std::uint32_t bits = load_scale(q.scales, q.format.scale, q.scale_index(r, at / length));
      const float scale = decode_scale(q.format.scale, bits);
      if (!scales.accepts(magnitude_bits(scale)) && !is_zero_block(q, r, at)) return false;
    }
  return true;
}

// ---- Unquantized operands as sums of bf16 numbers, for kernels that multiply bf16 without a rounding of operands.
//
// A bf16 element is one term. A binary16 element, of 11 significant bits, is the sum of two: its value rounded to bf16,
// and the rest, which has at most 3. Elements of binary32 would need three; kernels in binary32 multiply them.
//
// bf16 units treat subnormal operands as zeros, and some flush sums below 2^-126. Elements below least_mixed are
// therefore multiplied by fma, in the same order, from the same words. For all others a product with a value of a grid
// that has_mixed_values accepts is a multiple of 2^-126, and so are all sums of such products: none is subnormal.

/// Bits of 2^-95, whose last place in bf16 is 2^-102. All binary16 numbers but 0 and their terms are larger.
inline constexpr std::uint32_t least_mixed_bits = (127u - 95) << 23;

/// How many bf16 numbers an element is the exact sum of; 0: more than two.
constexpr std::size_t bf16_terms(const gemm_operand& side) {
  if (side.is_quantized || side.unquantized.transform.n != 1) return 0;
  if (side.unquantized.x.kind == dtype::bf16 || side.unquantized.rounds_input_to_bf16) return 1;
  return side.unquantized.x.kind == dtype::fp16 ? 2 : 0;
}

/// Values are bf16 numbers and multiples of 2^-24, at most 2^40.
inline bool has_mixed_values(const gemm_operand& side) {
  return side.exact() && side.q.format.grid.unit >= 0x1p-24f && has_short_values(side.q.format, 8);
}

/// What kernels of the fast mode for unquantized operands need: an unquantized left one of few terms, and weights on
/// the right.
inline bool mixed_fits(const gemm_job& job) {
  return job.mode == accumulate::fast && job.block % 8 == 0 && bf16_terms(job.left) != 0 && has_mixed_values(job.right);
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
