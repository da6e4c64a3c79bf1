// ufp4 - linear_engine: who computes the three GEMMs of the linear layers inside blocks, dense and by expert.
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
#include "parallel.hpp"
#include "ranks.hpp"

namespace train_lm {

/// Whose rows are whose in an activation matrix: sorted by expert (a dense layer has one), inside an expert by
/// microbatch. Segments are whole multiples of 16 rows, the rest of one being zero rows: blocks and transform runs
/// along tokens then never mix two microbatches, and a microbatch's place in them does not depend on its neighbours.
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
  /// `rows` tokens in equal microbatches of one expert.
  static token_segments dense(std::size_t rows, std::size_t microbatches) {
    token_segments s{1, microbatches, {}};
    for (std::size_t m = 0; m <= microbatches; ++m) s.begin.push_back(m * (rows / microbatches));
    return s;
  }
};

/// T rows, K inputs, N outputs; E experts' weights stacked, E*N x K; X T x K, Y T x N. Outputs are resized and
/// overwritten.
/// `linear` numbers the linear layers of the model (linear_number() in model.hpp): recipes draw signs and random bits by it.
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
  /// dW = dY^T X, one a microbatch: dw has microbatch m's E*N x K at row m * E*N, as microbatch_gradients has.
  virtual void backward_weight(std::uint32_t linear, const token_segments& s, const matrix<T>& dy, const matrix<T>& x,
                               matrix<T>& dw) = 0;
};

/// Eigen's products in T: what the gradients of the model are checked with.
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

/// ufp4's linear_* under a recipe. A microbatch's dW is one part of a grouped call: its tokens are an operand of their
/// own. Where several ranks hold a batch, calls are collectives, and codes are those that one rank's would be.
///
/// The library quantizes and multiplies in one call; to tell their times apart, every 29th call (a prime, so that all
/// layers and GEMMs get their turn) is followed by two more with one operand each and no output, which quantize only.
class recipe_engine final : public linear_engine<float> {
 public:
  recipe_engine(const ufp4::recipe::training_recipe& recipe, thread_pool& threads)
      : recipe_(recipe), threads_(threads) {}
  recipe_engine(const ufp4::recipe::training_recipe& recipe, thread_pool& threads, ranks& all)
      : recipe_(recipe), threads_(threads), ranks_(all.count() > 1 ? &all : nullptr) {}

  /// Signs and random bits of the calls that follow are this training step's.
  void begin_step(std::uint64_t step) { step_ = step; }

  linear_seconds seconds() const {
    return {total_, sampled_ > 0 ? total_ * std::min(1.0, sampled_quantize_ / sampled_) : 0.0};
  }

  void forward(std::uint32_t linear, const token_segments& s, const matrix<float>& x, const matrix<float>& w,
               matrix<float>& y) override {
    y.resize(x.rows(), w.rows() / static_cast<index>(s.experts));
    const input a = view_of(x), b = view_of(w);
    const output c = view_of(y);
    const bound now = recipe_.at(step_, linear);
    const auto call = [&](const bound& r, input left, input right, output out, const offsets& experts) {
      ufp4::linear_forward_grouped(threads_.context(), r, left, experts, right, out);
    };
    const offsets experts = s.expert_offsets(), none(experts.size(), 0);
    timed([&] { call(placed(now, tokens_of(s)), a, b, c, experts); },
          [&] { call(now, a, no_rows(b), no_columns(c), experts); },
          [&] { call(now, no_rows(a), b, no_rows(c), none); });
  }
  void backward_input(std::uint32_t linear, const token_segments& s, const matrix<float>& dy, const matrix<float>& w,
                      matrix<float>& dx) override {
    dx.resize(dy.rows(), w.cols());
    const input a = view_of(dy), b = view_of(w);
    const output c = view_of(dx);
    const bound now = recipe_.at(step_, linear);
    const auto call = [&](const bound& r, input left, input right, output out, const offsets& experts) {
      ufp4::linear_backward_input_grouped(threads_.context(), r, left, experts, right, out);
    };
    const offsets experts = s.expert_offsets(), none(experts.size(), 0);
    timed([&] { call(placed(now, tokens_of(s)), a, b, c, experts); },
          [&] { call(now, a, no_columns(b), no_columns(c), experts); },
          [&] { call(now, no_rows(a), b, no_rows(c), none); });
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
      ufp4::linear_backward_weight_grouped(threads_.context(), r, left, right, s.begin, out);
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

  // ---- Where this rank's tokens stand in the whole batch

  /// What a token_shard's spans look at; empty for one rank.
  struct place {
    std::vector<std::size_t> first, total;
    std::vector<std::uint32_t> part;
  };
  bound placed(const bound& now, place at) {
    place_ = std::move(at);
    if (ranks_ == nullptr) return now;
    return now.shard({place_.first, place_.total, place_.part, {&largest, ranks_}, {}});
  }
  static float largest(void* all, float here) { return static_cast<ranks*>(all)->largest(here); }

  /// Experts' tokens stand in the order of microbatches, so of ranks.
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
  /// Microbatches are whole; only their numbers, which choose the random bits, count those of other ranks.
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
    if (calls_++ % 29 != 0) return;
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

  ufp4::recipe::training_recipe recipe_;
  thread_pool& threads_;
  ranks* ranks_ = nullptr;  ///< where there are several
  std::uint64_t step_ = 0;
  matrix<float> parts_;
  place place_;
  double total_ = 0, sampled_ = 0, sampled_quantize_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace train_lm
