// ufp4 - batches of matrices: quantize, dequantize, measure and multiply.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/formats.hpp"
#include "support/hostile.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace ufp4;

namespace {

constexpr std::size_t size = 3, rows = 16, cols = 48;

struct tensor {
  std::vector<float> values;
  explicit tensor(std::uint64_t seed) {
    support::hostile source(support::seed(seed));
    values = source.values(size * rows * cols, false, false);
    for (std::size_t i = 0; i < rows * cols; ++i) values[i] *= 0.01f;  // the matrices' amax differ
  }
  matrix_batch<const float> batch() const { return {values.data(), size, rows, cols}; }
  matrix_view<const float> stack() const { return {values.data(), size * rows, cols}; }
};

}  // namespace

TEST_CASE("a batch with a shared amax is its stack, cut into pieces", "[batch]") {
  const tensor x(1);
  support::for_each_cpu_preset([&](auto row) {
    using F = typename decltype(row)::format;
    CAPTURE(row.name);
    const auto whole = quantize<F>(x.stack(), random_hadamard<16>{1}, stochastic{.seed = 3});
    const auto parts = quantize<F>(x.batch(), batch_amax::shared, random_hadamard<16>{1}, stochastic{.seed = 3});
    REQUIRE(parts.size() == size);
    for (std::size_t i = 0; i < size; ++i) REQUIRE(parts[i] == row_range(whole, i * rows, rows));
    const analysis::report a = analysis::measure(row.spec, x.batch(), batch_amax::shared, hadamard<16>{});
    const analysis::report b = analysis::measure(row.spec, x.stack(), hadamard<16>{});
    REQUIRE((a.sqnr_db == b.sqnr_db && a.histogram == b.histogram && a.blocks == b.blocks));
  });
}

TEST_CASE("a batch with amax of its own has a tensor scale for each matrix", "[batch]") {
  const tensor x(2);
  const auto own = quantize<nvfp4>(x.batch(), batch_amax::own);
  for (std::size_t i = 0; i < size; ++i) REQUIRE(own[i] == quantize<nvfp4>(x.batch()[i]));
  CHECK(own[0].tensor_scale() != own[1].tensor_scale());
  const auto shared = quantize<nvfp4>(x.batch(), batch_amax::shared);
  CHECK(shared[0].tensor_scale() == shared[1].tensor_scale());
}

TEST_CASE("dequantize and quantized_gemm of a batch are those of its matrices", "[batch]") {
  const tensor x(3), w(4);
  const auto a = quantize(spec_of<nvfp4>, x.batch(), batch_amax::own);
  const auto b = quantize<nvfp4>(w.batch(), batch_amax::shared);
  std::vector<float> decoded(size * rows * cols), c(size * rows * rows);
  dequantize(a, matrix_batch<float>(decoded.data(), size, rows, cols));
  quantized_gemm(a, b, matrix_batch<float>(c.data(), size, rows, rows), {.alpha = 0.5f});
  for (std::size_t i = 0; i < size; ++i) {
    const matrix<float> want = dequantize(a[i]);
    REQUIRE(std::memcmp(&decoded[i * rows * cols], want.data(), rows * cols * sizeof(float)) == 0);
    matrix<float> product(rows, rows);
    quantized_gemm(a[i], b[i], product, {.alpha = 0.5f});
    REQUIRE(std::memcmp(&c[i * rows * rows], product.data(), rows * rows * sizeof(float)) == 0);
  }
}

TEST_CASE("a batch in the middle of a larger tensor is read and written by its strides", "[batch]") {
  const tensor x(5);
  const matrix_batch<const float> heads(matrix_view<const float>(x.values.data() + 8, rows, 16, cols), size,
                                        static_cast<std::ptrdiff_t>(rows * cols));
  const auto q = quantize<mxint4>(heads, batch_amax::shared);
  for (std::size_t i = 0; i < size; ++i) REQUIRE(q[i] == quantize<mxint4>(col_range(x.batch()[i], 8, 16)));
}

TEST_CASE("bad batches are rejected before anything is written", "[batch]") {
  const tensor x(6);
  CHECK(support::rejection([&] { quantize(spec_of<mxfp4>, x.batch(), batch_amax::own); }) ==
        "quantize: batch_amax::own has no effect: the format has no tensor scale");
  CHECK(support::rejection([&] { quantize(spec_of<nvfp4>, x.batch(), batch_amax::own, tensor_amax{1}); }) ==
        "quantize: batch_amax::own contradicts a tensor_amax, which all matrices share");
  CHECK(support::rejection([&] { quantize(spec_of<mxfp4>, x.batch(), batch_amax::shared, shard{0, 0, 48}); }) ==
        "quantize: a batch sets the shard of each matrix itself; leave shard out");
  std::vector<float> out(size * rows * cols, 7.0f);
  const auto q = quantize<nvfp4>(x.batch(), batch_amax::shared);
  CHECK(support::rejection([&] { dequantize(q, matrix_batch<float>(out.data(), 2, rows, cols)); }) ==
        "dequantize: batch size mismatch: 3 quantized matrices, 2 outputs");
  CHECK(std::all_of(out.begin(), out.end(), [](float v) { return v == 7.0f; }));
}
