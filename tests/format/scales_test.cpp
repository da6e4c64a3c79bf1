// ufp4 - e4m3, ue5m3, e8m0, bf16, fp16: numerics 2, every code and every rounding boundary.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include <ufp4/format/scales.hpp>

#include "format/scalar_model.hpp"
#include "support/catch.hpp"
#include "support/formats.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>
#include <type_traits>

using ufp4::bf16;
using ufp4::e4m3;
using ufp4::e8m0;
using ufp4::fp16;
using ufp4::scale_kind;
using ufp4::ue5m3;

namespace {

template <class T>
using code_of = decltype(T().bits());
template <class T>
constexpr std::uint32_t codes = 1u << (8 * sizeof(code_of<T>));
template <class T>
T from(std::uint32_t code) {
  return T::from_bits(static_cast<code_of<T>>(code));
}

/// The value of a code by the layout's definition; NaN where it has none.
template <class T>
double value_of(std::uint32_t code);
const double no_number = std::numeric_limits<double>::quiet_NaN();

template <>
double value_of<e4m3>(std::uint32_t code) {
  if ((code & 0x7F) == 0x7F) return no_number;
  return std::copysign(scalar::field_value(code & 0x7F, 3, 7), code & 0x80 ? -1.0 : 1.0);
}
template <>
double value_of<ue5m3>(std::uint32_t code) {
  return code == 0xFF ? no_number : scalar::field_value(code, 3, 15);
}
template <>
double value_of<e8m0>(std::uint32_t code) {
  return code == 0xFF ? no_number : std::ldexp(1.0, static_cast<int>(code) - 127);
}
/// IEEE layouts: exponent of all ones holds infinity and the NaNs.
double ieee_value(std::uint32_t code, int mantissa_bits, int bias, std::uint32_t infinity) {
  const std::uint32_t magnitude = code & 0x7FFF;
  if (magnitude > infinity) return no_number;
  const double value = magnitude == infinity ? static_cast<double>(std::numeric_limits<float>::infinity())
                                             : scalar::field_value(magnitude, mantissa_bits, bias);
  return std::copysign(value, code & 0x8000 ? -1.0 : 1.0);
}
template <>
double value_of<bf16>(std::uint32_t code) {
  return ieee_value(code, 7, 127, 0x7F80);
}
template <>
double value_of<fp16>(std::uint32_t code) {
  return ieee_value(code, 10, 15, 0x7C00);
}

template <class T>
scalar::conversion model();
template <>
scalar::conversion model<e4m3>() {
  return scalar::e4m3();
}
template <>
scalar::conversion model<ue5m3>() {
  return scalar::ue5m3();
}
template <>
scalar::conversion model<e8m0>() {
  return scalar::e8m0();
}
template <>
scalar::conversion model<bf16>() {
  return scalar::bf16();
}
template <>
scalar::conversion model<fp16>() {
  return scalar::fp16();
}

template <class Convert>
std::string against(const scalar::conversion& want, Convert convert) {
  scalar::comparison seen;
  scalar::for_each_input(want.rungs, [&](std::uint32_t x) { seen.check(x, convert(scalar::float_of(x)), want(x)); });
  return seen.verdict();
}

// In constant expressions: the ends of each range, ties, saturation, NaN.
constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
static_assert(e4m3{448.0f}.bits() == 0x7E && e4m3{inf}.bits() == 0x7E && e4m3{-inf}.bits() == 0xFE);
static_assert(e4m3{nan}.bits() == 0x7F && e4m3{-nan}.bits() == 0x7F && e4m3{464.0f}.bits() == 0x7E);
static_assert(e4m3{0x1p-10f}.bits() == 0x00 && e4m3{0x1.8p-9f}.bits() == 0x02 &&
              static_cast<float>(e4m3::from_bits(1)) == 0x1p-9f);
static_assert(ue5m3{114688.0f}.bits() == 0xFE && ue5m3{inf}.bits() == 0xFE && ue5m3{-1.0f}.bits() == 0x00);
static_assert(ue5m3{-inf}.bits() == 0x00 && ue5m3{-nan}.bits() == 0xFF && ue5m3{0x1p-17f}.bits() == 0x01);
static_assert(e8m0{0.0f}.bits() == 0x00 && e8m0{-3.9f}.bits() == 0x80 && e8m0{inf}.bits() == 0xFE &&
              e8m0{nan}.bits() == 0xFF);
static_assert(e8m0{0x1p-127f}.bits() == 0x00 && e8m0{0x1p-126f}.bits() == 0x01 && e8m0{0x1.fffffep127f}.bits() == 0xFE);
static_assert(bf16{inf}.bits() == 0x7F7F && bf16{1.00390625f}.bits() == 0x3F80 && bf16{-nan}.bits() == 0x7FC0);
static_assert(ufp4::detail::round_to<bf16>(inf).bits() == 0x7F80 &&
              ufp4::detail::round_to<bf16>(0x1.fffffep127f).bits() == 0x7F80);
static_assert(fp16{65519.0f}.bits() == 0x7BFF && fp16{65520.0f}.bits() == 0x7C00 && fp16{-nan}.bits() == 0x7E00);
static_assert(!(e4m3{nan} < 1.0f) && !(e4m3{1.0f} > nan) && e4m3{2.0f} > 1.0f && e4m3{-2.0f} < 1.0f);
static_assert((e4m3{nan} <=> e4m3{1.0f}) == std::partial_ordering::unordered && !(fp16{nan} >= fp16{nan}));
static_assert(ufp4::detail::round_to<float>(0x1.234567p-140f) == 0x1.234567p-140f);

template <class T, std::size_t bytes>
constexpr bool is_plain_value =
    sizeof(T) == bytes && std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T> &&
    !std::is_convertible_v<float, T> && !std::is_convertible_v<T, int>;
static_assert(is_plain_value<e4m3, 1> && is_plain_value<ue5m3, 1> && is_plain_value<e8m0, 1>);
static_assert(is_plain_value<bf16, 2> && is_plain_value<fp16, 2>);
static_assert(ufp4::detail::scale_format<float> && !ufp4::detail::scale_format<fp16> &&
              !ufp4::detail::scale_format<double>);

}  // namespace

