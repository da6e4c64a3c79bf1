// ufp4 - quantizes and dequantizes one block.
// SPDX-License-Identifier: Apache-2.0
//
// CPU loops, GPU threads and kernels of a user call the same functions (architecture decision 2).
//
// | zero block       | codes +0; scale 0 (e8m0: code 0)                                            |
// | scale underflow  | codes +0; counted                                                            |
// | NaN or Inf       | codes +0 and a NaN scale: everything decoded from the block is NaN; counted  |
// | beyond the grid  | saturates; counted                                                           |
// | bits             | identical on every backend                                                   |
#pragma once

#include <ufp4/detail/cxx20.hpp>  // first

#include <ufp4/block/features.hpp>
#include <ufp4/block/grid_choice.hpp>
#include <ufp4/block/packing.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// The bits of the block amax; at least infinity_bits if a value is not finite.
UFP4_HD constexpr std::uint32_t amax_bits(const block_values& v) {
  std::uint32_t amax = 0;
  for (int r = 0; r < v.rows; ++r)
    for (int k = 0; k < v.cols; ++k) {
      const std::uint32_t m = magnitude_bits(v.x[r * v.stride + k]);
      amax = m > amax ? m : amax;
    }
  return amax;
}

/// The codes, one in a byte, of `count` scaled values t. `index`: element index of the first (numerics 3).
template <class Grid, rounding_policy Rounding>
UFP4_HD constexpr void round_run(const Grid& format, const Rounding& rounding, const float* t, int count,
                                 std::uint64_t index, std::uint8_t* codes) {
  for (int k = 0; k < count; ++k)
    codes[k] = round_to_code(format, rounding, t[k], index + static_cast<std::uint64_t>(k));
}

/// The random bits of eight elements, from one call of Philox.
struct drawn_random_bits {
  philox_counter words;
  UFP4_HD constexpr bool round_up(const neighbours& n, float t, std::uint64_t index) const {
    return stochastic::moves_up(n, t, stochastic::lane(words, index & 7u));
  }
};

template <class Grid>
UFP4_HD constexpr void round_run(const Grid& format, const stochastic& rounding, const float* t, int count,
                                 std::uint64_t index, std::uint8_t* codes) {
  for (int k = 0; k < count;) {
    const std::uint64_t i = index + static_cast<std::uint64_t>(k);
    const int here = 8 - static_cast<int>(i & 7u), left = count - k;
    const int group = here < left ? here : left;
    round_run(format, drawn_random_bits{rounding.random_bits(i >> 3)}, t + k, group, i, codes + k);
    k += group;
  }
}

template <class Grid>
UFP4_HD constexpr void round_run(const Grid& format, const rounding_spec& rounding, const float* t, int count,
                                 std::uint64_t index, std::uint8_t* codes) {
  switch (rounding.what) {
    case rounding_spec::kind::eden:
    case rounding_spec::kind::nearest_even: return round_run(format, nearest_even{}, t, count, index, codes);
    case rounding_spec::kind::nearest_away: return round_run(format, nearest_away{}, t, count, index, codes);
    case rounding_spec::kind::toward_zero: return round_run(format, toward_zero{}, t, count, index, codes);
    case rounding_spec::kind::stochastic: return round_run(format, rounding.random_bits, t, count, index, codes);
  }
}

template <class Grid>
UFP4_HD constexpr void zero_codes(const Grid& format, const block_values& v, std::uint8_t* codes) {
  for (int r = 0; r < v.rows; ++r)
    for (int k = 0; k < v.cols; ++k) codes[r * v.stride + k] = zero_code(format);
}

/// Codes +0 and the bits of a NaN scale, counted.
UFP4_HD constexpr std::uint32_t nan_block(const format_spec& format, const block_values& v, std::uint8_t* codes,
                                          quantize_report& report) {
  ++report.nonfinite_blocks;
  zero_codes(format, v, codes);
  return nan_scale(format.scale);
}

/// The scaled values that are not counted as saturated: those in the range of the grid, or 0 alone where the factor is
/// limited, so that the others are smaller than they should be (numerics 5).
template <class Grid>
UFP4_HD constexpr value_range counted_range(const Grid& grid, const block_scale& scale) {
  return scale.is_limited() ? value_range{0.0f, 0.0f} : value_range_of(grid);
}

