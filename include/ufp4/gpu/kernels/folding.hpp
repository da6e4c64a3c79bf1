// ufp4 - folding: element x scale as bf16, for kernels that fold block scales into the operands of matrix instructions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/thread/decode.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// Significant bits of the values of a grid; 24 if they are not small integers times a power of two.
constexpr int significant_bits(const grid4& grid) {
  std::uint32_t used = 0;
  for (const float v : grid.value) used |= to_bits(v) & 0x007FFFFFu;
  int bits = 1;
  for (; used != 0; used = used << 1 & 0x007FFFFFu) ++bits;
  return bits;
}
constexpr int significant_bits(scale_kind kind) {
  switch (kind) {
    case scale_kind::f32: return 24;
    case scale_kind::bf16: return 8;
    case scale_kind::e4m3:
    case scale_kind::ue5m3: return 4;
    case scale_kind::e8m0: return 1;
    case scale_kind::e6m2: return 3;
  }
  return 24;
}

/// Does every value * scale of a side have at most bf16's 8 significant bits? A factor of one bit changes the exponent.
constexpr bool products_fit(const gemm_side& side) {
  if (!side.is_quantized) return side.unquantized.kind == dtype::bf16 || side.rounds_unquantized_to_bf16;
  const int value = significant_bits(side.grid), scale = significant_bits(side.scale);
  return (value == 1 ? scale : scale == 1 ? value : value + scale) <= 8;
}

/// The magnitudes of scales whose product with every value except 0 is from 2^least to below 2^limit: normal in bf16.
struct scale_range {
  float low = 0, high = 0;
};
inline scale_range safe_scales(const grid4& grid, int limit = 127, int least = -126) {
  int low = 127, high = -127;
  for (const float v : grid.value) {
    if (v == 0.0f || !is_finite(v)) continue;
    const int e = floor_log2(v);
    low = e < low ? e : low;
    high = e > high ? e : high;
  }
  // value < 2^(high + 1) and scale < 2^(s + 1), so the product is below 2^limit if high + s <= limit - 2
  const auto power = [](int e) { return exp2i(e < -126 ? -126 : e > 127 ? 127 : e); };
  return {power(least - (low < 0 ? low : 0)), power(limit - 2 - (high > 0 ? high : 0))};
}

struct folding {
  scale_kind scale = scale_kind::f32;
  bool rounds = false;          ///< products may have more than 8 significant bits: computed in binary32 and rounded
  scale_range in_range{};       ///< scales whose products with the grid are normal bf16 numbers, after rounding too
  thread::half_table values{};  ///< of the grid, as bf16
};

/// Can bf16 hold the products with this scale? Scales of 0 and NaN are in range too.
UFP4_DEVICE bool is_in_range(const folding& how, float scale) {
  const float m = magnitude(scale);
  return (m >= how.in_range.low && m <= how.in_range.high) || m == 0.0f || is_nan(scale);
}

inline folding folding_of(const gemm_side& side) {
  return {side.scale, !products_fit(side), safe_scales(side.grid), thread::bf16_table_of(side.grid)};
}

/// Can a kernel fold the scales of a side in this mode?
constexpr bool folds(const gemm_side& side, accumulate mode) {
  if (!side.is_quantized || !thread::fits_bf16(side.grid)) return false;
  return mode == accumulate::folded_bf16 || (mode == accumulate::fast && products_fit(side));
}
/// Does a mode exist in which it can fold those of both sides?
constexpr bool may_fold(const gemm_job& job) {
  return folds(job.left, accumulate::folded_bf16) && folds(job.right, accumulate::folded_bf16);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
