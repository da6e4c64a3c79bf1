// ufp4 - formats as data: quantize, dequantize, quantized_gemm and measure equal their typed forms bit for bit.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/formats.hpp"
#include "support/model.hpp"
#include "support/random_matrix.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

using namespace ufp4;
using support::random_matrix;

namespace {

constexpr std::size_t rows = 37, cols = 75, outputs = 21;

template <class T>
bool same_bits(const matrix<T>& a, const matrix<T>& b) {
  return a.rows() == b.rows() && a.cols() == b.cols() &&
         std::memcmp(a.data(), b.data(), a.rows() * a.cols() * sizeof(T)) == 0;
}

const auto rht = random_hadamard<16>{3};

}  // namespace

TEST_CASE("a format as data gives the bits of the same format as a type", "[core]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(1, rows, cols), w = random_matrix(2, outputs, cols);
  support::for_each_cpu_preset([&](auto row) {
    using F = typename decltype(row)::format;
    CAPTURE(row.name);
    const any_quantized a = quantize(preset(row.name), x, rht, stochastic{.seed = 5});
    const quantized_matrix<F> typed = quantize<F>(x, rht, stochastic{.seed = 5}), b = quantize<F>(w, rht);
    REQUIRE(any_quantized_view(a) == any_quantized_view(typed));
    REQUIRE(quantized_matrix<F>(any_quantized(a)) == typed);
    REQUIRE(same_bits(dequantize(a), dequantize(typed)));
    matrix<float> c(rows, outputs), d(rows, outputs), e(rows, outputs);
    quantized_gemm(a, b, c);
    quantized_gemm(typed, quantize(row.spec, w, rht), d);
    quantized_gemm(typed, b, e);
    REQUIRE(same_bits(c, e));
    REQUIRE(same_bits(d, e));
    matrix<float> f(rows, cols), g(rows, cols);
    fake_quantize(row.spec, x, f);
    fake_quantize<F>(x, g);
    REQUIRE(same_bits(f, g));
    const analysis::report p = analysis::measure(row.spec, x, rht), q = analysis::measure<F>(x, rht);
    REQUIRE((p.sqnr_db == q.sqnr_db && p.attenuation == q.attenuation && p.histogram == q.histogram));
  });
}

TEST_CASE("preset_name is the inverse of preset, and unknown names list the presets", "[core]") {
  support::for_each_cpu_preset([](auto row) {
    CHECK(ufp4::detail::preset_name(row.spec) == row.name);
    CHECK(preset(row.name) == row.spec);
  });
  CHECK(ufp4::detail::preset_name({grid_of<int4>(), scale_kind::bf16, 64, {}}).empty());
  CHECK(ufp4::detail::find_preset("nvfp5") == nullptr);
  CHECK(support::rejection([] { preset("nvfp5"); }) ==
        "preset: unknown format: nvfp5; the presets are " + ufp4::detail::preset_names());
}

TEST_CASE("storage_size says how much memory quantize_into fills, and no byte beyond is written", "[core]") {
  const matrix<float> x = random_matrix(3, rows, cols);
  support::for_each_cpu_preset([&](auto row) {
    CAPTURE(row.name);
    const ufp4::quantized_storage::size size = storage_size(row.spec, rows, cols, rht.spec());
    const any_quantized want = quantize(row.spec, x, rht);
    CHECK(size.codes == want.codes().size());
    CHECK(size.scales == want.scale_bytes().size());
    matrix<float> memory(1, size.total() / 4 + 33);
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(memory.data()), size.total() + 64);
    std::memset(bytes.data(), 0x5A, bytes.size());
    const auto view = quantize_into(row.spec, x, quantized_storage::in(bytes, size), rht);
    REQUIRE(view == any_quantized_view(want));
    for (std::size_t i = size.total(); i < bytes.size(); ++i) REQUIRE(bytes[i] == std::byte{0x5A});
    CHECK(support::rejection([&] { quantized_storage::in(bytes.first(8), size); }) ==
          "quantized_storage: memory has 8 bytes, " + std::to_string(size.total()) + " are needed");
    any_quantized again(row.spec, rows, cols, rht.spec());
    quantize_into(x, again, rht);
    REQUIRE(any_quantized_view(again) == view);
  });
}

TEST_CASE("a matrix of another format is not taken for a typed one", "[core]") {
  const matrix<float> x(2, 32);
  CHECK(support::rejection([&] { quantized_matrix<mxfp4>(quantize(spec_of<nvfp4>, x)); }) ==
        "quantized_matrix: the matrix has another format");
  CHECK(support::rejection([&] { quantize(format_spec{}, x); }).find("quantize: ") == 0);
}

