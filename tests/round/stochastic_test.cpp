// ufp4 - stochastic rounding: its threshold exactly, its random bits one by one, and both together as statistics.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
//
// Statistics here are standard normal where the library is right, and alarm beyond 7: 2.6e-12 a statistic for either
// tail. There are 64 of them, so a new seed raises a false alarm in fewer than 1 of 10^9 runs (the normal approximation
// of the tails costs less than a factor of 4).
#include <ufp4/round/stochastic.hpp>

#include "format/scalar_model.hpp"
#include "support/catch.hpp"
#include "support/philox.hpp"
#include "support/seed.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

using ufp4::neighbours;
using ufp4::stochastic;

namespace {

constexpr double false_alarm = 7.0;

// Philox of all zeros is 6627e8d5 e169c58d bc57ac4c 9b00dbd8: the low half of word 0 belongs to element 0.
constexpr std::array<std::uint32_t, 8> first_random_bits{0xe8d5, 0x6627, 0xc58d, 0xe169,
                                                         0xac4c, 0xbc57, 0xdbd8, 0x9b00};
constexpr bool random_bits_of_zero_stand_in_order() {
  for (std::uint64_t i = 0; i < 8; ++i) {
    if (stochastic{}.random_word(i) != first_random_bits[i]) return false;
  }
  return true;
}
static_assert(random_bits_of_zero_stand_in_order());
static_assert(!stochastic::moves_up({1.0f, 1.5f, 2}, 1.25f, 0x7FFF) &&
              stochastic::moves_up({1.0f, 1.5f, 2}, 1.25f, 0x8000));

float fl(long double x) { return static_cast<float>(x); }  // one binary32 rounding of an operation done in more

/// k of numerics 3.
std::uint32_t threshold(float lo, float hi, float magnitude) {
  const float p = fl(static_cast<long double>(fl(static_cast<long double>(magnitude) - static_cast<long double>(lo))) /
                     static_cast<long double>(fl(static_cast<long double>(hi) - static_cast<long double>(lo))));
  return static_cast<std::uint32_t>(std::floor(fl(static_cast<long double>(p) * 65536 + 0.5L)));
}

struct step {
  float lo, hi;
};
// Every width of a step of the four formats, one of nf4 (whose fractions are rounded), and a coarse one.
const step steps[] = {{0, .5f},
                      {1, 1.5f},
                      {2, 3},
                      {4, 6},
                      {0, .25f},
                      {1.5f, 1.75f},
                      {.25f, .5f},
                      {8, 16},
                      {0, 1},
                      {6, 7},
                      {.5626170039176941f, .7229568362236023f},
                      {1, 100}};

/// Floats strictly between: near both ends, near where k changes, and at random.
template <class Visit>
void between(const step& s, Visit visit) {
  const auto inside = [&](std::uint32_t bits) {
    const float t = scalar::float_of(bits);
    if (t > s.lo && t < s.hi) visit(t);
  };
  const double lo = static_cast<double>(s.lo), width = static_cast<double>(s.hi) - lo;
  for (const double eighth : {0, 1, 2, 3, 4, 5, 6, 7, 8}) scalar::near(lo + width * eighth / 8, 6, inside);
  for (const double k : {0.0, 0.5, 1.0, 1.5, 2.5, 32767.5, 65533.5, 65534.5, 65535.0, 65535.5}) {
    scalar::near(lo + width * k / 65536, 6, inside);
  }
  std::mt19937_64 gen{support::seed()};
  std::uniform_real_distribution<float> uniform{s.lo, s.hi};
  for (int k = 0; k < 2000; ++k) inside(scalar::bits_of(uniform(gen)));
  if (s.lo == 0) {
    for (std::uint32_t bits = 1; bits < scalar::bits_of(s.hi); bits += 0x00054321u) inside(bits);
  }
}

/// Standard normal if a and b are independent and uniform on 16 bits.
double correlation(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  const double mean = 32767.5, variance = (65536.0 * 65536.0 - 1) / 12;
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean) * (b[i] - mean);
  return sum / (variance * std::sqrt(static_cast<double>(a.size())));
}

std::vector<std::uint32_t> random_bits(const stochastic& policy, std::uint64_t first, std::size_t n,
                                       std::uint64_t stride = 1) {
  std::vector<std::uint32_t> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = policy.random_word(first + i * stride);
  return out;
}

}  // namespace

