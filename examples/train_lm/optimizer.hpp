// ufp4 - AdamW, its learning rate over time, and clipping by the global norm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "matrix.hpp"
#include "parallel.hpp"

namespace train_lm {

/// Rises linearly to its maximum at the end of `warmup` steps, then falls as a cosine to `floor` times the maximum at
/// the end of step `steps`, and stays there.
struct learning_rate {
  double peak = 3e-3;
  std::uint64_t warmup = 0, steps = 1;
  double floor = 0.1;

  /// The rate of update `step`, counted from 0; that of the first update is not 0.
  double at(std::uint64_t update) const {
    if (update < warmup) return peak * static_cast<double>(update + 1) / static_cast<double>(warmup);
    if (update + 1 >= steps) return peak * floor;
    const double done = static_cast<double>(update + 1 - warmup) / static_cast<double>(steps - warmup);
    return peak * (floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
  }
};

/// Square root of the sum of squares over all gradients: in double, in a fixed order.
template <class T>
double global_norm(const std::vector<matrix<T>>& gradients) {
  double sum = 0;
  for (const matrix<T>& g : gradients) {
    double lane[8] = {};  // independent sums, so that the compiler vectorizes the loop
    const auto add = [&](index i, index j) {
      const auto value = static_cast<double>(g.data()[i + j]);
      lane[j] += value * value;
    };
    index i = 0;
    for (; i + 8 <= g.size(); i += 8)
      for (index j = 0; j < 8; ++j) add(i, j);
    for (index j = 0; i + j < g.size(); ++j) add(i, j);
    for (const double l : lane) sum += l;
  }
  return std::sqrt(sum);
}

/// The factor that reduces the norm of the gradients to at most `limit`.
inline double clip_factor(double norm, double limit) { return norm > limit ? limit / norm : 1.0; }

/// Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019.
struct adamw_settings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, decay = 0.1;
};

template <class T>
class adamw {
 public:
  adamw(const std::vector<parameter<T>>& parameters, const adamw_settings& settings) : settings_(settings) {
    for (const parameter<T>& p : parameters) {
      first_moments.push_back(matrix<T>::Zero(p.value.rows(), p.value.cols()));
      second_moments.push_back(matrix<T>::Zero(p.value.rows(), p.value.cols()));
    }
  }

  /// One update with gradients g = gradients * factor, at learning rate a:
  ///   m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2,
  ///   p -= a (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + decay p),   decay for matrices alone.
  /// Elementwise: no bit depends on the number of threads.
  void update(std::vector<parameter<T>>& parameters, const std::vector<matrix<T>>& gradients, double factor,
              double rate, thread_pool& threads) {
    ++updates;
    const auto t = static_cast<double>(updates);
    const double first = 1 - std::pow(settings_.beta1, t), second = 1 - std::pow(settings_.beta2, t);
    const coefficients c{static_cast<T>(factor),
                         static_cast<T>(settings_.beta1),
                         static_cast<T>(1 - settings_.beta1),
                         static_cast<T>(settings_.beta2),
                         static_cast<T>(1 - settings_.beta2),
                         static_cast<T>(rate / first),
                         static_cast<T>(1 / std::sqrt(second)),
                         static_cast<T>(settings_.epsilon)};
    threads.for_each(static_cast<index>(parameters.size()), [&](index i) {
      const auto n = static_cast<std::size_t>(i);
      parameter<T>& p = parameters[n];
      const T keep = p.decays ? static_cast<T>(1 - rate * settings_.decay) : T(1);
      step(c, keep, p.value.size(), gradients[n].data(), first_moments[n].data(), second_moments[n].data(),
           p.value.data());
    });
  }

  // The state, for checkpoints: one matrix per parameter, and the number of updates.
  std::vector<matrix<T>> first_moments, second_moments;
  std::uint64_t updates = 0;

 private:
  struct coefficients {
    T factor, beta1, rest1, beta2, rest2, rate, inverse_root, epsilon;
  };

  static void step(const coefficients& c, T keep, index n, const T* gradient, T* m, T* v, T* p) {
    for (index i = 0; i < n; ++i) {
      const T g = gradient[i] * c.factor;
      m[i] = c.beta1 * m[i] + c.rest1 * g;
      v[i] = c.beta2 * v[i] + c.rest2 * (g * g);
      p[i] = p[i] * keep - c.rate * m[i] / (std::sqrt(v[i]) * c.inverse_root + c.epsilon);
    }
  }

  adamw_settings settings_;
};

/// The moving average of the parameters after each update, where update i of t has weight decay^(t - i). The initial
/// parameters are not part of it.
template <class T>
class parameter_average {
 public:
  parameter_average(const std::vector<parameter<T>>& parameters, double decay) : decay_(decay) {
    if (decay > 0)
      for (const parameter<T>& p : parameters) means.push_back(matrix<T>::Zero(p.value.rows(), p.value.cols()));
  }

  /// `updates`: the number of parameters averaged so far, these included.
  void add(const std::vector<parameter<T>>& parameters, std::uint64_t updates) {
    const T share = static_cast<T>((1 - decay_) / (1 - std::pow(decay_, static_cast<double>(updates))));
    for (std::size_t p = 0; p < means.size(); ++p) means[p] += share * (parameters[p].value - means[p]);
  }
  /// Exchanges the average and the parameters; a second call restores both.
  void exchange(std::vector<parameter<T>>& parameters) {
    for (std::size_t p = 0; p < means.size(); ++p) means[p].swap(parameters[p].value);
  }

  std::vector<matrix<T>> means;  ///< one matrix per parameter; empty for decay 0

 private:
  double decay_;
};

}  // namespace train_lm
