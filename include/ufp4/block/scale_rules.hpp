// ufp4 - scale rules: how the amax of a block becomes its scale (numerics 5). choose_scale is the one place of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/block/block_format.hpp>
#include <ufp4/round/round_to_byte.hpp>
#include <ufp4/round/round_to_grid.hpp>

namespace ufp4::inline UFP4_TYPES {

/// What is summed over a block to compare two ways of quantizing it.
enum class search_error : std::uint8_t {
  squared,   ///< the squared errors (MSE)
  absolute,  ///< the magnitudes of the errors (MAE)
  largest    ///< not a sum: the largest magnitude of an error; of choose_grid only
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// The scales that a search compares: from `below` steps under the rule's scale to `above` steps over it. A step is a
/// code of an 8-bit scale; for float and bf16 scales 1/32 of the rule's scale. Codes that do not exist are left out.
struct search_window {
  /// e4m3, ue5m3: 2 below, 6 above, where the optimum of all codes is; e6m2: the same; e8m0: 1, 1; float, bf16: 8, 16.
  static constexpr std::uint8_t by_format = 255;
  std::uint8_t below = by_format;  ///< steps; at most 31 for float and bf16 scales
  std::uint8_t above = by_format;  ///< steps
  friend constexpr bool operator==(const search_window&, const search_window&) = default;
};

/// One of the library's scale rules as data, as recipes store it and kernels read it.
struct scale_rule_spec {
  /// Which rule.
  enum class kind : std::uint8_t { by_format, up, mx_floor, mx_even, mx_ceil, four_over_six, percentile };
  kind what = kind::by_format;  ///< the rule
  bool searches = false;        ///< choose the scale with the smallest error in a window around the rule's
  search_error error = search_error::squared;  ///< what a search and four_over_six compare
  search_window window{};                      ///< of a search
  std::uint16_t per_mille = 1000;              ///< of percentile
  search_error grids = search_error::squared;  ///< what decides which of several grids a block has

  UFP4_MEMBER constexpr scale_rule_spec spec() const { return *this; }
  friend constexpr bool operator==(const scale_rule_spec&, const scale_rule_spec&) = default;
};

/// A rule that spec() gives as data: the base of some of those below.
template <scale_rule_spec::kind which>
struct rule_type {
  UFP4_MEMBER constexpr scale_rule_spec spec() const { return {.what = which}; }
};

/// The default: mx_floor for e8m0 scales; amax / qmax, rounded to nearest, for the other scale types.
struct default_scale : rule_type<scale_rule_spec::kind::by_format> {};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

using detail::scale_rule_spec;

/// For e4m3, ue5m3, e6m2 and bf16: the smallest scale that is not below the argument, so that no amax is clipped. Use
/// it with stochastic rounding, which shrinks values otherwise (nvfp4: attenuation .9966 on a Gaussian). With one-bit
/// exponents other values still saturate, and shrink (hif4: .9946). docs/bias.md has all.
struct scale_up : detail::rule_type<detail::scale_rule_spec::kind::up> {};
/// For e8m0: floor(log2 amax) - floor(log2 qmax). OCP Microscaling Formats v1.0, section 6.3.
struct mx_floor : detail::rule_type<detail::scale_rule_spec::kind::mx_floor> {};
/// For e8m0: the same of amax rounded to the element's mantissa bits, ties to even.
struct mx_even : detail::rule_type<detail::scale_rule_spec::kind::mx_even> {};
/// For e8m0: the smallest power of two with which no element saturates.
struct mx_ceil : detail::rule_type<detail::scale_rule_spec::kind::mx_ceil> {};
/// For two-level E2M1: amax becomes 6 or 4, whichever has the smaller error. Cook et al., arXiv 2512.02010.
struct four_over_six {
  search_error error = search_error::squared;  ///< what is compared

  UFP4_MEMBER constexpr detail::scale_rule_spec spec() const {
    return {.what = detail::scale_rule_spec::kind::four_over_six, .error = error};
  }
};
/// The format's default of a percentile of the magnitudes of a block instead of their amax, so that rare large values
/// saturate: the smallest magnitude that at least per_mille / 1000 of the elements do not exceed, the padding of a
/// ragged block included. Where that is 0, the amax.
struct percentile {
  std::uint16_t per_mille = 900;  ///< 1 to 1000; 1000 is the amax

