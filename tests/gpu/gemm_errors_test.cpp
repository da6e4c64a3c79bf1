// ufp4 - quantized_gemm on a GPU: every mistake is a status with the host's message, and nothing is queued.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/gemm_check.hpp"

#include "support/rejection.hpp"

using namespace ufp4;
using support::text_of;

namespace {

const std::vector<float> ones(1 << 13, 1.0f);
matrix_view<const float> input(std::size_t rows, std::size_t cols) { return {ones.data(), rows, cols}; }

/// The device's error message of a call must be the host's, and C must not change.
template <class HostA, class HostB, class DeviceA, class DeviceB>
std::string rejection(const HostA& a, const HostB& b, const DeviceA& da, const DeviceB& db, std::size_t rows,
                      std::size_t cols, const gemm_options& options = {}) {
  std::vector<float> c(rows * cols, 7.0f);
  const std::string host =
      support::rejection([&] { quantized_gemm(a, b, matrix_view<float>{c.data(), rows, cols}, options); });
  const gpu::buffer<float> there{std::span<const float>(c)};
  const gpu::status s =
      gpu::quantized_gemm(gpu::context{}, da, db, matrix_view<float>{there.data(), rows, cols}, options);
  CHECK(s.code() == gpu::invalid_argument);
  CHECK(text_of(s) == host);
  CHECK(support::on_host(there) == c);
  return text_of(s);
}
/// Quantized matrices on both sides.
template <class A, class B>
std::string rejection(const quantized_matrix<A>& a, const quantized_matrix<B>& b, std::size_t rows, std::size_t cols,
                      const gemm_options& options = {}) {
  return rejection(a, b, gpu::quantized_matrix<A>{a.view()}, gpu::quantized_matrix<B>{b.view()}, rows, cols, options);
}

}  // namespace

TEST_CASE("mismatched shapes, blocks and transforms are rejected with the host's messages", "[gpu]") {
  const auto a = quantize<e1m2_f32>(input(3, 64));
  CHECK(rejection(a, quantize<e1m2_f32>(input(5, 48)), 3, 5) ==
        "quantized_gemm: shape mismatch: A has 64 columns (K), B has 48");
  const auto b = quantize<e1m2_f32>(input(5, 64));
  CHECK(rejection(a, b, 4, 5) == "quantized_gemm: shape mismatch: C has 4 rows, A has 3");
  CHECK(rejection(a, b, 3, 6) == "quantized_gemm: shape mismatch: C has 6 columns, B has 5 rows");
  CHECK(rejection(a, quantize<e1m2_f32>(input(5, 64), hadamard<16>{}), 3, 5) ==
        "quantized_gemm: transform mismatch: A has none, B has hadamard<16>");
  CHECK_FALSE(rejection(quantize<e1m2_f32>(input(3, 64), random_hadamard<16>{1}),
                        quantize<e1m2_f32>(input(5, 64), random_hadamard<16>{2}), 3, 5)
                  .empty());
  const std::vector<float> bias(4);
  CHECK(rejection(a, b, 3, 5, {.bias = bias}) == "quantized_gemm: shape mismatch: bias has 4 entries, C has 5 columns");
}

