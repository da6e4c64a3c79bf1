// ufp4 - fp4<E2M1>, fp4<E1M2>, fp4<E3M0>: numerics 1, every code and every rounding boundary.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include <ufp4/format/fp4.hpp>

#include "format/scalar_model.hpp"
#include "support/catch.hpp"
#include "support/formats.hpp"
#include "support/seed.hpp"

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

using ufp4::E1M2;
using ufp4::E2M1;
using ufp4::E3M0;
using ufp4::fp4;

namespace {

template <class T>
const std::vector<double>& table();
template <>
const std::vector<double>& table<fp4<E2M1>>() {
  return scalar::e2m1_values;
}
template <>
const std::vector<double>& table<fp4<E1M2>>() {
  return scalar::e1m2_values;
}
template <>
const std::vector<double>& table<fp4<E3M0>>() {
  return scalar::e3m0_values;
}

/// The value of a code, sign << 3 | magnitude, from the table.
template <class T>
float value_of_code(unsigned code) {
  const double magnitude = table<T>()[code & 7];
  return static_cast<float>(code & 8 ? -magnitude : magnitude);
}

// In constant expressions: values, ties, saturation, signs of zero, NaN.
constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
static_assert(fp4<E2M1>{1.3f}.bits() == 0x3 && static_cast<float>(fp4<E2M1>{1.3f}) == 1.5f);
static_assert(fp4<E2M1>{5.0f}.bits() == 0x6 && fp4<E2M1>{2.5f}.bits() == 0x4 && fp4<E2M1>{3.5f}.bits() == 0x6);
static_assert(fp4<E2M1>{0.25f}.bits() == 0x0 && fp4<E2M1>{0.75f}.bits() == 0x2 && fp4<E2M1>{-0.1f}.bits() == 0x8);
static_assert(fp4<E2M1>{-0.0f}.bits() == 0x8 && fp4<E2M1>{-inf}.bits() == 0xF && fp4<E2M1>{nan}.bits() == 0x7);
static_assert(fp4<E1M2>{0.875f}.bits() == 0x4 && fp4<E1M2>{100.0f}.bits() == 0x7);
static_assert(fp4<E3M0>{12.0f}.bits() == 0x6 && fp4<E3M0>{6.0f}.bits() == 0x6 && fp4<E3M0>{3.0f}.bits() == 0x4);
static_assert(fp4<E2M1>::from_bits(0x9) < fp4<E2M1>::from_bits(0x8) && -fp4<E2M1>{3.0f} == fp4<E2M1>{-3.0f});

// One byte to copy; no conversion from float and none to integers that a program could take by accident.
template <class T>
constexpr bool is_plain_value =
    sizeof(T) == 1 && std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T> &&
    !std::is_convertible_v<float, T> && !std::is_convertible_v<T, int> && T::exact_products;
static_assert(is_plain_value<fp4<E2M1>> && is_plain_value<fp4<E1M2>> && is_plain_value<fp4<E3M0>>);

}  // namespace

TEMPLATE_LIST_TEST_CASE("the sixteen codes have the values of numerics 1", "[format][fp4]", support::fp4_types) {
  for (unsigned code = 0; code < 16; ++code) {
    const auto element = TestType::from_bits(static_cast<std::uint8_t>(code));
    INFO("code " << code);
    CHECK(element.bits() == code);
    CHECK(scalar::bits_of(static_cast<float>(element)) == scalar::bits_of(value_of_code<TestType>(code)));
    CHECK(TestType{value_of_code<TestType>(code)}.bits() == code);
  }
  CHECK(TestType::max() == static_cast<float>(table<TestType>()[7]));
}

TEMPLATE_LIST_TEST_CASE("from_bits ignores the high four bits", "[format][fp4]", support::fp4_types) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    CHECK(TestType::from_bits(static_cast<std::uint8_t>(bits)).bits() == (bits & 15));
  }
}

TEMPLATE_LIST_TEST_CASE("a float converts to the nearest value, ties to the even code", "[format][fp4]",
                        support::fp4_types) {
  INFO(support::seed_note());
  const scalar::conversion want = scalar::fp4_conversion(table<TestType>());
  scalar::comparison seen;
  scalar::for_each_input(want.rungs,
                         [&](std::uint32_t x) { seen.check(x, TestType{scalar::float_of(x)}.bits(), want(x)); });
  CHECK(seen.verdict() == "agrees");
}

TEMPLATE_LIST_TEST_CASE("elements compare as numbers", "[format][fp4]", support::fp4_types) {
  for (unsigned a = 0; a < 16; ++a) {
    for (unsigned b = 0; b < 16; ++b) {
      const auto left = TestType::from_bits(static_cast<std::uint8_t>(a)),
                 right = TestType::from_bits(static_cast<std::uint8_t>(b));
      const float x = value_of_code<TestType>(a), y = value_of_code<TestType>(b);
      INFO("codes " << a << " and " << b);
      CHECK((left == right) == (x == y));
      CHECK((left != right) == (x != y));
      CHECK((left < right) == (x < y));
      CHECK((left <= right) == (x <= y));
      CHECK((left > right) == (x > y));
      CHECK((left >= right) == (x >= y));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("negation flips the sign and nothing else", "[format][fp4]", support::fp4_types) {
  for (unsigned code = 0; code < 16; ++code) {
    CHECK((-TestType::from_bits(static_cast<std::uint8_t>(code))).bits() == (code ^ 8));
  }
}
