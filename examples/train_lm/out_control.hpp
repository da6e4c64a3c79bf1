// ufp4 - OutControl: an engine that multiplies the channels of X with the largest norms in MXFP8, the others in 4 bits.
// SPDX-License-Identifier: Apache-2.0
/// Of TetraJet-v2 (arXiv 2510.27527; `linear_mix.py` of thu-ml/TetraJet-v2-NVFP4Training at ca5953f6). In each linear
/// layer whose X the recipe quantizes, with K inputs; steps count from 1:
///
/// | steps                          | what                                                                      |
/// |--------------------------------|---------------------------------------------------------------------------|
/// | start, ..., start + window - 1 | the squares of each column of X are added up                              |
/// | from start + window            | X8: the round(ratio * K) columns of X with the largest sums; X4: the rest |
/// | from start + window            | W8, W4: the same columns of W                                             |
///
/// | GEMM  | from start + window                                                                          |
/// |-------|----------------------------------------------------------------------------------------------|
/// | fprop | Y = X4 W4^T under the recipe, plus X8 W8^T in MXFP8                                          |
/// | dgrad | dX = dY W under the recipe, with all columns of W                                            |
/// | wgrad | dW4 = dY^T X4 under the recipe; dW8 = dY^T X8 in MXFP8, each microbatch an operand by itself |
///
/// Columns are in the order of falling sums, equal sums in that of X. MXFP8: mxfp8_e4m3 with mx_ceil, to nearest, no
/// transform. The sums, and so the channels, do not depend on threads or ranks: a microbatch's are computed in
/// binary64, in the order of its rows, and added in binary32 in the order of the microbatches.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <ufp4/ufp4.hpp>
#include <vector>

#include "checkpoint.hpp"
#include "linear.hpp"
#include "model_config.hpp"
#include "model_recipe.hpp"
#include "parallel.hpp"
#include "ranks.hpp"

namespace train_lm {

struct out_control_settings {
  double ratio = 0;           ///< of a layer's channels; 0: all layers run under the recipe alone
  std::uint64_t start = 1;    ///< the first step, from 1, whose X is measured
  std::uint64_t window = 10;  ///< steps that are measured

  /// Of a layer with `inputs` channels.
  index channels_of(index inputs) const {
    return static_cast<index>(std::llround(ratio * static_cast<double>(inputs)));
  }
};

/// A recipe_engine of a dense model with OutControl.
class out_control final : public linear_engine<float> {
 public:
  /// `weights`: of all linear layers; those whose X the recipe does not quantize run under the recipe.
  out_control(const out_control_settings& settings, const model_recipe& recipe,
              const std::vector<linear_weight>& weights, const std::vector<parameter<float>>& parameters,
              thread_pool& threads, ranks& all)
      : settings_(settings), recipe_(recipe), threads_(threads), ranks_(&all), recipe_engine_(recipe, threads, all) {
    for (const linear_weight& at : weights) {
      if (settings.ratio == 0 || !recipe.at(0, at.linear).operand(0).policy.quantized) continue;
      const parameter<float>& p = parameters[at.parameter];
      layers_[at.linear] = {p.name, matrix<float>::Zero(1, p.value.cols()), {}, {}};
    }
  }
  /// For validation: one rank, with the same channels; measures nothing.
  out_control alone() const { return {*this, threads_}; }

  /// The calls that follow are this training step's; `step` counts from 0, as that of recipe_engine.
  void begin_step(std::uint64_t step) {
    recipe_engine_.begin_step(step);
    const std::uint64_t number = step + 1, end = settings_.start + settings_.window;
    measures_ = ranks_ != nullptr && number >= settings_.start && number < end;
    if (number < end) return;
    for (auto& [linear, l] : layers_)
      if (l.eight.empty()) choose(l);
  }

  /// Wall seconds of the calls; recipe_engine estimates its part.
  linear_seconds seconds() const {
    const linear_seconds four = recipe_engine_.seconds();
    return {four.total + eight_.total, four.quantize + eight_.quantize};
  }

  /// What a checkpoint keeps, in a fixed order: the sums, from which the channels follow.
  std::vector<named_matrix> state() {
    std::vector<named_matrix> all;
    for (auto& [linear, l] : layers_) all.push_back({"out_control.squares." + l.name, &l.squares});
    return all;
  }

  void forward(std::uint32_t linear, const token_segments& s, const matrix<float>& x, const matrix<float>& w,
               matrix<float>& y) override {
    const auto found = layers_.find(linear);
    if (found != layers_.end() && measures_) add_squares(s, x, found->second.squares);
    const layer* l = split(linear);
    if (l == nullptr) return recipe_engine_.forward(linear, s, x, w, y);
    recipe_engine_.forward(linear, s, columns(x, l->four), columns(w, l->four), y);
    const matrix<float> x8 = columns(x, l->eight), w8 = columns(w, l->eight);
    multiply(view_of(x8), view_of(w8), view_of(y), 1.0f);
  }
  void backward_input(std::uint32_t linear, const token_segments& s, const matrix<float>& dy, const matrix<float>& w,
                      matrix<float>& dx) override {
    recipe_engine_.backward_input(linear, s, dy, w, dx);
  }
  void backward_weight(std::uint32_t linear, const token_segments& s, const matrix<float>& dy, const matrix<float>& x,
                       matrix<float>& dw) override {
    const layer* l = split(linear);
    if (l == nullptr) return recipe_engine_.backward_weight(linear, s, dy, x, dw);
    matrix<float> part;
    recipe_engine_.backward_weight(linear, s, dy, columns(x, l->four), part);
    dw.resize(part.rows(), x.cols());
    put(part, l->four, dw);
    weight_gradient(s, dy, columns(x, l->eight), part);
    put(part, l->eight, dw);
  }

