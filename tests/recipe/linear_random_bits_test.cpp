// ufp4 - the random bits of the gradients: no bias, and no correlation between dY and dY^T.
// SPDX-License-Identifier: Apache-2.0
//
// Statistical tests with the seeds of support::seed, so that a run can be repeated. A sum of n independent terms,
// divided by its standard deviation, is about normal: it exceeds 6 with probability 2 in 10^9, and 7 with 3 in 10^12.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <ufp4/recipe/linear.hpp>

#include "recipe/linear_model.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

using namespace ufp4;
using namespace linear_model;

namespace {

/// The correlation of two samples times sqrt(n): about normal if they are independent.
double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<double>(a.size());
  double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) ma += a[i] / n, mb += b[i] / n;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += (a[i] - ma) * (a[i] - ma);
    bb += (b[i] - mb) * (b[i] - mb);
    ab += (a[i] - ma) * (b[i] - mb);
  }
  return ab / std::sqrt(aa * bb) * std::sqrt(n);
}

std::vector<float> identity(std::size_t n) {
  std::vector<float> x(n * n);
  for (std::size_t i = 0; i < n; ++i) x[i * n + i] = 1;
  return x;
}

/// dY as dgrad and as wgrad round it: dX = Q(dY) I, dW^T = (Q(dY^T) I)^T.
struct rounded_twice {
  std::vector<double> in_dgrad, in_wgrad;  ///< rounding errors, token by token
};
rounded_twice errors(const recipe::bound_recipe& now, const std::vector<float>& dys, std::size_t n) {
  const std::vector<float> ones = identity(n);
  std::vector<float> dx(n * n), dw(n * n);
  const matrix_view<const float> dy{dys.data(), n, n}, unit{ones.data(), n, n};
  linear_backward_input(now, dy, unit, matrix_view<float>{dx.data(), n, n});
  linear_backward_weight(now, dy, unit, matrix_view<float>{dw.data(), n, n});
  rounded_twice out;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      const auto exact = static_cast<double>(dys[i * n + j]);
      out.in_dgrad.push_back(static_cast<double>(dx[i * n + j]) - exact);
      out.in_wgrad.push_back(static_cast<double>(dw[j * n + i]) - exact);
    }
  return out;
}

}  // namespace

TEST_CASE("the random bits of dY and dY^T are uncorrelated, element by element", "[recipe]") {
  INFO(support::seed_note());
  const std::size_t tokens = 1024, outputs = 512;
  const recipe::bound_recipe now = recipe::ufp4_recipe(support::seed(0)).at(12, 34);
  const stochastic dgrad = now.operand(2).rounding.random_bits, wgrad = now.operand(4).rounding.random_bits;
  std::vector<double> a, b;
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t n = 0; n < outputs; ++n) {
      a.push_back(dgrad.random_word(t * outputs + n));
      b.push_back(wgrad.random_word(n * tokens + t));
    }
  const double z = correlation(a, b);
  CAPTURE(z);
  CHECK(std::abs(z) < 6);
  // The statistic detects equal random bits.
  CHECK(correlation(a, a) > 700);
}

TEST_CASE("the rounding errors of dY in dgrad and in wgrad are uncorrelated", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  const std::size_t n = 256;
  std::vector<float> dy(n * n);
  for (float& x : dy) x = static_cast<float>(model::uniform(gen) * 2 - 1);
  // Without transforms the scales of both are similar, so that equal random bits would give correlated errors.
  recipe::training_recipe r = recipe::e2m1_baseline_recipe(support::seed(2));
  r.wgrad.left.transform = r.wgrad.right.transform = {};
  const rounded_twice stochastically = errors(r.at(1, 2), dy, n);
  const double z = correlation(stochastically.in_dgrad, stochastically.in_wgrad);
  CAPTURE(z);
  CHECK(std::abs(z) < 6);
  r.dgrad.left.rounding = r.wgrad.left.rounding = nearest_even{};
  const rounded_twice nearest = errors(r.at(1, 2), dy, n);
  CHECK(correlation(nearest.in_dgrad, nearest.in_wgrad) > 50);
}

