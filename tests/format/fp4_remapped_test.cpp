// ufp4 - fp4_remapped: every code, every tie and what is beyond the grid.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/format/fp4.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

using ufp4::E1M2;
using ufp4::E2M1;
using ufp4::fp4_remapped;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
using plus = fp4_remapped<E2M1, 5>;
using minus = fp4_remapped<E2M1, -5>;
using wide = fp4_remapped<E2M1, -8>;

static_assert(plus{5.0f}.bits() == 8 && plus{-5.0f}.bits() == 0xE && minus{-5.0f}.bits() == 8);
static_assert(plus{-0.0f}.bits() == 0 && plus{-0.1f}.bits() == 0 && plus{nan}.bits() == 7);
static_assert(plus{inf}.bits() == 7 && plus{-inf}.bits() == 15 && wide{-inf}.bits() == 8 && wide{100.0f}.bits() == 7);
static_assert(plus::max() == 6.0f && wide::max() == 8.0f && fp4_remapped<E1M2, 2>::max() == 2.0f);
static_assert(plus::from_bits(8) > plus::from_bits(6) && plus::from_bits(8) < plus::from_bits(7));
static_assert(plus::exact_products && fp4_remapped<E1M2, 2>{2.0f}.bits() == 8);

/// Magnitudes of the codes 0 to 7 of E2M1.
constexpr float magnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

}  // namespace

TEST_CASE("the codes of fp4_remapped have the values of E2M1, but code 8 the special value", "[format]") {
  for (unsigned code = 0; code < 16; ++code) {
    const float value = code == 8 ? -5.0f : code < 8 ? magnitudes[code] : -magnitudes[code - 8];
    CHECK(static_cast<float>(minus::from_bits(static_cast<std::uint8_t>(code))) == value);
    CHECK(minus{value}.bits() == code);
  }
}

TEST_CASE("a float converts to the nearest of the sixteen values, a tie to an even number of values from zero",
          "[format]") {
  constexpr float points[] = {-6, -4, -3, -2, -1.5f, -1, -.5f, 0, .5f, 1, 1.5f, 2, 3, 4, 5, 6};
  constexpr int zero = 7;
  for (int i = 0; i < 15; ++i) {
    const float tie = (points[i] + points[i + 1]) / 2;
    const int even = std::abs(i - zero) % 2 == 0 ? i : i + 1;
    CHECK(static_cast<float>(plus{tie}) == points[even]);
    CHECK(static_cast<float>(plus{std::nextafter(tie, -inf)}) == points[i]);
    CHECK(static_cast<float>(plus{std::nextafter(tie, inf)}) == points[i + 1]);
  }
}