TEMPLATE_LIST_TEST_CASE("every code has the value of its fields", "[format][scales]", support::scale_types) {
  scalar::comparison seen;
  for (std::uint32_t code = 0; code < codes<TestType>; ++code) {
    const double want = value_of<TestType>(code);
    const float got = static_cast<float>(from<TestType>(code));
    if (std::isnan(want)) {
      seen.check(code, scalar::is_nan(scalar::bits_of(got)), true);
    } else {
      seen.check(code, scalar::bits_of(got), scalar::bits_of(static_cast<float>(want)));
    }
  }
  CHECK(seen.verdict() == "agrees");
}

TEMPLATE_LIST_TEST_CASE("max() is the largest finite value", "[format][scales]", support::scale_types) {
  double largest = 0;
  for (std::uint32_t code = 0; code < codes<TestType>; ++code) {
    const double value = value_of<TestType>(code);
    if (std::isfinite(value) && value > largest) largest = value;
  }
  CHECK(static_cast<double>(TestType::max()) == largest);
}

TEMPLATE_LIST_TEST_CASE("a float converts as numerics 2 says", "[format][scales]", support::scale_types) {
  INFO(support::seed_note());
  CHECK(against(model<TestType>(), [](float x) { return TestType{x}.bits(); }) == "agrees");
}

TEST_CASE("round_to keeps infinities, and gives one where the largest finite value is exceeded", "[format][scales]") {
  INFO(support::seed_note());
  CHECK(against(scalar::bf16_ieee(), [](float x) { return ufp4::detail::round_to<bf16>(x).bits(); }) == "agrees");
  CHECK(against(scalar::fp16(), [](float x) { return ufp4::detail::round_to<fp16>(x).bits(); }) == "agrees");
}