/// Rounds one row of a block under its scale; returns the number of scaled values beyond `range`.
template <class Grid, rounding_policy Rounding>
UFP4_HD constexpr std::uint64_t round_row(const Grid& grid, const block_scale& scale, const value_range& range,
                                          const Rounding& rounding, const float* x, int count, std::uint64_t index,
                                          std::uint8_t* codes) {
  float t[256];  // scaled values, stored so that no product is fused into a later subtraction
  std::uint64_t beyond = 0;
  for (int k = 0; k < count; ++k) t[k] = rounded(scale.divides ? x[k] / scale.factor : x[k] * scale.factor);
  for (int k = 0; scale.rescale != 1.0f && k < count; ++k) t[k] = rounded(t[k] * scale.rescale);
  for (int k = 0; k < count; ++k) beyond += range.leaves_out(t[k]);
  round_run(grid, rounding, t, count, index, codes);
  return beyond;
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::compat::inline UFP4_TYPES {

/// A coder converts one block of values to codes and a scale: block_coder, or the coder of a preset (compat.hpp).
///
/// | format, tensor  | data members, set before the first block: the format and its tensor constants                  |
/// | constants(f, a) | static: the tensor constants of format f for a tensor amax a                                   |
/// | operator()      | (values, index, row_step, codes, report): writes codes, one a byte, as the values lie; adds to |
/// |                 | report, returns the scale's bits. Row r begins at element index + r * row_step (numerics 3)    |
///
/// A coder is a function of its arguments alone, called on several threads at a time, and on a GPU if it is __device__.
template <class C>
concept block_codec = std::is_trivially_copyable_v<C> && std::is_default_constructible_v<C> &&
                      requires(C changed, const C coder, const block_values& values, std::uint64_t index,
                               std::uint8_t* codes, quantize_report& report) {
                        { changed.format } -> std::same_as<format_spec&>;
                        { changed.tensor } -> std::same_as<tensor_constants&>;
                        { C::constants(coder.format, 0.0f) } -> std::same_as<tensor_constants>;
                        { coder(values, index, index, codes, report) } -> std::same_as<std::uint32_t>;
                      };

}  // namespace ufp4::compat::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// Quantizes blocks of one format under a scale rule and a rounding policy.
///
/// `needs` without further_parts leaves out the code of several grids and of one-bit exponents, whose indexed grids a
/// GPU thread would keep in memory; without search that of rules that read values; without byte_element and byte_float
/// that of such elements. Such a coder takes formats and rules without these alone, with the same bits.
template <rounding_policy Rounding, any_scale_rule Rule = scale_rule_spec, features needs = features::all,
          class Format = format_spec>
struct block_coder {
  Format format;            ///< the format; a `const format_spec&` outlives the coder
  Rule rule;                ///< the scale rule
  tensor_constants tensor;  ///< of the format and the tensor amax
  Rounding rounding;        ///< the rounding policy

  /// As block_codec requires it.
  UFP4_MEMBER std::uint32_t operator()(const block_values& v, std::uint64_t index, std::uint64_t row_step,
                                       std::uint8_t* codes, quantize_report& report) const {
    const std::uint32_t amax = amax_bits(v);
    if (amax >= infinity_bits) return nan_block(format, v, codes, report);
    if constexpr (has(needs, features::further_parts) && std::is_same_v<Rule, scale_rule_spec>) {
      if (format.block.group[0] != 0) return code_with_exponents(v, amax, index, codes, report);
      if (format.choice.count != 0) {
        const grid_and_scale chosen = choose_grid_of(format, rule, tensor, v, to_float(amax));
        code(nth_grid(format, chosen.grid), chosen.scale, v, amax, index, row_step, codes, report);
        return with_grid_number(format, chosen.scale.bits, chosen.grid);
      }
    }
    const block_scale scale = scale_of(v, to_float(amax));
    if constexpr (scale_rule<Rule>)
      if (scale.bits == nan_scale(format.scale)) return nan_block(format, v, codes, report);
    if constexpr (has(needs, element_features))
      code(format, scale, v, amax, index, row_step, codes, report);
    else
      code(format.grid, scale, v, amax, index, row_step, codes, report);
    return scale.bits;
  }

 private:
  UFP4_MEMBER block_scale scale_of(const block_values& v, float amax) const {
    if constexpr (std::is_same_v<Rule, scale_rule_spec> && !has(needs, features::search))
      return scale_from_bits(format, tensor, scale_bits_of_amax(format, rule.what, tensor, amax));
    else
      return choose_scale(format, rule, tensor, v, amax);
  }
  /// The bits of the scale and of the one-bit exponents of a block of one row.
  UFP4_MEMBER std::uint32_t code_with_exponents(const block_values& v, std::uint32_t amax, std::uint64_t index,
                                                std::uint8_t* codes, quantize_report& report) const {
    const block_scale scale = scale_for_grid(format, 0, rule, tensor, v, to_float(amax));
    if (scale.factor == 0.0f || amax == 0) {
      report.underflowed_scales += amax != 0;
      zero_codes(format, v, codes);
      return scale.bits;
    }
    float t[256];
    for (int k = 0; k < v.cols; ++k) t[k] = rounded(scale.divides ? v.x[k] / scale.factor : v.x[k] * scale.factor);
    const std::uint32_t bits = scale.bits | take_exponents(format, v.cols, t);
    const value_range range = counted_range(format.grid, scale);
    for (int k = 0; k < v.cols; ++k) report.saturated += range.leaves_out(t[k]);
    round_run(format, rounding, t, v.cols, index, codes);
    return bits;
  }
  /// Grid: the format, or one of its grids.
  template <class Grid>
  UFP4_MEMBER void code(const Grid& grid, const block_scale& scale, const block_values& v, std::uint32_t amax,
                        std::uint64_t index, std::uint64_t row_step, std::uint8_t* codes,
                        quantize_report& report) const {
    if (scale.factor == 0.0f || amax == 0) {  // e8m0 has no zero scale: there amax decides
      report.underflowed_scales += amax != 0;
      return zero_codes(grid, v, codes);
    }
    for (int r = 0; r < v.rows; ++r)
      report.saturated += round_row(grid, scale, counted_range(grid, scale), rounding, v.x + r * v.stride, v.cols,
                                    index + static_cast<std::uint64_t>(r) * row_step, codes + r * v.stride);
  }
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

template <class Coder>
inline constexpr features features_of_coder = features::all;
template <class Rounding, class Rule, features needs, class Format>
inline constexpr features features_of_coder<block_coder<Rounding, Rule, needs, Format>> = needs;

/// The coder that CPU kernels take: policies of the library's own, as data.
using kernel_coder = block_coder<rounding_spec, scale_rule_spec, features::all, const format_spec&>;

/// The constants of a coder's format for the amax of what an outer scale covers.
template <class Coder>
UFP4_HD tensor_constants constants_of(const Coder& coder, float amax) {
  if constexpr (ufp4::compat::block_codec<Coder>)
    return Coder::constants(coder.format, amax);
  else {
    bool corrects = false;
    if constexpr (std::is_same_v<decltype(coder.rounding), rounding_spec>)
      corrects = coder.rounding.what == rounding_spec::kind::eden;
    if constexpr (std::is_same_v<decltype(coder.rule), scale_rule_spec>)
      return make_tensor_constants(coder.format, coder.rule, amax, corrects);
    else
      return make_tensor_constants(coder.format, {}, amax, corrects);
  }
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_TYPES {

template <class F>
UFP4_MEMBER constexpr tensor_constants tensor_constants::of(float global_amax, const detail::scale_rule_spec& rule) {
  constexpr format_spec format = spec_of<F>;  // a copy: device code has no variables of a namespace
  return detail::make_tensor_constants(format, rule, global_amax);
}

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::inline UFP4_CODE {

/// Quantizes one 1xB block from inside a kernel of a user's own: B floats in, B / 2 bytes of codes out (B bytes if the
/// format has byte elements), the block scale returned. For two-level formats pass
/// tensor_constants::of<F>(global_amax). `index`: of x[0], for stochastic rounding. `rule`: as `scale_up{}.spec()`, or
/// a scale rule of the kernel's own.
template <detail::any_block_format F, rounding_policy Rounding = nearest_even,
          detail::any_scale_rule Rule = detail::scale_rule_spec>
  requires(F::block.rows == 1 && F::block_bytes == sizeof(typename F::scale_type) && F::grids == 1)
UFP4_HD typename F::scale_type quantize_block(const float* x, std::uint8_t* packed, Rounding rounding = {},
                                              std::uint64_t index = 0, tensor_constants tensor = {}, Rule rule = {}) {
  constexpr int count = F::block.cols;
  detail::settle(x);
  std::uint8_t codes[static_cast<std::size_t>(count)];
  quantize_report report{};
  constexpr format_spec format = spec_of<F>;
  const detail::block_coder<Rounding, Rule> coder{format, rule, tensor, rounding};
  const std::uint32_t bits = coder({x, 1, count, count}, index, 0, codes, report);
  if constexpr (F::has_bytes)
    for (int k = 0; k < count; ++k) packed[k] = codes[k];
  else
    detail::pack_codes(codes, count, packed);
  return detail::scale_as<typename F::scale_type>(bits);
}

/// The inverse: B / 2 or B bytes and a scale to B floats, fl(value * fl(scale * tensor_scale)).
template <detail::any_block_format F>
  requires(F::block.rows == 1 && F::block_bytes == sizeof(typename F::scale_type) && F::grids == 1)
UFP4_HD constexpr void dequantize_block(const std::uint8_t* packed, typename F::scale_type scale, float* x,
                                        float tensor_scale = 1.0f) {
  const float effective = static_cast<float>(scale) * tensor_scale;
  constexpr format_spec format = spec_of<F>;
  for (std::size_t k = 0; k < F::block_size; ++k)
    x[k] = detail::value_of(format, F::has_bytes ? packed[k] : detail::code_at(packed, k)) * effective;
  detail::settle(x, F::block_size);  // the caller may add them up
}

}  // namespace ufp4::inline UFP4_CODE
