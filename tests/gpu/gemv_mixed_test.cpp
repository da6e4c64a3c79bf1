// ufp4 - gemv_mixed_sm80, few rows times 4-bit weights: the host's bits where every sum is exact, else
// within the bound of fast.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/gemm_fast_check.hpp"

#include <ufp4/cuda/gemv_mixed_sm80.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/ufp4.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

const gpu::gemm_kernel& kernel = gpu::kernels::gemv_mixed_sm80<>;

/// An unquantized matrix on both sides of the bus.
template <class T>
struct unquantized_rows {
  std::size_t rows, cols, stride;
  std::vector<T> host;
  gpu::buffer<T> device;

  template <class Value>
  unquantized_rows(std::size_t m, std::size_t k, const Value& value, std::size_t gap = 0)
      : rows(m), cols(k), stride(k + gap), host(m * stride), device(0) {
    for (T& x : host) x = T(value());
    device = gpu::buffer<T>{std::span<const T>(host)};
  }
  matrix_view<const T> here() const { return {host.data(), rows, cols, static_cast<std::ptrdiff_t>(stride)}; }
  matrix_view<const T> there() const { return {device.data(), rows, cols, static_cast<std::ptrdiff_t>(stride)}; }
};

/// Weights and rows whose sums are exact in any order.
template <class F, class T>
struct exact_operands {
  std::mt19937_64 gen{support::seed(31)};
  quantized_matrix<F> weights;
  gpu::quantized_matrix<F> device_weights;
  unquantized_rows<T> x;

  exact_operands(std::size_t m, std::size_t n, std::size_t k, std::size_t gap = 0)
      : weights(make(n, k)),
        device_weights(weights.view()),
        x(m, k, [this] { return static_cast<float>(static_cast<int>(gen() % 17) - 8) * 0.25f; }, gap) {}
  quantized_matrix<F> make(std::size_t n, std::size_t k) {
    auto q = model::random_quantized<F>(gen, n, k);
    for (auto& s : q.scales()) s = typename F::scale_type(static_cast<float>(1u << gen() % 3));
    return q;
  }
  /// "" or the first difference from the host's product.
  template <class C>
  std::string difference(const gemm_options& options, const support::c_layout& layout = {}, bool swapped = false) {
    const std::size_t m = x.rows, n = weights.rows();
    if (swapped)
      return support::against_host<C>(kernel, weights, unquantized(x.here()), device_weights, unquantized(x.there()), n,
                                      m, options, layout);
    return support::against_host<C>(kernel, unquantized(x.here()), weights, unquantized(x.there()), device_weights, m,
                                    n, options, layout);
  }
};

using mx_e3m0 = block_format<fp4<E3M0>, e8m0, 32>;
using nv_e3m0 = block_format<fp4<E3M0>, e4m3, 16, float>;
using ue5m3_int4 = block_format<ufp4::int4, ue5m3, 64>;

template <class F, class T>
void check_exact_sums() {
  INFO(support::seed_note());
  CAPTURE(sizeof(F), gpu::detail::sink{}.rows);
  for (const std::size_t m : {1u, 7u, 8u, 9u, 16u}) {
    exact_operands<F, T> o(m, 33, 32 * (1 + m % 3));
    CHECK(o.template difference<float>({.alpha = -0.625f, .beta = 0.5f}) == "");
  }
  std::vector<float> bias(37);
  for (std::size_t j = 0; j < bias.size(); ++j) bias[j] = static_cast<float>(j) * 0.37f;
  exact_operands<F, T> o(5, 37, 2208, 8);
  CHECK(o.template difference<float>({.alpha = 0.75f, .bias = bias}) == "");
  CHECK(o.template difference<bf16>({.alpha = -0.625f, .beta = 0.5f}, {.gap = 3}) == "");
  CHECK(o.template difference<fp16>({.alpha = 0x1p-9f}, {.transposed = true}) == "");
  CHECK(o.template difference<float>({}, {}, true) == "");
}

/// Random numbers are within the bound of fast, `kind` of scales, x times 2^exponent. `least`: the scales are the two
/// smallest.
template <class F, class T>
void check_bound(model::scales kind, int exponent = 0, bool least = false) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(32)};
  std::normal_distribution<float> normal;
  const std::size_t m = 11, n = 45, k = 1088;
  auto weights = model::random_quantized<F>(gen, n, k, kind);
  if (least)
    for (auto& s : weights.scales()) s = F::scale_type::from_bits(static_cast<std::uint8_t>(gen() % 2));
  const gpu::quantized_matrix<F> there{weights.view()};
  const unquantized_rows<T> x(m, k, [&] { return std::ldexp(normal(gen), exponent); });
  std::vector<float> decoded(n * k);
  dequantize(weights, matrix_view<float>{decoded.data(), n, k});
  const gpu::buffer<float> c(m * n);
  const auto sink = ufp4::detail::sink_of(matrix_view<float>{c.data(), m, n});
  const gpu::gemm_job job = gpu::detail::call_of(unquantized(x.there()), there.view(), sink, {}, {}).job;
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  REQUIRE(kernel.takes(job, device));
  REQUIRE(kernel.run(job, device, {}, gpu::stream{}) == gpu::success);
  const std::vector<float> got = support::on_host(c);
  std::size_t outside = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      long double exact = 0, magnitude = 0;
      for (std::size_t e = 0; e < k; ++e) {
        const long double product =
            static_cast<long double>(static_cast<float>(x.host[i * k + e])) * decoded[j * k + e];
        exact += product, magnitude += std::abs(product);
      }
      if (magnitude >= FLT_MAX / 2) continue;
      const long double error = std::abs(static_cast<long double>(got[i * n + j]) - exact);
      outside += !(error <= (k + 6) * 0x1p-24L * magnitude + k * 0x1p-126L) && !std::isnan(exact);
    }
  CHECK(outside == 0);
}

}  // namespace

