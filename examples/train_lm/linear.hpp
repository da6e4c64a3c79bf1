// ufp4 - linear_engine: the three GEMMs of the linear layers inside blocks, dense and by expert.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/ufp4.hpp>
#include <utility>
#include <vector>

#include "matrix.hpp"
#include "model_recipe.hpp"
#include "parallel.hpp"
#include "ranks.hpp"

namespace train_lm {

/// The rows of an activation matrix: sorted by expert (a dense layer has one), and within an expert by microbatch. The
/// rows of one expert and microbatch are a segment, filled with rows of zeros to a multiple of 16. So blocks and
/// transform runs along the tokens never contain two microbatches, and do not depend on the other microbatches.
struct token_segments {
  std::size_t experts = 1, microbatches = 1;
  std::vector<std::size_t> begin{0, 0};  ///< experts * microbatches + 1 entries; segment e * microbatches + m

  std::size_t rows() const { return begin.back(); }
  /// Where experts begin: one entry more than experts.
  std::vector<std::size_t> expert_offsets() const {
    std::vector<std::size_t> offsets;
    for (std::size_t e = 0; e <= experts; ++e) offsets.push_back(begin[e * microbatches]);
    return offsets;
  }
  /// `rows` tokens of one expert in equal microbatches.
  static token_segments dense(std::size_t rows, std::size_t microbatches) {
    token_segments s{1, microbatches, {}};
    for (std::size_t m = 0; m <= microbatches; ++m) s.begin.push_back(m * (rows / microbatches));
    return s;
  }
};

/// T tokens, K inputs, N outputs: X is T x K, Y is T x N, W is N x K, or E*N x K with the weights of E experts stacked.
/// Outputs are resized and overwritten. `linear` is the number of the linear layer in the model (linear_number() in
/// model_config.hpp), from which a recipe derives signs and random bits.
template <class T>
class linear_engine {
 public:
  virtual ~linear_engine() = default;

  /// Y = X W^T, expert by expert.
  virtual void forward(std::uint32_t linear, const token_segments& s, const matrix<T>& x, const matrix<T>& w,
                       matrix<T>& y) = 0;
  /// dX = dY W.
  virtual void backward_input(std::uint32_t linear, const token_segments& s, const matrix<T>& dy, const matrix<T>& w,
                              matrix<T>& dx) = 0;
  /// dW = dY^T X, one per microbatch: microbatch m's E*N x K begins at row m * E*N of dw, as in microbatch_gradients.
  virtual void backward_weight(std::uint32_t linear, const token_segments& s, const matrix<T>& dy, const matrix<T>& x,
                               matrix<T>& dw) = 0;
};

/// Eigen's products in T: the reference of the gradient tests.
template <class T>
class plain_engine final : public linear_engine<T> {
 public:
  void forward(std::uint32_t, const token_segments& s, const matrix<T>& x, const matrix<T>& w, matrix<T>& y) override {
    y.resize(x.rows(), outputs_of(s, w));
    for_each_expert(s, [&](index e, index first, index rows) {
      y.middleRows(first, rows).noalias() = x.middleRows(first, rows) * weights_of(s, w, e).transpose();
    });
  }
  void backward_input(std::uint32_t, const token_segments& s, const matrix<T>& dy, const matrix<T>& w,
                      matrix<T>& dx) override {
    dx.resize(dy.rows(), w.cols());
    for_each_expert(s, [&](index e, index first, index rows) {
      dx.middleRows(first, rows).noalias() = dy.middleRows(first, rows) * weights_of(s, w, e);
    });
  }
  void backward_weight(std::uint32_t, const token_segments& s, const matrix<T>& dy, const matrix<T>& x,
                       matrix<T>& dw) override {
    const index outputs = dy.cols(), experts = static_cast<index>(s.experts);
    dw.resize(static_cast<index>(s.microbatches) * experts * outputs, x.cols());
    for (std::size_t part = 0; part + 1 < s.begin.size(); ++part) {
      const auto first = static_cast<index>(s.begin[part]), rows = static_cast<index>(s.begin[part + 1]) - first;
      const auto e = static_cast<index>(part / s.microbatches), m = static_cast<index>(part % s.microbatches);
      auto to = dw.middleRows((m * experts + e) * outputs, outputs);
      if (rows == 0)
        to.setZero();
      else
        to.noalias() = dy.middleRows(first, rows).transpose() * x.middleRows(first, rows);
    }
  }

