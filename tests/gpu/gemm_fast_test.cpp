// ufp4 - gemm_bf16_sm80, fast and folded_bf16: within the bounds of section 6, computed in extended precision.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/gemm_fast_check.hpp"

#include <ufp4/cuda/gemm_bf16_sm80.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/fast_cases.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <cstring>
#include <vector>

using namespace ufp4;

namespace {

template <class A, class B>
gpu::gemm_job job_of(const gpu::quantized_matrix<A>& a, const gpu::quantized_matrix<B>& b,
                     const ufp4::detail::sink& out, const gemm_options& options) {
  return gpu::detail::call_of(a.view(), b.view(), out, options, {}).job;
}
gpu::device_facts device() {
  gpu::device_facts facts;
  REQUIRE(gpu::facts(facts) == gpu::success);
  return facts;
}

/// C of this file's kernel.
template <class A, class B>
std::vector<float> product(const quantized_matrix<A>& a, const quantized_matrix<B>& b, const gemm_options& options,
                           const std::vector<float>& c = {}, int processors = 0) {
  return support::product_of(gpu::kernels::gemm_bf16_sm80<>, a, b, options, c, processors);
}

/// With both kinds of rounding of sums.
constexpr auto check = [](const auto& a, const auto& b, const gemm_options& options, int processors = 0) {
  CAPTURE(static_cast<int>(options.accumulate), a.rows(), b.rows(), a.cols(), options.alpha, options.beta);
  const support::product_bound bound(a, b);
  const std::vector<float> old = support::old_values(a.rows() * b.rows());
  support::with_every_sum(
      [&] { REQUIRE(bound.broken_by(product(a, b, options, old, processors), options, old) == ""); });
};

}  // namespace

TEST_CASE("fast keeps its bound for every preset of 8-bit scales", "[gpu]") {
  support::fast_pairs({{1, 48, 64, 300}, 200}, check);
}

TEST_CASE("folded_bf16 keeps its bound for any scale", "[gpu]") {
  support::folded_pairs({{1, 48, 64, 300}, 200}, check);
}

TEST_CASE("fast keeps its bound over the whole range of 8-bit scales", "[gpu]") {
  support::every_scale({16, 200}, check);
}

TEST_CASE("fast keeps its bound if a decoded operand is not a normal bf16 number", "[gpu]") {
  support::operands_beyond_bf16(accumulate::folded_bf16, check);
}

TEST_CASE("a single block out of range makes its tile, and no other, be computed in binary64", "[gpu]") {
  std::mt19937_64 gen{support::seed(13)};
  auto a = model::random_quantized<mxfp4>(gen, 70, 64), b = model::random_quantized<mxfp4>(gen, 66, 64);
  for (std::size_t j = 0; j < 66; ++j) b.scales()[2 * j] = e8m0::from_bits(27);  // 2^-100
  const auto before = product(a, b, {});
  a.scales()[2 * 69] = e8m0::from_bits(254);  // 2^127: products that binary32 holds and bf16 does not
  support::in_every_order([&](const char* order) {
    CAPTURE(order);
    check(a, b, {});
    const auto c = product(a, b, {});
    for (std::size_t i = 0; i < 64; ++i)
      for (std::size_t j = 1; j < 66; ++j)
        REQUIRE(std::memcmp(&c[i * 66 + j], &before[i * 66 + j], sizeof(float)) == 0);
  });
}

TEST_CASE("fast keeps its bound if a tensor scale or alpha alone leaves the range of binary32", "[gpu]") {
  support::factors_far_apart(check);
}

TEST_CASE("products that underflow change the result by at most Kp * 2^-126", "[gpu]") {
  support::underflowing_products(check);
}

TEST_CASE("fast gives the bits of exact_blocks if every partial sum is exact", "[gpu]") {
  support::exact_sums({1, 33, 64, 530},
                      [](const auto& a, const auto& b, const gemm_options& options, const auto& want) {
                        for (const int processors : {1, 100}) {
                          CAPTURE(static_cast<int>(options.accumulate), a.cols(), processors);
                          REQUIRE(support::same_bits(product(a, b, options, {}, processors), want));
                        }
                      });
}

TEST_CASE("padding of K, M and N does not change the result even if code 0 is not 0", "[gpu]") {
  std::mt19937_64 gen{support::seed(12)};
  const support::ascending_operands x(gen);
  REQUIRE(support::same_bits(product(x.a, x.b, {}), x.product));
}

TEST_CASE("K = 0 leaves beta * C", "[gpu]") {
  support::empty_sums([](const auto& a, const auto& b, const gemm_options& options) {
    const std::vector<float> old(54, 1.5f);
    std::vector<float> want = old;
    quantized_gemm(a, b, matrix_view<float>{want.data(), 3, 18}, options);
    REQUIRE(support::same_bits(product(a, b, options, old), want));
  });
}

TEST_CASE("the order in which threads and blocks run changes no bit of fast", "[gpu]") {
  std::mt19937_64 gen{support::seed(10)};
  const auto a = model::random_quantized<nvfp4>(gen, 130, 400);
  const auto b = model::random_quantized<nv_e1m2>(gen, 70, 400);
  for (const int processors : {1, 100}) {
    const auto want = product(a, b, {}, {}, processors);
    support::in_every_order([&](const char* order) {
      CAPTURE(order, processors);
      REQUIRE(support::same_bits(product(a, b, {}, {}, processors), want));
    });
  }
}

TEST_CASE("the tile size, which depends on the device, changes no bit of fast", "[gpu]") {
  std::mt19937_64 gen{support::seed(11)};
  const auto a = model::random_quantized<nvfp4>(gen, 130, 400);
  const auto b = model::random_quantized<nv_e1m2>(gen, 70, 400);
  REQUIRE(support::same_bits(product(a, b, {}, {}, 1), product(a, b, {}, {}, 100)));
}

