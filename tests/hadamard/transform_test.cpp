// ufp4 - the Hadamard transform of one run: numerics 4, bit by bit.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/hadamard/transform.hpp>

#include "format/scalar_model.hpp"
#include "support/catch.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

using ufp4::transform_spec;

namespace {

template <int n>
using size = std::integral_constant<int, n>;
#define SIZES size<16>, size<32>, size<64>, size<128>, size<256>

using run = std::vector<float>;

/// c_n of numerics 4.
float factor(std::uint32_t n) {
  switch (n) {
    case 16: return 0.25f;
    case 32: return scalar::float_of(0x3E3504F3u);
    case 64: return 0.125f;
    case 128: return scalar::float_of(0x3DB504F3u);
    default: return 0.0625f;
  }
}

/// Is H_n(i, j) in natural order -1? Yes where i and j share an odd number of bits. (A loop: g++ 12 at -O1 with
/// -fsanitize gets `popcount % 2 == 0 ? 1 : -1` wrong.)
bool minus(std::uint32_t i, std::uint32_t j) {
  bool odd = false;
  for (std::uint32_t shared = i & j; shared != 0; shared &= shared - 1) odd = !odd;
  return odd;
}

transform_spec with_signs(std::uint32_t n, std::mt19937_64& gen, bool to_bf16 = false) {
  transform_spec spec{.n = n, .rounds_to_bf16 = to_bf16};
  for (std::uint32_t j = 0; j < n; ++j) spec.signs[j / 32] |= static_cast<std::uint32_t>(gen() & 1) << (j % 32);
  return spec;
}

// One binary32 rounding of each operation: binary64 has more than twice the bits.
float add(float a, float b) { return static_cast<float>(static_cast<double>(a) + static_cast<double>(b)); }
float multiply(float a, float b) { return static_cast<float>(static_cast<double>(a) * static_cast<double>(b)); }

/// Nearest bf16, ties to even, overflow to infinity; by the table.
float to_bf16(float x) {
  static const scalar::conversion table = scalar::bf16_ieee();
  return scalar::float_of(table(scalar::bits_of(x)) << 16);
}

/// The stages of numerics 4 in their order: stage s pairs j with j ^ s.
run stage(std::uint32_t s, const run& x) {
  run y(x.size());
  for (std::uint32_t j = 0; j < x.size(); ++j) y[j] = (j & s) == 0 ? add(x[j], x[j ^ s]) : add(x[j ^ s], -x[j]);
  return y;
}
run stages(std::uint32_t n, run x) {
  for (std::uint32_t s = 1; s < n; s *= 2) x = stage(s, x);
  return x;
}
run stages_backwards(std::uint32_t n, run x) {
  for (std::uint32_t s = n / 2; s > 0; s /= 2) x = stage(s, x);
  return x;
}
run flipped(const transform_spec& t, run x) {
  for (std::uint32_t j = 0; j < t.n; ++j) {
    if (t.negative(j)) x[j] = -x[j];
  }
  return x;
}
run scaled(const transform_spec& t, run x) {
  for (float& v : x) {
    v = multiply(v, factor(t.n));
    if (t.rounds_to_bf16) v = to_bf16(v);
  }
  return x;
}
run forward_model(const transform_spec& t, const run& x) { return scaled(t, stages(t.n, flipped(t, x))); }
run inverse_model(const transform_spec& t, const run& x) { return flipped(t, scaled(t, stages(t.n, x))); }

/// Through the library, between guards; `inverse` undoes.
run through(const transform_spec& t, const run& x, bool inverse = false) {
  support::guarded<float> buffer(x.size());
  std::copy(x.begin(), x.end(), buffer.begin());
  if (inverse) {
    ufp4::hadamard_inverse(t, buffer.data());
  } else {
    ufp4::hadamard_forward(t, buffer.data());
  }
  REQUIRE(buffer.guards_intact());
  return {buffer.begin(), buffer.end()};
}

/// Equal bits; any NaN equals any NaN (numerics: a NaN in an output is any NaN).
std::string compare(const run& got, const run& want) {
  scalar::comparison seen;
  for (std::size_t j = 0; j < want.size(); ++j) {
    const std::uint32_t g = scalar::bits_of(got[j]), w = scalar::bits_of(want[j]);
    seen.check(static_cast<std::uint32_t>(j), scalar::is_nan(g) ? 0x7FC00000u : g, scalar::is_nan(w) ? 0x7FC00000u : w);
  }
  return seen.verdict();
}

/// Values whose sums round, cancel and differ in size, so that another order of stages gives other bits.
run rough(std::uint32_t n, std::mt19937_64& gen) {
  std::normal_distribution<float> normal;
  run x(n);
  for (float& v : x) v = std::ldexp(normal(gen), static_cast<int>(gen() % 60) - 30);
  return x;
}

/// (1 + 2^-12)^2 - (1 + 2^-11), in output 1 of the first stage: 0 in binary32, and 2^-24 where the product is fused
/// into the difference. Flattened, because only what is inlined can be fused.
template <bool inverse>
[[gnu::flatten, gnu::noinline]] float difference_of_product(float x, float y) {
  float values[16] = {x * x, y};
  if (inverse) {
    ufp4::hadamard_inverse(transform_spec{.n = 16}, values);
  } else {
    ufp4::hadamard_forward(transform_spec{.n = 16}, values);
  }
  return values[1];
}

constexpr bool transforms_in_a_constant_expression() {
  float x[16] = {8};
  ufp4::hadamard_forward(ufp4::hadamard<16>{}.spec(), x);
  for (const float v : x) {
    if (v != 2.0f) return false;
  }
  ufp4::hadamard_inverse(ufp4::hadamard<16>{}.spec(), x);
  return x[0] == 8.0f && x[1] == 0.0f && x[15] == 0.0f;
}
static_assert(transforms_in_a_constant_expression());
static_assert(ufp4::detail::hadamard_factor(16) == 0.25f && ufp4::detail::hadamard_factor(64) == 0.125f &&
              ufp4::detail::hadamard_factor(256) == 0.0625f);

}  // namespace

