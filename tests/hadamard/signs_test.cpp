// ufp4 - the signs of hadamard<n>, random_hadamard<n> and signed_hadamard<n>: numerics 4.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/hadamard/signs.hpp>

#include "support/catch.hpp"
#include "support/philox.hpp"
#include "support/seed.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

using ufp4::hadamard;
using ufp4::random_hadamard;
using ufp4::signed_hadamard;
using ufp4::transform_spec;

namespace {

template <int n>
using size = std::integral_constant<int, n>;
#define SIZES size<16>, size<32>, size<64>, size<128>, size<256>

// In constant expressions, and only for the five sizes.
static_assert(random_hadamard<16>{42}.spec().n == 16 && hadamard<256>{}.spec().signs[7] == 0);
template <int n>
concept has_transform = requires { typename hadamard<n>; };
static_assert(has_transform<16> && has_transform<256> && !has_transform<8> && !has_transform<48> &&
              !has_transform<512> && !has_transform<1> && !has_transform<0>);

}  // namespace

TEMPLATE_TEST_CASE("hadamard<n> has no signs", "[hadamard]", SIZES) {
  constexpr transform_spec spec = hadamard<TestType::value>{}.spec();
  CHECK(spec.n == TestType::value);
  CHECK_FALSE(spec.rounds_to_bf16);
  CHECK(spec.signs_valid);
  for (unsigned j = 0; j < 256; ++j) CHECK_FALSE(spec.negative(j));
}

TEMPLATE_TEST_CASE("random_hadamard<n> draws its signs from Philox", "[hadamard]", SIZES) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed()};
  std::vector<std::uint64_t> seeds{0, 1, 42, 0xFFFFFFFFu, 0x100000000u, ~0ull};
  for (int k = 0; k < 20; ++k) seeds.push_back(gen());
  for (const std::uint64_t seed : seeds) {
    const transform_spec spec = random_hadamard<TestType::value>{seed}.spec();
    CHECK(spec.n == TestType::value);
    CHECK(spec.signs_valid);
    int wrong = 0;
    for (std::uint32_t j = 0; j < TestType::value; ++j) wrong += spec.negative(j) != model::random_sign(seed, j);
    for (std::uint32_t j = TestType::value; j < 256; ++j) wrong += spec.negative(j);  // nothing beyond the run
    INFO("seed " << seed);
    CHECK(wrong == 0);
  }
}

TEST_CASE("the signs of a seed never change", "[hadamard]") {
  // Literals, so that no change of library and model together can move the signs of a saved model.
  CHECK(random_hadamard<16>{0}.spec().signs[0] == 0x0000CCA5u);
  CHECK(random_hadamard<32>{42}.spec().signs[0] == 0xE0954E25u);
  CHECK(random_hadamard<256>{42}.spec().signs[7] == 0x6FC11E00u);
}

TEST_CASE("Transformer Engine's sixteen signs", "[hadamard]") {
  const char* published = "+++-+------+-+--";  // numerics 4
  constexpr transform_spec spec = signed_hadamard<16>{ufp4::compat::transformer_engine_signs}.spec();
  CHECK(spec.signs_valid);
  for (unsigned j = 0; j < 16; ++j) {
    CHECK(spec.negative(j) == (published[j] == '-'));
    CHECK(ufp4::compat::transformer_engine_signs[j] == (published[j] == '-' ? -1 : 1));
  }
}

TEMPLATE_TEST_CASE("signed_hadamard<n> takes the signs given, of any number type", "[hadamard]", SIZES) {
  constexpr int n = TestType::value;
  std::mt19937_64 gen{support::seed(1)};
  std::array<int, n> signs{};
  std::array<float, n> floats{};
  std::array<signed char, n> chars{};
  for (std::size_t j = 0; j < n; ++j) {
    signs[j] = gen() % 2 ? 1 : -1;
    floats[j] = static_cast<float>(signs[j]);
    chars[j] = static_cast<signed char>(signs[j]);
  }
  for (const transform_spec& spec :
       {signed_hadamard<n>{signs}.spec(), signed_hadamard<n>{floats}.spec(), signed_hadamard<n>{chars}.spec()}) {
    CHECK(spec.n == n);
    CHECK(spec.signs_valid);
    int wrong = 0;
    for (std::size_t j = 0; j < n; ++j) wrong += spec.negative(static_cast<unsigned>(j)) != (signs[j] < 0);
    for (unsigned j = n; j < 256; ++j) wrong += spec.negative(j);
    CHECK(wrong == 0);
  }
}

TEST_CASE("a sign that is neither +1 nor -1 is remembered as a mistake", "[hadamard]") {
  for (const int bad : {0, 2, -2, 255}) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{15}}) {
      std::array<int, 16> signs = ufp4::compat::transformer_engine_signs;
      signs[place] = bad;
      CHECK_FALSE(signed_hadamard<16>{signs}.spec().signs_valid);
    }
  }
  std::array<float, 16> halves{};
  halves.fill(0.5f);
  CHECK_FALSE(signed_hadamard<16>{halves}.spec().signs_valid);
}

TEST_CASE("two transforms are the same map if their sizes and signs are", "[hadamard]") {
  const transform_spec plain = hadamard<16>{}.spec();
  CHECK(same_map(plain, hadamard<16>{}.to_bf16().spec()));  // rounding is no part of the map
  CHECK_FALSE(same_map(plain, hadamard<32>{}.spec()));
  CHECK_FALSE(same_map(plain, transform_spec{}));
  CHECK_FALSE(same_map(plain, random_hadamard<16>{1}.spec()));
  CHECK(same_map(random_hadamard<64>{7}.spec(), random_hadamard<64>{7}.spec()));
  for (const unsigned j : {0u, 31u, 32u, 100u, 255u}) {
    transform_spec other = hadamard<256>{}.spec();
    other.signs[j / 32] ^= 1u << (j % 32);
    INFO("sign " << j);
    CHECK_FALSE(same_map(hadamard<256>{}.spec(), other));
  }
  std::array<int, 16> ones{};
  ones.fill(1);
  CHECK(same_map(plain, signed_hadamard<16>{ones}.spec()));
}

TEST_CASE("to_bf16 asks for the rounding and changes nothing else", "[hadamard]") {
  CHECK(hadamard<32>{}.to_bf16().spec().rounds_to_bf16);
  CHECK(random_hadamard<32>{9}.to_bf16().spec().rounds_to_bf16);
  CHECK(same_map(random_hadamard<32>{9}.to_bf16().spec(), random_hadamard<32>{9}.spec()));
  const signed_hadamard<16> te{ufp4::compat::transformer_engine_signs};
  CHECK(te.to_bf16().spec().rounds_to_bf16);
  CHECK_FALSE(te.spec().rounds_to_bf16);
  CHECK(same_map(te.to_bf16().spec(), te.spec()));
}

TEST_CASE("half of the signs are negative, and seeds differ", "[hadamard][statistics]") {
  // 256 * 2000 fair random bits: beyond 7 standard deviations once in 4e11 seeds. Two seeds with equal signs: 2^-256.
  INFO(support::seed_note());
  int negative = 0;
  const int draws = 2000;
  transform_spec last{};
  for (int k = 0; k < draws; ++k) {
    const transform_spec spec = random_hadamard<256>{support::seed(static_cast<std::uint64_t>(k))}.spec();
    for (unsigned j = 0; j < 256; ++j) negative += spec.negative(j);
    CHECK_FALSE(same_map(spec, last));
    last = spec;
  }
  const double flips = 256.0 * draws, z = (negative - flips / 2) / std::sqrt(flips / 4);
  CHECK(std::abs(z) < 7);
}