TEST_CASE("random bits of neighbouring steps, layers and experts are uncorrelated", "[recipe]") {
  INFO(support::seed_note());
  const recipe::training_recipe r = recipe::ufp4_recipe(support::seed(3));
  const auto random_bits = [](const stochastic& s) {
    std::vector<double> out;
    for (std::uint64_t i = 0; i < 100'000; ++i) out.push_back(s.random_word(i));
    return out;
  };
  const std::vector<double> here = random_bits(r.at(5, 6).operand(2).rounding.random_bits);
  CHECK(std::abs(correlation(here, random_bits(r.at(6, 6).operand(2).rounding.random_bits))) < 6);
  CHECK(std::abs(correlation(here, random_bits(r.at(5, 7).operand(2).rounding.random_bits))) < 6);
  CHECK(std::abs(correlation(here, random_bits(r.at(5, 6).operand(2, 1).rounding.random_bits))) < 6);
}

namespace {

/// The difference between the mean of dX over many steps and the product of the unrounded dY with the same quantized
/// W^T, in standard errors: of the worst element, and of the sum of all elements.
struct bias {
  double worst = 0, total = 0;
};

template <class Format>
bias bias_of_dgrad(const recipe::training_recipe& r, std::size_t steps) {
  std::mt19937_64 gen{support::seed(4)};
  const std::size_t t = 24, n = 48, k = 16;
  const layer<float> l(gen, t, k, n);
  std::vector<double> sum(t * k), squares(t * k);
  std::vector<float> dx(t * k), mean(t * k);
  double sum_of_totals = 0, squares_of_totals = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    linear_backward_input(r.at(step, 0), l.dy.view(), l.w.view(), matrix_view<float>{dx.data(), t, k}, {},
                          cpu::context{.threads = 1});
    double total = 0;
    for (std::size_t i = 0; i < t * k; ++i) {
      const auto x = static_cast<double>(dx[i]);
      sum[i] += x, squares[i] += x * x, total += x;
    }
    sum_of_totals += total, squares_of_totals += total * total;
  }
  const transform_spec h = r.at(0, 0).operand(3).transform;  // signs do not depend on the step
  quantized_gemm(unquantized(l.dy.view(), h), quantize<Format>(transpose(l.w.view()), h),
                 matrix_view<float>{mean.data(), t, k});
  const auto count = static_cast<double>(steps);
  const auto errors_away = [&](double s, double s2, double expected) {
    const double average = s / count, variance = (s2 / count - average * average) / (count - 1);
    return (average - expected) / std::sqrt(variance);
  };
  bias found;
  double expected_total = 0;
  for (std::size_t i = 0; i < t * k; ++i) {
    expected_total += static_cast<double>(mean[i]);
    found.worst = std::max(found.worst, std::abs(errors_away(sum[i], squares[i], static_cast<double>(mean[i]))));
  }
  found.total = errors_away(sum_of_totals, squares_of_totals, expected_total);
  return found;
}

}  // namespace

// Any of 384 elements exceeds 7 with probability 10^-9.
TEST_CASE("dgrad under stochastic rounding is unbiased", "[recipe]") {
  INFO(support::seed_note());
  const std::uint64_t seed = support::seed(5);
  const auto check = [](const bias& b) {
    CAPTURE(b.worst, b.total);
    CHECK(b.worst < 7);
    CHECK(std::abs(b.total) < 6);
  };
  SECTION("ufp4") { check(bias_of_dgrad<e1m2_f32>(recipe::ufp4_recipe(seed), 3000)); }
  SECTION("ufp4 with nv_e1m2, whose scales are rounded up") {
    check(bias_of_dgrad<nv_e1m2>(recipe::ufp4_recipe<nv_e1m2>(seed), 3000));
  }
  SECTION("ufp4 with mx_e1m2, whose scales are rounded up") {
    check(bias_of_dgrad<mx_e1m2>(recipe::ufp4_recipe<mx_e1m2>(seed), 3000));
  }
  SECTION("e2m1_baseline") { check(bias_of_dgrad<e2m1_f32>(recipe::e2m1_baseline_recipe(seed), 3000)); }
}

TEST_CASE("scales rounded to nearest clip the largest values, which is a bias", "[recipe]") {
  INFO(support::seed_note());
  recipe::training_recipe clipped = recipe::ufp4_recipe<nv_e1m2>(support::seed(5));
  clipped.dgrad.left.rule = {};
  CHECK(bias_of_dgrad<nv_e1m2>(clipped, 3000).worst > 12);
}
