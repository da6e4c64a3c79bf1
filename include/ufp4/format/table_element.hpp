// ufp4 - table_element: a 4-bit element format from sixteen values; nf4 as the example of one.
// SPDX-License-Identifier: Apache-2.0
//
// A grid of one's own is one line:
//
//   struct my_levels { static constexpr float values[16] = {...}; static constexpr bool exact_products = false; };
//   using my_element = ufp4::table_element<my_levels>;
//
// and works wherever fp4<E2M1> does: blocks, operations, recipes, analysis.
#pragma once

#include <compare>
#include <cstdint>
#include <ufp4/concepts.hpp>
#include <ufp4/detail/bits.hpp>

namespace ufp4::inline UFP4_TYPES {

/// The element whose code c has the value Levels::values[c]: ascending, finite, one of them +0. Values may repeat, for a
/// grid of fewer than sixteen: conversion gives the lowest code of a value.
///
/// | from float | nearest; a tie goes to the value an even number of distinct values from zero; saturating |
/// | NaN        | the largest value                                                                        |
template <class Levels>
class table_element {
 public:
  static constexpr bool exact_products = Levels::exact_products;

  table_element() = default;
  UFP4_MEMBER constexpr explicit table_element(float x) : bits_(nearest(x)) {}
  UFP4_MEMBER static constexpr table_element from_bits(std::uint8_t bits) {
    table_element element{};
    element.bits_ = bits & 15u;
    return element;
  }
  UFP4_MEMBER constexpr std::uint8_t bits() const { return bits_; }
  UFP4_MEMBER constexpr explicit operator float() const { return value(bits_); }
  UFP4_MEMBER static constexpr float(max)() { return -value(0) > value(15) ? -value(0) : value(15); }

  UFP4_MEMBER friend constexpr bool operator==(table_element a, table_element b) { return a.bits_ == b.bits_; }
  UFP4_MEMBER friend constexpr std::strong_ordering operator<=>(table_element a, table_element b) {
    return a.bits_ <=> b.bits_;  // codes ascend with their values
  }

 private:
  UFP4_MEMBER static constexpr float value(int code) {
    constexpr auto copy = [] {  // function-local: device code cannot index a namespace-scope table at run time
      struct {
        float at[16];
      } table{};
      for (int c = 0; c < 16; ++c) table.at[c] = Levels::values[c];
      return table;
    }();
    return copy.at[code];
  }
  UFP4_MEMBER static constexpr int zero_code() {
    for (int c = 0; c < 16; ++c)
      if (value(c) == 0.0f) return c;
    return -1;
  }
  UFP4_MEMBER static constexpr bool well_formed() {
    for (int c = 1; c < 16; ++c)
      if (!(value(c - 1) <= value(c))) return false;
    return detail::is_finite(value(0)) && detail::is_finite(value(15)) && zero_code() >= 0;
  }
  UFP4_MEMBER static constexpr std::uint8_t nearest(float x) {
    static_assert(well_formed(), "the values of a table_element must be finite, ascending and hold a zero");
    int c = detail::is_nan(x) ? 15 : 0;
    while (c < 15 && above_midpoint(x, c)) ++c;
    while (c > 0 && value(c - 1) == value(c)) --c;
    return static_cast<std::uint8_t>(c);
  }
  /// Distinct values between that of code c and zero.
  UFP4_MEMBER static constexpr int steps_from_zero(int c) {
    const int zero = zero_code();
    int steps = 0;
    for (int k = (c < zero ? c : zero) + 1; k <= (c < zero ? zero : c); ++k) steps += value(k - 1) != value(k);
    return steps;
  }
  /// Does x belong to a code above c? Twice x against the sum of both values, in binary64, where both are exact for
  /// values within 2^29 of each other.
  UFP4_MEMBER static constexpr bool above_midpoint(float x, int c) {
    const double twice = 2.0 * static_cast<double>(x);
    const double sum = static_cast<double>(value(c)) + static_cast<double>(value(c + 1));
    return twice > sum || (twice == sum && (steps_from_zero(c) & 1) != 0);
  }

  std::uint8_t bits_;
};

/// QLoRA's NormalFloat: quantiles of a Gaussian, normalised to [-1, 1] (arXiv 2305.14314, appendix E).
struct nf4_levels {
  static constexpr float values[16] = {-1.0f,
                                       -0.6961928009986877f,
                                       -0.5250730514526367f,
                                       -0.39491748809814453f,
                                       -0.28444138169288635f,
                                       -0.18477343022823334f,
                                       -0.09105003625154495f,
                                       0.0f,
                                       0.07958029955625534f,
                                       0.16093020141124725f,
                                       0.24611230194568634f,
                                       0.33791524171829224f,
                                       0.44070982933044434f,
                                       0.5626170039176941f,
                                       0.7229568362236023f,
                                       1.0f};
  static constexpr bool exact_products = false;
};
using nf4 = table_element<nf4_levels>;

static_assert(element_format<nf4>);

}  // namespace ufp4::inline UFP4_TYPES
