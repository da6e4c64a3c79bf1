// ufp4 - gemv_blocks_sm80: its products with few rows on one side have the bits of exact_blocks, in fast too.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/gemm_check.hpp"

#include <ufp4/cuda/gemv_sm80.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/fast_cases.hpp"
#include "support/format_pairs.hpp"
#include "support/gemm_model.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <cstring>
#include <vector>

using namespace ufp4;

namespace {

gpu::device_facts device() {
  gpu::device_facts facts;
  REQUIRE(gpu::facts(facts) == gpu::success);
  return facts;
}

/// C of this file's kernel.
template <class A, class B>
std::vector<float> product(const quantized_matrix<A>& a, const quantized_matrix<B>& b, const gemm_options& options = {},
                           const std::vector<float>& c = {}) {
  return support::product_of(gpu::kernels::gemv_blocks_sm80<>, a, b, options, c);
}

using support::same_numbers;

/// Where the sum of exact_blocks overflows, fast gives a finite sum within its bound if the sum of magnitudes is below
/// FLT_MAX / 2, and no specified value otherwise: checks those elements and copies them to `want`.
void take_finite_sums(const std::vector<float>& got, const model::bounded& real, std::size_t padded,
                      std::vector<float>& want) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isfinite(want[i]) || std::isnan(real.magnitude[i])) continue;
    const model::wide bound = static_cast<model::wide>(padded + 6) * 0x1p-24L * real.magnitude[i];
    if (real.magnitude[i] < 0x1p127L) REQUIRE(std::abs(static_cast<model::wide>(got[i]) - real.value[i]) <= bound);
    want[i] = got[i];
  }
}

template <class A, class B>
void check(const quantized_matrix<A>& a, const quantized_matrix<B>& b, const gemm_options& options = {}) {
  CAPTURE(a.rows(), b.rows(), a.cols(), static_cast<int>(options.accumulate));
  std::vector<float> old;
  if (options.beta != 0)
    for (std::size_t i = 0; i < a.rows() * b.rows(); ++i) old.push_back(static_cast<float>(i % 101) - 50.0f);
  const auto left = model::side_of(a), right = model::side_of(b);
  const std::vector<float> got = product(a, b, options, old);
  std::vector<float> want = model::exact_blocks(left, right, options.alpha, options.beta, old);
  if (options.accumulate == accumulate::fast)
    take_finite_sums(got, model::extended(left, right), a.padded_cols(), want);
  REQUIRE(same_numbers(got, want));
}

template <class A, class B>
void check_pair(model::scales kind = model::scales::ordinary) {
  INFO(support::seed_note());
  INFO((support::pair_text<A, B>()));
  std::mt19937_64 gen{support::seed(sizeof(typename A::scale_type) * 16 + sizeof(typename B::scale_type))};
  for (const std::size_t m : {1u, 4u, 5u, 16u})
    for (const std::size_t k : {1u, 48u, 512u, 530u, 1100u})
      if (m < 5 || k < 600)
        check(model::random_quantized<A>(gen, m, k, kind, 0x1.8p-7f),
              model::random_quantized<B>(gen, 35, k, kind, 0x1.333334p+3f),
              {.alpha = -2.7f, .beta = k == 48 ? 1.3f : 0.0f, .accumulate = accumulate::exact_blocks});
  // the other way round
  check(model::random_quantized<A>(gen, 40, 2100, kind), model::random_quantized<B>(gen, 3, 2100, kind));
}

}  // namespace

TEST_CASE("products with few rows have the bits of exact_blocks for every kind of scale", "[gpu]") {
  const auto check_this = []<class Pair>(Pair) {
    if constexpr (Pair::left::block_size <= 64) check_pair<typename Pair::left, typename Pair::right>();
  };
  SECTION("8-bit scales") { support::pairs_of_8_bit_scales(check_this); }
  SECTION("wider scales") { support::pairs_of_wider_scales(check_this); }
}

TEST_CASE("products with few rows follow the formula over the whole range of scales, NaN included", "[gpu]") {
  check_pair<e1m2_f32, e2m1_f32>(model::scales::hostile);
  check_pair<nvfp4, nvint4>(model::scales::hostile);
  check_pair<mxfp4, mxint4>(model::scales::hostile);
}

TEST_CASE("a NaN block makes its row or column of C NaN, and nothing else", "[gpu]") {
  std::mt19937_64 gen{support::seed(7)};
  const auto a = support::with_nan(model::random_quantized<nvfp4>(gen, 6, 700), 5, 40);
  const auto b = support::with_nan(model::random_quantized<nvfp4>(gen, 33, 700), 32, 0);
  support::require_only_nan_in(product(a, b), 33, 5, 32);
}

TEST_CASE("K = 0 leaves beta * C in the few-rows kernel", "[gpu]") {
  support::empty_sums([](const auto& a, const auto& b, const gemm_options& options) {
    const std::vector<float> old(54, 1.5f);
    std::vector<float> want = old;
    quantized_gemm(a, b, matrix_view<float>{want.data(), 3, 18}, options);
    REQUIRE(same_numbers(product(a, b, options, old), want));
  });
}

