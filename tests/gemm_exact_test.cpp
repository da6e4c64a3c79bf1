// ufp4 - quantized_gemm, exact_blocks: the bits of numerics 6 for every pair of formats.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/format_pairs.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <string>
#include <vector>

using namespace ufp4;

namespace {

constexpr gemm_options exactly{.accumulate = accumulate::exact_blocks};

/// The call's result beside the model's, in bits.
template <class A, class B, class T = float>
void check(const quantized_matrix<A>& a, const quantized_matrix<B>& b, const gemm_options& options = exactly) {
  const std::size_t m = a.rows(), n = b.rows();
  support::guarded<T> c(m * n);
  const std::vector<float> unread(m * n, NAN);
  quantized_gemm(a, b, matrix_view<T>{c.data(), m, n}, options, cpu::context{.threads = 1});
  const std::vector<float> expected =
      model::exact_blocks(model::side_of(a), model::side_of(b), options.alpha, options.beta, unread);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < m * n; ++i)
    if (!support::same_number(model::output_value(c[i]), model::as_output<T>(expected[i])) && wrong++ == 0) {
      CAPTURE(m, n, a.cols(), i, model::output_value(c[i]), expected[i]);
      CHECK(false);
    }
  REQUIRE(wrong == 0);
  REQUIRE(c.guards_intact());
}

/// One pair of formats: ordinary scales and scales from the ends of their range, alpha and tensor scales that round.
template <class A, class B>
void check_pair() {
  INFO(support::seed_note());
  INFO((support::pair_text<A, B>()));
  std::mt19937_64 gen{support::seed(sizeof(typename A::scale_type) * 16 + sizeof(typename B::scale_type))};
  for (const std::size_t k : {1u, 15u, 31u, 48u, 200u}) {
    for (const model::scales kind : {model::scales::ordinary, model::scales::hostile}) {
      const auto a = model::random_quantized<A>(gen, 19, k, kind, 0x1.8p-7f);
      const auto b = model::random_quantized<B>(gen, 21, k, kind, 0x1.333334p+3f);
      check(a, b);
      check(a, b, {.alpha = -2.5f, .accumulate = accumulate::exact_blocks});
    }
  }
}

/// A times every preset that has its block length.
template <class A>
void check_all_of_length() {
  ufp4::detail::for_each_row(ufp4::detail::presets{}, [](auto preset) {
    using B = typename decltype(preset)::format;
    if constexpr (B::block_size == A::block_size) check_pair<A, B>();
  });
}
void check_all_pairs(std::size_t length) {
  ufp4::detail::for_each_row(ufp4::detail::presets{}, [=](auto preset) {
    using A = typename decltype(preset)::format;
    if (A::block_size == length) check_all_of_length<A>();
  });
}
constexpr auto check_this = []<class Pair>(Pair) { check_pair<typename Pair::left, typename Pair::right>(); };

}  // namespace

TEST_CASE("the model's fma rounds once", "[gemm]") {
  // 2^-24 is half a step at 1: alone it ties to even, with anything behind it, however far down, it does not.
  CHECK(model::fma(0x1p-12f, 0x1p-12f, 1.0f) == 1.0f);
  CHECK(model::fma(0x1.000002p-12f, 0x1p-12f, 1.0f) == 0x1.000002p0f);
  CHECK(model::fma(0x1.fffffep-13f, 0x1p-12f, 1.0f) == 1.0f);
  // (1 + 2^-23)^2 - (1 + 2^-22) = 2^-46: lost by a product rounded first.
  CHECK(model::fma(0x1.000002p0f, 0x1.000002p0f, -0x1.000004p0f) == 0x1p-46f);
  CHECK(model::fma(0x1p-149f, 0x1p-1f, 0x1p-149f) == 0x1p-148f);  // 1.5 steps: a tie, to the even 2
  CHECK(model::fma(0x1p-149f, 0x1.8p-2f, 0x1p-149f) == 0x1p-149f);
  CHECK(std::isinf(model::fma(0x1p127f, 2.0f, 0.0f)));
  CHECK(model::fma(0x1p127f, 2.0f, -0x1p127f) == 0x1p127f);  // the product alone would overflow
  CHECK(model::bits_of(model::fma(0.0f, -1.0f, -0.0f)) == 0x80000000u);

  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(0)};
  for (int i = 0; i < 200'000; ++i) {
    const float a = model::float_of(static_cast<std::uint32_t>(gen()));
    const float b = model::float_of(static_cast<std::uint32_t>(gen()));
    const float c = i % 2 == 0 ? model::float_of(static_cast<std::uint32_t>(gen()))
                               : -model::mul(a, b) * (i % 4 == 1 ? 1.0f : 0x1p20f);
    REQUIRE(support::same_number(model::fma(a, b, c), std::fma(a, b, c)));
  }
}

