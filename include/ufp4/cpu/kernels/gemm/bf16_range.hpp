// ufp4 - bf16_range: whether element value times block scale is a normal bf16 number, which matrix units need.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// Magnitudes from low to high, as the bits of binary32 numbers.
struct magnitude_range {
  std::uint32_t low, high;

  /// Zero and NaN are also accepted.
  bool accepts(std::uint32_t magnitude) const {
    return (magnitude >= low && magnitude <= high) || magnitude == 0 || magnitude > ufp4::detail::infinity_bits;
  }
};
/// Of the values of a grid except 0.
inline magnitude_range range_of(const grid4& grid) {
  magnitude_range r{ufp4::detail::infinity_bits, 0};
  for (const float v : grid.value) {
    const std::uint32_t m = ufp4::detail::magnitude_bits(v);
    r.low = m != 0 && m < r.low ? m : r.low;
    r.high = m > r.high ? m : r.high;
  }
  return r;
}
/// Whether all values but 0 lie between 2^-40 and 2^40 and have at most `bits` significant bits.
inline bool has_short_values(const grid4& grid, int bits) {
  const magnitude_range r = range_of(grid);
  std::uint32_t used = 0;
  for (const float v : grid.value) used |= ufp4::detail::to_bits(v);
  return r.low >= ufp4::detail::to_bits(0x1p-40f) && r.high <= ufp4::detail::to_bits(0x1p40f) &&
         (used & ((1u << (24 - bits)) - 1)) == 0;
}

/// Whether the scales have 8 bits and all products of value and scale are bf16 numbers (4 significant bits by 4, or 8
/// by 1), except near the ends of the range of e8m0.
inline bool products_fit(const quantized_source& q) {
  const scale_kind kind = q.format.scale;
  if (ufp4::detail::scale_bytes(kind) != 1) return false;
  return has_short_values(q.format.grid, kind == scale_kind::e8m0 ? 8 : 4);
}

/// Scales whose products with all values of the grid are normal numbers.
inline magnitude_range scales_in_range(const quantized_source& q) {
  const magnitude_range v = range_of(q.format.grid);
  const int low = ufp4::detail::floor_log2(ufp4::detail::to_float(v.low));
  const int high = ufp4::detail::floor_log2(ufp4::detail::to_float(v.high));
  return {ufp4::detail::to_bits(ufp4::detail::exp2i(-126 - (low < 0 ? low : 0))),
          ufp4::detail::to_bits(ufp4::detail::exp2i(127 - (high > 0 ? high : 0)))};
}
/// Whether all elements of a block are 0. In mx formats such a block has the smallest scale.
inline bool is_zero_block(const quantized_source& q, std::size_t row, std::size_t k) {
  for (std::size_t e = 0; e < static_cast<std::size_t>(q.format.block.cols); e += 2) {
    const std::uint8_t pair = q.codes[q.code_index(row, k + e)];
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
      const float scale = ufp4::detail::decode_scale(q.format.scale, bits);
      if (!scales.accepts(ufp4::detail::magnitude_bits(scale)) && !is_zero_block(q, r, at)) return false;
    }
  return true;
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