 private:
  static index outputs_of(const token_segments& s, const matrix<T>& w) {
    return w.rows() / static_cast<index>(s.experts);
  }
  static auto weights_of(const token_segments& s, const matrix<T>& w, index e) {
    return w.middleRows(e * outputs_of(s, w), outputs_of(s, w));
  }
  template <class Body>
  static void for_each_expert(const token_segments& s, const Body& body) {
    const auto offsets = s.expert_offsets();
    for (std::size_t e = 0; e < s.experts; ++e)
      if (offsets[e] < offsets[e + 1])
        body(static_cast<index>(e), static_cast<index>(offsets[e]), static_cast<index>(offsets[e + 1] - offsets[e]));
  }
};

/// Wall seconds of a recipe_engine's calls since it was made.
struct linear_seconds {
  double total = 0;
  double quantize = 0;  ///< estimated: see recipe_engine
  double gemm() const { return total - quantize; }
};

/// The library's linear operations under a recipe. The dW of a microbatch is one part of a grouped call. With several
/// ranks the calls are collectives, and the codes are those of one rank with the whole batch.
///
/// The library quantizes and multiplies in one call. To estimate the time of each, every 97th call is followed by two
/// calls that have one operand each and no output, and so only quantize. 97 is a prime, so that the sample contains all
/// layers and GEMMs.
class recipe_engine final : public linear_engine<float> {
 public:
  recipe_engine(const model_recipe& recipe, thread_pool& threads) : recipe_(recipe), threads_(threads) {}
  recipe_engine(const model_recipe& recipe, thread_pool& threads, ranks& all)
      : recipe_(recipe), threads_(threads), ranks_(all.count() > 1 ? &all : nullptr) {}

  /// Signs and random bits of the calls that follow are this training step's.
  void begin_step(std::uint64_t step) { step_ = step; }

  linear_seconds seconds() const {
    return {total_, sampled_ > 0 ? total_ * std::min(1.0, sampled_quantize_ / sampled_) : 0.0};
  }

  void forward(std::uint32_t linear, const token_segments& s, const matrix<float>& x, const matrix<float>& w,
               matrix<float>& y) override {
    y.resize(x.rows(), w.rows() / static_cast<index>(s.experts));
    const input weights = view_of(w);
    by_expert(linear, s, x, weights, no_rows(weights), y, [](const auto& ctx, const auto&... arguments) {
      ufp4::recipe::linear_forward_grouped(arguments..., {}, ctx);
    });
  }
  void backward_input(std::uint32_t linear, const token_segments& s, const matrix<float>& dy, const matrix<float>& w,
                      matrix<float>& dx) override {
    dx.resize(dy.rows(), w.cols());
    const input weights = view_of(w);
    by_expert(linear, s, dy, weights, no_columns(weights), dx, [](const auto& ctx, const auto&... arguments) {
      ufp4::recipe::linear_backward_input_grouped(arguments..., {}, ctx);
    });
  }
  void backward_weight(std::uint32_t linear, const token_segments& s, const matrix<float>& dy, const matrix<float>& x,
                       matrix<float>& dw) override {
    const index parts = static_cast<index>(s.experts * s.microbatches);
    matrix<float>& by_part = s.experts == 1 ? dw : parts_;  // one expert: parts are microbatches, the order of dw
    by_part.resize(parts * dy.cols(), x.cols());
    const input a = view_of(dy), b = view_of(x);
    const output c = view_of(by_part);
    const bound now = recipe_.at(step_, linear);
    const auto call = [&](const bound& r, input left, input right, output out) {
      ufp4::recipe::linear_backward_weight_grouped(r, left, right, s.begin, out, {}, threads_.context());
    };
    timed([&] { call(placed(now, microbatches_of(s)), a, b, c); }, [&] { call(now, a, no_columns(b), no_columns(c)); },
          [&] { call(now, no_columns(a), b, no_rows(c)); });
    if (s.experts > 1) by_microbatch(s, dy.cols(), dw);
  }

 private:
  using bound = ufp4::recipe::bound_recipe;
  using input = ufp4::matrix_view<const float>;
  using output = ufp4::matrix_view<float>;
  using offsets = std::vector<std::size_t>;

