// ufp4 - user-defined grids for tests of table_element and of rounding to a grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/format/table_element.hpp>

namespace format_tests {

// Uneven steps, no symmetry, all sixteen levels in use.
struct uneven_levels {
  static constexpr float values[16] = {-12, -8, -5, -3, -1, 0, 1, 2, 3, 4, 6, 8, 11, 14, 17, 40};
  static constexpr bool exact_products = true;
};
// Zero at the lower end: a grid of one sign.
struct counting_levels {
  static constexpr float values[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  static constexpr bool exact_products = true;
};
// Multiples of a power of two from -8 to 8, without 7.
template <int exponent>
struct scaled_levels {
  static constexpr float u = ufp4::detail::exp2i(exponent);
  static constexpr float values[16] = {-8 * u, -7 * u, -6 * u, -5 * u, -4 * u, -3 * u, -2 * u, -u,
                                       0,      u,      2 * u,  3 * u,  4 * u,  5 * u,  6 * u,  8 * u};
};
template <int exponent>
using multiples_of = ufp4::table_element<scaled_levels<exponent>>;
using uneven = ufp4::table_element<uneven_levels>;
using counting = ufp4::table_element<counting_levels>;
static_assert(uneven::exact_products && counting::exact_products);

}  // namespace format_tests
