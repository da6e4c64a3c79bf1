// ufp4 - an element format as data: its sixteen values, sorted, with the constants that kernels use.
// SPDX-License-Identifier: Apache-2.0
//
// Kernels take a grid4 instead of a type, so that one kernel serves every format, a user's own included (architecture
// decision 3). grid_of<E>() computes it at compile time. The grid of elements of one byte has constants, but no levels.
#pragma once

#include <ufp4/concepts.hpp>
#include <ufp4/format/minifloat.hpp>

namespace ufp4::inline UFP4_TYPES {

/// An element format as data.
struct grid4 {
  float value[16];           ///< by code
  float level[16];           ///< the distinct values that rounding can give, ascending
  std::uint8_t code[16];     ///< the code of each level; of the two zeros +0
  std::int16_t integer[16];  ///< value / unit by code, if exact_products
  float unit;                ///< the power of two that all values are multiples of, if exact_products, or of one byte
  float qmax;                ///< largest magnitude that rounding can give
  int levels;                ///< number of levels
  int zero;                  ///< index of the level 0 in `level`
  std::uint8_t minus_zero;   ///< code of a negative value that rounds to zero
  bool exact_products;       ///< block dot products are exact in any order (numerics 1); computed from the values
  std::int16_t low, high;    ///< the least and the largest `integer`; -128 and 127 of an element of one byte

