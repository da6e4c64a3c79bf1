// ufp4 - table_element: a 4-bit element format from sixteen values; nf4 as the example of one.
// SPDX-License-Identifier: Apache-2.0
//
// Defines a grid of your own:
//
//   struct my_levels { static constexpr float values[16] = {...}; static constexpr bool exact_products = false; };
//   using my_element = ufp4::table_element<my_levels>;
//
// It works in blocks, operations, recipes and analysis, as fp4<E2M1> does.
#pragma once

#include <ufp4/concepts.hpp>
#include <ufp4/format/minifloat.hpp>

namespace ufp4::inline UFP4_TYPES {

/// The element whose code c has the value Levels::values[c]. The values ascend, are finite, and one is +0. Values may
/// repeat, for a grid of fewer than sixteen: a conversion gives the lowest code of a value.
///
/// | from float | nearest; a tie goes to the value an even number of distinct values from zero; saturates |
/// | NaN        | the largest value                                                                       |
template <class Levels>
class table_element : public detail::coded<table_element<Levels>, std::uint8_t, 15> {
  using detail::coded<table_element, std::uint8_t, 15>::bits_;

 public:
  static constexpr bool exact_products = Levels::exact_products;

  table_element() = default;
  UFP4_MEMBER constexpr explicit table_element(float x) { bits_ = nearest(x); }
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
  /// The number of distinct values between that of code c and zero.
  UFP4_MEMBER static constexpr int steps_from_zero(int c) {
    const int zero = zero_code();
    int steps = 0;
    for (int k = (c < zero ? c : zero) + 1; k <= (c < zero ? zero : c); ++k) steps += value(k - 1) != value(k);
    return steps;
  }
  /// Whether x rounds to a code above c.
  UFP4_MEMBER static constexpr bool above_midpoint(float x, int c) {
    const double twice = 2.0 * static_cast<double>(x);
    const double sum = static_cast<double>(value(c)) + static_cast<double>(value(c + 1));
    return twice > sum || (twice == sum && (steps_from_zero(c) & 1) != 0);
  }
};

/// The values of QLoRA's NormalFloat: quantiles of a Gaussian, normalised to [-1, 1] (arXiv 2305.14314, appendix E).
struct nf4_levels {
  /// By code, ascending.
  static constexpr float values[16] = {
      -1.0f,         -0.696192801f, -0.525073051f, -0.394917488f, -0.284441382f, -0.18477343f, -0.0910500363f, 0.0f,
      0.0795802996f, 0.160930201f,  0.246112302f,  0.337915242f,  0.440709829f,  0.562617004f, 0.722956836f,   1.0f};
  static constexpr bool exact_products = false;
};
using nf4 = table_element<nf4_levels>;  ///< NF4; its products are not exact

static_assert(element_format<nf4>);

}  // namespace ufp4::inline UFP4_TYPES
