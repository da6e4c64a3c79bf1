// ufp4 - fp8_e4m3, fp8_e5m2, fp6_e3m2, fp6_e2m3: every code, every rounding boundary, the special values.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/format/fp8.hpp>
#include <ufp4/format/numeric_limits.hpp>
#include <ufp4/round/nearest.hpp>
#include <ufp4/round/round_to_byte.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

#include "support/catch.hpp"

namespace {

using ufp4::fp6_e2m3;
using ufp4::fp6_e3m2;
using ufp4::fp8_e4m3;
using ufp4::fp8_e5m2;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

static_assert(fp8_e4m3{448.0f}.bits() == 0x7E && fp8_e4m3{-1.0f}.bits() == 0xB8 && fp8_e4m3::unit() == 0x1p-9f);
static_assert(fp8_e5m2{57344.0f}.bits() == 0x7B && fp8_e5m2{1.0f}.bits() == 0x3C && fp8_e5m2::unit() == 0x1p-16f);
static_assert(fp6_e3m2{-28.0f}.bits() == 0x3F && fp6_e3m2{1.0f}.bits() == 0x0C && fp6_e3m2::unit() == 0.0625f);
static_assert(fp6_e2m3{7.5f}.bits() == 0x1F && fp6_e2m3{-0.0f}.bits() == 0x20 && fp6_e2m3::unit() == 0.125f);
static_assert(fp6_e2m3::from_bits(0xC1).bits() == 1 && static_cast<float>(fp6_e2m3::from_bits(0xC1)) == 0.125f);
static_assert(std::numeric_limits<fp8_e5m2>::digits == 3 && std::numeric_limits<fp6_e2m3>::digits == 4);
static_assert(std::numeric_limits<fp8_e5m2>::has_infinity && std::numeric_limits<fp8_e4m3>::has_quiet_NaN &&
              !std::numeric_limits<fp8_e4m3>::has_infinity && !std::numeric_limits<fp6_e3m2>::has_quiet_NaN);
static_assert(std::numeric_limits<fp6_e3m2>::epsilon() == fp6_e3m2{0.25f} &&
              static_cast<float>((std::numeric_limits<fp8_e5m2>::min)()) == 0x1p-14f);

/// The codes of magnitudes with finite values: 0 to this.
template <class T>
constexpr unsigned last = T::layout().max_code;

}  // namespace

TEMPLATE_TEST_CASE("every finite code has the value of its fields and converts back", "[fp8]", fp8_e4m3, fp8_e5m2,
                   fp6_e3m2, fp6_e2m3) {
  constexpr auto layout = TestType::layout();
  for (unsigned code = 0; code <= last<TestType>; ++code) {
    CAPTURE(code);
    const int e = static_cast<int>(code >> layout.mantissa_bits),
              m = static_cast<int>(code & ((1u << layout.mantissa_bits) - 1));
    const double scale = std::ldexp(1.0, (e == 0 ? 1 : e) - layout.bias - layout.mantissa_bits);
    const double value = scale * (e == 0 ? m : m + (1 << layout.mantissa_bits));
    const auto v = TestType::from_bits(static_cast<std::uint8_t>(code));
    CHECK(static_cast<double>(static_cast<float>(v)) == value);
    CHECK(TestType(static_cast<float>(value)).bits() == code);
    CHECK(TestType(-static_cast<float>(value)).bits() == (code | layout.sign_bit()));
  }
}

TEMPLATE_TEST_CASE("a tie goes to the even code, a float beside it to the nearer", "[fp8]", fp8_e4m3, fp8_e5m2,
                   fp6_e3m2, fp6_e2m3) {
  const auto value = [](unsigned code) {
    return static_cast<float>(TestType::from_bits(static_cast<std::uint8_t>(code)));
  };
  for (unsigned code = 0; code < last<TestType>; ++code) {
    CAPTURE(code);
    const float half = (value(code) + value(code + 1)) / 2;
    CHECK(TestType(half).bits() == code + code % 2);
    CHECK(TestType(std::nextafter(half, 0.0f)).bits() == code);
    CHECK(TestType(std::nextafter(half, infinity)).bits() == code + 1);
    constexpr auto layout = TestType::layout();
    CHECK(ufp4::detail::round_to_minifloat(layout, ufp4::nearest_away{}, half, 0) == code + 1);
    CHECK(ufp4::detail::round_to_minifloat(layout, ufp4::toward_zero{}, -std::nextafter(value(code + 1), 0.0f), 0) ==
          (code | layout.sign_bit()));
  }
}

TEMPLATE_TEST_CASE("numbers beyond max() saturate and a NaN is max()", "[fp8]", fp8_e4m3, fp8_e5m2, fp6_e3m2,
                   fp6_e2m3) {
  const float most = (TestType::max)();
  for (const float x : {most, most * 1.01f, 2 * most, 0x1p100f, infinity, not_a_number})
    CHECK(TestType(x).bits() == last<TestType>);
  CHECK(static_cast<float>(TestType(-infinity)) == -most);
}

TEST_CASE("infinities and NaN of 8-bit floats come from bits only", "[fp8]") {
  for (unsigned sign = 0; sign < 256; sign += 128) {
    const auto at = [&](unsigned code) { return static_cast<std::uint8_t>(sign | code); };
    CHECK(std::isnan(static_cast<float>(fp8_e4m3::from_bits(at(0x7F)))));
    CHECK(static_cast<float>(fp8_e5m2::from_bits(at(0x7C))) == (sign ? -infinity : infinity));
    for (unsigned code = 0x7D; code <= 0x7F; ++code)
      CHECK(std::isnan(static_cast<float>(fp8_e5m2::from_bits(at(code)))));
  }
}