TEST_CASE("a value moves up exactly when its threshold and the random number reach 65536", "[round][stochastic]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  for (const step& s : steps) {
    std::uint64_t wrong = 0;
    between(s, [&](float t) {
      const std::uint32_t k = threshold(s.lo, s.hi, t);
      const auto check = [&](std::uint32_t r) {
        wrong += stochastic::moves_up({s.lo, s.hi, 0}, t, r) != (k + r >= 65536);
        wrong += stochastic::moves_up({-s.lo, -s.hi, 0}, -t, r) != (k + r >= 65536);
      };
      for (const std::uint32_t r : {0u, 1u, 0x7FFFu, 0x8000u, 0xFFFEu, 0xFFFFu}) check(r);
      check(static_cast<std::uint32_t>(gen() % 65536));
      if (k > 0) check(65536 - k);
      if (k < 65536) check(65535 - k);
    });
    INFO("between " << s.lo << " and " << s.hi);
    CHECK(wrong == 0);
  }
}

TEST_CASE("over all random bits a value keeps its mean to within 2^-17 + 2^-40 of a step", "[round][stochastic]") {
  // Of the 65536 random bits k move the value up: the mean is exact, no statistics are needed. Every float of [1, 1.5).
  std::uint64_t wrong = 0;
  double worst = 0;
  const neighbours n{1.0f, 1.5f, 2};
  for (std::uint32_t bits = 0x3F800001u; bits < 0x3FC00000u; ++bits) {
    const float t = scalar::float_of(bits);
    const double fraction = (static_cast<double>(t) - 1) * 2;
    const double k = std::floor(fraction * 65536 + 0.5);  // exact here: 22 bits
    wrong += k > 0 && !stochastic::moves_up(n, t, static_cast<std::uint32_t>(65536 - k));
    wrong += k < 65536 && stochastic::moves_up(n, t, static_cast<std::uint32_t>(65535 - k));
    worst = std::max(worst, std::abs(k / 65536 - fraction));
  }
  CHECK(wrong == 0);
  CHECK(worst <= std::ldexp(1.0, -17));

  // Near zero fractions have more bits than the sum p * 65536 + 1/2 keeps: that is what the 2^-40 is for.
  for (const step& s : steps) {
    const double lo = static_cast<double>(s.lo), width = static_cast<double>(s.hi) - lo;
    worst = 0;
    between(s, [&](float t) {
      int k = 0;  // the random bits that move t up, by bisection: whoever moves at r moves at r + 1
      for (int bit = 65536; bit > 0; bit /= 2) {
        if (k + bit <= 65536 && stochastic::moves_up({s.lo, s.hi, 0}, t, static_cast<std::uint32_t>(65536 - (k + bit))))
          k += bit;
      }
      worst = std::max(worst, std::abs(k / 65536.0 - (static_cast<double>(t) - lo) / width));
    });
    INFO("between " << s.lo << " and " << s.hi);
    // nf4's fractions are rounded once more, and its steps are not powers of two: a few 2^-24.
    const bool exact = s.lo != .5626170039176941f && s.hi != 100;
    CHECK(worst <= std::ldexp(1.0, -17) + (exact ? std::ldexp(1.0, -40) : std::ldexp(1.0, -22)));
  }
}

