// ufp4 - every operation rejects an output whose elements overlap, before anything is written.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/rejection.hpp"

using namespace ufp4;

namespace {

constexpr std::size_t rows = 8, cols = 64;

matrix<float> counted(std::size_t m, std::size_t n) {
  matrix<float> x(m, n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) x(i, j) = static_cast<float>(1 + (i + j) % 7);
  return x;
}

struct strides {
  std::ptrdiff_t row, col;
};

/// "8 x 64 with row stride 32 and column stride 1"
std::string layout_text(const strides& s) {
  return std::to_string(rows) + " x " + std::to_string(cols) + " with row stride " + std::to_string(s.row) +
         " and column stride " + std::to_string(s.col);
}

/// Calls body(out) with views of rows x cols elements that overlap, which must be rejected without a write, and with
/// views that have gaps.
template <class Body>
void check_output(const std::string& operation, const std::string& argument, const Body& body) {
  CAPTURE(operation);
  for (const strides s : {strides{0, 1}, {64, 0}, {0, 0}, {32, 1}, {63, 1}, {-63, 1}, {63, -1}, {1, 7}, {3, 2}}) {
    std::vector<float> memory(2048, 0.5f);
    const auto said =
        support::rejection([&] { body(matrix_view<float>{memory.data() + 1024, rows, cols, s.row, s.col}); });
    CHECK(said == operation + ": elements of " + argument + " overlap: " + layout_text(s));
    CHECK(std::ranges::count(memory, 0.5f) == 2048);
  }
  for (const strides s : {strides{64, 1}, {-64, 1}, {65, -1}, {128, 2}, {1, 8}, {-2, 17}, {64, 3}}) {
    std::vector<float> memory(4096, 0.5f);
    CHECK(
        support::rejection([&] { body(matrix_view<float>{memory.data() + 2048, rows, cols, s.row, s.col}); }).empty());
    CHECK(std::ranges::count(memory, 0.5f) < 4096);
  }
}

/// Whether two elements have the same address, by visiting all of them.
bool some_address_twice(std::size_t m, std::size_t n, const strides& s) {
  std::set<std::ptrdiff_t> seen;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
      if (!seen.insert(static_cast<std::ptrdiff_t>(i) * s.row + static_cast<std::ptrdiff_t>(j) * s.col).second)
        return true;
  return false;
}

}  // namespace

TEST_CASE("a view overlaps itself exactly if two of its elements have the same address") {
  for (std::size_t m = 0; m < 5; ++m)
    for (std::size_t n = 0; n < 5; ++n)
      for (std::ptrdiff_t row = -9; row < 10; ++row)
        for (std::ptrdiff_t col = -9; col < 10; ++col) {
          float memory[128] = {};
          const matrix_view<float> x{memory + 64, m, n, row, col};
          CAPTURE(m, n, row, col);
          REQUIRE(detail::overlaps_itself(detail::sink_of(x)) == some_address_twice(m, n, {row, col}));
        }
}

TEST_CASE("strides of extreme size are compared without overflow") {
  constexpr std::ptrdiff_t most = PTRDIFF_MAX, least = PTRDIFF_MIN;
  const auto overlaps = [](std::size_t m, std::size_t n, const strides& s) {
    return detail::overlaps_itself(detail::sink{nullptr, dtype::f32, m, n, s.row, s.col});
  };
  CHECK_FALSE(overlaps(2, 2, {least, most}));
  CHECK_FALSE(overlaps(2, 2, {least, 1}));
  CHECK(overlaps(2, 2, {least, least}));
  CHECK(overlaps(3, 2, {most / 2, 2 * (most / 2)}));
  CHECK_FALSE(overlaps(SIZE_MAX, 1, {1, 0}));
  CHECK(overlaps(SIZE_MAX, 1, {0, 0}));
}

TEST_CASE("operations on one matrix reject an output whose elements overlap, and accept gaps") {
  const matrix<float> x = counted(rows, cols);
  const auto q = quantize<nvfp4>(x);
  check_output("dequantize", "out", [&](const auto& out) { dequantize(q, out); });
  check_output("dequantize", "out", [&](const auto& out) { dequantize(any_quantized_view(q), out); });
  check_output("dequantize", "out", [&](const auto& out) { dequantize(prepack(q), out); });
  check_output("fake_quantize", "out", [&](const auto& out) { fake_quantize<nvfp4>(x, out); });
  check_output("fake_quantize", "out", [&](const auto& out) { fake_quantize(spec_of<mxfp4>, x, out); });
  check_output("fake_quantize", "out", [&](const auto& out) { fake_quantize<compat::te_nvfp4>(x, out); });
  check_output("hadamard_forward", "out", [&](const auto& out) { hadamard_forward(x, out, hadamard<16>{}); });
  check_output("hadamard_inverse", "out", [&](const auto& out) { hadamard_inverse(x, out, hadamard<16>{}); });
  const std::vector<std::uint8_t> codes(rows * cols, 3), zero_points(rows * cols / 32, 1);
  const std::vector<float> scales(rows * cols / 32, 0.375f);
  const zero_point_matrix w(rows, cols, 32, codes, scales, zero_points);
  check_output("dequantize", "out", [&](const auto& out) { dequantize(w, out); });
}