TEMPLATE_LIST_TEST_CASE("scales compare as numbers; NaN is unordered", "[format][scales]", support::byte_scale_types) {
  std::uint64_t wrong = 0;
  for (std::uint32_t a = 0; a < 256; ++a) {
    for (std::uint32_t b = 0; b < 256; ++b) {
      const TestType left = from<TestType>(a), right = from<TestType>(b);
      const double x = value_of<TestType>(a), y = value_of<TestType>(b);
      wrong += (left == right) != (x == y);
      wrong += (left != right) != (x != y);
      wrong += (left < right) != (x < y);
      wrong += (left >= right) != (x >= y);
      wrong += (left <=> right) != (x <=> y);
      wrong += (left < static_cast<float>(y)) != (x < y);
      wrong += (left > static_cast<float>(y)) != (x > y);
    }
  }
  CHECK(wrong == 0);
}

TEMPLATE_LIST_TEST_CASE("16-bit floats compare as numbers", "[format][scales]", support::half_types) {
  const std::uint32_t some[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x3C00, 0x3F80, 0xBF80, 0x7BFF,
                                0x7C00, 0xFC00, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x7C01};
  for (const std::uint32_t a : some) {
    for (const std::uint32_t b : some) {
      const TestType left = from<TestType>(a), right = from<TestType>(b);
      const double x = value_of<TestType>(a), y = value_of<TestType>(b);
      INFO(std::hex << a << " and " << b);
      CHECK((left == right) == (x == y));
      CHECK((left <=> right) == (x <=> y));
      CHECK((left < static_cast<float>(y)) == (x < y));
      CHECK((left > static_cast<float>(y)) == (x > y));
    }
  }
}

TEMPLATE_TEST_CASE("a kernel that holds the scale type as a value gets the type's bits", "[format][scales]", e4m3,
                   ue5m3, e8m0, bf16) {
  constexpr scale_kind kind = ufp4::detail::scale_traits<TestType>::kind;
  CHECK(ufp4::detail::scale_bytes(kind) == static_cast<int>(sizeof(TestType)));
  CHECK(ufp4::detail::nan_scale(kind) == model<TestType>().nan_code);
  CHECK(ufp4::detail::max_scale(kind) == model<TestType>().rungs.code.back());

  scalar::comparison decoded, typed;
  for (std::uint32_t code = 0; code < codes<TestType>; ++code) {
    const double want = value_of<TestType>(code);
    const float got = ufp4::detail::decode_scale(kind, code);
    typed.check(code, ufp4::detail::scale_as<TestType>(code).bits(), code);
    if (std::isnan(want)) {
      decoded.check(code, scalar::is_nan(scalar::bits_of(got)), true);
    } else {
      decoded.check(code, scalar::bits_of(got), scalar::bits_of(static_cast<float>(want)));
    }
  }
  CHECK(decoded.verdict() == "agrees");
  CHECK(typed.verdict() == "agrees");

  scalar::comparison encoded;
  const scalar::conversion want = model<TestType>();
  const auto check = [&](std::uint32_t x) {
    encoded.check(x, ufp4::detail::encode_scale(kind, scalar::float_of(x)), want(x));
  };
  scalar::landmarks(check);
  scalar::nans(check);
  scalar::random_floats(10000, check);
  CHECK(encoded.verdict() == "agrees");
}

TEST_CASE("a float scale is its own bits, and NaN is 0x7FC00000", "[format][scales]") {
  constexpr scale_kind kind = ufp4::detail::scale_traits<float>::kind;
  CHECK(ufp4::detail::scale_bytes(kind) == 4);
  CHECK(ufp4::detail::nan_scale(kind) == 0x7FC00000u);
  CHECK(ufp4::detail::max_scale(kind) == 0x7F7FFFFFu);
  scalar::comparison seen;
  const auto check = [&](std::uint32_t x) {
    seen.check(x, ufp4::detail::encode_scale(kind, scalar::float_of(x)), x);
    seen.check(x, scalar::bits_of(ufp4::detail::decode_scale(kind, x)), x);
    seen.check(x, scalar::bits_of(ufp4::detail::scale_as<float>(x)), x);
  };
  scalar::landmarks(check);
  scalar::random_floats(1000, check);
  CHECK(seen.verdict() == "agrees");
}
