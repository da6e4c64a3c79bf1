// ufp4 - extended formats on a GPU: arrays of outer scales, several grids, one-bit exponents, e6m2: the host's bits.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/gemm_check.hpp"
#include "gpu/quantize_check.hpp"

#include <cmath>

using namespace ufp4;
using support::text_of;
using ufp4::int4;  // CUDA has another

namespace {

using rows_outer = block_format<fp4<E2M1>, e4m3, 16, per_row<float>>;
using squares_outer = block_format<int4, ue5m3, square(16), per_segment<64, bf16>>;
using short_segments = block_format<fp4<E1M2>, e4m3, 16, per_segment<16, bf16>>;
using segments_of_48 = block_format<fp4<E2M1>, e4m3, 16, per_segment<48, float>>;
using squares_of_96 = block_format<one_of<int4, fp4<E2M1>>, e4m3, square(32), per_segment<96, bf16>>;
using bf16_tensor = block_format<fp4<E2M1>, e4m3, 16, bf16>;
using four_grids = block_format<one_of<fp4<E2M1>, fp4<E1M2>, scaled<int4, 3>, fp4<E3M0>>, ue5m3, 16>;
using half_choice = block_format<one_of<int4, fp4<E2M1>>, bf16, 32>;
using exponents_outer = block_format<fp4<E1M2>, ue5m3, grouped(32, 8, 2), per_segment<64, float>>;
using e6m2_alone = block_format<fp4<E2M1>, e6m2, 16>;

using formats =
    std::tuple<tetrajet2, if4, mixfp4, razer, hif4, rows_outer, squares_outer, short_segments, segments_of_48,
               squares_of_96, bf16_tensor, four_grids, half_choice, exponents_outer, e6m2_alone>;

constexpr std::size_t rows = 21, cols = 150;

std::vector<float> values(std::uint64_t number) { return support::hostile(support::seed(number)).values(rows * cols); }

/// Random codes under the host's scales of random values.
template <class F>
quantized_matrix<F> random_matrix(std::uint64_t number, std::size_t height, std::size_t width) {
  support::hostile source(support::seed(number));
  std::vector<float> x(height * width);
  for (float& v : x)
    v = model::float_of(0x3E000000u + source.below(0x02800000u)) * (source.below(2) == 0 ? 1.0f : -1.0f);
  auto q = quantize<F>(matrix_view<const float>{x.data(), height, width});
  for (std::uint8_t& c : q.codes()) c = static_cast<std::uint8_t>(source.below(256));
  return q;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("extended formats are quantized to the host's bytes, padding between scales included", "[gpu]",
                        formats) {
  INFO(support::seed_note());
  const std::vector<float> x = values(1);
  const matrix_view<const float> by_rows{x.data(), rows, cols}, by_columns{x.data(), rows, cols, 1, rows};
  support::check_quantize<TestType>(x, by_rows);
  support::check_quantize<TestType>(x, by_columns, stochastic{.seed = 5});
  support::check_quantize<TestType>(x, by_columns, nearest_away{});
  if constexpr (TestType::block.rows == 1) {
    support::check_quantize<TestType>(x, by_rows, random_hadamard<16>{3}, stochastic{.seed = 5});
    support::check_quantize<TestType>(x, by_columns, hadamard<128>{});
  }
  if constexpr (TestType::grids > 1)
    for (const search_error error : {search_error::squared, search_error::absolute, search_error::largest})
      support::check_quantize<TestType>(x, by_rows, choose_grid{error});
  support::check_quantize<TestType>(x, 0, cols);
  support::check_quantize<TestType>(x, rows, 0);
  support::check_quantize<TestType>(x, 1, 1);
}

TEST_CASE("a row of many tiles has one outer scale, whose amax may be anywhere", "[gpu]") {
  for (const std::size_t at : {0u, 4095u, 4096u, 9999u}) {
    std::vector<float> x(10000, 0.25f);
    x[at] = -1000;
    support::check_quantize<rows_outer>(x, 1, x.size());
    support::check_quantize<rows_outer>(x, 1, x.size(), random_hadamard<64>{1});
    support::check_quantize<tetrajet2>(x, 1, x.size());
    support::check_quantize<block_format<fp4<E2M1>, e4m3, 16, per_segment<4112, float>>>(x, 1, x.size(),
                                                                                         random_hadamard<64>{1});
  }
}

TEMPLATE_LIST_TEST_CASE("dequantize of extended formats gives the host's bits in every type", "[gpu]", formats) {
  INFO(support::seed_note());
  const auto q = random_matrix<TestType>(3, rows, cols);
  const gpu::quantized_matrix<TestType> there(q);
  CHECK(there.download() == q);
  const auto check = [&]<class T>(T) {
    std::vector<T> want(rows * cols);
    const gpu::buffer<T> got(rows * cols);
    dequantize(q, matrix_view<T>{want.data(), rows, cols});
    REQUIRE(text_of(gpu::dequantize({}, there, matrix_view<T>{got.data(), rows, cols})) == "");
    REQUIRE(support::same_numbers(support::numbers<T>(support::on_host(got)), support::numbers<T>(want)));
  };
  check(float{}), check(bf16{}), check(fp16{});
}

TEMPLATE_LIST_TEST_CASE("products of extended formats have the host's bits of exact_blocks, with nvfp4 and alone",
                        "[gpu]", formats) {
  INFO(support::seed_note());
  constexpr std::size_t m = 19, n = 70;
  const auto w = random_matrix<TestType>(5, n, cols);
  const gpu::quantized_matrix<TestType> there_w(w);
  const auto check = [&](const auto& a, const auto& there_a) {
    std::vector<float> want(m * n, 3.0f);
    const gpu::buffer<float> c{std::span<const float>(want)};
    const matrix_view<float> out{c.data(), m, n};
    const gemm_options options{.alpha = -1.25f, .beta = 0.5f, .accumulate = accumulate::exact_blocks};
    if (ufp4::detail::has_extended_blocks(spec_of<TestType>))
      CHECK(std::string(gpu::explain({}, there_a, there_w, out, options).kernel) == "gemm_simt");
    const gpu::buffer<std::byte> workspace(gpu::workspace_bytes({}, there_a, there_w, out, options));
    REQUIRE(text_of(gpu::quantized_gemm({{}, workspace.span()}, there_a, there_w, out, options)) == "");
    quantized_gemm(a, w, matrix_view<float>{want.data(), m, n}, options);
    REQUIRE(support::difference(support::on_host(c), want) == "");
  };
  const auto a = random_matrix<TestType>(6, m, cols);
  check(a, gpu::quantized_matrix<TestType>(a));
  if constexpr (TestType::block_size == 16) {
    const auto nv = random_matrix<nvfp4>(7, m, cols);
    check(nv, gpu::quantized_matrix<nvfp4>(nv));
  }
  const std::vector<float> x = values(8);
  const gpu::buffer<float> there_x{std::span<const float>(x)};
  check(matrix_view<const float>{x.data(), m, cols}, matrix_view<const float>{there_x.data(), m, cols});
}

TEMPLATE_LIST_TEST_CASE("folded_bf16 rounds values times scales of extended formats as the host does", "[gpu]",
                        formats) {
  INFO(support::seed_note());
  constexpr std::size_t m = 5, n = 9;
  const auto a = random_matrix<TestType>(9, m, cols), b = random_matrix<TestType>(10, n, cols);
  const gpu::quantized_matrix<TestType> there_a(a), there_b(b);
  const gpu::buffer<float> c(m * n);
  const matrix_view<float> out{c.data(), m, n};
  const gemm_options options{.accumulate = accumulate::folded_bf16};
  const gpu::buffer<std::byte> workspace(gpu::workspace_bytes({}, there_a, there_b, out, options));
  REQUIRE(text_of(gpu::quantized_gemm({{}, workspace.span()}, there_a, there_b, out, options)) == "");
  std::vector<float> want(m * n);
  quantized_gemm(a, b, matrix_view<float>{want.data(), m, n}, options);
  const std::vector<float> got = support::on_host(c);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double magnitude = 0;
      for (std::size_t k = 0; k < cols; ++k)
        magnitude += std::fabs(static_cast<double>(a(i, k)) * static_cast<double>(b(j, k)));
      const double error = static_cast<double>(got[i * n + j]) - static_cast<double>(want[i * n + j]);
      CHECK(std::fabs(error) <= magnitude * 400 * 0x1p-24);
    }
}

TEST_CASE("operands that a product quantizes first, and groups of products, may have extended formats", "[gpu]") {
  INFO(support::seed_note());
  const std::vector<float> x = values(11), w = values(12);
  const gpu::buffer<float> there_x{std::span<const float>(x)}, there_w{std::span<const float>(w)};
  const auto check = [&]<class F>(F*) {
    const matrix_view<const float> left{x.data(), rows, cols}, right{w.data(), rows, cols};
    const matrix_view<const float> in{there_x.data(), rows, cols}, weights{there_w.data(), rows, cols};
    std::vector<float> want(rows * rows);
    quantized_gemm(quantize<F>(left), quantize<F>(right, stochastic{.seed = 3}),
                   matrix_view<float>{want.data(), rows, rows}, support::exactly);
    const gpu::buffer<float> c(rows * rows);
    const matrix_view<float> out{c.data(), rows, rows};
    const auto a = operand<F>(in);
    const auto b = operand<F>(weights, stochastic{.seed = 3});
    const gpu::buffer<std::byte> workspace(gpu::workspace_bytes({}, a, b, out, support::exactly));
    REQUIRE(text_of(gpu::quantized_gemm({{}, workspace.span()}, a, b, out, support::exactly)) == "");
    REQUIRE(support::difference(support::on_host(c), want) == "");
  };
  check(static_cast<tetrajet2*>(nullptr)), check(static_cast<if4*>(nullptr)), check(static_cast<hif4*>(nullptr));
  check(static_cast<segments_of_48*>(nullptr));
}

TEST_CASE("explain names the kernel of extended formats, and quantize_both reads x twice", "[gpu]") {
  const std::vector<float> x = values(13);
  const gpu::buffer<float> there{std::span<const float>(x)};
  const matrix_view<const float> in{there.data(), rows, cols};
  CHECK(gpu::explain<if4>({}, in).text() ==
        "quantize: quantize_extended; an extended format uses one thread for each block");
  CHECK(std::string(gpu::explain_both<if4>({}, in).kernel) == "quantize_extended");
}
