// ufp4 - the router of a mixture of experts: the experts of each token, their weights, and the load-balancing loss.
// SPDX-License-Identifier: Apache-2.0
//
// p = softmax(x R^T); a token goes to the k experts of its largest p, with weights p normalized to sum 1 over those k
// (Mixtral). With k = 1 that weight is always 1, so that only the load-balancing loss trains the router (Switch uses p
// as the weight). No token is dropped; experts have no capacity limit. The load-balancing loss of a microbatch of a
// layer is
//
//   experts * sum over e of f_e P_e,   f_e = share of the k * tokens assignments,   P_e = mean of p_e over tokens
//
// (Fedus et al., "Switch transformers", 2021, equations 4 to 6, with f counted over all k choices as in GShard and
// Mixtral). It is 1 for an even load. f has no gradient.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "elementwise.hpp"
#include "linear.hpp"
#include "loss.hpp"
#include "matrix.hpp"
#include "parallel.hpp"

namespace train_lm {

struct routing_shape {
  index sequence = 0, microbatches = 0, experts = 0, top_k = 0;
};

/// The routing of a layer, and the values that its gradients need.
template <class T>
struct routing {
  matrix<T> probabilities;           ///< tokens x experts
  matrix<T> weights;                 ///< tokens x k, largest first
  std::vector<index> chosen;         ///< tokens x k: experts
  token_segments segments;           ///< of the rows that the experts process
  std::vector<index> row_of;         ///< tokens x k: the row of each assignment
  std::vector<index> token_of;       ///< by row; -1 for rows that pad a segment
  std::vector<index> counts;         ///< microbatches x experts: assignments
  std::vector<double> balance_loss;  ///< by microbatch
};

namespace detail {

/// The k largest of p in descending order, the lower index first where equal, and their shares of their sum.
template <class T>
void choose(const T* p, index experts, index k, index* chosen, T* weights) {
  T sum = 0;
  for (index c = 0; c < k; ++c) {
    index best = -1;
    for (index e = 0; e < experts; ++e)
      if (std::find(chosen, chosen + c, e) == chosen + c && (best < 0 || p[e] > p[best])) best = e;
    chosen[c] = best;
    weights[c] = p[best];
    sum += p[best];
  }
  for (index c = 0; c < k; ++c) weights[c] /= sum;
}

/// Assigns a row to every (token, expert): sorted by expert, then microbatch, then token; segments of 16 n rows.
template <class T>
void place_assignments(const routing_shape& s, routing<T>& r) {
  const index tokens = r.probabilities.rows(), each = tokens / s.microbatches;
  r.counts.assign(static_cast<std::size_t>(s.microbatches * s.experts), 0);
  const auto count = [&](index m, index e) -> index& { return r.counts[static_cast<std::size_t>(m * s.experts + e)]; };
  for (index a = 0; a < tokens * s.top_k; ++a) ++count(a / s.top_k / each, r.chosen[static_cast<std::size_t>(a)]);

  r.segments = {static_cast<std::size_t>(s.experts), static_cast<std::size_t>(s.microbatches), {0}};
  for (index e = 0; e < s.experts; ++e)
    for (index m = 0; m < s.microbatches; ++m)
      r.segments.begin.push_back(r.segments.rows() + static_cast<std::size_t>((count(m, e) + 15) / 16 * 16));

  std::vector<std::size_t> next = r.segments.begin;
  r.row_of.resize(r.chosen.size());
  r.token_of.assign(r.segments.rows(), -1);
  for (std::size_t a = 0; a < r.chosen.size(); ++a) {
    const auto token = static_cast<index>(a) / s.top_k;
    const std::size_t row = next[static_cast<std::size_t>(r.chosen[a] * s.microbatches + token / each)]++;
    r.row_of[a] = static_cast<index>(row);
    r.token_of[row] = token;
  }
}

/// Per microbatch, summed in double in the order of the tokens.
template <class T>
void measure_balance(const routing_shape& s, routing<T>& r) {
  const index each = r.probabilities.rows() / s.microbatches;
  r.balance_loss.assign(static_cast<std::size_t>(s.microbatches), 0);
  for (index m = 0; m < s.microbatches; ++m)
    for (index e = 0; e < s.experts; ++e) {
      double mean = 0;
      for (index t = m * each; t < (m + 1) * each; ++t) mean += static_cast<double>(r.probabilities(t, e));
      const auto count = static_cast<double>(r.counts[static_cast<std::size_t>(m * s.experts + e)]);
      const auto tokens = static_cast<double>(each);
      r.balance_loss[static_cast<std::size_t>(m)] +=
          static_cast<double>(s.experts) * (count / (tokens * static_cast<double>(s.top_k))) * (mean / tokens);
    }
}

}  // namespace detail

/// Routes the tokens of x by the router's weights, experts x width.
template <class T>
void route(thread_pool& threads, const routing_shape& s, const matrix<T>& x, const matrix<T>& router, routing<T>& r) {
  r.probabilities.resize(x.rows(), s.experts);
  r.weights.resize(x.rows(), s.top_k);
  r.chosen.resize(static_cast<std::size_t>(x.rows() * s.top_k));
  threads.for_each(x.rows() / s.sequence, [&](index task) {
    const index first = task * s.sequence;
    r.probabilities.middleRows(first, s.sequence).noalias() = x.middleRows(first, s.sequence) * router.transpose();
    for (index t = first; t < first + s.sequence; ++t) {
      T* p = r.probabilities.row(t).data();
      const T top = maximum_of(p, s.experts);
      exponentials(p, s.experts, T(1), top);
      const T inverse = T(1) / sum_of(p, s.experts);
      for (index e = 0; e < s.experts; ++e) p[e] *= inverse;
      detail::choose(p, s.experts, s.top_k, r.chosen.data() + t * s.top_k, r.weights.row(t).data());
    }
  });
  detail::place_assignments(s, r);
  detail::measure_balance(s, r);
}

/// The rows that the experts process: copies of their tokens, and rows of zeros.
template <class T>
void gather_tokens(thread_pool& threads, const routing<T>& r, const matrix<T>& x, matrix<T>& rows) {
  rows.resize(static_cast<index>(r.token_of.size()), x.cols());
  threads.for_each(rows.rows() / 16, [&](index task) {
    for (index i = task * 16; i < task * 16 + 16; ++i) {
      const index token = r.token_of[static_cast<std::size_t>(i)];
      if (token < 0)
        rows.row(i).setZero();
      else
        rows.row(i) = x.row(token);
    }
  });
}

/// y_t += sum over the token's experts of weight * output, in descending order of the weights.
template <class T>
void combine_answers(thread_pool& threads, const routing_shape& s, const routing<T>& r, const matrix<T>& answers,
                     matrix<T>& y) {
  threads.for_each(y.rows() / s.sequence, [&](index task) {
    for (index t = task * s.sequence; t < (task + 1) * s.sequence; ++t)
      for (index c = 0; c < s.top_k; ++c) {
        const T *from = answers.row(r.row_of[static_cast<std::size_t>(t * s.top_k + c)]).data(), w = r.weights(t, c);
        T* to = y.row(t).data();
        for (index j = 0; j < y.cols(); ++j) to[j] += w * from[j];
      }
  });
}

/// d(output) = weight * dy, and dweights = dy . output.
template <class T>
void combine_backward(thread_pool& threads, const routing_shape& s, const routing<T>& r, const matrix<T>& dy,
                      const matrix<T>& answers, matrix<T>& danswers, matrix<T>& dweights) {
  danswers.resize(answers.rows(), answers.cols());
  dweights.resize(dy.rows(), s.top_k);
  for (std::size_t i = 0; i < r.token_of.size(); ++i)
    if (r.token_of[i] < 0) danswers.row(static_cast<index>(i)).setZero();
  threads.for_each(dy.rows() / s.sequence, [&](index task) {
    for (index t = task * s.sequence; t < (task + 1) * s.sequence; ++t)
      for (index c = 0; c < s.top_k; ++c) {
        const index row = r.row_of[static_cast<std::size_t>(t * s.top_k + c)];
        danswers.row(row) = r.weights(t, c) * dy.row(t);
        dweights(t, c) = dot(dy.row(t).data(), answers.row(row).data(), dy.cols());
      }
  });
}

/// dx = the sum of the gradients of a token's copies.
template <class T>
void gather_backward(thread_pool& threads, const routing_shape& s, const routing<T>& r, const matrix<T>& drows,
                     matrix<T>& dx) {
  dx.resize(r.probabilities.rows(), drows.cols());
  threads.for_each(dx.rows() / s.sequence, [&](index task) {
    for (index t = task * s.sequence; t < (task + 1) * s.sequence; ++t) {
      dx.row(t) = drows.row(r.row_of[static_cast<std::size_t>(t * s.top_k)]);
      for (index c = 1; c < s.top_k; ++c) dx.row(t) += drows.row(r.row_of[static_cast<std::size_t>(t * s.top_k + c)]);
    }
  });
}

/// The router's gradients from those of the weights and from `balance` * balance_loss of every microbatch; adds to dx
/// and writes drouter (microbatch_gradients::stacked).
///
/// w_c = p_c / sum: dp_c = (dw_c - sum of dw w) / sum.   softmax: dlogit = p (dp - sum of dp p).
template <class T>
void route_backward(thread_pool& threads, const routing_shape& s, const routing<T>& r, const matrix<T>& x,
                    const matrix<T>& router, const matrix<T>& dweights, T balance, matrix<T>& dlogits, matrix<T>& dx,
                    matrix<T>& drouter) {
  const index tokens = x.rows(), each = tokens / s.microbatches;
  dlogits.resize(tokens, s.experts);
  const T unit = balance * static_cast<T>(s.experts) / (static_cast<T>(each * s.top_k) * static_cast<T>(each));
  threads.for_each(tokens / s.sequence, [&, unit](index task) {
    const index first = task * s.sequence;
    const index* counts = r.counts.data() + first / each * s.experts;
    for (index t = first; t < first + s.sequence; ++t) {
      const T* p = r.probabilities.row(t).data();
      T *d = dlogits.row(t).data(), sum = 0, mean = 0, inner = 0;
      for (index e = 0; e < s.experts; ++e) d[e] = unit * static_cast<T>(counts[e]);
      for (index c = 0; c < s.top_k; ++c) {
        sum += p[r.chosen[static_cast<std::size_t>(t * s.top_k + c)]];
        mean += dweights(t, c) * r.weights(t, c);
      }
      for (index c = 0; c < s.top_k; ++c)
        d[r.chosen[static_cast<std::size_t>(t * s.top_k + c)]] += (dweights(t, c) - mean) / sum;
      for (index e = 0; e < s.experts; ++e) inner += d[e] * p[e];
      for (index e = 0; e < s.experts; ++e) d[e] = p[e] * (d[e] - inner);
    }
    dx.middleRows(first, s.sequence).noalias() += dlogits.middleRows(first, s.sequence) * router;
  });
  drouter.setZero();
  add_weight_gradient(threads, s.sequence, s.microbatches, dlogits, x, drouter);
}

}  // namespace train_lm