  UFP4_MEMBER constexpr detail::scale_rule_spec spec() const {
    return {.what = detail::scale_rule_spec::kind::percentile, .per_mille = per_mille};
  }
};
/// The scale with the smallest squared error in a window around that of the call's rule: search_window.
struct mse_search {
  std::uint8_t below = detail::search_window::by_format;  ///< steps
  std::uint8_t above = detail::search_window::by_format;  ///< steps

  UFP4_MEMBER constexpr detail::scale_rule_spec spec() const { return {.searches = true, .window = {below, above}}; }
};
/// The same with the smallest sum of the magnitudes of the errors.
struct mae_search {
  std::uint8_t below = detail::search_window::by_format;  ///< steps
  std::uint8_t above = detail::search_window::by_format;  ///< steps

  UFP4_MEMBER constexpr detail::scale_rule_spec spec() const {
    return {.searches = true, .error = search_error::absolute, .window = {below, above}};
  }
};
/// For formats of several grids, beside a scale rule or without one: the error that decides which grid a block has.
struct choose_grid {
  search_error by = search_error::squared;  ///< the grid with the smallest is chosen; of equal ones the first
};
static_assert(detail::builtin_scale_rule<scale_up> && detail::builtin_scale_rule<mse_search> &&
              detail::builtin_scale_rule<percentile> && detail::builtin_scale_rule<detail::scale_rule_spec>);

/// The constants of a two-level format, from the amax of what an outer scale covers: the tensor, a row or a segment.
struct tensor_constants {
  float decode = 1;        ///< T: the outer scale that is stored
  float scale_factor = 1;  ///< fl(S * fl(1/qmax)): amax times it is the argument of Scale
  float encode = 1;        ///< S

  /// Of block_format F for a known global_amax: quantize_block's last argument but one.
  template <class F>
  UFP4_MEMBER static constexpr tensor_constants of(float global_amax, const detail::scale_rule_spec& rule = {});
};

/// The values of one block: rows of `cols` floats, `stride` floats apart.
struct block_values {
  const float* x;  ///< the first value
  int rows;        ///< 1, or the side of a square
  int cols;        ///< along the contraction axis
  int stride;      ///< between rows, in floats
};

/// Counts of special cases in quantized data. Operations add to it, so one report can sum several calls.
struct quantize_report {
  std::uint64_t nonfinite_blocks = 0;    ///< blocks with a NaN or Inf after the transform
  std::uint64_t saturated = 0;           ///< elements whose scaled value was beyond the grid, or limited (numerics 5)
  std::uint64_t underflowed_scales = 0;  ///< blocks with amax > 0 whose scale became 0

  /// Adds the counts of another report.
  UFP4_MEMBER constexpr quantize_report& operator+=(const quantize_report& other) {
    nonfinite_blocks += other.nonfinite_blocks;
    saturated += other.saturated;
    underflowed_scales += other.underflowed_scales;
    return *this;
  }
  friend constexpr bool operator==(const quantize_report&, const quantize_report&) = default;
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// The scale of one block. Codes are those of x * factor, or of x / factor if `divides`; all +0 if factor is 0.
struct block_scale {
  std::uint32_t bits;  ///< the stored block scale
  float effective;     ///< block scale times tensor scale: the factor of decoded values
  float factor;        ///< see above
  bool divides;        ///< whether codes are those of x / factor
  float rescale = 1;   ///< of grids with a factor: its reciprocal, by which the scaled values are multiplied