TEST_CASE("the random number of an element is Philox of (seed, stream, index), low half of word 0 first",
          "[round][stochastic]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  std::vector<std::uint64_t> numbers{
      0, 1, 7, 8, 9, 0xFFFFFFFFu, 0x100000000u, 0x7FFFFFFFFu, 0x800000000u, 0x800000009u, ~0ull};
  for (int k = 0; k < 12; ++k) numbers.push_back(gen());
  std::uint64_t wrong = 0;
  for (const std::uint64_t seed : numbers) {
    for (const std::uint64_t stream : numbers) {
      for (const std::uint64_t index : numbers) {
        const stochastic policy{.seed = seed, .stream = stream};
        const std::uint32_t want = model::random_word(seed, stream, index);
        wrong += policy.random_word(index) != want;
        wrong += stochastic::lane(policy.random_bits(index / 8), index % 8) != want;
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a product that the caller just made is rounded before its distance is taken", "[round][stochastic]") {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24, of which binary32 keeps 1 + 2^-11: representable, so it may not move. Fused into
  // the subtraction the product would be 2^-24 above, a 64th of this step, and would move for 1024 of the random bits.
  volatile float a = 1 + 0x1p-12f;  // not foldable
  const float x = a, y = a;
  const neighbours n{1 + 0x1p-11f, 1 + 0x1p-11f + 0x1p-18f, 0};
  CHECK_FALSE(stochastic::moves_up(n, x * y, 0xFFFF));
}

TEST_CASE("round_up throws the random number of its index, whatever came before", "[round][stochastic]") {
  const stochastic policy{.seed = support::seed(3), .stream = 5};
  const neighbours n{2.0f, 3.0f, 4};
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 1000; i-- > 0;) {  // backwards, and twice
    for (int again = 0; again < 2; ++again) {
      wrong += policy.round_up(n, 2.3f, i) !=
               stochastic::moves_up(n, 2.3f, model::random_word(policy.seed, policy.stream, i));
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("random bits are uniform in every lane", "[round][stochastic][statistics]") {  // 16 statistics
  INFO(support::seed_note());
  const stochastic policy{.seed = support::seed(4), .stream = 1};
  for (std::uint64_t lane = 0; lane < 8; ++lane) {
    const auto seen = random_bits(policy, lane, 1 << 17, 8);
    for (const int shift : {0, 8}) {
      std::array<double, 256> count{};
      for (const std::uint32_t r : seen) count[r >> shift & 255] += 1;
      const double expected = static_cast<double>(seen.size()) / 256;
      double chi_square = 0;
      for (const double c : count) chi_square += (c - expected) * (c - expected) / expected;
      const double df = 255,
                   z = (std::cbrt(chi_square / df) - (1 - 2 / (9 * df))) / std::sqrt(2 / (9 * df));  // Wilson-Hilferty
      INFO("lane " << lane << ", bits from " << shift << ", chi-square " << chi_square);
      CHECK(std::abs(z) < false_alarm);
    }
  }
}

TEST_CASE("the fraction of values that move up is the fraction of the step", "[round][stochastic][statistics]") {
  INFO(support::seed_note());  // 24 statistics
  const int n = 1 << 17;
  std::uint64_t stream = 0;
  for (const step& s : {steps[0], steps[3], steps[7]}) {
    for (const float eighth : {1.0f, 1.5f, 2.5f, 3.3f, 4.0f, 5.2f, 6.6f, 7.0f}) {
      const float t = s.lo + (s.hi - s.lo) * eighth / 8;
      const double p = (static_cast<double>(t) - static_cast<double>(s.lo)) / static_cast<double>(s.hi - s.lo);
      const stochastic policy{.seed = support::seed(5), .stream = ++stream};
      int up = 0;
      for (int i = 0; i < n; ++i) {
        const auto index = static_cast<std::uint64_t>(i);
        up += i % 2 ? policy.round_up({s.lo, s.hi, 0}, t, index) : policy.round_up({-s.lo, -s.hi, 0}, -t, index);
      }
      // The bias of 2^-17 at most is n * 2^-17 = 1 in the count, 0.01 standard deviations.
      const double z = (up - n * p) / std::sqrt(n * p * (1 - p));
      INFO("between " << s.lo << " and " << s.hi << " at " << t << ": " << up << " of " << n);
      CHECK(std::abs(z) < false_alarm);
    }
  }
}

TEST_CASE("random bits of different seeds, streams and elements are uncorrelated", "[round][stochastic][statistics]") {
  INFO(support::seed_note());  // 24 statistics
  const std::uint64_t seed = support::seed(6);
  const std::size_t n = 1 << 17;
  const auto base = random_bits({seed, 0}, 0, n);
  for (const std::uint64_t distance :
       {1ull, 2ull, 3ull, 4ull, 5ull, 6ull, 7ull, 8ull, 15ull, 16ull, 1024ull, 1ull << 35, 1ull << 40}) {
    INFO("elements " << distance << " apart");
    CHECK(std::abs(correlation(base, random_bits({seed, 0}, distance, n))) < false_alarm);
  }
  for (const std::uint64_t stream : {1ull, 2ull, 1ull << 31, 1ull << 32, 1ull << 63}) {
    INFO("streams 0 and " << stream);
    CHECK(std::abs(correlation(base, random_bits({seed, stream}, 0, n))) < false_alarm);
  }
  const std::uint64_t one = 1;
  for (const std::uint64_t other : {seed + 1, seed ^ one << 31, seed ^ one << 32, seed ^ one << 63, ~seed}) {
    INFO("seeds " << seed << " and " << other);
    CHECK(std::abs(correlation(base, random_bits({other, 0}, 0, n))) < false_alarm);
  }
  INFO("seed and stream exchanged");
  CHECK(std::abs(correlation(random_bits({seed, 77}, 0, n), random_bits({77, seed}, 0, n))) < false_alarm);
}
