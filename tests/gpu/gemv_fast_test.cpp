// ufp4 - the kernels of fast products with few rows on one side: within the bound of fast, exact sums exact.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/gemm_fast_check.hpp"

#include <ufp4/cuda/gemv_dots_sm80.hpp>
#include <ufp4/cuda/gemv_f16_sm80.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/ufp4.hpp>

#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

using namespace ufp4;
using support::same_numbers;

namespace {

const gpu::gemm_kernel &f16_kernel = gpu::kernels::gemv_f16_sm80<>, &dots_kernel = gpu::kernels::gemv_dots_sm80<>;
const gpu::gemm_kernel& few_kernel = gpu::kernels::gemm_few_f16_sm80<>;

using nv_e3m0 = block_format<fp4<E3M0>, e4m3, 16, float>;

/// Of one kernel, with one processor (32 rows of weights for each thread block if it can) and with many.
template <class A, class B>
void check(const gpu::gemm_kernel& kernel, const quantized_matrix<A>& a, const quantized_matrix<B>& b,
           const gemm_options& options = {}) {
  CAPTURE(kernel.name, a.rows(), b.rows(), a.cols(), options.alpha, options.beta);
  const std::vector<float> old = support::old_values(a.rows() * b.rows());
  const support::product_bound bound(a, b);
  for (const int processors : {1, 1000}) {
    CAPTURE(processors);
    REQUIRE(bound.broken_by(support::product_of(kernel, a, b, options, old, processors), options, old) == "");
  }
}

/// Such numbers of few rows on either side, and lengths that are no whole slabs.
template <class A, class B>
void check_rows(const gpu::gemm_kernel& kernel, const std::vector<std::size_t>& few,
                model::scales kind = model::scales::ordinary) {
  INFO(support::seed_note());
  INFO((support::pair_text<A, B>()));
  std::mt19937_64 gen{support::seed(sizeof(A) + 3)};
  const auto left = [&](std::size_t m, std::size_t k) {
    return model::random_quantized<A>(gen, m, k, kind, 0x1.8p-7f);
  };
  const auto right = [&](std::size_t n, std::size_t k) {
    return model::random_quantized<B>(gen, n, k, kind, 0x1.333334p+3f);
  };
  for (const std::size_t m : few) {
    const std::size_t k = 32 * (1 + m * 7 % 5);
    check(kernel, left(m, k), right(33, k), {.alpha = -2.7f, .beta = m % 2 == 0 ? 1.3f : 0.0f});
    check(kernel, left(m + 34, k), right(m, k));
  }
  for (const std::size_t k : {992u, 1024u, 1056u, 2048u, 3104u})
    check(kernel, left(few.back(), k), right(few.back() + 1, k));
}
/// The same for every number up to `most`.
template <class A, class B>
void check_pair(const gpu::gemm_kernel& kernel, std::size_t most, model::scales kind = model::scales::ordinary) {
  std::vector<std::size_t> few(most);
  for (std::size_t m = 1; m <= most; ++m) few[m - 1] = m;
  check_rows<A, B>(kernel, few, kind);
}

}  // namespace

TEST_CASE("products of few rows in fp16 are within the bound of fast for every element and row count", "[gpu]") {
  support::with_every_sum([] {
    check_pair<nvfp4, nvfp4>(f16_kernel, 16);
    check_pair<nv_e1m2, nvfp4>(f16_kernel, 16);
    check_pair<nvint4, nvint4>(f16_kernel, 16);
    check_pair<nv_e3m0, nv_e1m2>(f16_kernel, 9);
    check_pair<support::nvfp4_square, nvfp4>(f16_kernel, 3);
  });
}

TEST_CASE("products of 17 to 64 rows in fp16 are within the bound of fast", "[gpu]") {
  support::with_every_sum([] {
    check_rows<nvfp4, nv_e1m2>(few_kernel, {17, 32, 33, 64});
    check_rows<nvint4, nvint4>(few_kernel, {20, 40});
  });
  check_rows<nv_e3m0, nvfp4>(few_kernel, {25, 31});
  check_rows<nvfp4, support::nvfp4_square>(few_kernel, {63});
  check_rows<nvfp4, nv_e1m2>(few_kernel, {48}, model::scales::hostile);
}

TEST_CASE("products of few rows by block dot products are within the bound of fast", "[gpu]") {
  support::with_every_sum([] {
    check_pair<e1m2_f32, e1m2_f32>(dots_kernel, 8);
    check_pair<e2m1_f32, int4_f32>(dots_kernel, 8);
    check_pair<mxfp4, mxfp4>(dots_kernel, 16);
    check_pair<mx_e1m2, mxint4>(dots_kernel, 16);
  });
}

TEST_CASE("products of few rows are within the bound over the whole range of scales", "[gpu]") {
  check_pair<nvfp4, nv_e1m2>(f16_kernel, 4, model::scales::hostile);
  check_pair<nvint4, nvint4>(f16_kernel, 4, model::scales::hostile);
  check_pair<e1m2_f32, e2m1_f32>(dots_kernel, 4, model::scales::hostile);
  check_pair<mxfp4, mxint4>(dots_kernel, 4, model::scales::hostile);
}

