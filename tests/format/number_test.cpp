// ufp4 - numbers in expressions: arithmetic, comparisons and conversions are those of float.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include <ufp4/format/fp8.hpp>
#include <ufp4/format/int8.hpp>

#include "format/scalar_model.hpp"
#include "support/catch.hpp"
#include "support/formats.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

using namespace ufp4;

namespace {

using remapped = fp4_remapped<E2M1, -5>;
using byte_numbers =
    support::joined<support::byte_types,
                    std::tuple<remapped, e6m2, ufp4::int8, int8q6, fp8_e4m3, fp8_e5m2, fp6_e3m2, fp6_e2m3>>;
using numbers = support::joined<byte_numbers, support::half_types>;

// Types of results. Every line below is one property of one type.

template <class T>
constexpr bool promotes_like_float(T a = {}) {
  using std::same_as;
  static_assert(same_as<decltype(a + a), float> && same_as<decltype(a - a), float>);
  static_assert(same_as<decltype(a * a), float> && same_as<decltype(a / a), float>);
  static_assert(same_as<decltype(a * 2), float> && same_as<decltype(2 * a), float>);
  static_assert(same_as<decltype(a * 2u), float> && same_as<decltype(a + 'c'), float>);
  static_assert(same_as<decltype(a * 2LL), float> && same_as<decltype(std::size_t{2} / a), float>);
  static_assert(same_as<decltype(a * 2.0f), float> && same_as<decltype(2.0f - a), float>);
  static_assert(same_as<decltype(a * 2.0), double> && same_as<decltype(2.0 / a), double>);
  static_assert(same_as<decltype(a * 2.0L), long double>);
  static_assert(same_as<decltype(a + bf16{}), float> && same_as<decltype(fp4<E1M2>{} * a), float>);
  static_assert(same_as<decltype(+a), float> && same_as<decltype(true ? a : 1.0f), float>);
  static_assert(same_as<decltype(a == a), bool> && same_as<decltype(a < 1), bool> && same_as<decltype(1.0 >= a), bool>);
  static_assert(same_as<decltype(a <=> 1.0f), std::partial_ordering>);
  static_assert(same_as<decltype(a <=> fp4<E2M1>{}),
                        std::conditional_t<same_as<T, fp4<E2M1>>, std::weak_ordering, std::partial_ordering>>);
  static_assert(same_as<std::common_type_t<T, float>, float>);
  static_assert(std::is_convertible_v<T, float> && std::is_constructible_v<double, T> &&
                std::is_constructible_v<T, float>);
  static_assert(std::three_way_comparable<T, typename T::ordering> && std::is_trivially_copyable_v<T>);
  return true;
}

/// What would round, truncate, or take a value for a code, unseen.
template <class T>
constexpr bool mistakes_do_not_compile() {
  static_assert(!std::is_convertible_v<float, T> && !std::is_convertible_v<int, T> &&
                !std::is_convertible_v<T, fp4<E3M0>> == !std::is_same_v<T, fp4<E3M0>>);
  static_assert(!std::is_convertible_v<T, int> && !std::is_convertible_v<T, std::uint8_t> &&
                !std::is_convertible_v<T, bool> && !std::is_constructible_v<bool, T> &&
                !std::is_convertible_v<T, std::size_t>);
  static_assert(!requires(T a) { a += 1; } && !requires(T a) { a += a; } && !requires(T a) { a *= 2.0f; });
  static_assert(!requires(T a) { a = 1.0f; } && !requires(T a) { a = a * a; } && !requires(T a) { ++a; });
  static_assert(!requires(int s, T a) { s += a; } && !requires(std::uint8_t s, T a) { s *= a; });
  static_assert(!requires(T a) { a % 2; } && !requires(T a) { a << 1; } && !requires(T a) { a & a; });
  static_assert(!requires(T a) { ~a; } && !requires(T a) { !a; } && !requires(T a) { a&& a; });
  static_assert(!requires(const int* p, T a) { p[a]; } && !requires(const int* p, T a) { p + a; });
  static_assert(!requires(T a) { fp4<E2M1>::from_bits(a); } && !requires(T a) { a == nullptr; });
  return true;
}

template <class... T>
constexpr bool all_of(std::tuple<T...>) {
  return (promotes_like_float<T>() && ...) && (mistakes_do_not_compile<T>() && ...);
}
static_assert(all_of(numbers{}));
static_assert(std::same_as<decltype(-fp4<E2M1>{}), fp4<E2M1>> && std::same_as<decltype(-bf16{}), float>);
static_assert(std::same_as<decltype(nf4{} <=> nf4{}), std::weak_ordering> &&
              std::same_as<decltype(ufp4::int4{} <=> ufp4::int4{}), std::strong_ordering> &&
              std::same_as<decltype(e4m3{} <=> e4m3{}), std::partial_ordering>);

// In constant expressions, with NaNs too.
constexpr fp4<E2M1> three{3.0f};
static_assert(three * 2 == 6 && 2 * three == 6.0f && three / 2.0 == 1.5 && -three < 0 && +three == three);
static_assert(three + ufp4::int4{4.0f} == 7 && three == ufp4::int4{3.0f} && three > fp4<E1M2>{1.75f});
static_assert((e4m3::from_bits(0x7F) <=> 1) == std::partial_ordering::unordered && !(e4m3::from_bits(0x7F) < 1.0f) &&
              !(1.0 >= e4m3::from_bits(0x7F)) && e4m3::from_bits(0x7F) != bf16{1});
constexpr float sum_of_constants() {
  float sum = 1;
  sum += three, sum *= three, sum -= three, sum /= three;
  return sum;
}
static_assert(sum_of_constants() == 3);

/// Counts comparisons that fail, because Catch2 is slow at a million.
struct tally {
  int wrong = 0, all = 0;
  void bits(float got, float want) { ++all, wrong += scalar::bits_of(got) != scalar::bits_of(want) && got == got; }
  void is(bool got, bool want) { ++all, wrong += got != want; }
};

template <class T>
std::vector<T> every_code() {
  using code = decltype(T().bits());
  std::vector<T> all;
  const std::uint32_t step = sizeof(code) == 1 ? 1 : 257;  // of 16 bits, 256 codes of every exponent
  for (std::uint32_t c = 0; c < 1u << (8 * sizeof(code)); c += step) all.push_back(T::from_bits(static_cast<code>(c)));
  return all;
}

template <class A, class B>
void compare_with_floats(tally& seen, A a, B b) {
  const float x = static_cast<float>(a), y = static_cast<float>(b);
  seen.bits(a + b, x + y), seen.bits(a - b, x - y), seen.bits(a * b, x * y), seen.bits(a / b, x / y);
  seen.is(a == b, x == y), seen.is(a != b, x != y), seen.is(a < b, x < y), seen.is(a > b, x > y);
  seen.is(a <= b, x <= y), seen.is(a >= b, x >= y), seen.is((a <=> b) < 0, x < y), seen.is((a <=> b) == 0, x == y);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("all codes with all codes have the sums, products and comparisons of their floats",
                        "[format][number]", numbers) {
  tally seen;
  const auto codes = every_code<TestType>();
  for (const TestType a : codes)
    for (const TestType b : codes) compare_with_floats(seen, a, b);
  CHECK(seen.wrong == 0);
  CHECK(seen.all == static_cast<int>(12 * codes.size() * codes.size()));
}

TEMPLATE_LIST_TEST_CASE("numbers of two types, and a number and a float, have the results of their floats",
                        "[format][number]", numbers) {
  tally seen;
  for (const TestType a : every_code<TestType>()) {
    for (unsigned c = 0; c < 16; ++c) {
      const auto code = static_cast<std::uint8_t>(c);
      compare_with_floats(seen, a, fp4<E2M1>::from_bits(code));
      compare_with_floats(seen, ufp4::int4::from_bits(code), a);
      compare_with_floats(seen, nf4::from_bits(code), a);
    }
    for (const float x : {0.0f, -0.0f, 1.0f, -2.5f, 0x1p-140f, 3e38f, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
      compare_with_floats(seen, a, x);
      compare_with_floats(seen, x, a);
    }
  }
  CHECK(seen.wrong == 0);
}

TEMPLATE_LIST_TEST_CASE("integers promote to float, doubles stay double", "[format][number]", numbers) {
  tally seen;
  for (const TestType a : every_code<TestType>()) {
    const float x = static_cast<float>(a);
    for (const int n : {0, 1, -3, 16777217}) {
      seen.bits(a * n, x * static_cast<float>(n)), seen.bits(n - a, static_cast<float>(n) - x);
      seen.is(a < n, x < static_cast<float>(n)), seen.is(n == a, static_cast<float>(n) == x);
    }
    const double product = a * 0.1, expected = static_cast<double>(x) * 0.1;
    seen.is(product == expected || x != x, true);
    seen.is(a < 0.1, static_cast<double>(x) < 0.1);
    float sum = 0.5f;
    double wide = 0.1;
    sum += a, wide -= a;
    seen.bits(sum, 0.5f + x);
    seen.is(wide == 0.1 - static_cast<double>(x) || x != x, true);
    seen.bits(-a, -x);
    seen.bits(+a, x);
  }
  CHECK(seen.wrong == 0);
}

// What a program writes for float.

namespace {

template <class T>
float dot(const T* a, const T* b, std::size_t n) {
  float s = 0;
  for (std::size_t i = 0; i < n; ++i) s += a[i] * b[i];
  return s;
}

template <class T>
std::vector<T> zero_to_seven() {  // or what T has of it
  const std::vector<float> x{5, 3, 0, 7, 1, 2, 6, 4};
  return {x.begin(), x.end()};  // each is rounded by the explicit constructor
}

template <class T>
auto mean_and_deviation(const std::vector<T>& v) {
  const auto n = static_cast<float>(v.size());
  const float mean = std::accumulate(v.begin(), v.end(), 0.0f) / n;
  float squares = 0;
  for (const T& x : v) squares += (x - mean) * (x - mean);
  return std::pair{mean, std::sqrt(squares / n)};
}

}  // namespace

TEST_CASE("generic code for float computes with int4 what it computes with float", "[format][number]") {
  const auto v = zero_to_seven<ufp4::int4>();
  CHECK(dot(v.data(), v.data(), v.size()) == 140);
  CHECK(std::accumulate(v.begin(), v.end(), 0.0f) == 28);
  CHECK(std::accumulate(v.begin(), v.end(), 0.5) == 28.5);
  CHECK(std::inner_product(v.begin(), v.end(), v.begin(), 0.0f) == 140);
  CHECK(mean_and_deviation(v) == mean_and_deviation(std::vector<float>(v.begin(), v.end())));
}

TEST_CASE("algorithms sort, find and copy numbers", "[format][number]") {
  auto v = zero_to_seven<fp4<E2M1>>();  // 5 is 4, 7 is 6
  CHECK(*std::max_element(v.begin(), v.end()) == 6);
  CHECK(std::max(v[0], v[1]) == 4);
  CHECK(std::min<float>(v[0], 0.25f) == 0.25f);
  CHECK(std::clamp(v[3], v[2], v[1]) == 3);
  CHECK(std::count(v.begin(), v.end(), 4.0f) == 2);
  CHECK((std::find(v.begin(), v.end(), 0) - v.begin()) == 2);
  std::sort(v.begin(), v.end());
  CHECK(std::vector<double>(v.begin(), v.end()) == std::vector<double>{0, 1, 2, 3, 4, 4, 6, 6});
  std::sort(v.begin(), v.end(), std::greater<>{});
  std::vector<float> out(v.size());
  std::copy(v.begin(), v.end(), out.begin());
  CHECK(out == std::vector<float>{6, 6, 4, 4, 3, 2, 1, 0});
  std::transform(out.begin(), out.end(), v.begin(), [](float x) { return fp4<E2M1>(x / 2); });
  CHECK(v[0] == 3);
}

TEST_CASE("functions of cmath, to_string and streams take a number for a float", "[format][number]") {
  const fp4<E2M1> a{-1.5f};
  static_assert(std::same_as<decltype(std::sqrt(a)), float> && std::same_as<decltype(std::abs(a)), float>);
  CHECK(std::abs(a) == 1.5f);
  CHECK(std::fmax(a, 1.0f) == 1.0f);
  CHECK(std::pow(a, 2.0f) == 2.25f);
  CHECK(std::isfinite(a));
  CHECK(std::isnan(e4m3::from_bits(0x7F)));
  CHECK(std::to_string(a) == std::to_string(-1.5f));
  std::ostringstream text;
  text << a << ' ' << e4m3{448.0f};
  CHECK(text.str() == "-1.5 448");
}