TEST_CASE("operands quantized by the call, and plain operands, are rejected with the host's messages", "[gpu]") {
  const auto a = quantize<e1m2_f32>(input(3, 32));
  const gpu::quantized_matrix<e1m2_f32> da{a.view()};
  const gpu::buffer<float> data{std::span<const float>(ones)};
  const auto both = [&](std::size_t rows, std::size_t cols, auto make, std::size_t m, std::size_t n) {
    return rejection(a, make(input(rows, cols)), da, make(matrix_view<const float>{data.data(), rows, cols}), m, n);
  };
  CHECK(both(
            5, 48, [](const auto& x) { return operand<e1m2_f32>(x); }, 3, 5) ==
        "quantized_gemm: shape mismatch: A has 32 columns (K), B has 48");
  CHECK(both(
            5, 48, [](const auto& x) { return x; }, 3, 5) ==
        "quantized_gemm: shape mismatch: A has 32 columns (K), B has 48");
  CHECK(both(
            5, 32, [](const auto& x) { return unquantized(x, hadamard<16>{}); }, 3, 5) ==
        "quantized_gemm: transform mismatch: A has none, B has hadamard<16>");
  CHECK(both(
            5, 32, [](const auto& x) { return operand<nvfp4>(x, tensor_amax{-1.0f}); }, 3, 5) ==
        "quantized_gemm: tensor_amax must be finite and >= 0, got -1");
  CHECK(
      both(5, 32, [](const auto& x) { return operand<e1m2_f32>(x, mx_ceil{}); }, 3, 5).starts_with("quantized_gemm: "));
  const matrix_view<const float> nothing{nullptr, 4, 32};
  CHECK(rejection(a, nothing, da, nothing, 3, 4) == "quantized_gemm: B is null, but has 4 x 32 elements");
  const auto random_bits = [](const matrix_view<const float>& x) {
    return operand<e1m2_f32>(x, stochastic{.seed = 7, .stream = 9});
  };
  CHECK(rejection(random_bits(input(5, 32)), random_bits(input(5, 32)), random_bits({data.data(), 5, 32}),
                  random_bits({data.data(), 5, 32}), 5, 5) ==
        "quantized_gemm: A and B use the same random bits: seed 7, stream 9; give one "
        "of them "
        "another stream");
}

TEST_CASE("host memory, null pointers and overlapping memory are rejected", "[gpu]") {
  const auto a = quantize<nvfp4>(input(4, 32));
  const gpu::quantized_matrix<nvfp4> da{a.view()};
  const gpu::buffer<float> data{std::span<const float>(ones)}, c(16);
  const auto message = [&](const auto& x, const auto& y, const matrix_view<float>& out,
                           const gemm_options& options = {}) {
    const gpu::status s = gpu::quantized_gemm(gpu::context{}, x, y, out, options);
    CHECK(s.code() == gpu::invalid_argument);
    return text_of(s);
  };
  const matrix_view<const float> x{data.data(), 4, 32};
  const matrix_view<float> out{c.data(), 4, 4};
  quantize_report report;
  CHECK(message(da, operand<nvfp4>(x, count_into{report}), out) ==
        "quantized_gemm: count_into of B is in host memory, which a kernel cannot write; quantize it first, with "
        "count_at");
  CHECK(message(da, x, {data.data() + 2, 4, 4}) == "quantized_gemm: C overlaps B");
  CHECK(message(da, da, {reinterpret_cast<float*>(da.view().codes().data()), 4, 4}) ==
        "quantized_gemm: C overlaps the codes of A");
  const gpu::quantized_view<nvfp4> shared{da.view().codes(), da.view().scales(), c.data() + 3, 4, 32};
  CHECK(message(shared, da, out) == "quantized_gemm: C overlaps the tensor scale of A");
  CHECK(message(da, da, out, {.bias = {c.data() + 1, 4}}) == "quantized_gemm: C overlaps bias");
  CHECK(message(da, da, {c.data(), 4, 4, 3, 1}) ==
        "quantized_gemm: elements of C overlap: 4 x 4 with row stride 3 and column stride 1");
  CHECK(message(da, da, {nullptr, 4, 4}) == "quantized_gemm: C is null, but has 4 x 4 elements");
  const matrix_view<const float> wide{data.data(), 4, std::size_t{1} << 32, 0, 0};
  CHECK(message(operand<nvfp4>(wide), operand<nvfp4>(wide), out) ==
        "quantized_gemm: A is 4 x 4294967296; on a GPU a matrix has at most 2^32 - 4096 rows and columns, and 2^42 "
        "elements");
  CHECK(message(operand<nvfp4>(x), da, out)
            .starts_with("quantized_gemm: context.workspace is too small: 0 bytes, needs "));
}

TEST_CASE("a C without rows or columns needs no workspace, and nothing is written", "[gpu]") {
  const auto a = quantize<nvfp4>(input(4, 32)), none = quantize<nvfp4>(input(0, 32));
  const gpu::quantized_matrix<nvfp4> da{a.view()}, empty{none.view()};
  CHECK(text_of(gpu::quantized_gemm(gpu::context{}, empty, da, matrix_view<float>{nullptr, 0, 4})) == "");
  CHECK(text_of(gpu::quantized_gemm(gpu::context{}, da, empty, matrix_view<float>{nullptr, 4, 0})) == "");
}