TEMPLATE_TEST_CASE("the factor is the binary32 number nearest to 1/sqrt(n)", "[hadamard]", SIZES) {
  constexpr auto n = static_cast<std::uint32_t>(TestType::value);
  CHECK(scalar::bits_of(ufp4::detail::hadamard_factor(n)) == scalar::bits_of(factor(n)));
  CHECK(ufp4::detail::hadamard_factor(n) == static_cast<float>(1 / std::sqrt(static_cast<long double>(n))));
}

TEMPLATE_TEST_CASE("integers transform to c_n times the exact integer product with H_n", "[hadamard]", SIZES) {
  INFO(support::seed_note());
  constexpr auto n = static_cast<std::uint32_t>(TestType::value);
  std::mt19937_64 gen{support::seed()};
  for (int trial = 0; trial < 50; ++trial) {
    const transform_spec t = with_signs(n, gen);
    std::vector<std::int64_t> x(n);
    for (auto& v : x) v = static_cast<std::int64_t>(gen() % 65537) - 32768;  // sums stay within 2^23
    run want(n), input(x.begin(), x.end());
    for (std::uint32_t i = 0; i < n; ++i) {
      std::int64_t sum = 0;
      for (std::uint32_t j = 0; j < n; ++j) sum += minus(i, j) != t.negative(j) ? -x[j] : x[j];
      want[i] =
          static_cast<float>(static_cast<double>(sum) * static_cast<double>(factor(n)));  // exact, then rounded once
    }
    CHECK(compare(through(t, input), want) == "agrees");
  }
}

