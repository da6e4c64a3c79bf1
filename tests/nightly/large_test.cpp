// ufp4 - a matrix of more than 2^31 elements, all of it: no row is skipped, repeated or put in another's place.
// SPDX-License-Identifier: Apache-2.0
/// Takes 6 GiB: the input is one row, repeated by a stride of 0; under stochastic rounding every row differs.
#include <ufp4/dequantize.hpp>
#include <ufp4/gemm.hpp>
#include <ufp4/quantize.hpp>

#include <cstring>
#include <vector>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"

using namespace ufp4;

namespace {

constexpr std::size_t cols = 64, rows = ((std::size_t{1} << 31) + (1 << 16)) / cols;
constexpr stochastic random_bits{.seed = 5};

std::vector<float> one_row() {
  support::hostile source(support::seed());
  return source.values(cols, false, false);
}

/// Row i of the matrix, by itself: the random bits differ from row to row.
quantized_matrix<e1m2_f32> row_at(const std::vector<float>& row, std::size_t i) {
  return quantize<e1m2_f32>(matrix_view<const float>{row.data(), 1, cols}, random_bits,
                            shard{.first_row = i, .first_col = 0, .total_cols = cols}, cpu::context{.threads = 1});
}

}  // namespace

TEST_CASE("every row of a matrix of 2^31 + 2^16 elements has its own codes, and is counted") {
  INFO(support::seed_note());
  const std::vector<float> row = one_row();
  const matrix_view<const float> x{row.data(), rows, cols, 0, 1};  // one row, repeated
  quantize_report seen;
  const auto q = quantize<e1m2_f32>(x, random_bits, count_into{seen});
  REQUIRE(q.codes().size() == rows * cols / 2);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < rows; i += 997) {
    const auto part = row_at(row, i);
    wrong += std::memcmp(part.codes().data(), q.codes().data() + i * cols / 2, cols / 2) != 0 ||
             std::memcmp(part.scales().data(), q.scales().data() + i * cols / 16, cols / 16 * sizeof(float)) != 0;
  }
  CHECK(wrong == 0);
  quantize_report one;
  quantize<e1m2_f32>(matrix_view<const float>{row.data(), 1, cols}, count_into{one});
  CHECK(seen == quantize_report{rows * one.nonfinite_blocks, rows * one.saturated, rows * one.underflowed_scales});
  CHECK(amax(x).value == amax(matrix_view<const float>{row.data(), 1, cols}).value);
}

TEST_CASE(
    "a matrix of 2^31 + 2^16 elements is decoded, and multiplied from either side, as each of its rows is by itself") {
  INFO(support::seed_note());
  std::vector<float> row(cols);
  for (std::size_t k = 0; k < cols; ++k) row[k] = static_cast<float>(k % 13) - 6.3f;
  const auto q = quantize<e1m2_f32>(matrix_view<const float>{row.data(), rows, cols, 0, 1}, random_bits);
  const auto x = quantize<e1m2_f32>(matrix_view<const float>{row.data(), 1, cols});
  std::vector<float> right(rows), left(rows);
  quantized_gemm(x, q, matrix_view<float>(right.data(), 1, rows));
  quantized_gemm(q, x, matrix_view<float>(left.data(), rows, 1));
  std::vector<bf16> decoded(rows * cols);
  dequantize(q, matrix_view<bf16>(decoded.data(), rows, cols));

  std::size_t wrong = 0, different = 0;
  for (std::size_t i = 0; i < rows; i += 997) {
    const auto part = row_at(row, i);
    float product = 0;
    quantized_gemm(x, part, matrix_view<float>(&product, 1, 1));
    std::vector<bf16> plain(cols);
    dequantize(part, matrix_view<bf16>(plain.data(), 1, cols));
    wrong += right[i] != product || left[i] != product ||
             std::memcmp(plain.data(), decoded.data() + i * cols, cols * sizeof(bf16)) != 0;
    different += product != right[0];
  }
  CHECK(wrong == 0);
  CHECK(different > rows / 997 / 2);
}