  /// Whether the factor is FLT_MAX in place of a reciprocal that is larger.
  UFP4_MEMBER constexpr bool is_limited() const { return !divides && factor >= 0x1.fffffep+127f; }
};

/// How an amax becomes a power of two: 2^(floor_log2(amax) - top), or twice this if significand(amax) >= carry.
struct power_of_two_rule {
  int top = 0;                     ///< floor_log2(qmax)
  std::uint32_t carry = 1u << 24;  ///< 2^24: never
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

using rule_kind = scale_rule_spec::kind;

/// Whether a step of a window is a fraction of the scale, not a code.
UFP4_HD constexpr bool has_float_steps(scale_kind kind) { return kind == scale_kind::f32 || kind == scale_kind::bf16; }
/// The value of a code of a format, without scales.
UFP4_HD constexpr float value_of(const format_spec& f, std::uint8_t code) {
  if (f.byte == byte_element::int8) return static_cast<float>(static_cast<std::int8_t>(code)) * f.grid.unit;
  if (f.has_bytes()) return byte_float_value(f.byte, code);
  return f.grid.value[code];
}
UFP4_HD constexpr float value_of(const grid4& grid, std::uint8_t code) { return grid.value[code]; }
UFP4_HD constexpr std::uint8_t zero_code(const format_spec& f) {
  return f.has_bytes() ? std::uint8_t{0} : f.grid.code[f.grid.zero];
}
UFP4_HD constexpr std::uint8_t zero_code(const grid4& grid) { return grid.code[grid.zero]; }
/// The value of a code in a block with these stored bits, without scales and one-bit exponents.
UFP4_HD constexpr float element_value(const format_spec& f, std::uint32_t bits, std::uint8_t code) {
  return f.choice.count == 0 ? value_of(f, code) : nth_grid(f, grid_number(f, bits)).value[code];
}
UFP4_HD constexpr value_range value_range_of(const format_spec& f) { return value_range_of(f.grid); }
/// The code of t, which is not a NaN.
template <rounding_policy Rounding>
UFP4_HD constexpr std::uint8_t round_to_code(const format_spec& f, const Rounding& r, float t, std::uint64_t index) {
  if (f.byte == byte_element::int8) return round_to_int8(f.grid.unit, r, t, index);
  if (f.has_bytes()) return round_to_minifloat(byte_layout(f.byte), r, t, index);
  return round_to_grid(f.grid, r, t, index);
}

template <rounding_policy Rounding>
UFP4_HD constexpr std::uint8_t round_to_code(const grid4& grid, const Rounding& r, float t, std::uint64_t index) {
  return round_to_grid(grid, r, t, index);
}

/// The reason why a rule does not apply to a format, or nullptr.
constexpr const char* rule_mismatch(const scale_rule_spec& rule, const format_spec& f) {
  const bool power_of_two = f.scale == scale_kind::e8m0, is_up = rule.what == rule_kind::up;
  if (is_up && power_of_two) return "scale_up is for e4m3, ue5m3, e6m2 and bf16 scales; for e8m0 use mx_ceil";
  if (is_up && f.scale == scale_kind::f32)
    return "scale_up is for e4m3, ue5m3, e6m2 and bf16 scales; a float scale is not rounded";
  if (rule.what >= rule_kind::mx_floor && rule.what <= rule_kind::mx_ceil && !power_of_two)
    return "mx_floor, mx_even and mx_ceil are for e8m0 scales";
  if (rule.grids > search_error::largest) return "choose_grid: invalid search_error";
  if (f.choice.count == 0 && rule.grids != search_error::squared)
    return "choose_grid has no effect: the format has one grid";
  if (rule.error > search_error::absolute) return "a search and four_over_six compare squared or absolute errors";
  if (rule.what == rule_kind::percentile && (rule.per_mille == 0 || rule.per_mille > 1000))
    return "percentile: per_mille must be 1 to 1000";
  if (rule.searches && has_float_steps(f.scale) && rule.window.below > 31 &&
      rule.window.below != search_window::by_format)
    return "a search below float and bf16 scales has at most 31 steps, each 1/32 of the scale";
  if (rule.what != rule_kind::four_over_six) return nullptr;
  if (rule.searches) return "four_over_six and a search near a scale are two searches; choose one";
  if (f.choice.count != 0 || f.block.group[0] != 0)
    return "four_over_six is for formats of one grid without one-bit exponents";
  if (f.two_level() && f.grid.qmax == 6.0f && !f.has_bytes()) return nullptr;
  return "four_over_six is for grids of 4 bits that end at 6, with two levels of scales (nvfp4)";
}

/// Whether a rule of this kind computes a scale from an amax alone.
UFP4_HD constexpr bool is_scale_of_amax(rule_kind kind) {
  return kind != rule_kind::four_over_six && kind != rule_kind::percentile;
}

template <class P>
concept search_policy = std::same_as<P, mse_search> || std::same_as<P, mae_search>;
constexpr void join_search(scale_rule_spec& rule, const scale_rule_spec& search) {
  rule.searches = true;
  rule.error = search.error;
  rule.window = search.window;
}

/// Whether a rule reads the values of a block, not only their amax.
UFP4_HD constexpr bool reads_values(const scale_rule_spec& rule) {
  return rule.searches || !is_scale_of_amax(rule.what);
}

/// The largest magnitude of grid g with its factor, or with all one-bit exponents.
UFP4_HD constexpr float qmax_of(const format_spec& f, int g) {
  return nth_grid(f, g).qmax * factor_of(f, g) * static_cast<float>(1 << exponent_levels(f.block));
}
/// The smallest of them, which no amax exceeds under the largest block scale.
UFP4_HD constexpr float least_qmax(const format_spec& f) {
  float least = qmax_of(f, 0);
  for (int g = 1; g <= f.choice.count; ++g) least = qmax_of(f, g) < least ? qmax_of(f, g) : least;
  return least;
}

/// The e8m0 code of the largest power of two whose product with a number in the binade 2^top is finite.
UFP4_HD constexpr int largest_power(int top) { return top < 0 ? 254 : 254 - top; }

UFP4_HD constexpr float at_most(float x, float most) { return x < most ? x : most; }

/// The largest scale of the format whose product with a factor is finite.
UFP4_HD constexpr std::uint32_t largest_scale(scale_kind kind, float factor) {
  if (factor <= 1.0f) return max_scale(kind);
  const std::uint32_t bits = encode_scale(kind, max_finite / factor);
  return decode_scale(kind, bits) * factor > max_finite ? bits - 1 : bits;
}
/// The largest scale of a block with grid g: its product with the factor is finite, and so is a decoded value under
/// e8m0.
UFP4_HD constexpr std::uint32_t largest_scale(const format_spec& f, int g) {
  const std::uint32_t largest = largest_scale(f.scale, f.two_level() ? 1.0f : factor_of(f, g));
  if (f.scale != scale_kind::e8m0) return largest;
  const auto power = static_cast<std::uint32_t>(largest_power(floor_log2(qmax_of(f, g))));
  return power < largest ? power : largest;
}

/// The bounds of the constants of a two-level format (numerics 5), without which a product of them may be infinite. The
/// library's formats do not reach them.
struct outer_bounds {
  float numerator;  ///< of S: F times the least Q
  float encode;     ///< the largest S, of which fl(S / Q) is finite
  float decode;     ///< the largest T, of which the product with every block scale is finite