namespace {

/// Operands whose sums are exact in any order.
template <class F>
quantized_matrix<F> with_exact_sums(std::mt19937_64& gen, std::size_t rows, std::size_t k) {
  auto q = model::random_quantized<F>(gen, rows, k);
  for (auto& s : q.scales()) s = typename F::scale_type(static_cast<float>(1u << gen() % 3));
  return q;
}

/// C in every type and layout, with alpha, beta and bias, whichever side has few rows.
template <class A, class B>
void check_exact_sums(const gpu::gemm_kernel& kernel, std::size_t few) {
  INFO(support::seed_note());
  INFO((support::pair_text<A, B>()));
  std::mt19937_64 gen{support::seed(sizeof(B) + 11)};
  for (const bool swapped : {false, true}) {
    const std::size_t m = swapped ? 37 : few, n = swapped ? few : 37, k = 1120;
    const auto a = with_exact_sums<A>(gen, m, k);
    const auto b = with_exact_sums<B>(gen, n, k);
    std::vector<float> bias(n);
    for (std::size_t j = 0; j < n; ++j) bias[j] = static_cast<float>(j) * 0.37f;
    const gemm_options options{.alpha = -0.625f, .beta = 0.5f, .bias = bias};
    CHECK(support::against_host<float>(kernel, a, b, options) == "");
    CHECK(support::against_host<bf16>(kernel, a, b, options, {.gap = 3}) == "");
    CHECK(support::against_host<fp16>(kernel, a, b, {.alpha = 0x1p-9f}, {.transposed = true}) == "");
    CHECK(support::against_host<float>(kernel, a, b, options, {.gap = 1, .reversed = true}) == "");
  }
}

}  // namespace

TEST_CASE("few rows in fast have the host's bits where every sum is exact, in every type and layout of C", "[gpu]") {
  support::with_every_sum([] {
    check_exact_sums<nvfp4, nv_e1m2>(few_kernel, 17);
    check_exact_sums<nvint4, nvint4>(few_kernel, 36);
    for (const std::size_t few : {1u, 7u, 16u}) {
      check_exact_sums<nvfp4, nv_e1m2>(f16_kernel, few);
      check_exact_sums<nvint4, nvint4>(f16_kernel, few);
      check_exact_sums<nv_e3m0, nvfp4>(f16_kernel, few);
      check_exact_sums<mxint4, mx_e1m2>(dots_kernel, few);
      if (few <= 8) check_exact_sums<e1m2_f32, int4_f32>(dots_kernel, few);
    }
  });
}

TEST_CASE("a NaN scale in a product of few rows makes its row or column of C NaN, and nothing else", "[gpu]") {
  std::mt19937_64 gen{support::seed(21)};
  const auto check_nan = [&]<class F>(const gpu::gemm_kernel& kernel, const quantized_matrix<F>&) {
    support::check_nan_scales(kernel, model::random_quantized<F>(gen, 6, 672),
                              model::random_quantized<F>(gen, 33, 672));
    support::check_nan_scales(kernel, model::random_quantized<F>(gen, 33, 672),
                              model::random_quantized<F>(gen, 6, 672));
  };
  check_nan(f16_kernel, quantized_matrix<nvfp4>{});
  check_nan(f16_kernel, quantized_matrix<nvint4>{});
  check_nan(dots_kernel, quantized_matrix<mxfp4>{});
  check_nan(dots_kernel, quantized_matrix<e1m2_f32>{});
}

TEST_CASE("negative e4m3 scales, which quantize does not make, give the same products of few rows", "[gpu]") {
  std::mt19937_64 gen{support::seed(22)};
  auto a = with_exact_sums<nvfp4>(gen, 3, 96);
  const auto b = with_exact_sums<nvfp4>(gen, 20, 96);
  a.scales()[4] = e4m3(-2.0f);
  CHECK(support::against_host(f16_kernel, a, b, {}) == "");
}

TEST_CASE("the order of threads and blocks and the number of thread blocks change no bit of few rows in fast",
          "[gpu]") {
  std::mt19937_64 gen{support::seed(23)};
  const auto check_order = [&]<class F>(const gpu::gemm_kernel& kernel, const quantized_matrix<F>&) {
    const auto a = model::random_quantized<F>(gen, 7, 2624);
    const auto b = model::random_quantized<F>(gen, 70, 2624);
    const auto want = support::product_of(kernel, a, b, {}, {}, 1);
    REQUIRE(same_numbers(support::product_of(kernel, a, b, {}, {}, 1000), want));
    support::in_every_order([&](const char* order) {
      CAPTURE(order);
      REQUIRE(same_numbers(support::product_of(kernel, a, b, {}, {}, 1), want));
    });
  };
  check_order(f16_kernel, quantized_matrix<nvfp4>{});
  check_order(dots_kernel, quantized_matrix<mxfp4>{});
  check_order(dots_kernel, quantized_matrix<e1m2_f32>{});
}

