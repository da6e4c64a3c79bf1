// ufp4 - MS-EDEN: nearest codes whose scales are corrected for their attenuation and rounded stochastically.
// SPDX-License-Identifier: Apache-2.0
//
// After a random Hadamard transform less biased than nearest codes, with less error than stochastic rounding of
// elements (arXiv 2601.22813); the gain of block/eden.hpp is 1. Numerics 5, "MS-EDEN". The blocks of a run are coded
// one by one by ms_eden_coder; then correct_scales changes the scales of the whole run. The operation:
// quantize_ms_eden.hpp.
#pragma once

#include <ufp4/block/block_codec.hpp>
#include <ufp4/hadamard/signs.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// An amax becomes qmax over this: 17/16 * 0.93, of the authors' code.
inline constexpr float ms_eden_range = 0.988125f;
/// The block scale of the tensor amax before the correction, which may raise it.
inline constexpr float ms_eden_largest_scale = 256.0f;

/// The reason why a format, or a transform, has no MS-EDEN; or nullptr.
constexpr const char* ms_eden_mismatch(const format_spec& f, const transform_spec& t) {
  const bool plain = !f.has_bytes() && f.choice.count == 0 && f.block.group[0] == 0 && f.block.rows == 1;
  if (!plain || f.scale != scale_kind::e4m3 || !f.has_tensor_scale() || f.outer.type != scale_kind::f32)
    return "MS-EDEN is for formats of one grid in blocks of one row with e4m3 scales and a tensor scale (nvfp4)";
  if (t.n < static_cast<std::uint32_t>(f.block.cols)) return "MS-EDEN needs a transform of at least the block's length";
  return nullptr;
}

/// The first step: a block_codec with nearest_even codes.
struct ms_eden_coder {
  format_spec format;
  tensor_constants tensor;

  UFP4_HD static constexpr tensor_constants constants(const format_spec& f, float global_amax) {
    const float largest = f.grid.qmax / ms_eden_range;
    const float quotient = global_amax == 0.0f ? 1.0f : (ms_eden_largest_scale * largest) / global_amax;
    const float S = quotient < max_finite ? quotient : max_finite;
    return {1.0f / S, S * (1.0f / largest), S};
  }

  UFP4_HD std::uint32_t operator()(const block_values& v, std::uint64_t index, std::uint64_t, std::uint8_t* codes,
                                   quantize_report& report) const {
    const std::uint32_t amax = amax_bits(v);
    if (amax >= infinity_bits) return nan_block(format, v, codes, report);
    const block_scale scale =
        scale_from_bits(format, tensor, encode_scale(format.scale, to_float(amax) * tensor.scale_factor));
    if (scale.factor == 0.0f || amax == 0) {
      report.underflowed_scales += amax != 0;
      zero_codes(format, v, codes);
      return scale.bits;
    }
    report.saturated +=
        round_row(format, scale, counted_range(format, scale), nearest_even{}, v.x, v.cols, index, codes);
    return scale.bits;
  }
};
static_assert(ufp4::compat::block_codec<ms_eden_coder>);

/// u >= 0 to one of the two neighbouring values of the scale type with the random bits r, 0 .. 65535 (numerics 3).
UFP4_HD constexpr std::uint32_t round_scale_stochastically(scale_kind kind, float u, std::uint32_t r) {
  std::uint32_t lower = encode_scale(kind, u);  // the nearest
  if (decode_scale(kind, lower) > u) --lower;
  const float lo = decode_scale(kind, lower);
  if (lower == max_scale(kind) || lo == u) return lower;
  return stochastic::moves_up({lo, decode_scale(kind, lower + 1), 0}, u, r) ? lower + 1 : lower;
}

/// The second step, on the `blocks` blocks of a transform run: x, its codes (one a byte) and its scale codes, which
/// change. `index`: of the run's first element.
UFP4_HD inline void correct_scales(const format_spec& f, const tensor_constants& tensor, const stochastic& random_bits,
                                   const float* x, const std::uint8_t* codes, int blocks, std::uint64_t index,
                                   std::uint32_t* scales) {
  const int length = f.block.cols;
  const auto counts = [&](int b) { return scales[b] != 0 && scales[b] != nan_scale(f.scale); };
  float squares = 0.0f, products = 0.0f;
  for (int b = 0; b < blocks; ++b) {
    if (!counts(b)) continue;
    const float factor = scale_from_bits(f, tensor, scales[b]).factor;
    for (int i = b * length; i < (b + 1) * length; ++i) {
      const float t = rounded(x[i] * factor);
      squares = fma(t, t, squares);
      products = fma(t, value_of(f, codes[i]), products);
    }
  }
  if (products == 0.0f) return;
  const float correction = squares / products;
  for (int b = 0; b < blocks; ++b) {
    if (!counts(b)) continue;
    const std::uint32_t r = random_bits.random_word(index + static_cast<std::uint64_t>(b * length));
    scales[b] = round_scale_stochastically(f.scale, rounded(decode_scale(f.scale, scales[b]) * correction), r);
  }
}

}  // namespace ufp4::detail::inline UFP4_CODE