TEST_CASE("the order in which threads and blocks run changes no bit of a product with few rows", "[gpu]") {
  std::mt19937_64 gen{support::seed(10)};
  const auto a = model::random_quantized<nvfp4>(gen, 7, 2600);
  const auto b = model::random_quantized<nv_e1m2>(gen, 35, 2600);
  const auto want = product(a, b);
  support::in_every_order([&](const char* order) {
    CAPTURE(order);
    REQUIRE(same_numbers(product(a, b), want));
  });
}

TEST_CASE("bias is added after the scaling, one number for each column of C, whichever side has few rows", "[gpu]") {
  std::mt19937_64 gen{support::seed(8)};
  for (const std::size_t m : {2u, 40u}) {
    const auto a = model::random_quantized<e1m2_f32>(gen, m, 64), b = model::random_quantized<e1m2_f32>(gen, 9, 64);
    std::vector<float> bias(9);
    for (std::size_t j = 0; j < 9; ++j) bias[j] = static_cast<float>(j) * 0.37f;
    auto want = product(a, b);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = want[i] + bias[i % 9];
    REQUIRE(same_numbers(product(a, b, {.bias = bias}), want));
  }
}

TEST_CASE("weights need an alignment of 4 bytes only", "[gpu]") {
  std::mt19937_64 gen{support::seed(9)};
  const auto a = model::random_quantized<nvfp4>(gen, 2, 608), b = model::random_quantized<nvfp4>(gen, 21, 608);
  const gpu::quantized_matrix<nvfp4> left{a.view()}, right{b.view()};
  const auto want = product(a, b);
  std::vector<std::uint8_t> moved(5 + b.codes().size());
  std::memcpy(moved.data() + 4, b.codes().data(), b.codes().size());
  const gpu::buffer<std::uint8_t> codes{std::span<const std::uint8_t>(moved)};
  const gpu::buffer<float> out(2 * 21);
  const auto sink = ufp4::detail::sink_of(matrix_view<float>{out.data(), 2, 21});
  const auto takes = [&](std::size_t shift) {
    const gpu::quantized_view<nvfp4> there{codes.span().subspan(shift, b.codes().size()), right.view().scales(),
                                           right.view().tensor_scale(), 21, 608};
    const gpu::gemm_job job = gpu::detail::call_of(left.view(), there, sink, {}, {}).job;
    return gpu::kernels::gemv_blocks_sm80<>.takes(job, device()) &&
           gpu::kernels::gemv_blocks_sm80<>.run(job, device(), {}, gpu::stream{}) == gpu::success;
  };
  REQUIRE(takes(4));
  CHECK(same_numbers(support::on_host(out), want));
  CHECK_FALSE(takes(5));
}

TEST_CASE("quantized_gemm chooses the kernel for exact_blocks with up to 16 rows, and for formats without a faster one",
          "[gpu]") {
  const auto kernel_of = [](std::size_t m, std::size_t n, accumulate mode, auto format) {
    using F = typename decltype(format)::format;
    const gpu::quantized_matrix<F> a(m, 64), b(n, 64);
    const gpu::buffer<float> c(m * n);
    return gpu::explain(gpu::context{}, a, b, matrix_view<float>{c.data(), m, n}, {.accumulate = mode});
  };
  const auto name_of = [&](auto... arguments) { return std::string(kernel_of(arguments...).kernel); };
  const quantized_matrix<nvfp4> e4m3_scales;
  const quantized_matrix<e1m2_f32> f32_scales;
  const quantized_matrix<mxfp4> e8m0_scales;
  const quantized_matrix<block_format<fp4<E2M1>, ue5m3, 16>> ue5m3_scales;
  CHECK(name_of(1u, 64u, accumulate::exact_blocks, e4m3_scales) == "gemv_blocks_sm80");
  CHECK(name_of(64u, 16u, accumulate::exact_blocks, f32_scales) == "gemv_blocks_sm80");
  CHECK(name_of(17u, 17u, accumulate::exact_blocks, e4m3_scales) != "gemv_blocks_sm80");
  const auto other = kernel_of(1, 64, accumulate::fast, ue5m3_scales);
  CHECK(std::string(other.kernel) == "gemv_blocks_sm80");
  CHECK(other.mode == accumulate::exact_blocks);
  for (const accumulate mode : {accumulate::fast, accumulate::folded_bf16}) {
    CHECK(name_of(1u, 64u, mode, e4m3_scales) == "gemv_f16_sm80");
    CHECK(name_of(64u, 16u, mode, e4m3_scales) == "gemv_f16_sm80");
    CHECK(name_of(17u, 17u, mode, e4m3_scales) == "gemm_few_f16_sm80");
    CHECK(name_of(300u, 64u, mode, e4m3_scales) == "gemm_few_f16_sm80");
    CHECK(name_of(65u, 65u, mode, e4m3_scales) == "gemm_bf16_sm80");
  }
  CHECK(name_of(8u, 64u, accumulate::fast, f32_scales) == "gemv_dots_sm80");
  CHECK(name_of(64u, 16u, accumulate::fast, e8m0_scales) == "gemv_dots_sm80");
  CHECK(name_of(9u, 64u, accumulate::fast, f32_scales) == "gemv_blocks_sm80");
  CHECK(name_of(1u, 64u, accumulate::folded_bf16, f32_scales) != "gemv_dots_sm80");
}