TEST_CASE("K = 0 leaves beta * C in the kernels of fast products with few rows", "[gpu]") {
  support::empty_sums([](const auto& a, const auto& b, const gemm_options& options) {
    const std::vector<float> old(54, 1.5f);
    std::vector<float> want = old;
    quantized_gemm(a, b, matrix_view<float>{want.data(), 3, 18}, options);
    REQUIRE(same_numbers(support::product_of(f16_kernel, a, b, options, old), want));
  });
  const quantized_matrix<e1m2_f32> a(3, 0), b(18, 0);
  REQUIRE(same_numbers(support::product_of(dots_kernel, a, b), std::vector<float>(54, 0.0f)));
}

TEST_CASE("the fp16 kernel for few rows takes codes at multiples of 16 bytes, the other at multiples of 4", "[gpu]") {
  std::mt19937_64 gen{support::seed(24)};
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  const auto takes = [&]<class F>(const gpu::gemm_kernel& kernel, const quantized_matrix<F>& b, std::size_t shift) {
    const gpu::quantized_matrix<F> a{model::random_quantized<F>(gen, 2, b.cols())};
    const support::shifted<F> moved(b, shift, 0);
    const gpu::buffer<float> c(2 * b.rows());
    const auto sink = ufp4::detail::sink_of(matrix_view<float>{c.data(), 2, b.rows()});
    return kernel.takes(gpu::detail::call_of(a.view(), moved.view(), sink, {}, {}).job, device);
  };
  const auto nv = model::random_quantized<nvfp4>(gen, 21, 608), odd = model::random_quantized<nvfp4>(gen, 21, 592);
  const auto mx = model::random_quantized<mxfp4>(gen, 21, 608);
  CHECK(takes(f16_kernel, nv, 0));
  CHECK(takes(f16_kernel, nv, 16));
  CHECK_FALSE(takes(f16_kernel, nv, 8));
  CHECK_FALSE(takes(f16_kernel, odd, 0));  // rows of 296 bytes
  CHECK(takes(dots_kernel, mx, 4));
  CHECK_FALSE(takes(dots_kernel, mx, 2));
}

TEST_CASE("scales that are not aligned to 2 bytes are not read by the fp16 kernel for few rows", "[gpu]") {
  std::mt19937_64 gen{support::seed(25)};
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  const auto q = model::random_quantized<nvfp4>(gen, 20, 64);
  const gpu::buffer<float> c(40);
  const auto sink = ufp4::detail::sink_of(matrix_view<float>{c.data(), 2, 20});
  const gpu::quantized_matrix<nvfp4> a{model::random_quantized<nvfp4>(gen, 2, 64)};
  for (const std::size_t shift : {0u, 1u, 2u}) {
    const support::shifted<nvfp4> b(q, 0, shift);
    const gpu::gemm_job job = gpu::detail::call_of(a.view(), b.view(), sink, {}, {}).job;
    CHECK(f16_kernel.takes(job, device) == (shift != 1));
  }
}

namespace {

struct fold_job {
  unsigned bits;
  float* out;  ///< of every code, for each scale
};
template <bool integers>
UFP4_KERNEL(127)
fold_codes(const fold_job job) {
  namespace kernels = gpu::kernels;
  const unsigned scale = gpu::thread_index().x;
  for (unsigned word = 0; word < 2; ++word) {
    const std::uint32_t codes = word == 0 ? 0x76543210u : 0xFEDCBA98u;
    std::uint32_t pairs[4];
    const auto by = kernels::f16_scale::of<integers>(word == 0 ? scale : scale << 8, word);
    const std::conditional_t<integers, kernels::int4_to_f16, kernels::fp4_to_f16> decoding(job.bits);
    decoding.fold(codes, by, pairs);
    for (unsigned j = 0; j < 4; ++j) {
      float* out = job.out + scale * 16 + word * 8 + j;
      out[0] = gpu::thread::half_f16(pairs[j]);
      out[4] = gpu::thread::half_f16(pairs[j] >> 16);
    }
  }
}
/// factor: of the results.
template <class Element>
void check_folding(unsigned bits, float factor) {
  constexpr bool integers = std::is_same_v<Element, ufp4::int4>;
  const gpu::buffer<float> out(127 * 16);
  REQUIRE(gpu::launch(gpu::listed<&fold_codes<integers>>, {1}, {127}, 0, gpu::stream{}, fold_job{bits, out.data()}) ==
          gpu::success);
  const std::vector<float> got = support::on_host(out);
  for (unsigned i = 0; i < got.size(); ++i) {
    CAPTURE(bits, i);
    const auto scale = static_cast<float>(e4m3::from_bits(static_cast<std::uint8_t>(i / 16)));
    REQUIRE(got[i] * factor == static_cast<float>(Element::from_bits(static_cast<std::uint8_t>(i % 16))) * scale);
  }
}

}  // namespace

TEST_CASE("fp16 holds every code times every e4m3 scale, up to a power of two, exactly", "[gpu]") {
  check_folding<fp4<E3M0>>(0, 0x1p5f);
  check_folding<fp4<E2M1>>(1, 0x1p7f);
  check_folding<fp4<E1M2>>(2, 0x1p7f);
  check_folding<ufp4::int4>(0, 1);
}
