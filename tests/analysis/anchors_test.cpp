// ufp4 - the accuracy anchors: what E2M1 and the uniform grid do to four distributions, with and without a transform.
// SPDX-License-Identifier: Apache-2.0
// ctest: timeout=600
//
// 3.2 million samples (3125 rows of 1024) in 1x16 blocks with binary32 scales; H16 is random_hadamard<16>. The uniform
// grid is fp4<E1M2>. Samples are drawn from std::mt19937_64, whose output the standard fixes, by formulas of this file,
// not by std::*_distribution, which differ between standard libraries. With u, v uniform on (0, 1):
//
// | Gaussian  | sqrt(-2 ln u) cos(2 pi v) and sqrt(-2 ln u) sin(2 pi v) (Box and Muller 1958)               |
// | Laplace   | -ln u, with the sign of one more random bit                                                |
// | Student t | sqrt(3 (u^(-2/3) - 1)) cos(2 pi v): three degrees of freedom (Bailey 1994)                  |
// | outlier   | Gaussian, and in every block of 16 one element, at a uniformly drawn place, times 20       |
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include <ufp4/analysis/measure.hpp>

#include "support/catch.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

using namespace ufp4;

namespace {

constexpr std::size_t rows = 3125, cols = 1024, samples = rows * cols;

class draws {
 public:
  explicit draws(std::uint64_t seed) : gen_(seed) {}

  std::vector<float> gaussian() {
    std::vector<float> x(samples);
    for (std::size_t i = 0; i < samples; i += 2) {
      const double radius = std::sqrt(-2 * std::log(uniform())), angle = 2 * std::numbers::pi * uniform();
      x[i] = static_cast<float>(radius * std::cos(angle));
      x[i + 1] = static_cast<float>(radius * std::sin(angle));
    }
    return x;
  }
  std::vector<float> laplace() {
    std::vector<float> x(samples);
    for (float& v : x) {
      const double magnitude = -std::log(uniform());
      v = static_cast<float>(gen_() % 2 == 0 ? magnitude : -magnitude);
    }
    return x;
  }
  std::vector<float> student() {
    std::vector<float> x(samples);
    for (float& v : x) {
      const double root = std::cbrt(uniform()), angle = 2 * std::numbers::pi * uniform();
      v = static_cast<float>(std::sqrt(3 * (1 / (root * root) - 1)) * std::cos(angle));
    }
    return x;
  }
  std::vector<float> outlier() {
    std::vector<float> x = gaussian();
    for (std::size_t block = 0; block < samples; block += 16) x[block + gen_() % 16] *= 20;
    return x;
  }

 private:
  /// The middles of 2^53 equal parts of (0, 1).
  double uniform() { return (static_cast<double>(gen_() >> 11) + 0.5) * 0x1p-53; }

  std::mt19937_64 gen_;
};

/// One cell of the table.
struct cell {
  double sqnr_db, attenuation, utilization;
};
/// One row: E2M1, E2M1 + H16, uniform, uniform + H16.
using table_row = cell[4];

struct results {
  cell at[4];
};
results measured(const std::vector<float>& x) {
  const matrix_view<const float> view{x.data(), rows, cols};
  const random_hadamard<16> h{20260620};
  const auto cell_of = [](const analysis::report& r) { return cell{r.sqnr_db, r.attenuation, r.bucket_utilization}; };
  return {{cell_of(analysis::measure<e2m1_f32>(view)), cell_of(analysis::measure<e2m1_f32>(view, h)),
           cell_of(analysis::measure<e1m2_f32>(view)), cell_of(analysis::measure<e1m2_f32>(view, h))}};
}

/// The anchors are rounded to their last digit; the samples are too many for more than the margins.
void check(const std::vector<float>& x, const table_row& anchors) {
  const results r = measured(x);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i, r.at[i].sqnr_db, r.at[i].attenuation, r.at[i].utilization);
    CHECK(std::abs(r.at[i].sqnr_db - anchors[i].sqnr_db) <= 0.03);
    CHECK(std::abs(r.at[i].attenuation - anchors[i].attenuation) <= 0.0005);
    CHECK(std::abs(r.at[i].utilization - anchors[i].utilization) <= 0.003);
  }
}

}  // namespace

TEST_CASE("Gaussian samples reproduce their anchors", "[analysis]") {
  INFO(support::seed_note());
  check(draws(support::seed(0)).gaussian(),
        {{20.53, .9959, .994}, {20.52, .9959, .994}, {21.39, 1.0007, .893}, {21.39, 1.0007, .892}});
}

