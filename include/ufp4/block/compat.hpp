// ufp4 - compat: presets that give other projects' bits.
// SPDX-License-Identifier: Apache-2.0
//
// quantize<compat::ggml_mxfp4>(x) returns a quantized_matrix<mxfp4> whose codes and scales are those of that project's
// quantizer for finite input. A block with NaN or Inf has codes +0 and a NaN scale, as in every format here.
// docs/compatibility.md lists the function and version of each preset and all differences from the format's default.
// layouts.hpp converts storage layouts.
#pragma once

#include <ufp4/block/block_codec.hpp>
#include <ufp4/block/presets.hpp>

namespace ufp4::compat::detail::inline UFP4_CODE {

using namespace ufp4::detail;

/// The part that all coders share: format, tensor constants, NaN blocks. Coder::code gets a finite amax.
template <class Coder>
struct coder_base {
  format_spec format;
  tensor_constants tensor;

  UFP4_HD static constexpr tensor_constants constants(const format_spec& f, float global_amax) {
    return make_tensor_constants(f, {}, global_amax);
  }

  UFP4_HD std::uint32_t operator()(const block_values& v, std::uint64_t, std::uint64_t, std::uint8_t* codes,
                                   quantize_report& report) const {
    const std::uint32_t amax = amax_bits(v);
    if (amax >= infinity_bits) return nan_block(format, v, codes, report);
    return static_cast<const Coder&>(*this).code(v, to_float(amax), codes, report);
  }
};

enum class torchao_mode : std::uint8_t { floor, even, ceil, rceil };

/// The biased exponent of the smallest power of two that is not below a positive x.
UFP4_HD constexpr std::uint32_t exponent_up(float x) {
  const std::uint32_t bits = to_bits(x), exponent = bits >> 23, mantissa = bits & 0x007FFFFFu;
  return exponent == 0 ? (mantissa > 0x00400000u ? 1u : 0u) : exponent + (mantissa != 0 ? 1u : 0u);
}

/// The e8m0 code of torchao's to_mx; 0xFF where its even mode overflows.
UFP4_HD constexpr std::uint32_t torchao_scale(torchao_mode mode, float amax) {
  constexpr int top = 2;  // floor(log2 6)
  const std::uint32_t bits = to_bits(amax);
  std::uint32_t exponent = bits >> 23;
  if (mode == torchao_mode::rceil) return exponent_up(amax * (1.0f / 6.0f));
  if (mode == torchao_mode::even) exponent = (bits + 0x00200000u) >> 23;
  if (mode == torchao_mode::ceil) exponent += (bits & 0x007FFFFFu) != 0 ? 1u : 0u;
  if (mode == torchao_mode::even && exponent == 0xFFu) return 0xFFu;
  return exponent < top ? 0u : exponent - top;
}

template <torchao_mode mode>
struct torchao_mx_coder : coder_base<torchao_mx_coder<mode>> {
  UFP4_HD std::uint32_t code(const block_values& v, float amax, std::uint8_t* codes, quantize_report& report) const {
    const std::uint32_t bits = torchao_scale(mode, amax);
    if (bits == 0xFFu) return nan_block(this->format, v, codes, report);
    const block_scale scale = scale_from_bits(this->format, this->tensor, bits);
    report.saturated +=
        round_row(this->format, scale, value_range_of(this->format), nearest_even{}, v.x, v.cols, 0, codes);
    return bits;
  }
};

/// The code that ggml chooses: the first of the sixteen with the smallest |fl(value * scale) - x|.
UFP4_HD inline std::uint8_t first_nearest(const grid4& grid, float scale, float x) {
  std::uint8_t best = 0;
  float least = magnitude(rounded(grid.value[0] * scale) - x);
  for (std::uint8_t c = 1; c < 16; ++c) {
    const float distance = magnitude(rounded(grid.value[c] * scale) - x);
    if (distance < least) best = c, least = distance;
  }
  return best;
}

UFP4_HD inline void code_nearest(const grid4& grid, float scale, const block_values& v, std::uint8_t* codes,
                                 quantize_report& report) {
  for (int k = 0; k < v.cols; ++k) {
    codes[k] = first_nearest(grid, scale, v.x[k]);
    report.saturated += magnitude(v.x[k]) > 6.0f * scale;
  }
}

/// floor(fl(log2 amax)): for the last few floats below a power of two 2^k, the logarithm rounds up to k. These are the
/// last floor(2^j ln 2) floats, with j = floor(log2 |log2 amax|).
UFP4_HD constexpr int floor_rounded_log2(float amax) {
  const int exponent = floor_log2(amax), k = exponent + 1;
  constexpr std::uint32_t ulps[] = {0, 1, 2, 5, 11, 22, 44};
  const int distance = k > 0 ? k - 1 : -k;
  if (distance < 1 || distance > 127) return exponent;  // beyond 127 the scale code is 0 either way
  int j = 0;
  while (distance >> (j + 1) != 0) ++j;
  const std::uint32_t mantissa = significand(amax) & 0x007FFFFFu;
  return mantissa >= 0x00800000u - ulps[j] ? k : exponent;
}

struct ggml_mxfp4_coder : coder_base<ggml_mxfp4_coder> {
  UFP4_HD std::uint32_t code(const block_values& v, float amax, std::uint8_t* codes, quantize_report& report) const {
    const int e = to_bits(amax) == 0 ? -127 : floor_rounded_log2(amax) - 2;
    const std::uint32_t bits = e < -127 ? 0u : static_cast<std::uint32_t>(e + 127);
    const float scale = decode_scale(scale_kind::e8m0, bits);
    code_nearest(format.grid, scale, v, codes, report);
    return bits;
  }
};

/// ggml's rounding of a positive scale to E4M3: half up; from 256 on the largest code.
UFP4_HD constexpr std::uint32_t ggml_ue4m3(float u) {
  if (!(u > 0.0f)) return 0;
  if (u < 0.015625f) {  // 2^-6: subnormal codes
    const int m = static_cast<int>(u * 512.0f + 0.5f);
    return static_cast<std::uint32_t>(m < 7 ? m : 7);
  }
  const std::uint32_t code = ((to_bits(u) + 0x00080000u) >> 20) - (120u << 3);
  return u >= 256.0f || code >= 0x78u ? 0x7Eu : code;
}

struct ggml_nvfp4_coder : coder_base<ggml_nvfp4_coder> {
  UFP4_HD std::uint32_t code(const block_values& v, float amax, std::uint8_t* codes, quantize_report& report) const {
    const std::uint32_t bits = ggml_ue4m3(amax / 6.0f);
    const float scale = decode_scale(scale_kind::e4m3, bits);
    report.underflowed_scales += bits == 0 && to_bits(amax) != 0;
    if (bits == 0)
      zero_codes(format, v, codes);
    else
      code_nearest(format.grid, scale, v, codes, report);
    return bits;
  }
};

/// Transformer Engine has no special case for a scale of 0: the factor is FLT_MAX.
struct te_nvfp4_coder : coder_base<te_nvfp4_coder> {
  UFP4_HD std::uint32_t code(const block_values& v, float amax, std::uint8_t* codes, quantize_report& report) const {
    block_scale scale = choose_scale(format, {}, tensor, v, amax);
    if (scale.factor == 0.0f) scale.factor = max_finite;
    report.underflowed_scales += scale.bits == 0 && to_bits(amax) != 0;
    report.saturated += round_row(format, scale, value_range_of(format), nearest_even{}, v.x, v.cols, 0, codes);
    return scale.bits;
  }
};

/// P = fl(global_amax / 2688) is the tensor scale; a block scale never falls below 2^-6.
struct torchao_nvfp4_coder : coder_base<torchao_nvfp4_coder> {
  UFP4_HD static constexpr tensor_constants constants(const format_spec&, float global_amax) {
    return {global_amax / 2688.0f, 1.0f};
  }

