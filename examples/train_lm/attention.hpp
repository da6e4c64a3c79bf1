// ufp4 - causal attention of every head of every sequence, and its gradients.
// SPDX-License-Identifier: Apache-2.0
//
//   P = softmax(Q K^T / sqrt(size)) over keys at or before the query,   O = P V
//
// Scores are computed for one block of queries at a time, against the keys up to its last query, and are not stored.
// The backward pass computes them again from the logarithm of each row's sum, as in Dao et al., "FlashAttention", 2022.
#pragma once

#include <algorithm>
#include <cmath>

#include "elementwise.hpp"
#include "matrix.hpp"
#include "parallel.hpp"

namespace train_lm {

/// Heads and sequences of a T x 3 width matrix [Q | K | V]. A task is one head of one sequence.
struct attention_shape {
  index sequences = 0, length = 0, heads = 0, size = 0;

  index width() const { return heads * size; }
  index tasks() const { return sequences * heads; }
};

namespace detail {

inline constexpr index query_block = 64;  ///< scores of a block against 256 keys are 64 KiB

/// Rows of one sequence, columns of one head, in a wider matrix.
template <class T>
strided<T> head_of(matrix<T>& x, index row, index rows, index column, index size) {
  return {x.row(row).data() + column, rows, size, Eigen::OuterStride<>(x.cols())};
}
template <class T>
const_strided<T> head_of(const matrix<T>& x, index row, index rows, index column, index size) {
  return {x.row(row).data() + column, rows, size, Eigen::OuterStride<>(x.cols())};
}

/// The queries, keys and values of a task.
struct head_place {
  index row, query, key, value;
  head_place(const attention_shape& s, index task)
      : row(task / s.heads * s.length),
        query(task % s.heads * s.size),
        key(s.width() + query),
        value(2 * s.width() + query) {}
};

}  // namespace detail

/// out is T x width; log_sum keeps each query's log(sum(exp(score))), T x heads.
template <class T>
void attention_forward(thread_pool& threads, const attention_shape& s, const matrix<T>& qkv, matrix<T>& out,
                       matrix<T>& log_sum) {
  out.resize(qkv.rows(), s.width());
  log_sum.resize(qkv.rows(), s.heads);
  const T scale = T(1) / std::sqrt(static_cast<T>(s.size));
  threads.for_each(s.tasks(), [&, scale](index task) {
    const detail::head_place at(s, task);
    thread_local matrix<T> scores;
    for (index first = 0; first < s.length; first += detail::query_block) {
      const index queries = std::min(detail::query_block, s.length - first), keys = first + queries;
      scores.resize(queries, keys);
      scores.noalias() = detail::head_of(qkv, at.row + first, queries, at.query, s.size) *
                         detail::head_of(qkv, at.row, keys, at.key, s.size).transpose();
      auto o = detail::head_of(out, at.row + first, queries, at.query, s.size);
      thread_local std::vector<T> inverse;
      inverse.resize(static_cast<std::size_t>(queries));
      for (index i = 0; i < queries; ++i) {
        T* p = scores.row(i).data();
        const index seen = first + i + 1;
        const T top = maximum_of(p, seen) * scale;
        exponentials(p, seen, scale, top);
        std::fill(p + seen, p + keys, T(0));
        const T sum = sum_of(p, seen);
        log_sum(at.row + first + i, task % s.heads) = top + std::log(sum);
        inverse[static_cast<std::size_t>(i)] = T(1) / sum;
      }
      o.noalias() = scores * detail::head_of(qkv, at.row, keys, at.value, s.size);
      for (index i = 0; i < queries; ++i) o.row(i) *= inverse[static_cast<std::size_t>(i)];
    }
  });
}

/// dP = dO V^T,   dS = P * (dP - rowsum(dO * O)) / sqrt(size),   dQ = dS K,   dK = dS^T Q,   dV = P^T dO.
template <class T>
void attention_backward(thread_pool& threads, const attention_shape& s, const matrix<T>& dout, const matrix<T>& qkv,
                        const matrix<T>& out, const matrix<T>& log_sum, matrix<T>& dqkv) {
  dqkv.resize(qkv.rows(), qkv.cols());
  const T scale = T(1) / std::sqrt(static_cast<T>(s.size));
  threads.for_each(s.tasks(), [&, scale](index task) {
    const detail::head_place at(s, task);
    thread_local matrix<T> p, dp;
    detail::head_of(dqkv, at.row, s.length, at.key, s.size).setZero();
    detail::head_of(dqkv, at.row, s.length, at.value, s.size).setZero();
    for (index first = 0; first < s.length; first += detail::query_block) {
      const index queries = std::min(detail::query_block, s.length - first), keys = first + queries;
      const index row = at.row + first;
      const auto q = detail::head_of(qkv, row, queries, at.query, s.size);
      const auto k = detail::head_of(qkv, at.row, keys, at.key, s.size);
      const auto d_out = detail::head_of(dout, row, queries, at.query, s.size);
      p.resize(queries, keys);
      dp.resize(queries, keys);
      p.noalias() = q * k.transpose();
      dp.noalias() = d_out * detail::head_of(qkv, at.row, keys, at.value, s.size).transpose();
      for (index i = 0; i < queries; ++i) {
        T *probability = p.row(i).data(), *gradient = dp.row(i).data();
        const index seen = first + i + 1;
        const T minus = log_sum(row + i, task % s.heads);
        const T mean = dot(dout.row(row + i).data() + at.query, out.row(row + i).data() + at.query, s.size);
        exponentials(probability, seen, scale, minus);
        for (index j = 0; j < seen; ++j) gradient[j] = probability[j] * (gradient[j] - mean) * scale;
        std::fill(probability + seen, probability + keys, T(0));
        std::fill(gradient + seen, gradient + keys, T(0));
      }
      detail::head_of(dqkv, at.row, keys, at.value, s.size).noalias() += p.transpose() * d_out;
      detail::head_of(dqkv, row, queries, at.query, s.size).noalias() = dp * k;
      detail::head_of(dqkv, at.row, keys, at.key, s.size).noalias() += dp.transpose() * q;
    }
  });
}

}  // namespace train_lm