  /// The grid of sixteen finite numbers by code, for an element format that is known at run time only. Every distinct
  /// number is a level; of equal ones the lowest code is used, of zeros +0 and, for negative values that round to zero,
  /// -0 if there is one. A grid without levels, which every operation rejects, if a number is not finite or none is +0.
  UFP4_HOST_MEMBER static constexpr grid4 of(const float (&values)[16]);
  friend constexpr bool operator==(const grid4&, const grid4&) = default;
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

/// The largest power of two of which every value is a multiple.
constexpr float unit_of(const float (&value)[16]) {
  int lowest = 128;
  for (const float v : value) {
    if (v == 0.0f) continue;
    int e = floor_log2(v);
    while (compose(static_cast<std::uint32_t>(magnitude(v) / exp2i(e)), e) != magnitude(v)) --e;
    lowest = e < lowest ? e : lowest;
  }
  return exp2i(lowest);
}

/// Sets exact_products and what follows: the dot product of two blocks is exact in any order of summation if values are
/// integers up to 181 times a power of two from 2^-74 to 2^51. 256 products of two are below 2^23 units, and a unit of
/// the product is from 2^-148, a subnormal number, to 2^102.
constexpr void set_integers(grid4& g) {
  const float unit = unit_of(g.value);
  g.exact_products = unit >= 0x1p-74f && unit <= 0x1p51f;
  for (const float v : g.value) g.exact_products = g.exact_products && magnitude(v) <= 181.0f * unit;
  if (!g.exact_products) return;
  g.unit = unit;
  for (int c = 0; c < 16; ++c) {
    g.integer[c] = static_cast<std::int16_t>(g.value[c] / unit);
    g.low = g.integer[c] < g.low ? g.integer[c] : g.low;
    g.high = g.integer[c] > g.high ? g.integer[c] : g.high;
  }
}

/// Rejects a type that states another exact_products than its values give.
template <class T, bool exact>
constexpr bool states_no_other() {
  if constexpr (requires { T::exact_products; })
    static_assert(T::exact_products == exact,
                  "exact_products is stated, but not as the values are; leave it out: it is computed");
  return true;
}

/// The index of the level in an ascending list; the place where it would be if it is not in it.
constexpr int place_of(const grid4& g, float v) {
  int at = 0;
  while (at < g.levels && g.level[at] < v) ++at;
  return at;
}
constexpr void insert_level(grid4& g, float v, int code) {
  const int at = place_of(g, v);
  for (int i = g.levels++; i > at; --i) g.level[i] = g.level[i - 1], g.code[i] = g.code[i - 1];
  g.level[at] = v;
  g.code[at] = static_cast<std::uint8_t>(code);
}

template <element_format E>
constexpr grid4 make_grid() {
  grid4 g{};
  for (int c = 0; c < 16; ++c) g.value[c] = static_cast<float>(E::from_bits(static_cast<std::uint8_t>(c)));
  const std::uint8_t plus_zero = E(0.0f).bits();
  g.minus_zero = E(-0.0f).bits();
  for (int c = 0; c < 16; ++c) {
    const float v = g.value[c];
    if (E(v).bits() == c && (v != 0.0f || c == plus_zero)) insert_level(g, v, c);
  }
  g.zero = place_of(g, 0.0f);
  g.qmax = (E::max)();
  set_integers(g);
  return g;
}

/// The least and the largest value that rounding can give; what is beyond them saturates.
struct value_range {
  float least, most;
  UFP4_HD constexpr bool leaves_out(float t) const { return t < least || t > most; }
};
UFP4_HD constexpr value_range value_range_of(const grid4& g) {
  return g.levels == 0 ? value_range{-g.qmax, g.qmax} : value_range{g.level[0], g.level[g.levels - 1]};
}

/// The code of the nearest level, a tie to one that is an even number of levels from zero; a NaN gives the last level.
UFP4_HD constexpr std::uint8_t nearest_code(const grid4& grid, float x) {
  int at = is_nan(x) ? grid.levels - 1 : 0;
  for (; at + 1 < grid.levels; ++at) {
    const float low = grid.level[at], high = grid.level[at + 1];
    const int side = low < 0.0f ? -against_midpoint(high, low, x) : against_midpoint(low, high, x);
    if (!(side > 0 || (side == 0 && ((at - grid.zero) & 1) != 0))) break;
  }
  return at == grid.zero && is_negative(x) && !is_nan(x) ? grid.minus_zero : grid.code[at];
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::detail::inline UFP4_TYPES {

/// The constants of elements of one byte whose values are multiples of `unit`, the smallest positive one; no levels.
UFP4_HOST_MEMBER constexpr grid4 byte_grid(byte_element kind, float unit) {
  grid4 g{};
  g.unit = unit, g.low = -128, g.high = 127;
  g.exact_products = kind == byte_element::int8;
  g.qmax = g.exact_products ? 127.0f * unit : decode(byte_layout(kind), byte_layout(kind).max_code);
  return g;
}

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// The grid of an element type. Requires a zero among its values.
template <element_format E>
constexpr grid4 grid_of() {
  constexpr grid4 grid = detail::make_grid<E>();
  static_assert(grid.level[grid.zero] == 0.0f, "an element format needs a zero");
  static_assert(detail::states_no_other<E, grid.exact_products>());
  return grid;
}
template <detail::byte_element_format E>
constexpr grid4 grid_of() {
  constexpr grid4 grid = detail::byte_grid(E::byte, E::unit());
  static_assert(grid.qmax == (E::max)(), "an element of one byte has the largest magnitude of its kind");
  return grid;
}

constexpr grid4 grid4::of(const float (&values)[16]) {
  grid4 g{};
  int plus_zero = -1, minus_zero = -1;
  for (int c = 0; c < 16; ++c) {
    const std::uint32_t bits = detail::to_bits(values[c]);
    if ((bits & ~detail::sign_mask) > detail::max_finite_bits) return {};
    if (bits == 0 && plus_zero < 0) plus_zero = c;
    if (bits == detail::sign_mask && minus_zero < 0) minus_zero = c;
    g.value[c] = values[c];
  }
  if (plus_zero < 0) return {};
  for (int c = 0; c < 16; ++c) {
    const float v = g.value[c];
    const int at = detail::place_of(g, v);
    if (at < g.levels && g.level[at] == v) continue;
    v == 0.0f ? detail::insert_level(g, 0.0f, plus_zero) : detail::insert_level(g, v, c);
  }
  g.zero = detail::place_of(g, 0.0f);
  g.minus_zero = static_cast<std::uint8_t>(minus_zero < 0 ? plus_zero : minus_zero);
  const float lowest = detail::magnitude(g.level[0]), highest = detail::magnitude(g.level[g.levels - 1]);
  g.qmax = highest > lowest ? highest : lowest;
  if (g.levels == 1) return {};
  detail::set_integers(g);
  return g;
}

}  // namespace ufp4::inline UFP4_TYPES