  UFP4_HD std::uint32_t code(const block_values& v, float amax, std::uint8_t* codes, quantize_report& report) const {
    constexpr float lowest = 0.015625f;  // 2^-6
    const float u = to_bits(amax) == 0 ? 0.0f : amax / 6.0f / tensor.decode;
    const std::uint32_t bits = e4m3(u > lowest ? u : lowest).bits();
    const float factor = 1.0f / tensor.decode / decode_scale(scale_kind::e4m3, bits);
    for (int k = 0; k < v.cols; ++k) {
      const float t = v.x[k] == 0.0f ? v.x[k] : v.x[k] * factor;  // an infinite factor would make a NaN of a zero
      codes[k] = fp4<E2M1>(t).bits();
      report.saturated += magnitude(t) > 6.0f;
    }
    return bits;
  }
};
enum class error_order : std::uint8_t {
  by_index,        ///< e0 + e1 + ... + e15, from the left
  halves_by_index  ///< (e0 + e8) + (e1 + e9) + ... + (e7 + e15)
};

/// Four Over Six with the errors of decoded values fl(fl(fl(value * s) * global_amax) / (6 F)).
template <search_error error, int largest, error_order order>
struct four_over_six_coder : coder_base<four_over_six_coder<error, largest, order>> {
  /// scale_factor is global_amax.
  UFP4_HD static constexpr tensor_constants constants(const format_spec&, float global_amax) {
    return {1.0f / encoding_factor(global_amax), global_amax};
  }
  UFP4_HD static constexpr float encoding_factor(float global_amax) {
    const float quotient = global_amax == 0.0f ? 1.0f : 6.0f * largest / global_amax;
    return quotient < max_finite ? quotient : max_finite;
  }

