// ufp4 - depth_gain: how quantized products shrink a signal over a stack of layers, without training.
// SPDX-License-Identifier: Apache-2.0
/// A stack of layers with random weights is run twice on the same input: with exact (binary32) products, which gives y,
/// and under a recipe's fprop, which gives q.
///
/// | gain    | <q, y> / <y, y> after some layers: below 1 where the recipe shrinks the signal |
/// | cosine  | <q, y> / (|q| |y|)                                                             |
///
/// | stack    | layer                              |
/// |----------|------------------------------------|
/// | chain    | y <- y W^T                         |
/// | residual | y <- y + swiglu(norm(y) W^T) V^T   |
///
/// Weights keep the variance of their input. With `outliers` one channel in 16 is 8 times as large as the others in the
/// activations that every layer quantizes, with the same mean square.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "initial_weights.hpp"
#include "linear.hpp"
#include "norm.hpp"
#include "recipes.hpp"
#include "swiglu.hpp"

namespace train_lm {

enum class stack_kind { chain, residual };

/// `draw` gives the weights, the input and the recipe's seed.
struct depth_setting {
  stack_kind kind = stack_kind::chain;
  bool outliers = false;
  std::uint64_t draw = 0;
  index width = 256, tokens = 256;  ///< multiples of 16
};

struct depth_row {
  index layers = 0;
  double gain = 0, cosine = 0;
};

namespace detail {

inline matrix<float> channel_scales(const depth_setting& s) {
  matrix<float> scales(1, s.width);
  for (index c = 0; c < s.width; ++c) scales(0, c) = s.outliers && c % 16 == 0 ? 8.0f : 1.0f;
  return scales * std::sqrt(static_cast<float>(s.width) / scales.squaredNorm());
}

/// The weights of one layer.
struct stack_layer {
  matrix<float> first, second;  ///< second: of the residual stack

  stack_layer(const depth_setting& s, std::uint32_t layer, const matrix<float>& scales) {
    const index hidden = 2 * s.width;
    const auto weights = [&](std::uint32_t which, index outputs, index inputs) {
      return initial_weights<float>(s.draw, 2 * layer + which, outputs, inputs,
                                    1 / std::sqrt(static_cast<double>(inputs)));
    };
    if (s.kind == stack_kind::chain) {
      first = scales.transpose().asDiagonal() * weights(0, s.width, s.width);
    } else {
      first = weights(0, 2 * hidden, s.width);
      second = weights(1, s.width, hidden);
    }
  }
};

/// Runs layer number `layer` on y.
inline void run_layer(linear_engine<float>& engine, thread_pool& threads, const depth_setting& s, std::uint32_t layer,
                      const stack_layer& weights, const matrix<float>& scales, matrix<float>& y) {
  const auto all = token_segments::dense(static_cast<std::size_t>(s.tokens), 1);
  matrix<float> normed, gate_up, hidden, out;
  if (s.kind == stack_kind::chain) {
    engine.forward(2 * layer, all, y, weights.first, out);
    std::swap(y, out);
    return;
  }
  std::vector<float> ignored;
  norm_forward(threads, 16, y, scales, normed, ignored);
  engine.forward(2 * layer, all, normed, weights.first, gate_up);
  swiglu_forward(threads, gate_up, hidden);
  engine.forward(2 * layer + 1, all, hidden, weights.second, out);
  y += out;
}

inline depth_row compared(index layers, const matrix<float>& exact, const matrix<float>& quantized) {
  const matrix<double> y = exact.cast<double>(), q = quantized.cast<double>();
  const double yq = y.cwiseProduct(q).sum();
  return {layers, yq / y.squaredNorm(), yq / std::sqrt(y.squaredNorm() * q.squaredNorm())};
}

}  // namespace detail

/// For each recipe a row per entry of `depths`, which ascend.
inline std::vector<std::vector<depth_row>> measure_depth(const depth_setting& s, std::span<const std::string> recipes,
                                                         std::span<const index> depths, thread_pool& threads) {
  const matrix<float> scales = detail::channel_scales(s);
  matrix<float> exact = initial_weights<float>(s.draw, 0xFFFFFFFF, s.tokens, s.width, 1);
  if (s.kind == stack_kind::chain) exact = exact * scales.transpose().asDiagonal();
  std::vector<matrix<float>> quantized(recipes.size(), exact);
  std::vector<std::vector<depth_row>> rows(recipes.size());
  plain_engine<float> plain;
  index layer = 0;
  for (const index depth : depths) {
    for (; layer < depth; ++layer) {
      const auto number = static_cast<std::uint32_t>(layer);
      const detail::stack_layer weights(s, number, scales);
      detail::run_layer(plain, threads, s, number, weights, scales, exact);
      for (std::size_t r = 0; r < recipes.size(); ++r) {
        recipe_engine engine(make_recipe(recipes[r], {}, s.draw), threads);
        detail::run_layer(engine, threads, s, number, weights, scales, quantized[r]);
      }
    }
    for (std::size_t r = 0; r < recipes.size(); ++r) rows[r].push_back(detail::compared(depth, exact, quantized[r]));
  }
  return rows;
}

}  // namespace train_lm
