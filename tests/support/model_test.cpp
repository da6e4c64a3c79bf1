// ufp4 - the model of the tests gives results calculated by hand from the specification, and published vectors.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <random>

#include "support/catch.hpp"
#include "support/model.hpp"
#include "support/seed.hpp"

using namespace ufp4;

TEST_CASE("the model's Philox gives Random123's vectors") {
  CHECK(model::philox({0, 0, 0, 0}, 0) ==
        std::array<std::uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  const std::uint32_t ones = 0xFFFFFFFFu;
  CHECK(model::philox({ones, ones, ones, ones}, ~std::uint64_t{0}) ==
        std::array<std::uint32_t, 4>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  // Random bits are the eight halves of the words, low half of word 0 first.
  const model::rounding r{model::rounding::stochastic, 0, 0};
  const std::uint32_t want[8] = {0xe8d5, 0x6627, 0xc58d, 0xe169, 0xac4c, 0xbc57, 0xdbd8, 0x9b00};
  for (std::uint64_t i = 0; i < 8; ++i) CHECK(r.random_word(i) == want[i]);
}

TEST_CASE("the model rounds E2M1's ties to even codes and keeps the sign of zero") {
  const model::grid g = model::grid_of<fp4<E2M1>>();
  const struct {
    float t;
    std::uint8_t code;
  } cases[] = {{0.0f, 0},  {-0.0f, 8}, {0.25f, 0},   {-0.25f, 8}, {0.75f, 2},  {1.25f, 2},
               {1.75f, 4}, {2.5f, 4},  {3.5f, 6},    {5.0f, 6},   {-5.0f, 14}, {5.1f, 7},
               {6.0f, 7},  {1e30f, 7}, {-1e30f, 15}, {1e-40f, 0}, {-1e-40f, 8}};
  for (const auto& c : cases) CHECK(model::round(g, c.t, {}, 0) == c.code);
  const model::rounding away{.what = model::rounding::nearest_away}, zero{.what = model::rounding::toward_zero};
  CHECK(model::round(g, 0.25f, away, 0) == 1);
  CHECK(model::round(g, -2.5f, away, 0) == 13);
  CHECK(model::round(g, 5.9f, zero, 0) == 6);
  CHECK(model::round(g, -0.4f, zero, 0) == 8);
  const model::grid integers = model::grid_of<ufp4::int4>();
  CHECK(model::round(integers, -8.0f, {}, 0) == 9);  // -7: -8 is never given
  CHECK(model::round(integers, -0.3f, {}, 0) == 0);
  CHECK(model::round(integers, -2.5f, {}, 0) == 14);  // -2
  CHECK(model::round(model::grid_of<nf4>(), -0.01f, {}, 0) == 7);
}

TEST_CASE("the model's scales are the formats' tables") {
  CHECK(model::value_of(model::scale::e4m3, 0x7E) == 448);
  CHECK(model::value_of(model::scale::e4m3, 0x01) == std::ldexp(1.0L, -9));
  CHECK(model::value_of(model::scale::e4m3, 0x08) == std::ldexp(1.0L, -6));
  CHECK(model::value_of(model::scale::ue5m3, 0xFE) == 114688);
  CHECK(model::value_of(model::scale::ue5m3, 0x01) == std::ldexp(1.0L, -17));
  CHECK(model::nearest_code(model::scale::e4m3, 1.0625f) == 0x38);  // halfway between 0x38 and 0x39
  CHECK(model::nearest_code(model::scale::e4m3, 1.1875f) == 0x3A);  // halfway between 0x39 and 0x3A
  CHECK(model::nearest_code(model::scale::e4m3, 1e9f) == 0x7E);
  CHECK(model::code_not_below(model::scale::e4m3, 1.0f) == 0x38);
  CHECK(model::code_not_below(model::scale::e4m3, 1.0000001f) == 0x39);
  CHECK(model::nearest_code(model::scale::bf16, 1.00390625f) == 0x3F80);  // halfway
  CHECK(model::nearest_code(model::scale::bf16, 3.4e38f) == 0x7F7F);
}

TEST_CASE("the model's one rounding is the hardware's, where that is plain IEEE arithmetic") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed()};
  int wrong = 0;
  for (int i = 0; i < 200000; ++i) {
    const auto draw = [&] {
      return model::float_of(static_cast<std::uint32_t>(gen()) & (i % 3 == 0 ? 0x83FFFFFFu : 0xFFFFFFFFu));
    };
    volatile float a = draw(), b = draw(), c = draw(), sum = a + b, product = a * b, quotient = a / b;
    const float fused = __builtin_fmaf(a, b, c);
    const auto same = [](float x, float y) { return model::bits_of(x) == model::bits_of(y) || (x != x && y != y); };
    wrong += !same(sum, model::add(a, b)) + !same(product, model::mul(a, b)) + !same(quotient, model::div(a, b)) +
             !same(fused, model::fma(a, b, c));
  }
  CHECK(wrong == 0);
}

TEST_CASE("the model's transform of a unit vector is a row of the Hadamard matrix") {
  for (const std::size_t n : {16u, 32u, 64u, 128u, 256u})
    for (std::size_t j = 0; j < n; j += 5) {
      std::vector<float> x(n, 0.0f);
      x[j] = 16;
      model::apply(model::plain_transform(n), x.data());
      const float c = n == 16    ? 4.0f
                      : n == 64  ? 2.0f
                      : n == 256 ? 1.0f
                                 : 16 * model::fl(1 / std::sqrt(static_cast<long double>(n)));
      for (std::size_t i = 0; i < n; ++i) {
        int common = 0;  // H[i][j] = (-1)^popcount(i & j)
        for (std::size_t b = i & j; b != 0; b >>= 1) common += static_cast<int>(b & 1);
        REQUIRE(x[i] == (common % 2 == 0 ? c : -c));
      }
    }
}
