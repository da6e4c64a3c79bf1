// ufp4 - a matrix of more than 2^31 elements, all of it: no row is skipped, repeated or put in another's place.
// SPDX-License-Identifier: Apache-2.0
/// Takes 1.5 GiB: the input is one row, repeated by a stride of 0; under stochastic rounding every row differs.
#include <ufp4/quantize.hpp>

#include <cstring>
#include <vector>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"

using namespace ufp4;

TEST_CASE("every row of a matrix of 2^31 + 2^16 elements has its own codes, and is counted") {
  INFO(support::seed_note());
  constexpr std::size_t cols = 64, rows = ((std::size_t{1} << 31) + (1 << 16)) / cols;
  support::hostile source(support::seed());
  const std::vector<float> row = source.values(cols, false, false);
  const matrix_view<const float> x{row.data(), rows, cols, 0, 1};  // one row, repeated
  const stochastic coins{.seed = 5};
  quantize_report seen;
  const auto q = quantize<e1m2_f32>(x, coins, count_into{seen});
  REQUIRE(q.codes().size() == rows * cols / 2);
  // The coins differ from row to row: each row against a shard of one row at its place.
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < rows; i += 997) {
    const auto part = quantize<e1m2_f32>(cpu::context{.threads = 1}, matrix_view<const float>{row.data(), 1, cols},
                                         coins, shard{.first_row = i, .first_col = 0, .total_cols = cols});
    wrong += std::memcmp(part.codes().data(), q.codes().data() + i * cols / 2, cols / 2) != 0 ||
             std::memcmp(part.scales().data(), q.scales().data() + i * cols / 16, cols / 16 * sizeof(float)) != 0;
  }
  CHECK(wrong == 0);
  quantize_report one;
  quantize<e1m2_f32>(matrix_view<const float>{row.data(), 1, cols}, count_into{one});
  CHECK(seen == quantize_report{rows * one.nonfinite_blocks, rows * one.saturated, rows * one.underflowed_scales});
  CHECK(amax(x).value == amax(matrix_view<const float>{row.data(), 1, cols}).value);
}
