// ufp4 - tests: gradients by central differences, in double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "../../examples/train_lm/matrix.hpp"
#include "../../examples/train_lm/parallel.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

namespace support {

using train_lm::index;
using train_lm::matrix;

/// The two threads of a test program.
inline train_lm::thread_pool& pool() {
  static train_lm::thread_pool threads(2);
  return threads;
}

template <class T = double>
matrix<T> random_matrix(std::mt19937_64& gen, index rows, index cols, double deviation = 1) {
  std::normal_distribution<double> normal;
  matrix<T> x(rows, cols);
  for (index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<T>(deviation * normal(gen));
  return x;
}

/// <a, b>: with a fixed random a, a scalar whose gradient with respect to b is a.
inline double inner(const matrix<double>& a, const matrix<double>& b) { return a.cwiseProduct(b).sum(); }

/// `gradient` is that of f() with respect to x, checked at places of x in its order. f reads x. Differences over 2e-5
/// of a function of size s are good to about 1e-11 s plus 1e-10 of its third derivative.
template <class F>
void check_gradient_at(const std::vector<index>& places, matrix<double>& x, const matrix<double>& gradient,
                       const F& f) {
  REQUIRE(x.rows() == gradient.rows());
  REQUIRE(x.cols() == gradient.cols());
  const double step = 1e-5, tolerance = 2e-7 * std::max(1e-3, gradient.cwiseAbs().maxCoeff());
  for (const index i : places) {
    double& value = x.data()[i];
    const double before = value;
    value = before + step;
    const double above = f();
    value = before - step;
    const double below = f();
    value = before;
    CAPTURE(i / x.cols(), i % x.cols());
    CHECK(gradient.data()[i] == Approx((above - below) / (2 * step)).margin(tolerance).epsilon(1e-6));
  }
}

/// At up to `samples` places drawn from all; at all, if there are no more.
template <class F>
void check_gradient(matrix<double>& x, const matrix<double>& gradient, const F& f, index samples = 64) {
  std::mt19937_64 gen{seed(7)};
  std::vector<index> places;
  for (index s = 0; s < std::min(samples, x.size()); ++s)
    places.push_back(x.size() <= samples ? s : static_cast<index>(gen() % static_cast<std::uint64_t>(x.size())));
  check_gradient_at(places, x, gradient, f);
}

}  // namespace support
