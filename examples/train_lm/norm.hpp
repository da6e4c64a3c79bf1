// ufp4 - RMSNorm: y = g * x / sqrt(mean(x^2) + epsilon) along each row, and its gradients.
// SPDX-License-Identifier: Apache-2.0
//
// Zhang and Sennrich, "Root mean square layer normalization", NeurIPS 2019.
#pragma once

#include <cmath>
#include <vector>

#include "elementwise.hpp"
#include "matrix.hpp"
#include "parallel.hpp"

namespace train_lm {

inline constexpr double norm_epsilon = 1e-5;

/// `inverse` keeps 1 / sqrt(mean(x^2) + epsilon) of every row for the gradient. A task is `rows_a_task` rows.
template <class T>
void norm_forward(thread_pool& threads, index rows_a_task, const matrix<T>& x, const matrix<T>& gain, matrix<T>& y,
                  std::vector<T>& inverse) {
  const index width = x.cols();
  y.resize(x.rows(), width);
  inverse.resize(static_cast<std::size_t>(x.rows()));
  threads.for_each(x.rows() / rows_a_task, [&](index task) {
    for (index i = task * rows_a_task; i < (task + 1) * rows_a_task; ++i) {
      const T *from = x.row(i).data(), *g = gain.data();
      const T r = T(1) / std::sqrt(dot(from, from, width) / static_cast<T>(width) + static_cast<T>(norm_epsilon));
      T* to = y.row(i).data();
      for (index j = 0; j < width; ++j) to[j] = from[j] * r * g[j];
      inverse[static_cast<std::size_t>(i)] = r;
    }
  });
}

/// With n = x r, dn = dy * g:   dx += r (dn - n mean(dn * n)),   dg = sum over rows of dy * n.
/// dgain gets one row per task (`rows_a_task` rows of x); the caller adds the rows of each microbatch.
template <class T>
void norm_backward(thread_pool& threads, index rows_a_task, const matrix<T>& dy, const matrix<T>& x,
                   const matrix<T>& gain, const std::vector<T>& inverse, matrix<T>& dx, matrix<T>& dgain) {
  const index width = x.cols();
  dgain.resize(x.rows() / rows_a_task, width);
  threads.for_each(x.rows() / rows_a_task, [&](index task) {
    T* dg = dgain.row(task).data();
    std::fill(dg, dg + width, T(0));
    thread_local std::vector<T> scratch;
    scratch.resize(static_cast<std::size_t>(width));
    T* dn = scratch.data();
    for (index i = task * rows_a_task; i < (task + 1) * rows_a_task; ++i) {
      const T *from = x.row(i).data(), *up = dy.row(i).data(), *g = gain.data();
      const T r = inverse[static_cast<std::size_t>(i)];
      for (index j = 0; j < width; ++j) dn[j] = up[j] * g[j];
      const T mean = dot(dn, from, width) * r / static_cast<T>(width);
      T* to = dx.row(i).data();
      for (index j = 0; j < width; ++j) {
        const T n = from[j] * r;
        to[j] += r * (dn[j] - n * mean);
        dg[j] += up[j] * n;
      }
    }
  });
}

/// Microbatch m's rows of `partial`, summed in order into row m of `sums`.
template <class T>
void sum_partial_rows(const matrix<T>& partial, index microbatches, matrix<T>& sums) {
  const index each = partial.rows() / microbatches;
  for (index m = 0; m < microbatches; ++m) {
    sums.row(m) = partial.row(m * each);
    for (index i = 1; i < each; ++i) sums.row(m) += partial.row(m * each + i);
  }
}

}  // namespace train_lm
