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
using uneven = ufp4::table_element<uneven_levels>;
using counting = ufp4::table_element<counting_levels>;
static_assert(uneven::exact_products && counting::exact_products);

}  // namespace format_tests
