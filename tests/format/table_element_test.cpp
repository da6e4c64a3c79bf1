// ufp4 - table_element: nf4 and user-defined grids.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/table_element.hpp>

#include "format/scalar_model.hpp"
#include "format/user_tables.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using ufp4::nf4;
using ufp4::table_element;

namespace {

using format_tests::counting, format_tests::uneven;

// Zero at the upper end: a grid of one sign.
struct debt_levels {
  static constexpr float values[16] = {-15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0};
  static constexpr bool exact_products = true;
};
// To the end of binary32: twice a value, or the sum of two, overflows.
struct giant_levels {
  static constexpr float values[16] = {-0x1.8p127f, -0x1p127f,  -0x1p126f,  -0x1p125f,      0,          0x1p124f,
                                       0x1p125f,    0x1.8p125f, 0x1p126f,   0x1.4p126f,     0x1.8p126f, 0x1.cp126f,
                                       0x1p127f,    0x1.4p127f, 0x1.8p127f, 0x1.fffffep127f};
  static constexpr bool exact_products = false;
};
using debt = table_element<debt_levels>;
using giant = table_element<giant_levels>;

// As hardware numbers E2M1: sign and magnitude.
struct hardware_levels {
  static constexpr float values[16] = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0f, -.5, -1, -1.5, -2, -3, -4, -6};
};
// Descending.
struct descending_levels {
  static constexpr float values[16] = {17, 14, 11, 8, 6, 4, 3, 2, 1, 0, -1, -3, -5, -8, -12, -40};
};
// In no order, with repeated values: +0 at 5 and 9, -0 at 2 and 14, 7 at 3 and 0, -4 at 8 and 15.
struct shuffled_levels {
  static constexpr float values[16] = {7, 2, -0.0f, 7, -2, 0, 11, -1, -4, 0, 1, 3, -9, 5, -0.0f, -4};
};
// Fractions that no float holds, in no order: products are not exact.
struct thirds_levels {
  static constexpr float values[16] = {1 / 3.0f,  -1 / 3.0f, 0,    2 / 3.0f, 1,     -1,   4 / 3.0f, -4 / 3.0f,
                                       -2 / 3.0f, 5 / 3.0f,  0.1f, -0.1f,    -0.2f, 0.2f, 2,        -2};
};
// Neighbours whose sum is no number of binary64: half of the larger one is nearer to the smaller one.
struct far_apart_levels {
  static constexpr float values[16] = {2, 0, 1, -1, -2, 0x1p-60f, -0x1p-60f, 0x1p100f, -0x1p100f};
};
using far_apart = table_element<far_apart_levels>;
using hardware = table_element<hardware_levels>;
using descending = table_element<descending_levels>;
using shuffled = table_element<shuffled_levels>;
using thirds = table_element<thirds_levels>;

template <class T>
std::vector<double> table();
template <>
std::vector<double> table<nf4>() {
  return scalar::nf4_values;
}
template <>
std::vector<double> table<uneven>() {
  return {-12, -8, -5, -3, -1, 0, 1, 2, 3, 4, 6, 8, 11, 14, 17, 40};
}
template <>
std::vector<double> table<counting>() {
  return {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}
template <>
std::vector<double> table<debt>() {
  return {-15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0};
}
template <>
std::vector<double> table<giant>() {
  return {-0x1.8p127, -0x1p127,  -0x1p126,  -0x1p125,  0,       0x1p124,   0x1p125,   0x1.8p125,
          0x1p126,    0x1.4p126, 0x1.8p126, 0x1.cp126, 0x1p127, 0x1.4p127, 0x1.8p127, 0x1.fffffep127};
}

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
static_assert(nf4{0.0f}.bits() == 7 && nf4{-0.0f}.bits() == 7 && static_cast<float>(nf4{0.7f}) == 0.7229568362236023f);
static_assert(nf4{-inf}.bits() == 0 && nf4{inf}.bits() == 15 && nf4{nan}.bits() == 15 && (nf4::max)() == 1.0f);
static_assert(uneven{28.5f}.bits() == 15 && uneven{-10.0f}.bits() == 1 && (debt::max)() == 15.0f);
static_assert(sizeof(nf4) == 1 && std::is_trivially_copyable_v<nf4> && !std::is_convertible_v<float, nf4>);
static_assert(ufp4::element_format<uneven> && ufp4::element_format<counting> && ufp4::element_format<debt> &&
              ufp4::element_format<giant>);
static_assert(!nf4::exact_products && !giant::exact_products && uneven::exact_products && counting::exact_products &&
              debt::exact_products && hardware::exact_products && shuffled::exact_products && !thirds::exact_products);
static_assert(ufp4::grid_of<hardware>() == ufp4::grid_of<ufp4::fp4<ufp4::E2M1>>());
static_assert(hardware{-0.1f}.bits() == 8 && hardware{0.1f}.bits() == 0 && hardware{nan}.bits() == 7);
static_assert(far_apart{0.5f}.bits() == 5 && far_apart{-0.5f}.bits() == 6 && far_apart{0x1p99f}.bits() == 0);
static_assert(far_apart{0x1.000002p-1f}.bits() == 2 && far_apart{-0x1.000002p-1f}.bits() == 3);
static_assert(far_apart{-0x1p99f}.bits() == 4 && far_apart{0x1.000002p99f}.bits() == 7 && far_apart{1.5f}.bits() == 2);
static_assert(shuffled{7}.bits() == 0 && shuffled{-4}.bits() == 8 && shuffled{0.0f}.bits() == 5);
static_assert(shuffled{-0.0f}.bits() == 2 && shuffled{-nan}.bits() == 6 && shuffled{-inf}.bits() == 12);
static_assert(descending{0.0f}.bits() == 9 && descending{-0.0f}.bits() == 9 && descending{nan}.bits() == 0);

/// A conversion to values in any order, as numerics 1 has it: of distinct values ascending, each with its lowest code.
template <std::size_t n>
std::uint32_t code_of(const float (&values)[n], std::uint32_t x) {
  scalar::ladder rungs;
  std::uint32_t plus_zero = 16, minus_zero = 16;
  for (std::uint32_t c = 16; c-- > 0;) {
    if (scalar::bits_of(values[c]) == 0) plus_zero = c;
    if (scalar::bits_of(values[c]) == 0x80000000u) minus_zero = c;
  }
  std::vector<std::pair<double, std::uint32_t>> sorted;
  for (std::uint32_t c = 0; c < 16; ++c) sorted.emplace_back(static_cast<double>(values[c]), c);
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [value, code] : sorted) {
    if (!rungs.value.empty() && rungs.value.back() == value) continue;
    if (value == 0) rungs.zero = static_cast<int>(rungs.value.size());
    rungs.value.push_back(value), rungs.code.push_back(value == 0 ? plus_zero : code);
  }
  if (scalar::is_nan(x)) return rungs.code.back();
  const int at = rungs.find(scalar::value_of(x));
  if (at == rungs.zero && scalar::is_negative(x) && minus_zero < 16) return minus_zero;
  return rungs.code[static_cast<std::size_t>(at)];
}

}  // namespace

