// ufp4 - one value, one grid, one policy: all four policies and a user's own on every shipped grid and a user's own.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate bits
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/table_element.hpp>
#include <ufp4/round/round_to_grid.hpp>

#include "format/scalar_model.hpp"
#include "format/user_tables.hpp"
#include "support/catch.hpp"
#include "support/philox.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

using namespace ufp4;

namespace {

using format_tests::counting, format_tests::uneven;

// ---- The expected values: signed levels with their codes.

struct levels {
  scalar::ladder rungs;
  std::uint32_t minus_zero;
};
levels with_both_signs(const scalar::conversion& c) {
  levels out{{}, c.signed_code(0, true)};
  for (int i = c.rungs.top(); i > 0; --i) {
    out.rungs.value.push_back(-c.rungs.value[static_cast<std::size_t>(i)]);
    out.rungs.code.push_back(c.signed_code(i, true));
  }
  out.rungs.zero = c.rungs.top();
  for (int i = 0; i <= c.rungs.top(); ++i) {
    out.rungs.value.push_back(c.rungs.value[static_cast<std::size_t>(i)]);
    out.rungs.code.push_back(c.signed_code(i, false));
  }
  return out;
}
levels of_table(std::vector<double> values) {
  scalar::ladder rungs = scalar::counted(std::move(values));
  const std::uint32_t zero_code = rungs.code[static_cast<std::size_t>(rungs.zero)];
  return {std::move(rungs), zero_code};
}
template <class T>
levels levels_of();
template <>
levels levels_of<fp4<E2M1>>() {
  return with_both_signs(scalar::e2m1());
}
template <>
levels levels_of<fp4<E1M2>>() {
  return with_both_signs(scalar::e1m2());
}
template <>
levels levels_of<fp4<E3M0>>() {
  return with_both_signs(scalar::e3m0());
}
template <>
levels levels_of<ufp4::int4>() {
  return with_both_signs(scalar::int4());
}
template <>
levels levels_of<nf4>() {
  return of_table(scalar::nf4_values);
}
template <>
levels levels_of<uneven>() {
  return of_table({-12, -8, -5, -3, -1, 0, 1, 2, 3, 4, 6, 8, 11, 14, 17, 40});
}
template <>
levels levels_of<counting>() {
  return of_table({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
}

/// The code of x where `up(lower, upper, rank)` picks between neighbours; all in binary64.
template <class Up>
std::uint32_t rounded(const levels& grid, std::uint32_t x, Up up) {
  const auto& value = grid.rungs.value;
  const double t = scalar::value_of(x);
  std::size_t at = 0;
  while (at + 1 < value.size() && value[at + 1] <= t) ++at;  // the last level not above t, or the first
  if (t > value[at] && at + 1 < value.size()) {
    const bool positive = t > 0;
    const std::size_t lower = positive ? at : at + 1, upper = positive ? at + 1 : at;
    const int rank = std::abs(static_cast<int>(lower) - grid.rungs.zero);
    at = up(value[lower], value[upper], rank) ? upper : lower;
  }
  const bool zero = static_cast<int>(at) == grid.rungs.zero;
  return zero && scalar::is_negative(x) ? grid.minus_zero : grid.rungs.code[at];
}

struct policy_case {
  rounding_spec spec;
  const char* name;
};
/// What each policy picks, from numerics 3.
bool picks_upper(const rounding_spec& spec, double lower, double upper, int rank, double t, std::uint64_t index) {
  const double twice = std::abs(2 * t), sum = std::abs(lower + upper);
  switch (spec.what) {
    case rounding_spec::kind::eden:
    case rounding_spec::kind::nearest_even: return twice > sum || (twice == sum && rank % 2 == 1);
    case rounding_spec::kind::nearest_away: return twice >= sum;
    case rounding_spec::kind::toward_zero: return false;
    case rounding_spec::kind::stochastic: break;
  }
  const std::uint32_t r = model::random_word(spec.random_bits.seed, spec.random_bits.stream, index);
  // |t| - lo and hi - lo fit binary64 exactly or nearly so; each is then rounded to binary32, as is the quotient.
  const auto fl = [](double v) { return static_cast<double>(static_cast<float>(v)); };
  const double p = fl(fl(std::abs(t) - std::abs(lower)) / fl(std::abs(upper) - std::abs(lower)));
  return std::floor(fl(p * 65536 + 0.5)) + r >= 65536;
}

template <class Visit>
void inputs(const levels& grid, Visit visit) {
  const auto finite_or_inf = [&](std::uint32_t x) {
    if (!scalar::is_nan(x)) visit(x);
  };
  scalar::near_boundaries(grid.rungs, finite_or_inf);
  scalar::landmarks(finite_or_inf);
  scalar::random_floats(20000, finite_or_inf);
  std::mt19937_64 gen{support::seed(11)};  // uniform over the range: most random bits are huge or tiny
  std::uniform_real_distribution<double> range{1.1 * grid.rungs.value.front() - 1, 1.1 * grid.rungs.value.back()};
  for (int k = 0; k < 20000; ++k) finite_or_inf(scalar::bits_of(static_cast<float>(range(gen))));
}

// A user's own policy: to the odd neighbour. In a constant expression, too.
struct to_odd {
  constexpr bool round_up(const neighbours& n, float, std::uint64_t) const { return n.lower_rank % 2 == 0; }
};
static_assert(ufp4::rounding_policy<to_odd>);
static_assert(ufp4::detail::round_to_grid(grid_of<fp4<E2M1>>(), to_odd{}, 2.1f, 0) == 0x5);
static_assert(ufp4::detail::round_to_grid(grid_of<fp4<E2M1>>(), to_odd{}, -3.9f, 0) == 0xD);
static_assert(ufp4::detail::round_to_grid(grid_of<nf4>(), ufp4::toward_zero{}, -0.6f, 0) == 2);
static_assert(ufp4::detail::round_to_grid(grid_of<ufp4::int4>(), ufp4::nearest_away{}, -2.5f, 0) == 13);
static_assert(ufp4::detail::round_to_grid(grid_of<fp4<E1M2>>(), ufp4::nearest_even{}, -0.1f, 0) == 0x8);
static_assert(ufp4::detail::round_to_grid(grid_of<fp4<E2M1>>(), stochastic{.seed = 0}, 1.25f, 0) ==
              0x3);  // random number 0xe8d5

// One that writes down what it is asked.
struct question {
  int asked = 0;
  neighbours n{};
  float t = 0;
  std::uint64_t index = 0;
};
struct witness {
  question* seen;
  bool round_up(const neighbours& n, float t, std::uint64_t index) const {
    *seen = {seen->asked + 1, n, t, index};
    return false;
  }
};
static_assert(ufp4::rounding_policy<witness>);

}  // namespace

#define GRIDS fp4<E2M1>, fp4<E1M2>, fp4<E3M0>, ufp4::int4, nf4, uneven, counting

TEMPLATE_TEST_CASE("every policy picks the neighbour of numerics 3", "[round][grid]", GRIDS) {
  INFO(support::seed_note());
  constexpr grid4 grid = grid_of<TestType>();
  const levels want = levels_of<TestType>();
  const stochastic random_bits{.seed = support::seed(9), .stream = 0x100000002u};
  const policy_case cases[] = {{ufp4::nearest_even{}, "nearest_even"},
                               {ufp4::nearest_away{}, "nearest_away"},
                               {ufp4::toward_zero{}, "toward_zero"},
                               {random_bits, "stochastic"}};
  for (const auto& [spec, name] : cases) {
    scalar::comparison as_data, as_type;
    std::uint64_t index = 0x7FFFFF000;  // crosses the 32-bit boundary of index / 8
    inputs(want, [&](std::uint32_t x) {
      ++index;
      const float t = scalar::float_of(x);
      const std::uint32_t code = rounded(want, x, [&](double lower, double upper, int rank) {
        return picks_upper(spec, lower, upper, rank, static_cast<double>(t), index);
      });
      as_data.check(x, ufp4::detail::round_to_grid(grid, spec, t, index), code);
      const std::uint32_t typed = spec.what == rounding_spec::kind::nearest_even
                                      ? ufp4::detail::round_to_grid(grid, ufp4::nearest_even{}, t, index)
                                  : spec.what == rounding_spec::kind::nearest_away
                                      ? ufp4::detail::round_to_grid(grid, ufp4::nearest_away{}, t, index)
                                  : spec.what == rounding_spec::kind::toward_zero
                                      ? ufp4::detail::round_to_grid(grid, ufp4::toward_zero{}, t, index)
                                      : ufp4::detail::round_to_grid(grid, random_bits, t, index);
      as_type.check(x, typed, code);
    });
    INFO(name);
    CHECK(as_data.verdict() == "agrees");
    CHECK(as_type.verdict() == "agrees");
  }
}

TEMPLATE_TEST_CASE("nearest_even on the grid is the type's own conversion", "[round][grid]", GRIDS) {
  INFO(support::seed_note());
  constexpr grid4 grid = grid_of<TestType>();
  scalar::comparison seen;
  inputs(levels_of<TestType>(), [&](std::uint32_t x) {
    const float t = scalar::float_of(x);
    seen.check(x, ufp4::detail::round_to_grid(grid, ufp4::nearest_even{}, t, 0), TestType{t}.bits());
  });
  CHECK(seen.verdict() == "agrees");
}

TEMPLATE_TEST_CASE("representable values never move and values beyond the ends saturate", "[round][grid]", GRIDS) {
  constexpr grid4 grid = grid_of<TestType>();
  const levels want = levels_of<TestType>();
  const stochastic random_bits{.seed = support::seed(10)};
  scalar::comparison seen;
  for (std::uint64_t index = 0; index < 4096; ++index) {  // random bits of every size
    for (std::size_t i = 0; i < want.rungs.value.size(); ++i) {
      const auto t = static_cast<float>(want.rungs.value[i]);
      seen.check(scalar::bits_of(t), ufp4::detail::round_to_grid(grid, random_bits, t, index), want.rungs.code[i]);
    }
    seen.check(0x80000000u, ufp4::detail::round_to_grid(grid, random_bits, -0.0f, index), want.minus_zero);
    const auto top = static_cast<float>(want.rungs.value.back()), bottom = static_cast<float>(want.rungs.value.front());
    for (const float t : {std::nextafter(top, 1e9f), top + 0.25f, 1e30f, scalar::float_of(0x7F800000u)}) {
      seen.check(scalar::bits_of(t), ufp4::detail::round_to_grid(grid, random_bits, t, index), want.rungs.code.back());
    }
    for (const float t : {std::nextafter(bottom, -1e9f), bottom - 0.25f, -1e30f, scalar::float_of(0xFF800000u)}) {
      const bool is_zero = want.rungs.zero == 0;
      seen.check(scalar::bits_of(t), ufp4::detail::round_to_grid(grid, random_bits, t, index),
                 is_zero ? want.minus_zero : want.rungs.code.front());
    }
  }
  CHECK(seen.verdict() == "agrees");
}

TEMPLATE_TEST_CASE("a user's policy is asked between neighbours, and only there", "[round][grid]", GRIDS) {
  constexpr grid4 grid = grid_of<TestType>();
  const levels want = levels_of<TestType>();
  std::uint64_t index = 0xABCDEF0123456789u;
  std::uint64_t wrong = 0, asked = 0;
  inputs(want, [&](std::uint32_t x) {
    question seen, expected;
    const std::uint32_t code = rounded(want, x, [&](double lower, double upper, int rank) {
      expected = {1, {static_cast<float>(lower), static_cast<float>(upper), rank}, scalar::float_of(x), index};
      return false;
    });
    wrong += ufp4::detail::round_to_grid(grid, witness{&seen}, scalar::float_of(x), index) != code;
    wrong += seen.asked != expected.asked || seen.n.lower_rank != expected.n.lower_rank ||
             seen.index != expected.index || scalar::bits_of(seen.n.upper) != scalar::bits_of(expected.n.upper) ||
             seen.n.lower != expected.n.lower || scalar::bits_of(seen.t) != scalar::bits_of(expected.t);
    asked += static_cast<std::uint64_t>(seen.asked);
    ++index;
  });
  CHECK(wrong == 0);
  CHECK(asked > 1000);
}

TEST_CASE("a user's policy rounds to odd on a user's grid", "[round][grid]") {
  constexpr grid4 grid = grid_of<uneven>();
  // Steps from zero: -12 -8 -5 -3 -1 are 5 4 3 2 1; 1 2 3 4 6 8 11 14 17 40 are 1 .. 10.
  const struct {
    float t, want;
  } rows[] = {{0.1f, 1}, {1.9f, 1},   {2.1f, 3}, {3.5f, 3}, {5, 6},   {39, 17},
              {20, 17},  {-0.1f, -1}, {-2, -1},  {-4, -5},  {-7, -5}, {-8.5f, -12}};
  for (const auto& [t, value] : rows) {
    INFO("t = " << t);
    CHECK(static_cast<float>(uneven::from_bits(ufp4::detail::round_to_grid(grid, to_odd{}, t, 0))) == value);
  }
}

TEST_CASE("a rounding_spec made of nothing is nearest_even", "[round][grid]") {
  CHECK(ufp4::detail::round_to_grid(grid_of<fp4<E2M1>>(), rounding_spec{}, 2.5f, 0) == 0x4);
  CHECK(ufp4::detail::round_to_grid(grid_of<fp4<E2M1>>(), rounding_spec{}, 3.5f, 0) == 0x6);
}