  /// A grouped operation on token rows. no_outputs: the weights of a layer without outputs, for the sampled calls.
  template <class Operation>
  void by_expert(std::uint32_t linear, const token_segments& s, const matrix<float>& tokens, const input& weights,
                 const input& no_outputs, matrix<float>& result, const Operation& operation) {
    const input a = view_of(tokens);
    const output c = view_of(result);
    const bound now = recipe_.at(step_, linear);
    const offsets experts = s.expert_offsets(), none(experts.size(), 0);
    const auto call = [&](const bound& r, const input& left, const offsets& at, const input& right, const output& out) {
      operation(threads_.context(), r, left, at, right, out);
    };
    timed([&] { call(placed(now, tokens_of(s)), a, experts, weights, c); },
          [&] { call(now, a, experts, no_outputs, no_columns(c)); },
          [&] { call(now, no_rows(a), none, weights, no_rows(c)); });
  }

  // ---- The place of this rank's tokens in the whole batch

  /// The memory of a token_shard's spans; empty for one rank.
  struct place {
    std::vector<std::size_t> first, total;
    std::vector<std::uint32_t> part;
  };
  bound placed(const bound& now, place at) {
    place_ = std::move(at);
    if (ranks_ == nullptr) return now;
    return now.shard({place_.first, place_.total, place_.part, {&maximum, ranks_}, {}});
  }
  static float maximum(void* all, float amax) { return static_cast<ranks*>(all)->maximum(amax); }

  /// An expert's tokens are in the order of the microbatches, so in the order of the ranks.
  place tokens_of(const token_segments& s) const {
    place at;
    if (ranks_ == nullptr) return at;
    const offsets here = s.expert_offsets();
    std::vector<std::uint64_t> counts;
    for (std::size_t e = 0; e < s.experts; ++e) counts.push_back(here[e + 1] - here[e]);
    const std::vector<std::uint64_t> all = ranks_->gather(std::span<const std::uint64_t>(counts));
    at.first.assign(s.experts, 0);
    at.total.assign(s.experts, 0);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i / s.experts < static_cast<std::size_t>(ranks_->rank())) at.first[i % s.experts] += all[i];
      at.total[i % s.experts] += all[i];
    }
    return at;
  }
  /// Microbatches are whole; their numbers in the batch, which select the random bits, include those of other ranks.
  place microbatches_of(const token_segments& s) const {
    place at;
    if (ranks_ == nullptr) return at;
    const std::size_t before = static_cast<std::size_t>(ranks_->rank()) * s.microbatches;
    const std::size_t all = static_cast<std::size_t>(ranks_->count()) * s.microbatches;
    for (std::size_t e = 0; e < s.experts; ++e)
      for (std::size_t m = 0; m < s.microbatches; ++m)
        at.part.push_back(static_cast<std::uint32_t>(e * all + before + m));
    return at;
  }

  // ---- Times

  template <class T>
  static ufp4::matrix_view<T> no_rows(const ufp4::matrix_view<T>& x) {
    return {x.data(), 0, x.cols()};
  }
  template <class T>
  static ufp4::matrix_view<T> no_columns(const ufp4::matrix_view<T>& x) {
    return {x.data(), x.rows(), 0};
  }

  template <class F>
  static double seconds_of(const F& f) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  template <class Whole, class Left, class Right>
  void timed(const Whole& whole, const Left& quantize_left, const Right& quantize_right) {
    const double here = seconds_of(whole);
    total_ += here;
    if (calls_++ % 97 != 0) return;
    sampled_ += here;
    sampled_quantize_ += seconds_of(quantize_left) + seconds_of(quantize_right);
  }

  /// From parts in order of (expert, microbatch) to (microbatch, expert).
  void by_microbatch(const token_segments& s, index outputs, matrix<float>& dw) const {
    const auto experts = static_cast<index>(s.experts), microbatches = static_cast<index>(s.microbatches);
    dw.resize(parts_.rows(), parts_.cols());
    for (index e = 0; e < experts; ++e)
      for (index m = 0; m < microbatches; ++m)
        dw.middleRows((m * experts + e) * outputs, outputs) =
            parts_.middleRows((e * microbatches + m) * outputs, outputs);
  }

  model_recipe recipe_;
  thread_pool& threads_;
  ranks* ranks_ = nullptr;  ///< null for one rank
  std::uint64_t step_ = 0;
  matrix<float> parts_;
  place place_;
  double total_ = 0, sampled_ = 0, sampled_quantize_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace train_lm