#define TABLES nf4, uneven, counting, debt, giant

TEMPLATE_TEST_CASE("every code has the value of the table and converts to itself", "[format][table]", TABLES) {
  const std::vector<double> values = table<TestType>();
  double largest = 0;
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto element = TestType::from_bits(static_cast<std::uint8_t>(bits));
    const auto want = static_cast<float>(values[bits & 15]);
    INFO("bits " << bits);
    CHECK(element.bits() == (bits & 15));
    CHECK(scalar::bits_of(static_cast<float>(element)) == scalar::bits_of(want));
    CHECK(TestType{want}.bits() == (bits & 15));
    largest = std::max(largest, std::abs(values[bits & 15]));
  }
  CHECK(static_cast<double>(TestType::max()) == largest);
}

TEMPLATE_TEST_CASE("a float converts to the nearest level, ties to an even number of steps from zero",
                   "[format][table]", TABLES) {
  INFO(support::seed_note());
  const scalar::conversion want{scalar::counted(table<TestType>()), scalar::sign_rule::in_the_values, 15, 0};
  scalar::comparison seen;
  scalar::for_each_input(want.rungs,
                         [&](std::uint32_t x) { seen.check(x, TestType{scalar::float_of(x)}.bits(), want(x)); });
  CHECK(seen.verdict() == "agrees");
}

TEST_CASE("nf4 divides at the midpoints: the last float below goes down, the first above goes up", "[format][table]") {
  for (std::size_t c = 0; c + 1 < 16; ++c) {
    const double middle = (scalar::nf4_values[c] + scalar::nf4_values[c + 1]) / 2;  // exact in binary64
    float below = static_cast<float>(middle), above = below;
    while (static_cast<double>(below) >= middle) below = std::nextafter(below, -2.0f);
    while (static_cast<double>(above) <= middle) above = std::nextafter(above, 2.0f);
    INFO("between codes " << c << " and " << c + 1);
    CHECK(nf4{below}.bits() == c);
    CHECK(nf4{above}.bits() == c + 1);
  }
}

TEMPLATE_TEST_CASE("elements of a table compare as numbers", "[format][table]", TABLES) {
  for (unsigned a = 0; a < 16; ++a) {
    for (unsigned b = 0; b < 16; ++b) {
      const auto left = TestType::from_bits(static_cast<std::uint8_t>(a)),
                 right = TestType::from_bits(static_cast<std::uint8_t>(b));
      const double x = table<TestType>()[a], y = table<TestType>()[b];
      CHECK((left == right) == (x == y));
      CHECK((left < right) == (x < y));
      CHECK((left >= right) == (x >= y));
    }
  }
}

TEMPLATE_TEST_CASE("values in any order: a code has its value, a float the lowest code of the nearest value",
                   "[format][table]", hardware_levels, descending_levels, shuffled_levels, thirds_levels,
                   ufp4::detail::nf4_levels) {
  INFO(support::seed_note());
  using element = table_element<TestType>;
  for (std::uint8_t c = 0; c < 16; ++c) {
    INFO("code " << unsigned{c});
    CHECK(scalar::bits_of(static_cast<float>(element::from_bits(c))) == scalar::bits_of(TestType::values[c]));
  }
  std::vector<double> values(std::begin(TestType::values), std::end(TestType::values));
  std::sort(values.begin(), values.end());
  scalar::comparison seen;
  scalar::for_each_input(scalar::counted(values), [&](std::uint32_t x) {
    seen.check(x, element{scalar::float_of(x)}.bits(), code_of(TestType::values, x));
  });
  CHECK(seen.verdict() == "agrees");
}

TEMPLATE_TEST_CASE("the grid of a table is that of its values at run time", "[format][table]", hardware_levels,
                   descending_levels, shuffled_levels, thirds_levels, ufp4::detail::nf4_levels) {
  CHECK(ufp4::grid_of<table_element<TestType>>() == ufp4::grid4::of(TestType::values));
}

TEST_CASE("two codes of one value are equal, and neither is less", "[format][table]") {
  const auto code = [](std::uint8_t c) { return shuffled::from_bits(c); };
  CHECK((code(0) == code(3) && code(2) == code(5) && code(8) == code(15)));
  CHECK(!(code(0) < code(3) || code(3) < code(0) || code(2) < code(5)));
  CHECK((code(12) < code(8) && code(6) > code(0)));
}