TEST_CASE("Laplace samples reproduce their anchors", "[analysis]") {
  INFO(support::seed_note());
  check(draws(support::seed(1)).laplace(),
        {{20.79, .9969, .940}, {20.43, .9960, .992}, {19.90, 1.0003, .745}, {21.72, 1.0006, .913}});
}

TEST_CASE("blocks with an outlier reproduce their anchors", "[analysis]") {
  INFO(support::seed_note());
  check(draws(support::seed(2)).outlier(),
        {{21.36, .9983, .468}, {18.69, 1.0063, .685}, {18.39, .9928, .310}, {25.79, 1.0009, .903}});
}

TEST_CASE("mse_search comes within 0.05 dB of the best of all codes of an 8-bit scale", "[analysis]") {
  INFO(support::seed_note());
  draws d(support::seed(40));
  const auto loss = []<class F>(F, const std::vector<float>& x) {
    const matrix_view<const float> view{x.data(), 8, 4096};
    return analysis::measure<F>(view, mse_search{254, 254}).sqnr_db - analysis::measure<F>(view, mse_search{}).sqnr_db;
  };
  for (const std::vector<float>& x : {d.gaussian(), d.laplace(), d.student()}) {
    CHECK(std::abs(loss(nvfp4{}, x)) <= 0.05);
    CHECK(std::abs(loss(nv_e1m2{}, x)) <= 0.05);
    CHECK(std::abs(loss(mxfp4{}, x)) <= 0.05);
    CHECK(std::abs(loss(mx_e1m2{}, x)) <= 0.05);
  }
}

TEST_CASE(
    "on a Gaussian, nvfp4 gains 0.87 dB from codes c-3 .. c+1, 1.34 from c-3 .. c+5, 1.36 from the default window",
    "[analysis]") {
  INFO(support::seed_note());
  const std::vector<float> x = draws(support::seed(41)).gaussian();
  const matrix_view<const float> view{x.data(), 64, 4096};
  CHECK(std::abs(analysis::measure<nvfp4>(view).sqnr_db - 20.42) <= 0.05);
  CHECK(std::abs(analysis::measure<nvfp4>(view, mse_search{3, 1}).sqnr_db - 21.29) <= 0.05);
  CHECK(std::abs(analysis::measure<nvfp4>(view, mse_search{3, 5}).sqnr_db - 21.76) <= 0.05);
  CHECK(std::abs(analysis::measure<nvfp4>(view, mse_search{}).sqnr_db - 21.78) <= 0.05);
}

TEST_CASE("Student samples reproduce their anchors within four standard errors", "[analysis]") {
#if defined(UFP4_TEST_ASAN)
  return support::skip("sixteen more runs of the same code tell a sanitizer nothing");
#endif
  INFO(support::seed_note());
  constexpr table_row anchors = {
      {21.09, .9975, .936}, {20.21, .9974, .988}, {19.03, .9994, .730}, {22.34, 1.0009, .925}};
  constexpr std::uint64_t seeds = 16;
  // The squares have no variance, so figures of 3.2 million samples scatter much, and the anchors are such figures: the
  // standard error of one is its scatter over sixteen seeds.
  double sum[4][3] = {}, squares[4][3] = {};
  for (std::uint64_t s = 0; s < seeds; ++s) {
    const results r = measured(draws(support::seed(10 + s)).student());
    for (std::size_t i = 0; i < 4; ++i) {
      const double values[3] = {r.at[i].sqnr_db, r.at[i].attenuation, r.at[i].utilization};
      for (std::size_t q = 0; q < 3; ++q) sum[i][q] += values[q], squares[i][q] += values[q] * values[q];
    }
  }
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t q = 0; q < 3; ++q) {
      const double mean = sum[i][q] / seeds;
      const double standard_error = std::sqrt((squares[i][q] - sum[i][q] * mean) / (seeds - 1));
      const double anchor = q == 0 ? anchors[i].sqnr_db : q == 1 ? anchors[i].attenuation : anchors[i].utilization;
      const double last_digit = q == 0 ? 0.005 : q == 1 ? 0.00005 : 0.0005;  // half of the anchor's
      CAPTURE(i, q, mean, standard_error, anchor);
      CHECK(std::abs(mean - anchor) <= 4 * standard_error + last_digit);
    }
}