 private:
  using input = ufp4::matrix_view<const float>;
  using output = ufp4::matrix_view<float>;

  struct layer {
    std::string name;
    matrix<float> squares;           ///< one row: the sum of the squares of each column of X
    std::vector<index> eight, four;  ///< columns; empty before they are chosen
  };

  out_control(const out_control& of, thread_pool& threads)
      : settings_(of.settings_),
        recipe_(of.recipe_),
        threads_(threads),
        recipe_engine_(of.recipe_, threads),
        layers_(of.layers_) {}

  /// The layer with its chosen channels, or nullptr: all of them run under the recipe.
  const layer* split(std::uint32_t linear) const {
    const auto found = layers_.find(linear);
    return found == layers_.end() || found->second.eight.empty() ? nullptr : &found->second;
  }

  void add_squares(const token_segments& s, const matrix<float>& x, matrix<float>& squares) {
    const index channels = x.cols(), microbatches = static_cast<index>(s.microbatches);
    std::vector<double> here(static_cast<std::size_t>(microbatches * channels));
    threads_.for_each(microbatches, [&](index m) {
      double* const sums = here.data() + m * channels;
      const std::size_t* const begin = s.begin.data() + m;
      for (auto t = static_cast<index>(begin[0]); t < static_cast<index>(begin[1]); ++t)
        for (index c = 0; c < channels; ++c) {
          const auto value = static_cast<double>(x(t, c));
          sums[c] += value * value;
        }
    });
    index c = 0;
    for (const double sum : ranks_->gather(std::span<const double>(here))) {
      squares(0, c) += static_cast<float>(sum);
      c = c + 1 == channels ? 0 : c + 1;
    }
  }

  /// Sums are not negative, so their bits are in the order of their values, and NaN is above all.
  void choose(layer& l) const {
    std::vector<index> order(static_cast<std::size_t>(l.squares.cols()));
    std::iota(order.begin(), order.end(), index{0});
    const auto bits = [&](index c) { return std::bit_cast<std::uint32_t>(l.squares(0, c)); };
    std::ranges::sort(order, [&](index a, index b) { return bits(a) != bits(b) ? bits(a) > bits(b) : a < b; });
    const auto middle = order.begin() + settings_.channels_of(l.squares.cols());
    l.eight.assign(order.begin(), middle);
    l.four.assign(middle, order.end());
  }

  static matrix<float> columns(const matrix<float>& x, const std::vector<index>& chosen) {
    matrix<float> part(x.rows(), static_cast<index>(chosen.size()));
    for (index r = 0; r < x.rows(); ++r)
      for (index c = 0; c < part.cols(); ++c) part(r, c) = x(r, chosen[static_cast<std::size_t>(c)]);
    return part;
  }
  static void put(const matrix<float>& part, const std::vector<index>& chosen, matrix<float>& x) {
    for (index r = 0; r < x.rows(); ++r)
      for (index c = 0; c < part.cols(); ++c) x(r, chosen[static_cast<std::size_t>(c)]) = part(r, c);
  }

  /// c = a b^T + beta c in MXFP8.
  void multiply(const input& a, const input& b, const output& c, float beta) {
    using clock = std::chrono::steady_clock;
    const auto ctx = threads_.context();
    const auto begin = clock::now();
    const auto left = ufp4::quantize<ufp4::mxfp8_e4m3>(a, ufp4::mx_ceil{}, ctx);
    const auto right = ufp4::quantize<ufp4::mxfp8_e4m3>(b, ufp4::mx_ceil{}, ctx);
    const auto middle = clock::now();
    ufp4::quantized_gemm(left, right, c, {.beta = beta, .accumulate = recipe_.quantized.accumulate}, ctx);
    eight_.quantize += std::chrono::duration<double>(middle - begin).count();
    eight_.total += std::chrono::duration<double>(clock::now() - begin).count();
  }

  /// dY^T X8 of every microbatch.
  void weight_gradient(const token_segments& s, const matrix<float>& dy, const matrix<float>& x8, matrix<float>& dw8) {
    const auto outputs = static_cast<std::size_t>(dy.cols());
    dw8.resize(static_cast<index>(s.microbatches * outputs), x8.cols());
    for (std::size_t m = 0; m < s.microbatches; ++m) {
      const auto tokens = [&](const matrix<float>& x) {
        return ufp4::transpose(ufp4::row_range(view_of(x), s.begin[m], s.begin[m + 1] - s.begin[m]));
      };
      multiply(tokens(dy), tokens(x8), ufp4::row_range(view_of(dw8), m * outputs, outputs), 0.0f);
    }
  }

  out_control_settings settings_;
  model_recipe recipe_;
  thread_pool& threads_;
  ranks* ranks_ = nullptr;  ///< null: measures nothing
  recipe_engine recipe_engine_;
  std::map<std::uint32_t, layer> layers_;  ///< by linear_number
  bool measures_ = false;
  linear_seconds eight_;  ///< of the products in MXFP8
};

}  // namespace train_lm
