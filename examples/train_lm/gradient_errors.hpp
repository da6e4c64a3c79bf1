// ufp4 - the error of gradients under a recipe: bias, variance and direction over many draws of its random bits.
// SPDX-License-Identifier: Apache-2.0
/// The gradients of one batch at fixed weights are computed exactly (binary32 products), and under the recipe for
/// several draws: a draw has its own recipe seed, so its own random signs and its own stochastic rounding. With g the
/// exact gradient of a parameter, g_s that of draw s, m their mean over S draws:
///
/// | gain     | <m, g> / <g, g>: below 1 where the recipe shrinks the gradient                                       |
/// | bias     | (|m - g|^2 - v / S) / |g|^2, an unbiased estimate of the squared relative bias; may be negative      |
/// | variance | v / |g|^2, where v = sum of |g_s - m|^2 / (S - 1) is the variance of one draw                        |
/// | cosine   | the mean over draws of <g_s, g> / (|g_s| |g|)                                                        |
///
/// batch_variance estimates how much g itself varies from batch to batch, also relative to |g|^2: with the gradients
/// h_m of M microbatches, whose sum is g, M / (M - 1) * sum of |h_m - g / M|^2 / |g|^2. It needs two microbatches.
///
/// This is done for each of fprop, dgrad and wgrad alone, the two others exact, and for all three.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "linear.hpp"
#include "model.hpp"
#include "run_folder.hpp"

namespace train_lm {

/// Runs the chosen GEMMs of fprop, dgrad, wgrad under a recipe, and the others as binary32 products.
class partial_engine final : public linear_engine<float> {
 public:
  partial_engine(recipe_engine& quantized, const std::array<bool, 3>& chosen)
      : quantized_(quantized), chosen_(chosen) {}

  void forward(std::uint32_t linear, const token_segments& s, const matrix<float>& x, const matrix<float>& w,
               matrix<float>& y) override {
    of(0).forward(linear, s, x, w, y);
  }
  void backward_input(std::uint32_t linear, const token_segments& s, const matrix<float>& dy, const matrix<float>& w,
                      matrix<float>& dx) override {
    of(1).backward_input(linear, s, dy, w, dx);
  }
  void backward_weight(std::uint32_t linear, const token_segments& s, const matrix<float>& dy, const matrix<float>& x,
                       matrix<float>& dw) override {
    of(2).backward_weight(linear, s, dy, x, dw);
  }

 private:
  linear_engine<float>& of(std::size_t gemm) {
    if (chosen_[gemm]) return quantized_;
    return exact_;
  }

  recipe_engine& quantized_;
  plain_engine<float> exact_;
  std::array<bool, 3> chosen_;
};

/// The draws of one parameter's gradient against the exact one. Sums are in double.
class gradient_draws {
 public:
  explicit gradient_draws(const matrix<float>& exact)
      : exact_(exact.cast<double>()), sum_(matrix<double>::Zero(exact.rows(), exact.cols())) {}

  void add(const matrix<float>& gradient) {
    const matrix<double> g = gradient.cast<double>();
    sum_ += g;
    squares_ += g.squaredNorm();
    cosines_ += g.cwiseProduct(exact_).sum() / std::sqrt(g.squaredNorm() * exact_.squaredNorm());
    ++count_;
  }

  /// Needs two draws.
  gradient_row row() const {
    const double n = static_cast<double>(count_), whole = exact_.squaredNorm();
    const matrix<double> mean = sum_ / n;
    const double variance = std::max(0.0, squares_ - n * mean.squaredNorm()) / (n - 1);
    gradient_row r;
    r.draws = count_;
    r.gain = mean.cwiseProduct(exact_).sum() / whole;
    r.bias = ((mean - exact_).squaredNorm() - variance / n) / whole;
    r.variance = variance / whole;
    r.cosine = cosines_ / n;
    return r;
  }

 private:
  matrix<double> exact_, sum_;
  double squares_ = 0, cosines_ = 0;
  std::uint64_t count_ = 0;
};

namespace detail {

/// The whole batch's gradient of every parameter; `each`: those of its microbatches.
inline void gradients_of(model<float>& m, const token_batch& batch, linear_engine<float>& engine, thread_pool& threads,
                         microbatch_gradients<float>& each, std::vector<matrix<float>>& sums) {
  pass_statistics ignored;
  m.forward_backward(batch, engine, threads, each, ignored);
  sum_in_order(each, sums);
}

/// batch_variance of a parameter whose gradient has these parts, one below the other, and this sum.
inline double batch_variance(const matrix<float>& parts, index microbatches, const matrix<float>& sum) {
  const double m = static_cast<double>(microbatches);
  const matrix<double> whole = sum.cast<double>(), mean = whole / m;
  double squares = 0;
  for (index k = 0; k < microbatches; ++k)
    squares += (parts.middleRows(k * sum.rows(), sum.rows()).cast<double>() - mean).squaredNorm();
  return m / (m - 1) * squares / whole.squaredNorm();
}

}  // namespace detail

/// The rows of every parameter with decay (the matrices), for the batch of training step `step`, over `draws` seeds
/// from the recipe's own on. The caller sets the step of the rows.
inline std::vector<gradient_row> measure_gradients(model<float>& m, const token_batch& batch,
                                                   const model_recipe& recipe, std::uint64_t step, std::uint64_t draws,
                                                   thread_pool& threads) {
  struct part {
    const char* name;
    std::array<bool, 3> chosen;
  };
  static constexpr part parts[] = {{"fprop", {true, false, false}},
                                   {"dgrad", {false, true, false}},
                                   {"wgrad", {false, false, true}},
                                   {"all", {true, true, true}}};
  plain_engine<float> plain;
  microbatch_gradients<float> each;
  std::vector<matrix<float>> exact, drawn;
  detail::gradients_of(m, batch, plain, threads, each, exact);
  std::vector<double> of_batch;
  for (std::size_t p = 0; p < exact.size(); ++p)
    of_batch.push_back(detail::batch_variance(each.stacked[p], each.microbatches, exact[p]));
  std::vector<gradient_row> rows;
  for (const part& gemms : parts) {
    std::vector<gradient_draws> all(exact.begin(), exact.end());
    for (std::uint64_t s = 0; s < draws; ++s) {
      model_recipe of_draw = recipe;
      of_draw.quantized.seed += s;
      recipe_engine quantized(of_draw, threads);
      quantized.begin_step(step);
      partial_engine engine(quantized, gemms.chosen);
      detail::gradients_of(m, batch, engine, threads, each, drawn);
      for (std::size_t p = 0; p < all.size(); ++p) all[p].add(drawn[p]);
    }
    for (std::size_t p = 0; p < all.size(); ++p) {
      if (!m.parameters()[p].decays) continue;
      rows.push_back(all[p].row());
      rows.back().gemm = gemms.name;
      rows.back().parameter = m.parameters()[p].name;
      rows.back().batch_variance = of_batch[p];
    }
  }
  return rows;
}

}  // namespace train_lm