  /// `corrects`: the scales are then multiplied by numbers a little above 1 (eden).
  UFP4_HD static constexpr outer_bounds of(const format_spec& f, const scale_rule_spec& rule, bool corrects = false) {
    const float least = least_qmax(f), scale = decode_scale(f.scale, max_scale(f.scale));
    float factor = 1.0f;
    for (int g = 1; g <= f.choice.count; ++g) factor = factor_of(f, g) > factor ? factor_of(f, g) : factor;
    const std::uint32_t most = largest_scale(scale_kind::f32, rounded(scale * factor));
    const float largest = rule.what == rule_kind::four_over_six ? 256.0f : corrects ? exp2i(floor_log2(scale)) : scale;
    return {at_most(largest * least, max_finite), max_finite * at_most(least, 1.0f),
            to_float(f.outer.type == scale_kind::f32 ? most : most & 0xFFFF0000u)};
  }
};

/// S to the argument of Scale: amax times it.
UFP4_HD constexpr float scale_factor_of(float encode, float qmax) {
  return at_most(encode * (1.0f / qmax), max_finite);
}

/// Two-level constants as Transformer Engine computes them (numerics 5).
UFP4_HD constexpr tensor_constants make_tensor_constants(const format_spec& f, const scale_rule_spec& rule,
                                                         float global_amax, bool corrects = false) {
  if (!f.two_level()) return {};
  const outer_bounds bound = outer_bounds::of(f, rule, corrects);
  const float quotient = global_amax == 0.0f ? 1.0f : bound.numerator / global_amax;
  float S = at_most(quotient, bound.encode), decode = 1.0f / S;
  const bool is_float = f.outer.type == scale_kind::f32;
  if (!is_float) decode = decode_scale(f.outer.type, encode_scale(f.outer.type, decode));
  if (!is_float || decode > bound.decode) {
    decode = at_most(decode, bound.decode);
    S = at_most(1.0f / decode, max_finite);
  }
  return {decode, scale_factor_of(S, qmax_of(f, 0)), S};
}
UFP4_HD constexpr bool scale_divides(const format_spec& f) { return f.scale != scale_kind::e8m0 && !f.two_level(); }

UFP4_HD constexpr block_scale scale_from_bits(const format_spec& f, const tensor_constants& tensor,
                                              std::uint32_t bits) {
  const float s = decode_scale(f.scale, bits);
  if (scale_divides(f)) return {bits, s, s, true};
  if (f.scale == scale_kind::e8m0) return {bits, s, exp2i(127 - static_cast<int>(bits)), false};
  const float effective = s * tensor.decode;
  return {bits, effective, s == 0.0f ? 0.0f : at_most(1.0f / effective, max_finite), false};
}

/// |x| = significand * 2^(floor_log2(x) - 23), 2^23 <= significand < 2^24.
UFP4_HD constexpr std::uint32_t significand(float x) {
  std::uint32_t m = magnitude_bits(x);
  if (m >= 0x00800000u) return (m & 0x007FFFFFu) | 0x00800000u;
  while (m < 0x00800000u) m <<= 1;
  return m;
}

UFP4_HD constexpr power_of_two_rule make_power_of_two_rule(float qmax, rule_kind rule) {
  const std::uint32_t largest = significand(qmax);
  power_of_two_rule made{.top = floor_log2(qmax)};
  if (rule == rule_kind::mx_ceil) made.carry = largest + 1;
  if (rule == rule_kind::mx_even) {
    int m = 0;  // bits of qmax's mantissa
    while (m < 23 && (largest << (m + 1) & 0x00FFFFFFu) != 0) ++m;
    if (m < 23) made.carry -= 1u << (22 - m);  // the tie, half a unit below, goes up: the number below it is odd
  }
  return made;
}

/// The e8m0 code for a finite block amax.
UFP4_HD constexpr std::uint32_t power_of_two_scale(const power_of_two_rule& rule, float amax) {
  if (amax == 0.0f) return 0;
  const int one_more = significand(amax) >= rule.carry ? 1 : 0;
  const int code = floor_log2(amax) - rule.top + one_more + 127, most = largest_power(rule.top);
  return static_cast<std::uint32_t>(code < 0 ? 0 : code > most ? most : code);
}

/// The stored scale of a block under a rule that is_scale_of_amax: the one place where an amax becomes a scale.
UFP4_HD constexpr std::uint32_t scale_bits_of_amax(const format_spec& f, rule_kind rule, const tensor_constants& tensor,
                                                   float amax) {
  if (f.scale == scale_kind::e8m0) return power_of_two_scale(make_power_of_two_rule(f.grid.qmax, rule), amax);
  const float argument = f.two_level() ? amax * tensor.scale_factor : amax / f.grid.qmax;  // of Scale()
  std::uint32_t bits = encode_scale(f.scale, argument);
  if (f.scale == scale_kind::f32 && bits > max_finite_bits) bits = max_finite_bits;
  const bool is_low = rule == rule_kind::up && decode_scale(f.scale, bits) < argument && bits < max_scale(f.scale);
  return is_low ? bits + 1 : bits;
}

/// The error of nearest_even codes under a scale, over the block in index order: the sum of squares, by fma, or of
/// magnitudes, or the largest one. Grid: the format, or one of several grids of a block, which may have a factor.
template <class Grid>
UFP4_HD inline float error_of(const Grid& grid, const block_values& v, const block_scale& scale, search_error what) {
  constexpr bool is_one_of_several = std::is_same_v<Grid, grid4>;
  float err = 0.0f;
  for (int r = 0; r < v.rows; ++r)
    for (int k = 0; k < v.cols; ++k) {
      const float x = rounded(v.x[r * v.stride + k]);  // it may be a product that the compiler could fuse
      float t = rounded(scale.divides ? x / scale.factor : x * scale.factor);
      if constexpr (is_one_of_several) t = rounded(t * scale.rescale);
      const std::uint8_t code = scale.factor == 0.0f ? zero_code(grid) : round_to_code(grid, nearest_even{}, t, 0);
      const float d = x - rounded(value_of(grid, code) * scale.effective), m = magnitude(d);
      if (is_one_of_several && what == search_error::largest)
        err = m > err ? m : err;
      else
        err = what == search_error::squared ? fma(d, d, err) : err + m;
    }
  return err;
}

UFP4_HD inline block_scale four_or_six(const format_spec& f, search_error error, const tensor_constants& tensor,
                                       const block_values& v, float amax) {
  const float u = amax * tensor.scale_factor;
  const block_scale six = scale_from_bits(f, tensor, encode_scale(f.scale, u));
  const block_scale four = scale_from_bits(f, tensor, encode_scale(f.scale, 1.5f * u));
  return error_of(f, v, four, error) < error_of(f, v, six, error) ? four : six;
}

/// The steps of a search, by_format replaced.
UFP4_HD constexpr search_window window_of(scale_kind kind, const search_window& given) {
  const bool floats = has_float_steps(kind), power = kind == scale_kind::e8m0;
  search_window w = given;
  if (w.below == search_window::by_format) w.below = floats ? 8 : power ? 1 : 2;
  if (w.above == search_window::by_format) w.above = floats ? 16 : power ? 1 : 6;
  return w;
}

/// The candidate j steps from a scale, or false where its code is not valid.
UFP4_HD constexpr bool search_candidate(scale_kind kind, std::uint32_t base, int j, std::uint32_t& bits) {
  if (has_float_steps(kind)) {
    bits = encode_scale(kind, decode_scale(kind, base) * (1.0f + static_cast<float>(j) / 32.0f));
    return true;
  }
  const int code = static_cast<int>(base) + j;
  bits = static_cast<std::uint32_t>(code);
  return code >= 0 && code <= static_cast<int>(max_scale(kind));
}

/// How many of `count` magnitudes must be at or below a percentile.
UFP4_HD constexpr int percentile_rank(int count, int per_mille) { return (count * per_mille + 999) / 1000; }

/// The percentile of a block with this amax, bit by bit: the smallest number that enough magnitudes do not exceed.
UFP4_HD inline float percentile_of(const block_values& v, int per_mille, float amax) {
  const int rank = percentile_rank(v.rows * v.cols, per_mille);
  std::uint32_t least = 0;
  for (std::uint32_t bit = 0x40000000u; bit != 0; bit >>= 1) {
    int below = 0;
    for (int r = 0; r < v.rows; ++r)
      for (int k = 0; k < v.cols; ++k) below += magnitude_bits(v.x[r * v.stride + k]) < least + bit;
    if (below < rank) least += bit;
  }
  return least == 0 ? amax : to_float(least);
}

/// The scale of a block of finite values with this amax.
UFP4_HD inline block_scale choose_scale(const format_spec& f, const scale_rule_spec& rule,
                                        const tensor_constants& tensor, const block_values& v, float amax) {
  using namespace detail;
  if (rule.what == rule_kind::four_over_six) return four_or_six(f, rule.error, tensor, v, amax);
  if (rule.what == rule_kind::percentile) amax = percentile_of(v, rule.per_mille, amax);
  const std::uint32_t bits = scale_bits_of_amax(f, rule.what, tensor, amax);
  if (!rule.searches) return scale_from_bits(f, tensor, bits);
  // As in scale_for_grid: in a function for both GPU kernels need 95 registers instead of 80.
  const search_window window = window_of(f.scale, rule.window);
  block_scale best{};
  float least = 0.0f;
  bool found = false;
  for (int j = -static_cast<int>(window.below); j <= static_cast<int>(window.above); ++j) {
    std::uint32_t code = 0;
    if (!search_candidate(f.scale, bits, j, code)) continue;
    const block_scale candidate = scale_from_bits(f, tensor, code);
    const float err = error_of(f, v, candidate, rule.error);
    if (!found || err < least) best = candidate, least = err;
    found = true;
  }
  return best;
}
/// The same as choose_scale with a user's rule; NaN bits if its result is not a scale.
template <scale_rule Rule>
UFP4_HD block_scale choose_scale(const format_spec& f, const Rule& rule, const tensor_constants& tensor,
                                 const block_values& v, float amax) {
  using namespace detail;
  if (amax == 0.0f) return scale_from_bits(f, tensor, 0);
  const float wanted = rounded(rule(v, amax));
  if (!(wanted >= 0.0f && wanted <= max_finite)) return {nan_scale(f.scale), quiet_nan, 0.0f, false};
  return scale_from_bits(f, tensor, encode_scale(f.scale, f.two_level() ? wanted / tensor.decode : wanted));
}

}  // namespace ufp4::detail::inline UFP4_CODE
