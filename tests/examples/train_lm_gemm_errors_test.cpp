// ufp4 - tests: the bias and the error of the GEMMs of a recipe on captured tensors, against draws with known errors.
// SPDX-License-Identifier: Apache-2.0
#include "../../examples/train_lm/gemm_errors.hpp"

#include "../../examples/train_lm/recipes.hpp"
#include "train_lm_numeric.hpp"

namespace train_lm_tests {

using namespace train_lm;
using train_lm::index;  // and not the one of <strings.h>

using support::pool;
using support::random_matrix;

namespace {

bool contains(const estimate& e, double x) { return e.low <= x && x <= e.high; }

/// `gain` times the exact product, a fixed offset and noise, in each draw.
gemm_error of_draws(std::uint64_t seed, double gain, double offset, double noise, std::size_t draws) {
  std::mt19937_64 gen{support::seed(seed)};
  const matrix<float> exact = random_matrix<float>(gen, 64, 64), fixed = random_matrix<float>(gen, 64, 64, offset);
  std::vector<matrix<float>> drawn;
  for (std::size_t s = 0; s < draws; ++s)
    drawn.push_back(static_cast<float>(gain) * exact + fixed + random_matrix<float>(gen, 64, 64, noise));
  gemm_draws all(draws);
  all.add(exact.cast<double>(), drawn);
  return all.result();
}

captured_linear random_layer(std::mt19937_64& gen, index tokens, index inputs, index outputs) {
  return {5, "", random_matrix<float>(gen, tokens, inputs), random_matrix<float>(gen, outputs, inputs),
          random_matrix<float>(gen, tokens, outputs)};
}

}  // namespace

TEST_CASE("the t quantile is Student's", "[train_lm]") {
  CHECK(student_t(7) == Approx(2.364624).epsilon(4e-3));
  CHECK(student_t(31) == Approx(2.039513).epsilon(1e-4));
  CHECK(student_t(63) == Approx(1.998341).epsilon(1e-4));
}

TEST_CASE("products with a known gain, bias and variance are measured as such", "[train_lm]") {
  const gemm_error shrunk = of_draws(1, 0.75, 0, 0.5, 200);
  CHECK(shrunk.gain.value == Approx(0.75).margin(0.01));
  CHECK(shrunk.bias.value == Approx(0.25).margin(0.01));
  CHECK(shrunk.error.value == Approx(std::sqrt(0.0625 + 0.25)).epsilon(0.03));
  const gemm_error moved = of_draws(2, 1, 0.1, 0.5, 200);
  CHECK(moved.bias.value == Approx(0.1).margin(0.01));  // of the mean alone it would be 0.5 / sqrt(200) more
  CHECK(moved.bias.low > 0.08);
  CHECK(moved.bias.high < 0.12);
}

TEST_CASE("nine of ten intervals of products without bias begin at 0 and contain the gain 1", "[train_lm]") {
  int without_bias = 0, gains = 0;
  for (std::uint64_t trial = 0; trial < 60; ++trial) {
    const gemm_error e = of_draws(10 + trial, 1, 0, 0.5, 16);
    without_bias += e.bias.low == 0;
    gains += contains(e.gain, 1);
  }
  CHECK(without_bias >= 50);
  CHECK(gains >= 50);
}

TEST_CASE("equal draws have an error that is all bias, and intervals without width", "[train_lm]") {
  const gemm_error e = of_draws(3, 0.9, 0.1, 0, 8);
  CHECK(e.bias.value == Approx(e.error.value).epsilon(1e-9));
  CHECK(e.bias.high - e.bias.low < 1e-6);
  CHECK(e.error.high - e.error.low < 1e-9);
}

TEST_CASE("the captured layers have X, W and dY of their own, in the order of the forward pass", "[train_lm]") {
  std::mt19937_64 gen{support::seed(4)};
  const captured_linear a = random_layer(gen, 32, 16, 48), b = random_layer(gen, 32, 48, 16);
  const auto all = token_segments::dense(32, 2);
  plain_engine<float> plain;
  capturing_engine capturing(plain);
  matrix<float> ignored;
  capturing.forward(0, all, a.x, a.w, ignored);
  capturing.forward(1, all, b.x, b.w, ignored);
  capturing.backward_weight(1, all, b.dy, b.x, ignored);
  capturing.backward_weight(0, all, a.dy, a.x, ignored);
  const std::vector<captured_linear> kept = layers_of(capturing);
  REQUIRE(kept.size() == 2);
  CHECK((kept[0].linear == 0 && kept[1].linear == 1));
  CHECK((kept[0].name == "block0.qkv" && kept[1].name == "block0.out"));
  CHECK((kept[0].x == a.x && kept[0].w == a.w && kept[0].dy == a.dy));
  CHECK((kept[1].x == b.x && kept[1].w == b.w && kept[1].dy == b.dy));
}

TEST_CASE("the error of a recipe's GEMM is that of the exact product of its decoded operands", "[train_lm]") {
  std::mt19937_64 gen{support::seed(5)};
  const captured_linear c = random_layer(gen, 64, 32, 48);
  const auto measured = measure_gemms(make_recipe("e2m1-no-sr", {.rht = "none"}, 1), {c}, 3, 4, pool());
  const auto decoded = [](const matrix<float>& m) -> matrix<double> {
    matrix<float> q(m.rows(), m.cols());
    ufp4::fake_quantize<ufp4::e2m1_f32>(view_of(m), view_of(q), pool().context());
    return q.cast<double>();
  };
  const auto apart = [](const matrix<double>& a, const matrix<double>& b, const matrix<double>& exact) {
    return (a * b.transpose() - exact).norm() / exact.norm();
  };
  const matrix<double> x = c.x.cast<double>(), w = c.w.cast<double>(), dy = c.dy.cast<double>();
  const matrix<float> wt = c.w.transpose(), dyt = c.dy.transpose(), xt = c.x.transpose();
  CHECK(measured[0].error.value == Approx(apart(decoded(c.x), decoded(c.w), x * w.transpose())).epsilon(1e-4));
  CHECK(measured[1].error.value == Approx(apart(decoded(c.dy), decoded(wt), dy * w)).epsilon(1e-4));
  CHECK(measured[2].error.value == Approx(apart(decoded(dyt), decoded(xt), dy.transpose() * x)).epsilon(1e-4));
  CHECK(measured[2].bias.value == Approx(measured[2].error.value).epsilon(1e-9));
}

TEST_CASE("stochastic rounding without clipping has no bias in dgrad, rounding to nearest has", "[train_lm]") {
  std::mt19937_64 gen{support::seed(6)};
  captured_linear c = random_layer(gen, 64, 32, 64);
  c.w = c.w.unaryExpr([](float v) { return v < 0 ? -1.0f : 1.0f; });  // W^T is exactly representable
  const auto drawn = measure_gemms(make_recipe("e2m1-baseline", {}, 1), {c}, 3, 64, pool())[1];
  const auto nearest = measure_gemms(make_recipe("e2m1-no-sr", {}, 1), {c}, 3, 64, pool())[1];
  CHECK(drawn.bias.high < 0.3 * drawn.error.value);
  CHECK(nearest.bias.value == Approx(nearest.error.value).epsilon(1e-9));
  CHECK(nearest.error.high < drawn.error.low);
}

}  // namespace train_lm_tests