TEST_CASE("products reject a C whose elements overlap, and accept gaps") {
  const matrix<float> x = counted(rows, 32);
  const auto a = quantize<nvfp4>(x), b = quantize<nvfp4>(counted(cols, 32));
  const auto packed = prepack(b);
  check_output("quantized_gemm", "C", [&](const auto& c) { quantized_gemm(a, b, c); });
  check_output("quantized_gemm", "C", [&](const auto& c) { quantized_gemm(operand<nvfp4>(x), packed, c); });
  check_output("quantized_gemm", "C", [&](const auto& c) { quantized_gemm(x, b, c, {.beta = 1}); });
  check_output("quantized_gemm_grouped, product 1", "C", [&](const auto& c) {
    const std::vector<quantized_view<nvfp4>> as(2, row_range(a, 0, rows)), bs(2, row_range(b, 0, cols));
    matrix<float> first(rows, cols);
    quantized_gemm_grouped(as, bs, std::vector<matrix_view<float>>{first, c});
  });
  const std::vector<std::uint8_t> codes(cols * 32, 3), zero_points(cols, 1);
  const std::vector<float> scales(cols, 0.25f);
  const zero_point_matrix w(cols, 32, 32, codes, scales, zero_points);
  check_output("quantized_gemm", "C", [&](const auto& c) { quantized_gemm(x, w, c); });
}

TEST_CASE("linear operations reject an output whose elements overlap, and accept gaps") {
  const auto now = recipe::ufp4_recipe(1).at(2, 3);
  const matrix<float> x = counted(rows, 32), w = counted(cols, 32), dy = counted(rows, 48), v = counted(48, cols);
  const matrix<float> tokens = counted(16, rows), inputs = counted(16, cols);
  check_output("linear_forward", "y", [&](const auto& y) { linear_forward(now, x, w, y); });
  check_output("linear_backward_input", "dx", [&](const auto& dx) { linear_backward_input(now, dy, v, dx); });
  check_output("linear_backward_weight", "dw",
               [&](const auto& dw) { linear_backward_weight(now, tokens, inputs, dw); });
}

TEST_CASE("a batch is rejected as an output if its matrices overlap, and accepted if they interleave") {
  const std::vector<any_quantized> q(3, quantize(spec_of<e1m2_f32>, counted(4, 16)));
  const auto into = [&](const strides& s, std::ptrdiff_t stride) {
    std::vector<float> memory(1024, 0.5f);
    const matrix_view<float> first{memory.data() + 512, 4, 16, s.row, s.col};
    const std::string said = support::rejection([&] { dequantize(q, matrix_batch<float>(first, 3, stride)); });
    CHECK((std::ranges::count(memory, 0.5f) == 1024) == !said.empty());
    return said;
  };
  CHECK(into({16, 1}, 64).empty());
  CHECK(into({16, 1}, -64).empty());
  CHECK(into({48, 1}, 16).empty());  // beside each other
  CHECK(into({48, 3}, 1).empty());   // element by element
  CHECK(into({-48, 3}, -1).empty());
  CHECK(into({16, 1}, 0) ==
        "dequantize: matrices of out overlap: 3 of 4 x 16 with row stride 16, column stride 1 and stride 0");
  CHECK(into({16, 1}, 63) ==
        "dequantize: matrices of out overlap: 3 of 4 x 16 with row stride 16, column stride 1 and stride 63");
  CHECK(into({48, 3}, 24) ==
        "dequantize: matrices of out overlap: 3 of 4 x 16 with row stride 48, column stride 3 and stride 24");
  CHECK(into({0, 1}, 64) == "dequantize: elements of out overlap: 4 x 16 with row stride 0 and column stride 1");
}

TEST_CASE("the elements of an input may overlap") {
  const std::vector<float> row = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  matrix<float> repeated(4, 16), out(4, 16), want(4, 16);
  for (std::size_t i = 0; i < 4; ++i) std::ranges::copy(row, repeated.data() + 16 * i);
  const matrix_view<const float> broadcast{row.data(), 4, 16, 0, 1};
  CHECK(quantize<nvfp4>(broadcast) == quantize<nvfp4>(repeated));
  fake_quantize<nvfp4>(broadcast, out);
  fake_quantize<nvfp4>(repeated, want);
  CHECK(std::ranges::equal(std::span(out.data(), 64), std::span(want.data(), 64)));
}
