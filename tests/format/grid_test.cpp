// ufp4 - grid4: an element format as data says what the type says.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/grid.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/table_element.hpp>

#include "format/scalar_model.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

using namespace ufp4;

namespace {

/// A user's own type that is no table_element: sign and magnitude in Gray code, so codes ascend with nothing; one value
/// has two codes, of which conversion gives the first; -0 exists.
class gray {  // whether products are exact is not stated
 public:
  static constexpr float magnitudes[8] = {0, 1, 3, 2, 12, 12, 4, 6};  // by the low three bits

  gray() = default;
  constexpr explicit gray(float x) : bits_(0) {
    const float a = x < 0 ? -x : x;
    for (std::uint8_t c = 1; c < 8; ++c) {
      if (distance(a, c) < distance(a, bits_)) bits_ = c;
    }
    if (__builtin_bit_cast(std::uint32_t, x) >> 31 != 0) bits_ |= 8;
  }
  static constexpr gray from_bits(std::uint8_t bits) {
    gray element{};
    element.bits_ = bits & 15;
    return element;
  }
  constexpr std::uint8_t bits() const { return bits_; }
  constexpr explicit operator float() const { return bits_ & 8 ? -magnitudes[bits_ & 7] : magnitudes[bits_ & 7]; }
  static constexpr float max() { return 12; }