TEST_CASE("an mx block of zeros with the smallest scale is not out of range", "[gpu]") {
  std::mt19937_64 gen{support::seed(5)};
  auto a = model::random_quantized<mxfp4>(gen, 9, 96), b = model::random_quantized<mxfp4>(gen, 10, 96);
  for (std::size_t i = 0; i < 9; ++i) {
    std::memset(a.codes().data() + i * 48, 0, 16);
    a.scales()[i * 3] = e8m0::from_bits(0);
  }
  check(a, b, {});
}

TEST_CASE("a NaN scale makes its row or column NaN, and nothing else", "[gpu]") {
  std::mt19937_64 gen{support::seed(7)};
  const auto a = support::with_nan(model::random_quantized<nvfp4>(gen, 70, 150), 5, 9);
  const auto b = support::with_nan(model::random_quantized<nvfp4>(gen, 67, 150), 66, 0);
  support::require_only_nan_in(product(a, b, {}), 67, 5, 66);
}

TEST_CASE("folded_bf16 rounds value * scale to bf16, once", "[gpu]") {
  const support::ninth_bit operands;
  CHECK(product(operands.a, operands.b, {.accumulate = accumulate::folded_bf16})[0] == operands.rounded);
}

TEST_CASE("bias and beta are added after the scaling, before the rounding to the type of C", "[gpu]") {
  std::mt19937_64 gen{support::seed(8)};
  auto a = model::random_quantized<nvfp4>(gen, 17, 64);
  auto b = model::random_quantized<nvint4>(gen, 33, 64);
  for (auto& s : a.scales()) s = e4m3(1.0f);
  for (auto& s : b.scales()) s = e4m3(1.0f);
  std::vector<float> bias(33), old(17 * 33);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) * 0.25f;
  for (std::size_t i = 0; i < old.size(); ++i) old[i] = static_cast<float>(i % 13);
  const auto plain = model::exact_blocks(model::side_of(a), model::side_of(b));
  const auto c = product(a, b, {.beta = 0.5f, .bias = bias}, old);
  for (std::size_t i = 0; i < c.size(); ++i) REQUIRE(c[i] == plain[i] + bias[i % 33] + 0.5f * old[i]);

  const gpu::quantized_matrix<nvfp4> left{a.view()};
  const gpu::quantized_matrix<nvint4> right{b.view()};
  const gpu::buffer<fp16> out(17 * 40);  // rows of 40, read the other way round
  const matrix_view<fp16> down{out.data(), 17, 33, 1, 17};
  REQUIRE(gpu::kernels::gemm_bf16_sm80<>.run(job_of(left, right, ufp4::detail::sink_of(down), {}), device(), {},
                                             gpu::stream{}) == gpu::success);
  const auto halves = support::on_host(out);
  for (std::size_t i = 0; i < 17; ++i)
    for (std::size_t j = 0; j < 33; ++j) REQUIRE(halves[j * 17 + i].bits() == fp16(plain[i * 33 + j]).bits());
}

TEST_CASE("codes need no alignment", "[gpu]") {
  std::mt19937_64 gen{support::seed(9)};
  const auto a = model::random_quantized<nvfp4>(gen, 19, 208), b = model::random_quantized<nvfp4>(gen, 21, 208);
  const gpu::quantized_matrix<nvfp4> right{b.view()};
  for (const std::size_t shift : {1u, 4u, 8u}) {
    const support::shifted<nvfp4> left(a, shift, 0);
    const auto c = support::product_of(gpu::kernels::gemm_bf16_sm80<>, left.view(), right.view());
    REQUIRE(support::same_bits(c, product(a, b, {})));
  }
}

TEST_CASE("the kernel takes the products for which its accumulation is exact enough", "[gpu]") {
  gpu::device_facts ampere = device();
  const auto takes = [&]<class A, class B>(quantized_matrix<A>, quantized_matrix<B>, accumulate mode) {
    const gpu::quantized_matrix<A> a(128, 64);
    const gpu::quantized_matrix<B> b(128, 64);
    const gpu::buffer<float> c(128 * 128);
    const auto out = ufp4::detail::sink_of(matrix_view<float>{c.data(), 128, 128});
    return gpu::kernels::gemm_bf16_sm80<>.takes(job_of(a, b, out, {.accumulate = mode}), ampere);
  };
  CHECK(takes(quantized_matrix<nvfp4>{}, quantized_matrix<nvint4>{}, accumulate::fast));
  CHECK_FALSE(takes(quantized_matrix<nvfp4>{}, quantized_matrix<nvint4>{}, accumulate::exact_blocks));
  CHECK_FALSE(takes(quantized_matrix<nvfp4>{}, quantized_matrix<e1m2_f32>{}, accumulate::fast));
  CHECK(takes(quantized_matrix<nvfp4>{}, quantized_matrix<e1m2_f32>{}, accumulate::folded_bf16));
  using nf4_blocks = block_format<nf4, float, 16>;
  CHECK_FALSE(takes(quantized_matrix<nf4_blocks>{}, quantized_matrix<nf4_blocks>{}, accumulate::folded_bf16));
  using short_blocks = block_format<fp4<E2M1>, e4m3, 8>;
  CHECK_FALSE(takes(quantized_matrix<short_blocks>{}, quantized_matrix<short_blocks>{}, accumulate::fast));
  ampere.architecture = ampere.compiled = 75;
  CHECK_FALSE(takes(quantized_matrix<nvfp4>{}, quantized_matrix<nvint4>{}, accumulate::fast));
}