TEST_CASE("few plain rows times codes have the host's bits where every sum is exact", "[gpu]") {
  support::with_every_sum([] {
    check_exact_sums<nvfp4, bf16>();
    check_exact_sums<nvint4, fp16>();
  });
  check_exact_sums<nv_e1m2, bf16>();
  check_exact_sums<mxfp4, bf16>();
  check_exact_sums<mx_e3m0, bf16>();
  check_exact_sums<mxint4, bf16>();
  check_exact_sums<ue5m3_int4, bf16>();
  check_exact_sums<nvfp4, fp16>();
  check_exact_sums<nv_e1m2, fp16>();
  check_exact_sums<nv_e3m0, fp16>();
}

TEST_CASE("few plain rows times codes are within the bound of fast over the whole range of scales", "[gpu]") {
  using nv = block_format<fp4<E2M1>, e4m3, 16>;
  using nv_int4 = block_format<ufp4::int4, e4m3, 16>;
  for (const model::scales kind : {model::scales::ordinary, model::scales::hostile}) {
    check_bound<nv, bf16>(kind);
    check_bound<nv, fp16>(kind);
    check_bound<nv_int4, bf16>(kind);
    check_bound<nv_int4, fp16>(kind);
    check_bound<mxfp4, bf16>(kind);
    check_bound<mxint4, bf16>(kind);
  }
  check_bound<nv, bf16>(model::scales::ordinary, -110);
  check_bound<nv, fp16>(model::scales::ordinary, -20);
  check_bound<mxfp4, bf16>(model::scales::ordinary, 60, true);
  check_bound<mxint4, bf16>(model::scales::ordinary, 60, true);
}

TEST_CASE("a NaN in the plain rows, and a NaN scale even of zeros, make their row or column of C NaN, nothing else",
          "[gpu]") {
  const auto check = []<class F, class T>(const quantized_matrix<F>&, T) {
    exact_operands<F, T> o(3, 20, 96);
    o.x.host[1 * 96 + 40] = T(std::nanf(""));
    o.x.device = gpu::buffer<T>{std::span<const T>(o.x.host)};
    o.weights.scales()[4 * o.weights.padded_cols() / static_cast<std::size_t>(F::block_size) + 1] =
        typename F::scale_type(std::nanf(""));
    const std::size_t first = 4 * 96 / 2 + F::block_size / 2;
    for (std::size_t b = 0; b < F::block_size / 2u; ++b) o.weights.codes()[first + b] = 0;
    o.device_weights = gpu::quantized_matrix<F>(o.weights.view());
    CHECK(o.template difference<float>({}) == "");
  };
  check(quantized_matrix<nvfp4>{}, bf16{});
  check(quantized_matrix<nvint4>{}, fp16{});
  check(quantized_matrix<mxfp4>{}, bf16{});
  check(quantized_matrix<mxint4>{}, bf16{});
}

TEST_CASE("few plain rows of a type that the operands do not hold, or not aligned, run another kernel", "[gpu]") {
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  const auto takes = [&]<class F, class T>(const quantized_matrix<F>&, T, std::size_t m, std::size_t k, std::size_t gap,
                                           accumulate mode) {
    exact_operands<F, T> o(m, 20, k, gap);
    const gpu::buffer<float> c(m * 20);
    const auto sink = ufp4::detail::sink_of(matrix_view<float>{c.data(), m, 20});
    const gemm_options options{.accumulate = mode};
    const auto call = gpu::detail::call_of(unquantized(o.x.there()), o.device_weights.view(), sink, options, {});
    return kernel.takes(call.job, device);
  };
  const quantized_matrix<nvfp4> nv;
  CHECK(takes(nv, bf16{}, 16, 96, 8, accumulate::fast));
  CHECK(takes(nv, bf16{}, 16, 88, 0, accumulate::folded_bf16));
  CHECK_FALSE(takes(nv, bf16{}, 17, 96, 0, accumulate::fast));
  CHECK_FALSE(takes(nv, bf16{}, 16, 92, 4, accumulate::fast));
  CHECK_FALSE(takes(nv, bf16{}, 16, 96, 4, accumulate::fast));
  CHECK_FALSE(takes(nv, bf16{}, 16, 96, 0, accumulate::exact_blocks));
  CHECK_FALSE(takes(nv, float{}, 16, 96, 0, accumulate::fast));
  CHECK_FALSE(takes(quantized_matrix<mxfp4>{}, fp16{}, 16, 96, 0, accumulate::fast));
  CHECK_FALSE(takes(quantized_matrix<e1m2_f32>{}, bf16{}, 16, 96, 0, accumulate::fast));
}
