// ufp4 - the head: logits, mean cross entropy over bytes, and their gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "elementwise.hpp"
#include "matrix.hpp"
#include "parallel.hpp"

namespace train_lm {

/// logits = x W^T; losses[i] = log(sum(exp(logits_i))) - logits_i[target_i], nats. A task is one sequence.
template <class T>
void head_forward(thread_pool& threads, index sequence, const matrix<T>& x, const matrix<T>& w,
                  const std::vector<std::uint8_t>& targets, matrix<T>& logits, std::vector<T>& losses) {
  logits.resize(x.rows(), w.rows());
  losses.resize(static_cast<std::size_t>(x.rows()));
  threads.for_each(x.rows() / sequence, [&](index task) {
    const index first = task * sequence;
    logits.middleRows(first, sequence).noalias() = x.middleRows(first, sequence) * w.transpose();
    thread_local std::vector<T> scratch;
    scratch.resize(static_cast<std::size_t>(w.rows()));
    for (index i = first; i < first + sequence; ++i) {
      const T *row = logits.row(i).data(), top = maximum_of(row, w.rows());
      std::copy(row, row + w.rows(), scratch.data());
      exponentials(scratch.data(), w.rows(), T(1), top);
      const auto n = static_cast<std::size_t>(i);
      losses[n] = std::log(sum_of(scratch.data(), w.rows())) + (top - row[targets[n]]);
    }
  });
}

/// Gradients of scale * sum(losses): logits become (softmax - target) * scale, dx = dlogits W.
template <class T>
void head_backward(thread_pool& threads, index sequence, const matrix<T>& w, const std::vector<std::uint8_t>& targets,
                   const std::vector<T>& losses, T scale, matrix<T>& logits, matrix<T>& dx) {
  dx.resize(logits.rows(), w.cols());
  threads.for_each(logits.rows() / sequence, [&, scale](index task) {
    const index first = task * sequence;
    for (index i = first; i < first + sequence; ++i) {
      const auto n = static_cast<std::size_t>(i);
      T* row = logits.row(i).data();
      const T log_sum = losses[n] + row[targets[n]];
      exponentials(row, logits.cols(), T(1), log_sum);
      for (index j = 0; j < logits.cols(); ++j) row[j] *= scale;
      row[targets[n]] -= scale;
    }
    dx.middleRows(first, sequence).noalias() = logits.middleRows(first, sequence) * w;
  });
}

/// Adds dY^T X of each sequence to its microbatch's rows of dw (microbatch_gradients::stacked). A task is some rows of
/// one microbatch's gradient.
template <class T>
void add_weight_gradient(thread_pool& threads, index sequence, index microbatches, const matrix<T>& dy,
                         const matrix<T>& x, matrix<T>& dw) {
  const index outputs = dy.cols(), block = std::min<index>(64, outputs), blocks = (outputs + block - 1) / block;
  const index each = dy.rows() / microbatches;
  threads.for_each(microbatches * blocks, [&](index task) {
    const index m = task / blocks, first = task % blocks * block, rows = std::min(block, outputs - first);
    auto to = dw.middleRows(m * outputs + first, rows);
    for (index at = m * each; at < (m + 1) * each; at += sequence)
      to.noalias() += dy.block(at, first, sequence, rows).transpose() * x.middleRows(at, sequence);
  });
}

/// The mean of each microbatch's losses, summed in double in the order of tokens.
template <class T>
std::vector<double> microbatch_means(const std::vector<T>& losses, index microbatches) {
  const std::size_t each = losses.size() / static_cast<std::size_t>(microbatches);
  std::vector<double> means;
  for (std::size_t m = 0; m < static_cast<std::size_t>(microbatches); ++m) {
    double sum = 0;
    for (std::size_t i = m * each; i < (m + 1) * each; ++i) sum += static_cast<double>(losses[i]);
    means.push_back(sum / static_cast<double>(each));
  }
  return means;
}

}  // namespace train_lm
