// ufp4 - std::numeric_limits agrees with the values of all codes.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/format/numeric_limits.hpp>

#include "support/catch.hpp"
#include "support/formats.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

using namespace ufp4;

namespace {

template <class T>
using limits = std::numeric_limits<T>;
template <class T>
double value(T x) {
  return static_cast<double>(static_cast<float>(x));
}

/// The values of all codes.
template <class T>
std::vector<double> values() {
  using code = decltype(T().bits());
  std::vector<double> all;
  for (std::uint32_t c = 0; c < 1u << (8 * sizeof(code)); ++c) all.push_back(value(T::from_bits(static_cast<code>(c))));
  return all;
}

// The table of numeric_limits.hpp, as a program reads it.
static_assert(limits<fp4<E2M1>>::digits == 2 && limits<fp4<E1M2>>::digits == 3 && limits<fp4<E3M0>>::digits == 1);
static_assert(limits<e4m3>::digits == 4 && limits<ue5m3>::digits == 4 && limits<e8m0>::digits == 1);
static_assert(limits<bf16>::digits == 8 && limits<fp16>::digits == 11 && limits<ufp4::int4>::digits == 3);
static_assert(limits<ufp4::int4>::is_integer && limits<ufp4::int4>::is_exact && !limits<fp4<E1M2>>::is_exact);
static_assert((limits<fp4<E2M1>>::max)() == fp4<E2M1>{6.0f} && limits<fp4<E2M1>>::lowest() == fp4<E2M1>{-6.0f});
static_assert(limits<bf16>::has_infinity && limits<fp16>::has_infinity && !limits<e4m3>::has_infinity);
static_assert(limits<e8m0>::round_style == std::round_toward_zero &&
              limits<e4m3>::round_style == std::round_to_nearest);
static_assert(limits<const fp16>::digits == 11);  // the standard's own specialisations for cv types

/// In no order, with two zeros.
struct two_signs {
  static constexpr float values[16] = {3, -5, 0, -0.0f, 0.5f, 8, 1, 2, -1, -2, 4, 6, 7, 8, -3, 3};
};
struct negative {
  static constexpr float values[16] = {-1, -2, -3, 0, -4};
};

}  // namespace

using remapped_up = fp4_remapped<E2M1, 10>;
using remapped_down = fp4_remapped<E1M2, -4>;
using floats_with_limits =
    support::joined<support::float_types,
                    std::tuple<fp8_e4m3, fp8_e5m2, fp6_e3m2, fp6_e2m3, e6m2, remapped_up, remapped_down>>;
using types_with_limits = support::joined<floats_with_limits, std::tuple<ufp4::int4, ufp4::int8>>;

TEMPLATE_LIST_TEST_CASE("limits are those of the set of values", "[format][limits]", types_with_limits) {
  using L = limits<TestType>;
  double largest = 0, smallest = 0, least_positive = 1e300;
  bool infinity = false, no_number = false, first = true;
  for (const double v : values<TestType>()) {
    infinity = infinity || std::isinf(v);
    no_number = no_number || std::isnan(v);
    if (!std::isfinite(v)) continue;
    if (first || v > largest) largest = v;
    if (first || v < smallest) smallest = v;
    if (v > 0 && v < least_positive) least_positive = v;
    first = false;
  }
  CHECK(L::is_specialized);
  CHECK(L::is_bounded);
  CHECK(L::radix == 2);
  CHECK(value((L::max)()) == largest);
  CHECK(value(L::lowest()) == smallest);
  CHECK(L::is_signed == (smallest < 0));
  CHECK(L::has_infinity == infinity);
  CHECK(L::has_quiet_NaN == no_number);
  if (infinity) CHECK(value(L::infinity()) == std::numeric_limits<double>::infinity());
  if (no_number) CHECK(std::isnan(value(L::quiet_NaN())));
  if (!L::is_integer) CHECK(value(L::denorm_min()) == least_positive);
  if (L::is_integer) CHECK(value((L::min)()) == smallest);
  CHECK_FALSE(L::has_signaling_NaN);
  CHECK_FALSE(L::is_iec559);
  CHECK_FALSE(L::is_modulo);
  CHECK_FALSE(L::traps);
}

TEMPLATE_LIST_TEST_CASE("digits, exponents and epsilon are those of the normal values", "[format][limits]",
                        floats_with_limits) {
  using L = limits<TestType>;
  const auto representable = [](double x) {
    for (const double v : values<TestType>()) {
      if (v == x) return true;
    }
    return false;
  };
  const double least_normal = value((L::min)()), largest = value((L::max)());
  CHECK_FALSE(L::is_integer);
  CHECK(least_normal == std::ldexp(1.0, L::min_exponent - 1));
  CHECK(std::ilogb(largest) == L::max_exponent - 1);
  CHECK(value(L::epsilon()) == std::ldexp(1.0, 1 - L::digits));
  double next = 1e300;
  for (const double v : values<TestType>()) {
    if (v > 1 && v < next) next = v;
  }
  CHECK(next == 1 + value(L::epsilon()));
  // Normal from min up: the spacing over a binade is 2^(1 - digits) of it; below lie subnormals, if any.
  CHECK(representable(least_normal * (1 + std::ldexp(1.0, 1 - L::digits))));
  const bool subnormals = value(L::denorm_min()) < least_normal;
  CHECK(subnormals == (L::has_denorm == std::denorm_present));
  if (subnormals) CHECK(value(L::denorm_min()) == least_normal * std::ldexp(1.0, 1 - L::digits));
  CHECK(value(L::round_error()) == (L::round_style == std::round_to_nearest ? 0.5 : 1.0));

  CHECK(std::pow(10.0, L::min_exponent10) >= least_normal);
  CHECK(std::pow(10.0, L::min_exponent10 - 1) < least_normal);
  CHECK(std::pow(10.0, L::max_exponent10) <= largest);
  CHECK(std::pow(10.0, L::max_exponent10 + 1) > largest);
  CHECK(L::digits10 == static_cast<int>(std::floor((L::digits - 1) * std::log10(2.0))));
  CHECK(L::max_digits10 == static_cast<int>(std::ceil(L::digits * std::log10(2.0) + 1)));
}

TEMPLATE_TEST_CASE("the ends of a type without exponents are its smallest and its largest value", "[format][limits]",
                   nf4, int8q6, table_element<two_signs>, table_element<negative>) {
  using L = limits<TestType>;
  const auto all = values<TestType>();
  const double smallest = *std::min_element(all.begin(), all.end());
  CHECK(L::is_specialized);
  CHECK(value((L::max)()) == *std::max_element(all.begin(), all.end()));
  CHECK(value(L::lowest()) == smallest);
  CHECK(value((L::min)()) == smallest);
  CHECK(L::is_signed == (smallest < 0));
  CHECK(value(L::epsilon()) == 0);
  CHECK_FALSE(L::is_integer);
  CHECK_FALSE(L::has_infinity);
  CHECK_FALSE(L::has_quiet_NaN);
}

TEST_CASE("int4's limits are an integer's", "[format][limits]") {
  using L = limits<ufp4::int4>;
  CHECK(static_cast<int>((L::min)()) == -8);
  CHECK(static_cast<int>(L::lowest()) == -8);
  CHECK(static_cast<int>((L::max)()) == 7);
  CHECK(L::digits10 == 0);
  CHECK(static_cast<int>(L::epsilon()) == 0);
  CHECK(L::round_style == std::round_to_nearest);  // int4{2.7f} is 3, unlike int(2.7f)
  CHECK(L::has_denorm == std::denorm_absent);
}
