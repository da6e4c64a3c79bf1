// ufp4 - table_element: a 4-bit element format from sixteen values; nf4 as the example of one.
// SPDX-License-Identifier: Apache-2.0
//
// Defines a grid of your own, the values in the order of their codes:
//
//   struct my_levels { static constexpr float values[16] = {...}; };
//   using my_element = ufp4::table_element<my_levels>;
//
// It works in blocks, operations, recipes and analysis, as fp4<E2M1> does.
#pragma once

#include <ufp4/format/grid.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// Levels::values as floats, and their grid; one without levels if they are no grid.
struct sixteen_values {
  float at[16];
};
template <class Levels>
inline constexpr sixteen_values table_values = [] {
  sixteen_values values{};
  for (int c = 0; c < 16; ++c) values.at[c] = Levels::values[c];
  return values;
}();
template <class Levels>
inline constexpr grid4 table_grid = grid4::of(table_values<Levels>.at);

/// The values of QLoRA's NormalFloat: quantiles of a Gaussian, normalised to [-1, 1] (arXiv 2305.14314, appendix E).
struct nf4_levels {
  /// By code, ascending.
  static constexpr float values[16] = {
      -1.0f,         -0.696192801f, -0.525073051f, -0.394917488f, -0.284441382f, -0.18477343f, -0.0910500363f, 0.0f,
      0.0795802996f, 0.160930201f,  0.246112302f,  0.337915242f,  0.440709829f,  0.562617004f, 0.722956836f,   1.0f};
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// The element whose code c has the value Levels::values[c]. The values are finite and in any order, ascending or as
/// hardware numbers them; one is +0. Values may repeat, for a grid of fewer than sixteen: a conversion gives the lowest
/// code of a value. If Levels::exact_products is stated, it must be what the library computes.
///
/// | from float | nearest; a tie goes to the value an even number of distinct values from zero; saturates       |
/// | NaN        | the largest value                                                                             |
/// | zero       | the lowest code of +0; -0 and negative values that round to zero: of -0 if it is in the table |
/// | comparison | of values: -0 == +0, and two codes of one value are equal                                     |
template <class Levels>
class table_element : public detail::coded<table_element<Levels>, std::uint8_t, 15, std::weak_ordering> {
  using table_element::coded::bits_;

  static_assert(detail::table_grid<Levels>.levels > 1,
                "the values of a table_element must be finite, of at least two numbers, and one must be +0");
  static_assert(detail::states_no_other<Levels, detail::table_grid<Levels>.exact_products>());

 public:
  static constexpr bool exact_products = detail::table_grid<Levels>.exact_products;

  table_element() = default;
  UFP4_MEMBER constexpr explicit table_element(float x) {
    constexpr grid4 grid = detail::table_grid<Levels>;  // local: device code cannot index a namespace-scope table
    bits_ = detail::nearest_code(grid, x);
  }
  UFP4_MEMBER constexpr float value() const {
    constexpr auto values = detail::table_values<Levels>;
    return values.at[bits_];
  }
  UFP4_MEMBER static constexpr float(max)() {
    constexpr grid4 grid = detail::table_grid<Levels>;
    return grid.qmax;
  }
};
using nf4 = table_element<detail::nf4_levels>;  ///< NF4; its products are not exact

static_assert(element_format<nf4>);

}  // namespace ufp4::inline UFP4_TYPES