TEST_CASE("exact_blocks gives the bits of section 6 for every pair of presets with blocks of 16", "[gemm]") {
  check_all_pairs(16);
}

TEST_CASE("exact_blocks gives the bits of section 6 for every pair of presets with blocks of 32", "[gemm]") {
  check_all_pairs(32);
}

TEST_CASE("formats that are not presets multiply by the same formula", "[gemm]") {
  support::pairs_of_16(check_this);
  support::pairs_of_longer_blocks(check_this);
  support::pairs_of_shorter_blocks(check_this);
}

TEST_CASE("square blocks share one scale among their rows", "[gemm]") { support::pairs_of_squares(check_this); }

TEST_CASE("a grid without exact products takes the chain of fma in index order", "[gemm]") {
  support::pairs_without_exact_products(check_this);
}

TEST_CASE("int4's -8 comes from bits alone and multiplies as -8", "[gemm]") {
  quantized_matrix<int4_f32> a(1, 16);
  for (auto& byte : a.codes()) byte = 0x88;
  a.scales()[0] = 0.5f;
  float c = 0;
  quantized_gemm(a, a, matrix_view<float>{&c, 1, 1}, exactly);
  REQUIRE(c == 256.0f);  // 16 * 64 * 0.25
}

TEST_CASE("a product of scales that overflows or vanishes is rounded, and counts where the dot product is not 0",
          "[gemm]") {
  const auto product = [](std::uint8_t a_code, float a_scale, std::uint8_t b_code, float b_scale) {
    quantized_matrix<e1m2_f32> a(1, 16), b(1, 16);
    for (auto& byte : a.codes()) byte = 0;
    for (auto& byte : b.codes()) byte = 0;
    a.codes()[0] = a_code;
    b.codes()[0] = b_code;
    a.scales()[0] = a_scale;
    b.scales()[0] = b_scale;
    float c = -1;
    quantized_gemm(a, b, matrix_view<float>{&c, 1, 1}, exactly);
    return c;
  };
  CHECK(product(4, 0x1p64f, 4, 0x1p64f) == INFINITY);  // 1 * 1 * fl(2^128)
  CHECK(product(12, 0x1p64f, 4, 0x1p64f) == -INFINITY);
  CHECK(model::bits_of(product(0, 0x1p64f, 4, 0x1p64f)) == 0);  // d = 0 contributes +0
  CHECK(product(2, 0x1p64f, 2, 0x1p63f) == 0x1p125f);           // the largest t that is finite
  CHECK(product(7, 0x1p-75f, 7, 0x1p-75f) == 0.0f);             // t = 2^-150 ties to 0
  CHECK(product(4, 0x1.8p-75f, 4, 0x1p-75f) == 0x1p-149f);      // t = 1.5 * 2^-150 rounds up
  CHECK(product(4, 0x1p-149f, 4, 1.0f) == 0x1p-149f);           // subnormals are kept
  CHECK(product(2, 0x1p-149f, 4, 0x1p+127f) == 0x1p-23f);
}

TEST_CASE("a block with a NaN scale makes NaN every product that touches it, and no other", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  auto a = model::random_quantized<nvfp4>(gen, 70, 96), b = model::random_quantized<nvfp4>(gen, 66, 96);
  a.scales()[65 * 6 + 5] = e4m3::from_bits(0x7F);
  b.scales()[3 * 6] = e4m3::from_bits(0x7F);
  for (std::size_t byte = 0; byte < 8; ++byte) a.codes()[65 * 48 + 40 + byte] = 0;  // +0 as a quantizer leaves it
  for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks, accumulate::folded_bf16}) {
    std::vector<float> c(70 * 66);
    quantized_gemm(a, b, matrix_view<float>{c.data(), 70, 66}, {.accumulate = mode});
    for (std::size_t i = 0; i < 70; ++i)
      for (std::size_t j = 0; j < 66; ++j) REQUIRE(std::isnan(c[i * 66 + j]) == (i == 65 || j == 3));
  }
}

TEST_CASE("every tier, thread count and executor gives the bits of exact_blocks", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const auto a = model::random_quantized<e1m2_f32>(gen, 131, 1100);
  const auto b = model::random_quantized<nvint4>(gen, 129, 1100, model::scales::hostile, 0x1.99999ap-3f);
  const std::vector<float> expected = model::exact_blocks(model::side_of(a), model::side_of(b));
  support::on_every_context([&](const cpu::context& context) {
    support::guarded<float> c(131 * 129);
    quantized_gemm(a, b, matrix_view<float>{c.data(), 131, 129}, exactly, context);
    REQUIRE(c.same_bytes(expected));
    REQUIRE(c.guards_intact());
  });
}
