// ufp4 - int8 and int8q6: every code, every rounding boundary, the special values.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/format/hash.hpp>
#include <ufp4/format/int8.hpp>
#include <ufp4/format/numeric_limits.hpp>

#include <bit>
#include <cmath>
#include <limits>

#include "support/catch.hpp"

namespace {

using ufp4::int8q6;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

template <class T>
constexpr float unit = T::unit();

}  // namespace

static_assert(ufp4::int8::unit() == 1.0f && int8q6::unit() == 0x1p-6f);
static_assert((ufp4::int8::max)() == 127.0f && (int8q6::max)() == 1.984375f);
static_assert(ufp4::int8{-infinity}.bits() == 0x81 && ufp4::int8{not_a_number}.bits() == 0x7F);
static_assert(int8q6{infinity}.bits() == 0x7F && int8q6{-not_a_number}.bits() == 0x7F);
static_assert(int8q6{std::numeric_limits<float>::max()}.bits() == 0x7F);  // whose product with 64 is no constant
static_assert(sizeof(ufp4::int8) == 1 && std::is_trivially_copyable_v<ufp4::int8>);

TEMPLATE_TEST_CASE("every code is a two's complement integer times the unit and converts back", "[int8]", ufp4::int8,
                   int8q6) {
  for (int n = -128; n <= 127; ++n) {
    const auto v = TestType::from_bits(static_cast<std::uint8_t>(n & 255));
    CAPTURE(n);
    CHECK(static_cast<int>(v) == n);
    CHECK(static_cast<float>(v) == static_cast<float>(n) * unit<TestType>);
    CHECK(static_cast<int>(TestType(static_cast<float>(v))) == (n == -128 ? -127 : n));
  }
}

TEMPLATE_TEST_CASE("a value half-way between two integers goes to the even one, a float beside it to the nearer",
                   "[int8]", ufp4::int8, int8q6) {
  for (int n = 0; n < 127; ++n)
    for (const float sign : {1.0f, -1.0f}) {
      CAPTURE(n, sign);
      const float half = (static_cast<float>(n) + 0.5f) * unit<TestType>;
      const auto code = [&](float x) { return static_cast<int>(TestType(sign * x)); };
      const int way = sign > 0 ? 1 : -1;
      CHECK(code(half) == way * (n % 2 == 0 ? n : n + 1));
      CHECK(code(std::nextafter(half, 0.0f)) == way * n);
      CHECK(code(std::nextafter(half, infinity)) == way * (n + 1));
    }
}

TEMPLATE_TEST_CASE("numbers beyond max() saturate, a NaN is max(), and there is one zero", "[int8]", ufp4::int8,
                   int8q6) {
  const float most = (TestType::max)();
  for (const float x : {most * 1.001f, 2 * most, 0x1p100f, std::numeric_limits<float>::max(), infinity}) {
    CHECK(TestType(x).bits() == 0x7F);
    CHECK(TestType(-x).bits() == 0x81);
  }
  CHECK(TestType(std::bit_cast<float>(0x7FC00000u)).bits() == 0x7F);
  CHECK(TestType(std::bit_cast<float>(0xFFC00001u)).bits() == 0x7F);
  for (const float x : {0.0f, -0.0f, -0x1p-149f, -0.4f * unit<TestType>}) CHECK(TestType(x).bits() == 0);
}

TEST_CASE("int8 compares by value and hashes by it", "[int8]") {
  CHECK(ufp4::int8(-3.0f) < ufp4::int8(2.0f));
  CHECK(ufp4::int8(5.0f) == ufp4::int8(5.4f));
  CHECK(std::hash<ufp4::int8>{}(ufp4::int8(5.0f)) == std::hash<ufp4::int8>{}(ufp4::int8(5.4f)));
}

TEST_CASE("numeric_limits of int8 are those of its integers, of int8q6 those over 64", "[int8]") {
  using limits = std::numeric_limits<ufp4::int8>;
  using of_q6 = std::numeric_limits<int8q6>;
  static_assert(limits::is_specialized && limits::is_signed && limits::is_integer && limits::digits == 7);
  static_assert(of_q6::is_specialized && !of_q6::is_integer && of_q6::is_exact && of_q6::digits == 7);
  CHECK(static_cast<float>((limits::min)()) == -128.0f);
  CHECK(static_cast<float>(limits::lowest()) == -128.0f);
  CHECK(static_cast<float>((limits::max)()) == 127.0f);
  CHECK(static_cast<float>((of_q6::max)()) == 1.984375f);
  CHECK(static_cast<float>(of_q6::lowest()) == -2.0f);
}
