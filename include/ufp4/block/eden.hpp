// ufp4 - the correction of block scales after which a transform run has the gain 1 (numerics 5, "EDEN").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/block/block_codec.hpp>
#include <ufp4/hadamard/signs.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// The reason why a format, or a transform, has no correction; or nullptr.
constexpr const char* eden_mismatch(const format_spec& f, const transform_spec& t) {
  if (f.block.rows != 1) return "eden is for blocks of one row";
  return t.n < static_cast<std::uint32_t>(f.block.cols) ? "eden needs a transform of at least the block's length"
                                                        : nullptr;
}

/// u > 0 to one of the neighbouring scales by 32 random bits; to `largest` if it is above that.
UFP4_HD constexpr std::uint32_t round_scale(scale_kind kind, double u, std::uint32_t largest, std::uint32_t r) {
  if (u >= static_cast<double>(decode_scale(kind, largest))) return largest;
  std::uint32_t lower = encode_scale(kind, static_cast<float>(u));  // at most one step above or below
  if (static_cast<double>(decode_scale(kind, lower)) > u) {
    if (lower == 0) return 0;  // of a type without zero
    --lower;
  }
  const auto lo = static_cast<double>(decode_scale(kind, lower)),
             hi = static_cast<double>(decode_scale(kind, lower + 1));
  return static_cast<double>(r) + (u - lo) / (hi - lo) * 0x1p32 >= 0x1p32 ? lower + 1 : lower;
}

/// A coded run of a row: its values, one code a byte, what is stored for each block, and their outer scales.
struct eden_run {
  const float* x;
  const std::uint8_t* codes;
  std::uint32_t* bits;
  const float* outer;
  int blocks;
  std::uint64_t index;  ///< of the first element (numerics 3)
};

/// Changes the scales of a run.
inline void correct_scales(const format_spec& f, const stochastic& random_bits, const eden_run& run) {
  const int length = f.block.cols;
  const std::uint32_t mask = scale_mask(f);
  double squares = 0, products = 0;
  for (int b = 0; b < run.blocks; ++b) {
    if ((run.bits[b] & mask) == nan_scale(f.scale)) continue;
    const float effective = rounded(decode_block(f, run.bits[b]) * run.outer[b]);
    for (int k = 0; k < length; ++k) {
      const int i = b * length + k;
      const float value = element_value(f, run.bits[b], run.codes[i]) * exp2i(exponent_of(f, run.bits[b], k));
      const auto x = static_cast<double>(run.x[i]), decoded = static_cast<double>(rounded(value * effective));
      squares += x * x;  // products of two binary32 numbers are exact, so it does not matter whether they are fused
      products += x * decoded;
    }
  }
  if (!(products > 0 && products <= static_cast<double>(max_finite) * static_cast<double>(max_finite))) return;
  for (int b = 0; b < run.blocks; ++b) {
    const std::uint32_t scale = run.bits[b] & mask;
    const auto s = static_cast<double>(decode_scale(f.scale, scale));
    const block_values v{run.x + b * length, 1, length, length};
    if (scale == nan_scale(f.scale) || s == 0 || amax_bits(v) == 0) continue;
    const std::uint64_t at = run.index + static_cast<std::uint64_t>(b * length);
    const std::uint32_t r = random_bits.random_word(at) | random_bits.random_word(at + 1) << 16;
    const std::uint32_t largest = largest_scale(f, grid_number(f, run.bits[b]));
    run.bits[b] = (run.bits[b] & ~mask) | round_scale(f.scale, s * (squares / products), largest, r);
  }
}

}  // namespace ufp4::detail::inline UFP4_CODE
