// ufp4 - tests: the bias, variance and direction of gradients under a recipe, against draws with known errors.
// SPDX-License-Identifier: Apache-2.0
#include "../../examples/train_lm/gradient_errors.hpp"

#include <string>

#include "train_lm_numeric.hpp"

namespace train_lm_tests {

using namespace train_lm;
using train_lm::index;  // and not the one of <strings.h>

using support::pool;
using support::random_matrix;

TEST_CASE("draws with a known gain, bias and variance are measured as such", "[train_lm]") {
  std::mt19937_64 gen{support::seed(1)};
  const matrix<float> exact = random_matrix<float>(gen, 64, 64);
  gradient_draws draws(exact);
  for (int s = 0; s < 400; ++s) draws.add(0.75f * exact + random_matrix<float>(gen, 64, 64, 0.5));
  const gradient_row row = draws.row();
  CHECK(row.draws == 400);
  CHECK(row.gain == Approx(0.75).margin(0.003));
  CHECK(row.bias == Approx(0.0625).margin(0.003));  // 0.25^2; of the mean alone it would be 0.25 / 400 more
  CHECK(row.variance == Approx(0.25).epsilon(0.02));
  CHECK(row.cosine == Approx(0.75 / std::sqrt(0.75 * 0.75 + 0.25)).margin(0.005));
}

TEST_CASE("equal draws have no variance, and exact ones no bias", "[train_lm]") {
  std::mt19937_64 gen{support::seed(2)};
  const matrix<float> exact = random_matrix<float>(gen, 3, 5);
  gradient_draws draws(exact);
  for (int s = 0; s < 4; ++s) draws.add(exact);
  CHECK(draws.row().gain == Approx(1));
  CHECK(std::abs(draws.row().bias) < 1e-12);
  CHECK(std::abs(draws.row().variance) < 1e-12);
  CHECK(draws.row().cosine == Approx(1));
}

TEST_CASE("the variance of a batch is that of the sum of its independent microbatches", "[train_lm]") {
  std::mt19937_64 gen{support::seed(3)};
  const matrix<float> mean = random_matrix<float>(gen, 64, 64);
  double sum_of_estimates = 0;
  for (int trial = 0; trial < 50; ++trial) {
    matrix<float> parts(4 * 64, 64), sum = matrix<float>::Zero(64, 64);
    for (index m = 0; m < 4; ++m) {
      parts.middleRows(m * 64, 64) = 0.25f * mean + random_matrix<float>(gen, 64, 64, 0.5);
      sum += parts.middleRows(m * 64, 64);
    }
    sum_of_estimates += detail::batch_variance(parts, 4, sum) * static_cast<double>(sum.squaredNorm());
  }
  // Four microbatches of variance 0.5^2 in each of 64 x 64 elements.
  CHECK(sum_of_estimates / 50 == Approx(4 * 0.25 * 64 * 64).epsilon(0.01));
  const matrix<float> equal = mean.replicate(3, 1);
  CHECK(detail::batch_variance(equal, 3, 3.0f * mean) < 1e-12);
}

namespace {

model_config small() { return {.layers = 2, .width = 32, .heads = 2, .ffn = 32, .sequence = 16}; }

token_batch some_batch() {
  token_batch b{4, 16, 2, 2, {}};
  for (std::uint32_t i = 0; i < 4 * 17; ++i) b.bytes.push_back(static_cast<std::uint8_t>(i * 7919 % 101));
  return b;
}

gradient_row row_of(const std::vector<gradient_row>& rows, const std::string& gemm, const std::string& parameter) {
  for (const gradient_row& r : rows)
    if (r.gemm == gemm && r.parameter == parameter) return r;
  FAIL("no row of " << gemm << ", " << parameter);
  return {};
}

}  // namespace

TEST_CASE("a GEMM's rounding reaches the gradients that depend on it, and no others", "[train_lm]") {
  train_lm::model<float> m(small(), 1);
  const auto rows = measure_gradients(m, some_batch(), make_recipe("ufp4", {}, 5), 3, 4, pool());
  CHECK(rows.size() == 4 * (2 * 4 + 2));
  // wgrad alone: every dW of a linear layer has noise, embedding and head have none.
  CHECK(row_of(rows, "wgrad", "block0.qkv").variance > 1e-4);
  CHECK(row_of(rows, "wgrad", "embedding").variance < 1e-12);
  CHECK(std::abs(row_of(rows, "wgrad", "head").bias) < 1e-10);
  // dgrad alone: the last linear layer's dW comes before every dX.
  CHECK(row_of(rows, "dgrad", "block1.down").variance < 1e-12);
  CHECK(row_of(rows, "dgrad", "block1.gate_up").variance > 1e-4);
  CHECK(row_of(rows, "dgrad", "embedding").variance > 1e-4);
  // fprop: the signs of the transform differ from draw to draw, so the head's gradient does.
  CHECK(row_of(rows, "fprop", "head").variance > 1e-8);
  CHECK(row_of(rows, "all", "block0.qkv").variance > row_of(rows, "wgrad", "block0.qkv").variance);
  for (const gradient_row& r : rows) CHECK(r.cosine > 0.5);
  // Of the exact gradient, so the same for every GEMM.
  CHECK(row_of(rows, "dgrad", "block0.qkv").batch_variance == row_of(rows, "all", "block0.qkv").batch_variance);
  CHECK(row_of(rows, "all", "block0.qkv").batch_variance > 0.01);
}

TEST_CASE("rounding to nearest without a transform has no variance; stochastic rounding of all operands has no bias",
          "[train_lm]") {
  train_lm::model<float> m(small(), 1);
  const recipe_parts nearest{.rht = "none", .sr = "none"};
  for (const gradient_row& r : measure_gradients(m, some_batch(), make_recipe("ufp4", nearest, 5), 3, 3, pool()))
    CHECK(r.variance < 1e-12);
  const recipe_parts unbiased{.rht = "none", .sr = "all"};
  const auto rows = measure_gradients(m, some_batch(), make_recipe("ufp4", unbiased, 5), 3, 64, pool());
  for (const char* name : {"block0.qkv", "block0.down", "block1.gate_up"}) {
    const gradient_row r = row_of(rows, "wgrad", name);
    CHECK(std::abs(r.gain - 1) < 5 * std::sqrt(r.variance / 64));
    CHECK(r.bias < 0.1 * r.variance);
  }
}

TEST_CASE("bf16 operands leave gradients within a percent, in the same direction", "[train_lm]") {
  train_lm::model<float> m(small(), 1);
  for (const gradient_row& r : measure_gradients(m, some_batch(), make_recipe("bf16", {}, 5), 3, 2, pool())) {
    CHECK(std::abs(r.bias) < 1e-3);
    CHECK(r.variance < 1e-12);
    CHECK(r.cosine > 0.999);
  }
}

}  // namespace train_lm_tests
