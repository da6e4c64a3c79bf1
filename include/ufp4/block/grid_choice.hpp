// ufp4 - the grid and the scale of a block that chooses among several grids or has one-bit exponents (numerics 5).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/block/scale_rules.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// Chooses the one-bit exponents of scaled values t, level by level, and divides t by their powers of two. A group has
/// the exponent 1 if its largest magnitude, divided by the power of the level above, is at least
/// 2^(E + 1 + levels below); 2^E is the largest power of two up to qmax. Returns the bits that exponent_of reads.
UFP4_HD constexpr std::uint32_t take_exponents(const format_spec& f, int cols, float* t) {
  const int levels = exponent_levels(f.block), top = floor_log2(f.grid.qmax);
  std::uint32_t bits = 0;
  for (int level = 0, at = 8; level < levels; at += cols / f.block.group[level], ++level) {
    const int size = f.block.group[level];
    const float least = exp2i(top + levels - level);
    for (int g = 0; g < cols / size; ++g) {
      bool large = false;
      for (int k = g * size; k < (g + 1) * size; ++k) large = large || magnitude(t[k]) >= least;
      for (int k = g * size; large && k < (g + 1) * size; ++k) t[k] = rounded(t[k] * 0.5f);
      bits |= static_cast<std::uint32_t>(large) << (at + g);
    }
  }
  return bits;
}

/// The error of nearest_even codes with their one-bit exponents under a scale, over a block of one row.
UFP4_HD inline float error_with_exponents(const format_spec& f, const block_values& v, const block_scale& scale,
                                          search_error what) {
  const bool zero = scale.factor == 0.0f;
  float t[256], err = 0.0f;
  for (int k = 0; k < v.cols; ++k)
    t[k] = zero ? 0.0f : rounded(scale.divides ? v.x[k] / scale.factor : v.x[k] * scale.factor);
  const std::uint32_t bits = take_exponents(f, v.cols, t);
  for (int k = 0; k < v.cols; ++k) {
    const float value = f.grid.value[zero ? zero_code(f.grid) : round_to_grid(f.grid, nearest_even{}, t[k], 0)];
    const float x = rounded(v.x[k]), d = x - rounded(value * exp2i(exponent_of(f, bits, k)) * scale.effective);
    err = what == search_error::squared ? fma(d, d, err) : err + magnitude(d);
  }
  return err;
}

/// A scale of `one`, a format with grid g of f alone, as the scale of a block of f that has this grid.
UFP4_HD inline block_scale with_factor_of(const format_spec& f, int g, const tensor_constants& tensor,
                                          block_scale scale) {
  const float factor = factor_of(f, g);
  if (factor == 1.0f) return scale;
  scale.effective = decode_scale(f.scale, scale.bits) * factor;
  if (f.two_level()) scale.effective = rounded(scale.effective) * tensor.decode;
  scale.rescale = 1.0f / factor;
  return scale;
}

/// The scale of a block for one of several grids, or of a block with exponents: that of a format with this grid alone,
/// whose qmax has the factor and the exponents. A search compares the errors of the whole block.
UFP4_HD inline block_scale scale_for_grid(const format_spec& f, int g, const scale_rule_spec& rule,
                                          const tensor_constants& tensor, const block_values& v, float amax) {
  format_spec one{nth_grid(f, g), f.scale, {f.block.rows, f.block.cols}, f.outer};
  one.grid.qmax = qmax_of(f, g);
  tensor_constants constants = tensor;
  if (f.two_level()) constants.scale_factor = scale_factor_of(tensor.encode, one.grid.qmax);
  scale_rule_spec plain = rule;
  plain.searches = false;
  block_scale scale = choose_scale(one, plain, constants, v, amax);
  const std::uint32_t largest = largest_scale(f, g);
  if (scale.bits > largest) scale = scale_from_bits(one, constants, largest);
  scale = with_factor_of(f, g, tensor, scale);
  if (!rule.searches) return scale;
  const search_window window = window_of(f.scale, rule.window);
  block_scale best{};
  float least = 0.0f;
  bool found = false;
  for (int j = -static_cast<int>(window.below); j <= static_cast<int>(window.above); ++j) {
    std::uint32_t bits = 0;
    if (!search_candidate(f.scale, scale.bits, j, bits)) continue;
    const block_scale candidate = with_factor_of(f, g, tensor, scale_from_bits(one, tensor, bits));
    const float err = f.block.group[0] != 0 ? error_with_exponents(f, v, candidate, rule.error)
                                            : error_of(nth_grid(f, g), v, candidate, rule.error);
    if (!found || err < least) best = candidate, least = err;
    found = true;
  }
  return best;
}

/// One of the grids of a block, and the scale for it.
struct grid_and_scale {
  int grid;           ///< its number
  block_scale scale;  ///< `bits` without the number of the grid
};

/// Which of several grids a block of finite values with this amax has, and its scale: the grid with the smallest error
/// in the measure of rule.grids, of equal ones the first. A search chooses the scale of each grid by rule.error.
UFP4_HD inline grid_and_scale choose_grid_of(const format_spec& f, const scale_rule_spec& rule,
                                             const tensor_constants& tensor, const block_values& v, float amax) {
  using namespace detail;
  grid_and_scale best{};
  float least = 0.0f;
  for (int g = 0; g <= f.choice.count; ++g) {
    const block_scale scale = scale_for_grid(f, g, rule, tensor, v, amax);
    const float err = error_of(nth_grid(f, g), v, scale, rule.grids);
    if (g == 0 || err < least) best = {g, scale}, least = err;
  }
  return best;
}

}  // namespace ufp4::detail::inline UFP4_CODE
