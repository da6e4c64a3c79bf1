// ufp4 - element x scale as bf16: what kernels that fold scales into matrix operands must know of a side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/thread/decode.hpp>
#include <ufp4/gpu/thread/elements.hpp>

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// Significant bits that the values of a grid need; 24 where they are no small integers times a power of two.
inline int significant_bits(const grid4& grid) {
  std::uint32_t used = 0;
  for (const float v : grid.value) used |= ufp4::detail::to_bits(v) & 0x007FFFFFu;
  int bits = 1;
  for (; used != 0; used = used << 1 & 0x007FFFFFu) ++bits;
  return bits;
}
inline int significant_bits(scale_kind kind) {
  switch (kind) {
    case scale_kind::f32: return 24;
    case scale_kind::bf16: return 8;
    case scale_kind::e4m3:
    case scale_kind::ue5m3: return 4;
    case scale_kind::e8m0: return 1;
  }
  return 24;
}

/// Is every value * scale of a side a bf16 number, but for its range? A factor of one bit moves only the exponent.
inline bool products_fit(const gemm_side& side) {
  if (!side.is_quantized) return side.plain.kind == dtype::bf16 || side.rounds_plain_to_bf16;
  const int value = significant_bits(side.grid), scale = significant_bits(side.scale);
  return (value == 1 ? scale : scale == 1 ? value : value + scale) <= 8;
}

/// Magnitudes of scales whose product with every value other than 0 is a normal bf16 number.
struct scale_range {
  float low = 0, high = 0;
};
inline scale_range safe_scales(const grid4& grid) {
  int low = 127, high = -127;
  for (const float v : grid.value) {
    if (v == 0.0f || !ufp4::detail::is_finite(v)) continue;
    const int e = ufp4::detail::floor_log2(v);
    low = e < low ? e : low;
    high = e > high ? e : high;
  }
  // value < 2^(high + 1) and scale < 2^(s + 1) stay below 2^127 where high + s <= 125, so that not even rounding
  // overflows
  const auto power = [](int e) { return ufp4::detail::exp2i(e < -126 ? -126 : e > 127 ? 127 : e); };
  return {power(-126 - (low < 0 ? low : 0)), power(125 - (high > 0 ? high : 0))};
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// | rounds  | products may have more than bf16's 8 significant bits: they are made in binary32 and rounded |
/// | welcome | scales whose products with the grid are normal bf16 numbers, rounding included                |
struct folding {
  scale_kind scale = scale_kind::f32;
  bool rounds = false;
  detail::scale_range welcome{};
  thread::half_table values{};  ///< of the grid, as bf16
};

/// Zeros are welcome with every scale, and so are NaNs.
UFP4_DEVICE bool is_welcome(const folding& how, float scale) {
  const float m = ufp4::detail::magnitude(scale);
  return (m >= how.welcome.low && m <= how.welcome.high) || m == 0.0f || ufp4::detail::is_nan(scale);
}

/// A side's codes and scales in memory; blocks of 2^block_shift along K.
struct coded_rows {
  const std::uint8_t* codes = nullptr;
  const void* scales = nullptr;
  unsigned block_rows = 1, block_shift = 4;
  std::size_t padded = 0;
};

/// value * scale, exactly.
UFP4_DEVICE double folded_element(const folding& how, const coded_rows& from, std::size_t row, std::size_t k) {
  const std::uint32_t code = from.codes[(row * from.padded + k) / 2] >> (4 * (k % 2)) & 15u;
  const std::size_t at = row / from.block_rows * (from.padded >> from.block_shift) + (k >> from.block_shift);
  std::uint32_t pairs[4];
  thread::decode8_bf16(how.values, code, pairs);
  const float scale = thread::scale_value(how.scale, thread::load_scale(from.scales, how.scale, at));
  return static_cast<double>(thread::low_bf16(pairs[0])) * static_cast<double>(scale);
}

/// A sum where bf16 has no room: in binary64, whose range no two factors leave.
UFP4_DEVICE float rescued_sum(const folding (&how)[2], const coded_rows (&from)[2], std::size_t i, std::size_t j) {
  double sum = 0;
  for (std::size_t k = 0; k < from[0].padded; ++k)
    sum += folded_element(how[0], from[0], i, k) * folded_element(how[1], from[1], j, k);
  return static_cast<float>(sum);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

inline kernels::folding folding_of(const gemm_side& side) {
  return {side.scale, !products_fit(side), safe_scales(side.grid), thread::bf16_table_of(side.grid)};
}

/// May a kernel fold the scales of a side, in this mode?
inline bool folds(const gemm_side& side, accumulate mode) {
  if (!side.is_quantized || !thread::fits_bf16(side.grid)) return false;
  return mode == accumulate::folded_bf16 || (mode == accumulate::fast && products_fit(side));
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