TEMPLATE_TEST_CASE("sums that round do so in the order of the stages", "[hadamard]", SIZES) {
  INFO(support::seed_note());
  constexpr auto n = static_cast<std::uint32_t>(TestType::value);
  std::mt19937_64 gen{support::seed(1)};
  int told_apart = 0;  // inputs to which another order of stages gives other bits: most of them
  for (int trial = 0; trial < 50; ++trial) {
    const bool bf16 = trial % 2 == 1;
    const transform_spec t = with_signs(n, gen, bf16);
    const run x = rough(n, gen);
    CHECK(compare(through(t, x), forward_model(t, x)) == "agrees");
    CHECK(compare(through(t, x, true), inverse_model(t, x)) == "agrees");
    told_apart += compare(stages_backwards(n, x), stages(n, x)) != "agrees";
  }
  CHECK(told_apart > 0);
}

TEMPLATE_TEST_CASE("the columns are orthogonal: unit vectors give the signs of H_n", "[hadamard]", SIZES) {
  constexpr auto n = static_cast<std::uint32_t>(TestType::value);
  std::mt19937_64 gen{support::seed(2)};
  const transform_spec t = with_signs(n, gen);
  std::vector<run> column;
  std::uint64_t wrong = 0;
  for (std::uint32_t j = 0; j < n; ++j) {
    run unit(n, 0.0f);
    unit[j] = 1;
    column.push_back(through(t, unit));
    for (std::uint32_t i = 0; i < n; ++i) {
      const float want = minus(i, j) != t.negative(j) ? -factor(n) : factor(n);
      wrong += scalar::bits_of(column[j][i]) != scalar::bits_of(want);
    }
  }
  CHECK(wrong == 0);
  for (std::uint32_t a = 0; a < n; ++a) {
    for (std::uint32_t b = 0; b <= a; ++b) {
      double dot = 0;
      for (std::uint32_t i = 0; i < n; ++i)
        dot += static_cast<double>(column[a][i]) * static_cast<double>(column[b][i]);
      wrong += a == b ? std::abs(dot - 1) > std::ldexp(1.0, -23) : dot != 0;  // c_32 and c_128 are rounded
    }
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("the inverse gives integers back exactly", "[hadamard]", size<16>, size<64>, size<256>) {
  INFO(support::seed_note());
  constexpr auto n = static_cast<std::uint32_t>(TestType::value);
  std::mt19937_64 gen{support::seed(3)};
  for (int trial = 0; trial < 50; ++trial) {
    const transform_spec t = with_signs(n, gen);
    run x(n);
    for (float& v : x) v = static_cast<float>(static_cast<int>(gen() % 255) - 127);  // n * n * 127 < 2^23
    CHECK(through(t, through(t, x), true) == x);  // as numbers: a zero may come back as -0
    CHECK(through(t, through(t, x, true)) == x);
  }
}

TEMPLATE_TEST_CASE("the inverse undoes the transform up to rounding", "[hadamard]", SIZES) {
  INFO(support::seed_note());
  constexpr auto n = static_cast<std::uint32_t>(TestType::value);
  std::mt19937_64 gen{support::seed(4)};
  std::normal_distribution<float> normal;
  const transform_spec t = with_signs(n, gen);
  run x(n);
  double norm = 0, error = 0;
  for (float& v : x) v = normal(gen);
  const run back = through(t, through(t, x), true);
  for (std::uint32_t j = 0; j < n; ++j) {
    norm += static_cast<double>(x[j]) * static_cast<double>(x[j]);
    error += std::pow(static_cast<double>(back[j]) - static_cast<double>(x[j]), 2);
  }
  CHECK(std::sqrt(error / norm) < 20 * std::ldexp(1.0, -24));  // 2 * 8 stages and two factors, each half a unit at most
}

TEST_CASE("rounding to bf16 comes after the factor, ties to even", "[hadamard]") {
  const transform_spec t = ufp4::hadamard<16>{}.to_bf16().spec();
  for (const float v : {1.00390625f, 1.01171875f, 0x1.FFp127f, 0x1p-131f, 0x1p-132f, 0x1.8p-131f, 0x1.8p-132f}) {
    run x(16, 0.0f);
    x[0] = v;  // every output is v / 4, then rounded
    run want(16, to_bf16(multiply(v, 0.25f)));
    INFO("v = " << v);
    CHECK(compare(through(t, x), want) == "agrees");
  }
}

TEST_CASE("finite input near the largest float overflows as binary32 does", "[hadamard]") {
  const float largest = scalar::float_of(0x7F7FFFFFu);
  for (const std::uint32_t n : {16u, 32u, 64u, 128u, 256u}) {
    transform_spec t{.n = n};
    run x(n, largest);
    const run got = through(t, x);
    INFO("n = " << n);
    CHECK(compare(got, forward_model(t, x)) == "agrees");
    CHECK(got[0] == std::numeric_limits<float>::infinity());  // all others are differences: 0 at the first stage
    CHECK(got[1] == 0.0f);
    x[n / 2] = -largest;
    CHECK(compare(through(t, x), forward_model(t, x)) == "agrees");
    t.signs[0] = 2;
    CHECK(compare(through(t, x), forward_model(t, x)) == "agrees");
  }
}

TEST_CASE("a NaN and an infinity spread over their run", "[hadamard]") {
  for (const std::uint32_t n : {16u, 32u, 64u, 128u, 256u}) {
    for (const std::uint32_t bits : {0x7FC00000u, 0xFFA00000u, 0x7F800000u, 0xFF800000u}) {
      const transform_spec t{.n = n, .signs = {0x5}};
      run x(n, 1.0f);
      x[n - 3] = scalar::float_of(bits);
      const run got = through(t, x);
      INFO("n = " << n << ", bits " << bits);
      CHECK(compare(got, forward_model(t, x)) == "agrees");
      for (const float y : got) CHECK((scalar::bits_of(y) & 0x7F800000u) == 0x7F800000u);
      x[0] = -x[n - 3];  // infinities of both signs meet
      CHECK(compare(through(t, x), forward_model(t, x)) == "agrees");
    }
  }
}

TEST_CASE("signed zeros and subnormals keep their bits", "[hadamard]") {
  std::mt19937_64 gen{support::seed(5)};
  for (const std::uint32_t n : {16u, 32u, 64u, 128u, 256u}) {
    for (int trial = 0; trial < 20; ++trial) {
      const transform_spec t = with_signs(n, gen, trial % 2 == 1);
      run x(n);
      for (float& v : x)
        v = scalar::float_of((static_cast<std::uint32_t>(gen()) & 0x80000000u) |
                             (trial < 2 ? 0u : static_cast<std::uint32_t>(gen() % 50)));
      INFO("n = " << n);
      CHECK(compare(through(t, x), forward_model(t, x)) == "agrees");
      CHECK(compare(through(t, x, true), inverse_model(t, x)) == "agrees");
    }
  }
}

TEST_CASE("products that the caller just made are rounded before the first stage", "[hadamard]") {
  volatile float a = 1 + 0x1p-12f, b = 1 + 0x1p-11f;  // not foldable
  CHECK(difference_of_product<false>(a, b) == 0.0f);
  CHECK(difference_of_product<true>(a, b) == 0.0f);
}

TEST_CASE("no transform leaves the run alone", "[hadamard]") {
  for (const std::uint32_t bits : {0x40400000u, 0x80000000u, 0x7FA00001u, 0x00000001u}) {
    const run x{scalar::float_of(bits), 3.0f};
    for (const bool inverse : {false, true}) {
      const run y = through(transform_spec{.rounds_to_bf16 = true}, x, inverse);
      CHECK(scalar::bits_of(y[0]) == bits);
      CHECK(y[1] == 3.0f);
    }
  }
}