  UFP4_HD float error_term(const block_scale& scale, float x) const {
    const float value = this->format.grid.value[round_to_grid(this->format.grid, nearest_even{}, x * scale.factor, 0)];
    const float decoded = value * decode_scale(scale_kind::e4m3, scale.bits) * this->tensor.scale_factor;
    const float d = rounded(decoded / (6.0f * largest)) - x;
    return error == search_error::squared ? rounded(d * d) : magnitude(d);
  }
  UFP4_HD float error_of(const block_scale& scale, const float* x) const {
    float sum = 0.0f;
    for (int k = 0; k < 16; ++k) {
      if constexpr (order == error_order::by_index)
        sum += error_term(scale, x[k]);
      else if (k < 8)
        sum += rounded(error_term(scale, x[k]) + error_term(scale, x[k + 8]));
    }
    return sum;
  }

  UFP4_HD std::uint32_t code(const block_values& v, float amax, std::uint8_t* codes, quantize_report& report) const {
    const float u = amax / 6.0f * encoding_factor(this->tensor.scale_factor);
    block_scale six = scale_from_bits(this->format, this->tensor, encode_scale(scale_kind::e4m3, u));
    block_scale four = scale_from_bits(this->format, this->tensor, encode_scale(scale_kind::e4m3, 1.5f * u));
    if (order == error_order::by_index) take_te_factor(six), take_te_factor(four);
    const block_scale& best = error_of(four, v.x) < error_of(six, v.x) ? four : six;
    report.underflowed_scales += best.bits == 0 && to_bits(amax) != 0;
    if (best.factor == 0.0f) return zero_codes(this->format, v, codes), best.bits;
    report.saturated +=
        round_row(this->format, best, value_range_of(this->format), nearest_even{}, v.x, v.cols, 0, codes);
    return best.bits;
  }
  /// As te_nvfp4_coder.
  UFP4_HD static constexpr void take_te_factor(block_scale& scale) {
    if (scale.factor == 0.0f) scale.factor = max_finite;
  }
};

}  // namespace ufp4::compat::detail::inline UFP4_CODE

namespace ufp4::compat::inline UFP4_TYPES {

/// A preset from its two members.
template <class Format, class Coder>
struct preset_type {
  using format = Format;
  using coder = Coder;
};

struct te_nvfp4 : preset_type<nvfp4, detail::te_nvfp4_coder> {};
struct torchao_nvfp4 : preset_type<nvfp4, detail::torchao_nvfp4_coder> {};
/// Transformer Engine's 4over6. `largest`: 256, its recipe's default, or 448.
template <search_error error = search_error::absolute, int largest = 256>
  requires(largest == 256 || largest == 448)
struct te_nvfp4_four_over_six
    : preset_type<nvfp4, detail::four_over_six_coder<error, largest, detail::error_order::by_index>> {};
/// The PyTorch implementation of Four Over Six by its authors.
template <search_error error = search_error::squared>
struct fouroversix_nvfp4
    : preset_type<nvfp4, detail::four_over_six_coder<error, 256, detail::error_order::halves_by_index>> {};
struct torchao_mx_floor : preset_type<mxfp4, detail::torchao_mx_coder<detail::torchao_mode::floor>> {};
struct torchao_mx_even : preset_type<mxfp4, detail::torchao_mx_coder<detail::torchao_mode::even>> {};
struct torchao_mx_ceil : preset_type<mxfp4, detail::torchao_mx_coder<detail::torchao_mode::ceil>> {};
struct torchao_mx_rceil : preset_type<mxfp4, detail::torchao_mx_coder<detail::torchao_mode::rceil>> {};
struct ggml_mxfp4 : preset_type<mxfp4, detail::ggml_mxfp4_coder> {};
struct ggml_nvfp4 : preset_type<block_format<fp4<E2M1>, e4m3, 16>, detail::ggml_nvfp4_coder> {};

/// A preset: a type with a block format and a coder. A type of a user that has both is accepted by quantize, too.
template <class P>
concept preset = ufp4::detail::any_block_format<typename P::format> && block_codec<typename P::coder>;
static_assert(preset<ggml_mxfp4> && preset<te_nvfp4> && preset<torchao_nvfp4> && preset<torchao_mx_even> &&
              preset<te_nvfp4_four_over_six<>> && preset<fouroversix_nvfp4<>>);

}  // namespace ufp4::compat::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// The block format that a quantizer target is stored in.
template <class F>
using format_of = typename F::format;

/// What quantize<...> takes: a block_format, or a compat preset.
template <class F>
concept quantizer_target = any_block_format<F> || compat::preset<F>;

}  // namespace ufp4::detail::inline UFP4_TYPES
