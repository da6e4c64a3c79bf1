// ufp4 - int4: numerics 1, every code and every rounding boundary.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/format/int4.hpp>

#include "format/scalar_model.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <cstdint>
#include <limits>
#include <type_traits>

using small_int = ufp4::int4;

namespace {

constexpr int value_of_code(int code) { return code < 8 ? code : code - 16; }

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
static_assert(small_int{-8.0f}.bits() == 0x9 && static_cast<int>(small_int{-8.0f}) == -7);
static_assert(static_cast<int>(small_int{2.5f}) == 2 && static_cast<int>(small_int{-3.5f}) == -4);
static_assert(static_cast<int>(small_int{6.5f}) == 6 && static_cast<int>(small_int{0.5f}) == 0);
static_assert(small_int{-0.0f}.bits() == 0 && small_int{-0.4f}.bits() == 0);
static_assert(small_int{inf}.bits() == 7 && small_int{-inf}.bits() == 9 && small_int{nan}.bits() == 7);
static_assert(sizeof(small_int) == 1 && std::is_trivially_copyable_v<small_int> &&
              !std::is_convertible_v<float, small_int> && !std::is_convertible_v<small_int, int> &&
              small_int::exact_products);

}  // namespace

TEST_CASE("the sixteen codes are -8 .. 7 in two's complement", "[format][int4]") {
  for (int bits = 0; bits < 256; ++bits) {
    const int code = bits % 16;
    const auto element = small_int::from_bits(static_cast<std::uint8_t>(bits));
    INFO("bits " << bits);
    CHECK(element.bits() == code);
    CHECK(static_cast<int>(element) == value_of_code(code));
    CHECK(scalar::bits_of(static_cast<float>(element)) == scalar::bits_of(static_cast<float>(value_of_code(code))));
  }
  CHECK(small_int::max() == 7.0f);
}

TEST_CASE("a float converts to the nearest integer of -7 .. 7, ties to even", "[format][int4]") {
  INFO(support::seed_note());
  const scalar::conversion want = scalar::int4();
  scalar::comparison seen;
  scalar::for_each_input(want.rungs,
                         [&](std::uint32_t x) { seen.check(x, small_int{scalar::float_of(x)}.bits(), want(x)); });
  CHECK(seen.verdict() == "agrees");
}

TEST_CASE("int4 compares as integers", "[format][int4]") {
  for (int a = 0; a < 16; ++a) {
    for (int b = 0; b < 16; ++b) {
      const auto left = small_int::from_bits(static_cast<std::uint8_t>(a)),
                 right = small_int::from_bits(static_cast<std::uint8_t>(b));
      INFO("codes " << a << " and " << b);
      CHECK((left == right) == (a == b));
      CHECK((left <=> right) == (value_of_code(a) <=> value_of_code(b)));
    }
  }
}