 private:
  static constexpr float distance(float a, std::uint8_t code) {
    const float d = a - magnitudes[code];
    return d < 0 ? -d : d;
  }
  std::uint8_t bits_;
};
static_assert(ufp4::element_format<gray>);

struct uneven_levels {
  static constexpr float values[16] = {-14, -8, -5, -3, -1, 0, 1, 2, 3, 4, 6, 8, 11, 14, 17, 40};
  static constexpr bool exact_products = true;
};
using uneven = ufp4::table_element<uneven_levels>;

struct expectation {
  std::vector<float> values;    // by code
  std::vector<float> levels;    // ascending
  std::vector<unsigned> codes;  // of the levels
  unsigned minus_zero;
  double unit, qmax;
};

template <class T>
expectation want();
/// A level is what a conversion can give: -7 .. 7 steps for a symmetric format of eight magnitudes.
expectation symmetric(const std::vector<double>& magnitudes, double unit) {
  expectation e{{}, {}, {}, 8, unit, magnitudes.back()};
  for (int c = 0; c < 16; ++c) {
    e.values.push_back(
        static_cast<float>(std::copysign(magnitudes[static_cast<std::size_t>(c % 8)], c < 8 ? 1.0 : -1.0)));
  }
  for (int step = -7; step <= 7; ++step) {
    const auto magnitude = static_cast<unsigned>(std::abs(step));
    e.codes.push_back(step < 0 ? 8 | magnitude : magnitude);
    e.levels.push_back(e.values[e.codes.back()]);
  }
  return e;
}
template <>
expectation want<fp4<E2M1>>() {
  return symmetric(scalar::e2m1_values, .5);
}
template <>
expectation want<fp4<E1M2>>() {
  return symmetric(scalar::e1m2_values, .25);
}
template <>
expectation want<fp4<E3M0>>() {
  return symmetric(scalar::e3m0_values, .25);
}
template <>
expectation want<ufp4::int4>() {
  return {{0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1},
          {-7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7},
          {9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7},
          0,
          1,
          7};
}
template <>
expectation want<uneven>() {
  return {{-14, -8, -5, -3, -1, 0, 1, 2, 3, 4, 6, 8, 11, 14, 17, 40},
          {-14, -8, -5, -3, -1, 0, 1, 2, 3, 4, 6, 8, 11, 14, 17, 40},
          {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
          5,
          1,
          40};
}
template <>
expectation want<gray>() {
  return {{0, 1, 3, 2, 12, 12, 4, 6, -0.0f, -1, -3, -2, -12, -12, -4, -6},
          {-12, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 12},
          {12, 15, 14, 10, 11, 9, 0, 1, 3, 2, 6, 7, 4},
          8,
          1,
          12};
}

static_assert(grid_of<fp4<E2M1>>().levels == 15 && grid_of<fp4<E2M1>>().zero == 7);
static_assert(grid_of<fp4<E2M1>>() == grid_of<fp4<E2M1>>() && !(grid_of<fp4<E2M1>>() == grid_of<fp4<E1M2>>()));

}  // namespace

TEMPLATE_TEST_CASE("a grid holds its type's values, levels and codes", "[format][grid]", fp4<E2M1>, fp4<E1M2>,
                   fp4<E3M0>, ufp4::int4, uneven, gray) {
  constexpr grid4 grid = grid_of<TestType>();
  const expectation e = want<TestType>();
  REQUIRE(grid.levels == static_cast<int>(e.levels.size()));
  for (std::size_t i = 0; i < e.levels.size(); ++i) {
    INFO("level " << i);
    CHECK(scalar::bits_of(grid.level[i]) == scalar::bits_of(e.levels[i]));
    CHECK(unsigned{grid.code[i]} == e.codes[i]);
  }
  REQUIRE(grid.zero >= 0);
  CHECK(e.levels[static_cast<std::size_t>(grid.zero)] == 0.0f);
  CHECK(unsigned{grid.minus_zero} == e.minus_zero);
  CHECK(static_cast<double>(grid.qmax) == e.qmax);
  CHECK(grid.exact_products);
  CHECK(static_cast<double>(grid.unit) == e.unit);
  for (std::size_t c = 0; c < 16; ++c) {
    INFO("code " << c);
    CHECK(scalar::bits_of(grid.value[c]) == scalar::bits_of(e.values[c]));
    CHECK(grid.integer[c] * e.unit == static_cast<double>(e.values[c]));
  }
  const auto [low, high] = std::ranges::minmax(e.values);
  CHECK(grid.low * e.unit == static_cast<double>(low));
  CHECK(grid.high * e.unit == static_cast<double>(high));
}

TEST_CASE("nf4's grid has sixteen levels and no integers", "[format][grid]") {
  constexpr grid4 grid = grid_of<ufp4::nf4>();
  REQUIRE(grid.levels == 16);
  for (std::size_t c = 0; c < 16; ++c) {
    CHECK(static_cast<double>(grid.value[c]) == scalar::nf4_values[c]);
    CHECK(static_cast<double>(grid.level[c]) == scalar::nf4_values[c]);
    CHECK(grid.code[c] == c);
  }
  CHECK(grid.zero == 7);
  CHECK(grid.minus_zero == 7);
  CHECK(grid.qmax == 1.0f);
  CHECK_FALSE(grid.exact_products);
}

TEST_CASE("grid4::of computes the grid of every built-in element from its values", "[format]") {
  const auto same = []<class E>(E) {
    constexpr grid4 expected = grid_of<E>();
    return grid4::of(expected.value) == expected;
  };
  REQUIRE((same(fp4<E2M1>{}) && same(fp4<E1M2>{}) && same(fp4<E3M0>{}) && same(nf4{})));
  static_assert(grid4::of(grid_of<fp4<E2M1>>().value) == grid_of<fp4<E2M1>>());
}

TEST_CASE("grid4::of uses both ends, the lowest code of equal values, and -0 if there is one", "[format]") {
  const float values[16] = {-8, 3, 0, 3, 1, 2, 4, 5, 6, -1, -2, -3, -4, -5, -6, -0.0f};
  const grid4 g = grid4::of(values);
  REQUIRE((g.levels == 14 && g.qmax == 8 && g.level[0] == -8 && g.level[13] == 6));
  REQUIRE((g.zero == 7 && g.code[7] == 2 && g.minus_zero == 15 && g.code[10] == 1));
  REQUIRE((g.exact_products && g.unit == 1 && g.integer[0] == -8));
}

TEST_CASE("grid4::of gives no levels for values that are no grid", "[format]") {
  const auto levels = [](float first, float second) {
    const float values[16] = {first, second};
    return grid4::of(values).levels;
  };
  REQUIRE(levels(0, 1) == 2);
  REQUIRE(levels(0, 0) == 0);
  REQUIRE(levels(0, INFINITY) == 0);
  REQUIRE(levels(NAN, 1) == 0);
  float without_zero[16];
  for (float& v : without_zero) v = 1;
  REQUIRE(grid4::of(without_zero).levels == 0);
}

namespace {

/// The smallest magnitude, and a multiple of it.
bool exact(float least, float largest) {
  const float values[16] = {0, least, -least, largest};
  const grid4 g = grid4::of(values);
  REQUIRE(g.levels == 4);
  REQUIRE(static_cast<double>(g.unit) == (g.exact_products ? static_cast<double>(least) : 0.0));
  return g.exact_products;
}

}  // namespace

TEST_CASE("products are exact where the values are at most 181 times a power of two", "[format][grid]") {
  CHECK(exact(1, 181));
  CHECK_FALSE(exact(1, 182));
  CHECK_FALSE(exact(1, -182));
  CHECK(exact(0x1p-20f, 0x181p-20f - 0x1p-12f));  // 129 times
  CHECK_FALSE(exact(1, 1.1f));
  CHECK_FALSE(exact(0x1p-30f, 0x1p-20f));
}

TEST_CASE("products are exact where 256 of two values have a binary32 sum: units from 2^-74 to 2^51",
          "[format][grid]") {
  CHECK(exact(0x1p-74f, 0x1p-73f));
  CHECK_FALSE(exact(0x1p-75f, 0x1p-74f));
  CHECK(exact(0x1p51f, 0xB5p51f));
  CHECK_FALSE(exact(0x1p52f, 0x1p53f));
  CHECK(256 * (0xB5p51f * 0xB5p51f) <= 0x1.fffffep127f);
}
