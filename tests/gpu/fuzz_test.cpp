// ufp4 - random shapes, formats, layouts and values through every operation on a GPU and on the host.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
//
// Twelve cases of each kind, or as many as fit in UFP4_FUZZ_SECONDS. A failure names the seed of its case;
// UFP4_FUZZ_CASE=<seed> runs that one alone.
#include "gpu/gemm_check.hpp"
#include "gpu/quantize_check.hpp"

#include "support/fast_cases.hpp"
#include "support/seed.hpp"

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

using namespace ufp4;
using support::text_of;

namespace {

using ue5m3_int4 = block_format<ufp4::int4, ue5m3, 16, float>;

/// Random choices of one case, which its seed alone determines.
class choices {
 public:
  explicit choices(std::uint64_t seed) : gen_(seed) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(gen_() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  /// Mostly small, often next to a multiple of a tile; at most `most`.
  std::size_t length(std::size_t most) {
    static constexpr std::size_t edges[] = {1, 8, 16, 32, 64, 96, 128, 256};
    const std::size_t near = edges[below(8)] + below(3);
    const std::size_t n = one_in(3) ? 1 + below(most) : near == 0 ? 1 : near - (one_in(2) ? 1 : 0);
    return n == 0 ? 1 : n < most ? n : most;
  }
  std::mt19937_64& generator() { return gen_; }

 private:
  std::mt19937_64 gen_;
};

/// run(choices) for one case after the other.
template <class Run>
void fuzz(std::uint64_t kind, const Run& run) {
  const auto one = [&](std::uint64_t seed) {
    INFO("UFP4_FUZZ_CASE=" << seed);
    choices c(seed);
    run(c);
  };
  if (const char* only = std::getenv("UFP4_FUZZ_CASE")) return one(std::strtoull(only, nullptr, 10));
  const char* seconds = std::getenv("UFP4_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds ? std::atof(seconds) : 0);
  const auto in_time = [&] { return seconds != nullptr && std::chrono::steady_clock::now() < end; };
  for (std::uint64_t i = 0; seconds == nullptr ? i < 12 : i == 0 || in_time(); ++i)
    one(support::seed(kind << 32 | i) | 1);
}

/// Calls run.template operator()<F>() for one of the formats.
template <class... Formats, class Run>
void with_one_of(std::size_t which, const Run& run) {
  std::size_t i = 0;
  ((i++ == which ? (run.template operator()<Formats>(), 0) : 0), ...);
}

std::vector<float> values(choices& c, std::size_t count) {
  const int exponent = static_cast<int>(c.below(40)) - 20;
  std::vector<float> all(count);
  for (float& x : all) {
    const auto bits = static_cast<std::int32_t>(c.generator()());
    x = std::ldexp(static_cast<float>(bits), exponent - 31 - (c.one_in(16) ? static_cast<int>(c.below(30)) : 0));
    if (c.one_in(50)) x = 0;
  }
  return all;
}

template <class F>
void quantize_case(choices& c) {
  const std::size_t rows = c.length(300), cols = c.length(500), gap = c.below(3);
  const bool transposed = c.one_in(3);
  CAPTURE(rows, cols, gap, transposed);
  const std::size_t line = (transposed ? rows : cols) + gap, lines = transposed ? cols : rows;
  const std::vector<float> memory = values(c, lines * line);
  const auto far = static_cast<std::ptrdiff_t>(line);
  const matrix_view<const float> x = transposed ? matrix_view<const float>{memory.data(), rows, cols, 1, far}
                                                : matrix_view<const float>{memory.data(), rows, cols, far, 1};
  const random_hadamard<16> rht{c.below(1000)};
  const stochastic sr{.seed = c.below(1000)};
  switch (c.below(4)) {
    case 0: return support::check_quantize<F>(memory, x);
    case 1: return support::check_quantize<F>(memory, x, rht);
    case 2: return support::check_quantize<F>(memory, x, sr);
    default: return support::check_quantize<F>(memory, x, rht, sr);
  }
}

template <class F>
void dequantize_case(choices& c) {
  const std::size_t rows = c.length(300), cols = c.length(500);
  CAPTURE(rows, cols);
  const auto q = model::random_quantized<F>(c.generator(), rows, cols, model::scales::hostile, 0x1.8p-3f);
  std::vector<float> want(rows * cols);
  dequantize(q, matrix_view<float>{want.data(), rows, cols});
  const gpu::buffer<float> got(want.size());
  REQUIRE(text_of(gpu::dequantize({}, gpu::quantized_matrix<F>(q.view()),
                                  matrix_view<float>{got.data(), rows, cols})) == "");
  REQUIRE(support::difference(support::on_host(got), want) == "");
}

/// A product by quantized_gemm; C before the call is support::old_values.
template <class A, class B>
std::vector<float> product(const quantized_matrix<A>& a, const quantized_matrix<B>& b, const gemm_options& options,
                           const std::vector<float>& old) {
  const gpu::quantized_matrix<A> left(a.view());
  const gpu::quantized_matrix<B> right(b.view());
  const gpu::buffer<float> c{std::span<const float>(old)};
  const matrix_view<float> out{c.data(), a.rows(), b.rows()};
  const gpu::buffer<std::byte> workspace(gpu::workspace_bytes({}, left, right, out, options));
  CAPTURE(gpu::explain({}, left, right, out, options).text());
  REQUIRE(text_of(gpu::quantized_gemm({{}, workspace.span()}, left, right, out, options)) == "");
  return support::on_host(c);
}

template <class F>
void product_case(choices& c, bool exact) {
  const std::size_t m = c.length(200), n = c.length(200), k = c.length(400);
  CAPTURE(m, n, k, exact);
  const auto a = model::random_quantized<F>(c.generator(), m, k, model::scales::ordinary, 0x1.8p-7f);
  const auto b = model::random_quantized<F>(c.generator(), n, k, model::scales::ordinary, 0x1.333334p+3f);
  const bool fits = !std::is_same_v<typename F::scale_type, float>;
  const gemm_options options{.alpha = c.one_in(2) ? 1.0f : -2.7f,
                             .beta = c.one_in(2) ? 0.0f : 1.3f,
                             .accumulate = exact  ? accumulate::exact_blocks
                                           : fits ? accumulate::fast
                                                  : accumulate::folded_bf16};
  const std::vector<float> old = support::old_values(m * n);
  const std::vector<float> got = product(a, b, options, old);
  if (!exact) {
    REQUIRE(support::product_bound(a, b).broken_by(got, options, old) == "");
    return;
  }
  std::vector<float> want = old;
  quantized_gemm(a, b, matrix_view<float>{want.data(), m, n}, options);
  REQUIRE(support::difference(got, want) == "");
}

}  // namespace

TEST_CASE("quantize gives the host's bytes for random shapes, layouts and policies", "[gpu]") {
  fuzz(1, [](choices& c) {
    with_one_of<nvfp4, mxfp4, e1m2_f32, nv_e1m2, mxint4>(c.below(5), [&]<class F>() { quantize_case<F>(c); });
  });
}

TEST_CASE("dequantize gives the host's bits for random shapes", "[gpu]") {
  fuzz(2, [](choices& c) {
    with_one_of<nvfp4, mxfp4, e1m2_f32, nv_e1m2, mxint4>(c.below(5), [&]<class F>() { dequantize_case<F>(c); });
  });
}

TEST_CASE("exact_blocks gives the host's bits for random shapes", "[gpu]") {
  fuzz(3, [](choices& c) {
    with_one_of<nvfp4, mxfp4, e1m2_f32, mxint4, ue5m3_int4>(c.below(5), [&]<class F>() { product_case<F>(c, true); });
  });
}

TEST_CASE("fast and folded_bf16 keep the error bound for random shapes", "[gpu]") {
  fuzz(4, [](choices& c) {
    with_one_of<nvfp4, mxfp4, e1m2_f32, nv_e1m2, mxint4, ue5m3_int4>(c.below(6),
                                                                     [&]<class F>() { product_case<F>(c, false); });
  });
}
