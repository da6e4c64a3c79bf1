// ufp4 - quantized_gemm, exact_blocks: the bits of numerics 6 for every pair of formats.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <string>
#include <vector>

using namespace ufp4;

namespace {

constexpr gemm_options exactly{.accumulate = accumulate::exact_blocks};

/// Two levels of scales, on a grid and a square that no preset has.
using e3m0_f32 = block_format<fp4<E3M0>, float, 16>;
using nf4_f32 = block_format<nf4, float, 16>;
using e2m1_bf16 = block_format<fp4<E2M1>, ufp4::bf16, 16>;
using e1m2_ue5m3 = block_format<fp4<E1M2>, ue5m3, 16>;
using nvfp4_square = block_format<fp4<E2M1>, e4m3, square(16), float>;
using mxint4_square = block_format<ufp4::int4, e8m0, square(32)>;

/// The call's result beside the model's, in bits.
template <class A, class B, class T = float>
void check(const quantized_matrix<A>& a, const quantized_matrix<B>& b, const gemm_options& options = exactly) {
  const std::size_t m = a.rows(), n = b.rows();
  support::guarded<T> c(m * n);
  const std::vector<float> unread(m * n, NAN);
  quantized_gemm(cpu::context{.threads = 1}, a, b, matrix_view<T>{c.data(), m, n}, options);
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
void check_pair(const char* name) {
  INFO(support::seed_note());
  CAPTURE(name);
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

template <class A>
void check_all_of_16(const std::string& name) {
  check_pair<A, e1m2_f32>((name + " x e1m2_f32").c_str());
  check_pair<A, int4_f32>((name + " x int4_f32").c_str());
  check_pair<A, e2m1_f32>((name + " x e2m1_f32").c_str());
  check_pair<A, nvfp4>((name + " x nvfp4").c_str());
  check_pair<A, nv_e1m2>((name + " x nv_e1m2").c_str());
  check_pair<A, nvint4>((name + " x nvint4").c_str());
}

template <class A>
void check_all_of_32(const std::string& name) {
  check_pair<A, mxfp4>((name + " x mxfp4").c_str());
  check_pair<A, mx_e1m2>((name + " x mx_e1m2").c_str());
  check_pair<A, mxint4>((name + " x mxint4").c_str());
}

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

TEST_CASE("exact_blocks gives the bits of numerics 6 for every pair of blocks of 16", "[gemm]") {
  check_all_of_16<e1m2_f32>("e1m2_f32");
  check_all_of_16<int4_f32>("int4_f32");
  check_all_of_16<e2m1_f32>("e2m1_f32");
  check_all_of_16<nvfp4>("nvfp4");
  check_all_of_16<nv_e1m2>("nv_e1m2");
  check_all_of_16<nvint4>("nvint4");
}

TEST_CASE("exact_blocks gives the bits of numerics 6 for every pair of blocks of 32", "[gemm]") {
  check_all_of_32<mxfp4>("mxfp4");
  check_all_of_32<mx_e1m2>("mx_e1m2");
  check_all_of_32<mxint4>("mxint4");
}

TEST_CASE("formats beside the presets multiply by the same formula", "[gemm]") {
  check_pair<e3m0_f32, e3m0_f32>("e3m0_f32 x e3m0_f32");
  check_pair<e3m0_f32, nvfp4>("e3m0_f32 x nvfp4");
  check_pair<e2m1_bf16, e1m2_f32>("e2m1_bf16 x e1m2_f32");
  check_pair<e1m2_ue5m3, e2m1_bf16>("e1m2_ue5m3 x e2m1_bf16");
  check_pair<block_format<fp4<E1M2>, float, 2>, block_format<ufp4::int4, e4m3, 2>>("blocks of 2");
  check_pair<block_format<fp4<E2M1>, e8m0, 256>, block_format<fp4<E3M0>, float, 256>>("blocks of 256");
}

TEST_CASE("square blocks share one scale among their rows", "[gemm]") {
  check_pair<nvfp4, nvfp4_square>("nvfp4 x nvfp4 square");
  check_pair<nvfp4_square, nvfp4>("nvfp4 square x nvfp4");
  check_pair<nvfp4_square, nvfp4_square>("nvfp4 square x nvfp4 square");
  check_pair<mxint4_square, mx_e1m2>("mxint4 square x mx_e1m2");
}

TEST_CASE("a grid without exact products takes the chain of fma in index order", "[gemm]") {
  check_pair<nf4_f32, nf4_f32>("nf4 x nf4");
  check_pair<nf4_f32, e1m2_f32>("nf4 x e1m2_f32");
  check_pair<nvfp4, nf4_f32>("nvfp4 x nf4");
  check_pair<block_format<nf4, e8m0, 32>, mxfp4>("nf4 e8m0 x mxfp4");
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
    quantized_gemm(context, a, b, matrix_view<float>{c.data(), 131, 129}, exactly);
    REQUIRE(c.same_bytes(expected));
    REQUIRE(c.guards_intact());
  });
}