TEST_CASE("q(row, col) is the element that dequantize gives", "[core]") {
  const matrix<float> x = random_matrix(4, rows, cols);
  support::for_each_cpu_preset([&](auto row) {
    const any_quantized q = quantize(row.spec, x);
    const matrix<float> all = dequantize(q);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < cols; ++k) {
        const float one = q(i, k);
        REQUIRE(std::memcmp(&one, &all(i, k), sizeof one) == 0);
      }
  });
  const auto q = quantize<nvfp4>(x);
  CHECK(support::rejection([&] { q(rows, 0); }) == "element (37, 0) of a quantized matrix of 37 x 75");
}

TEST_CASE("col_range and row_range hold the elements of the whole", "[core]") {
  const matrix<float> x = random_matrix(5, rows, cols);
  const auto q = quantize<mxfp4>(x);
  const auto part = col_range(q, 32, 43);
  const auto lower = row_range(q, 30, 7);
  const matrix<float> all = dequantize(q), right = dequantize(part), bottom = dequantize(lower);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < 43; ++k) REQUIRE(right(i, k) == all(i, k + 32));
  for (std::size_t i = 0; i < 7; ++i)
    for (std::size_t k = 0; k < cols; ++k) REQUIRE(bottom(i, k) == all(i + 30, k));
  CHECK(support::rejection([&] { col_range(q, 16, 32); }) ==
        "col_range: first and count must be multiples of 32 (the longer of block and transform), got 16 and 32");
  CHECK(support::rejection([&] { col_range(q, 32, 44); }) == "col_range: columns out of range: 32 + 44 > 75");
  const matrix_view<float> middle = col_range(x, 10, 3);
  CHECK((middle.cols() == 3 && &middle(2, 1) == &x(2, 11)));
}

TEST_CASE("no rows at the end of a matrix of square blocks are a range", "[core]") {
  const auto q = quantize<block_format<int4, float, square(16)>>(random_matrix(6, 40, 32));
  CHECK(row_range(q, 40, 0).rows() == 0);
  CHECK(row_range(q, 32, 8).rows() == 8);
  CHECK(support::rejection([&] { row_range(q, 41, 0); }) == "row_range: rows out of range: 41 + 0 > 40");
}

TEST_CASE("a span, an array and a vector are quantized as one row", "[core]") {
  std::vector<float> x(50);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 20;
  const auto want = quantize<nvfp4>(matrix_view<const float>(x.data(), 1, 50));
  CHECK(quantize<nvfp4>(x) == want);
  CHECK(quantize<nvfp4>(std::span(x)) == want);
  CHECK(quantize<nvfp4>(std::span<const float>(x), hadamard<16>{}) ==
        quantize<nvfp4>(matrix_view<const float>(x.data(), 1, 50), hadamard<16>{}));
}

TEST_CASE("a matrix owns its elements, +0 at first; copies are independent", "[core]") {
  matrix<float> a(3, 5);
  for (std::size_t i = 0; i < 15; ++i) REQUIRE(model::bits_of(a.data()[i]) == 0);
  a(1, 2) = 7;
  matrix<float> b = a;
  b(1, 2) = 8;
  CHECK((a(1, 2) == 7 && b(1, 2) == 8 && a.data() != b.data()));
  const float* memory = b.data();
  a = std::move(b);
  CHECK((a.data() == memory && a(1, 2) == 8));
  CHECK((matrix<bf16>().rows() == 0 && matrix<fp16>(0, 7).cols() == 7));
}

TEST_CASE("dequantize returns a matrix of the type that is asked for", "[core]") {
  const auto q = quantize<e1m2_f32>(random_matrix(7, 4, 40));
  matrix<bf16> want(4, 40);
  dequantize(q, want);
  CHECK(same_bits(dequantize<bf16>(q), want));
}

#if defined(UFP4_HAS_FLOAT16)
TEST_CASE("_Float16 is read as binary16", "[core]") {
  const matrix<float> x = random_matrix(8, 5, 40);
  matrix<_Float16> theirs(5, 40);
  matrix<fp16> ours(5, 40);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t k = 0; k < 40; ++k) theirs(i, k) = static_cast<_Float16>(x(i, k)), ours(i, k) = fp16(x(i, k));
  CHECK(quantize<nvfp4>(theirs) == quantize<nvfp4>(ours));
}
#endif
