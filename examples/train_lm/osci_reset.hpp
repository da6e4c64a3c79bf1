// ufp4 - OsciReset: weights that oscillate between two quantized values are set to the one that they have.
// SPDX-License-Identifier: Apache-2.0
/// Of TetraJet-v2 (arXiv 2510.27527; the detection `distance_ratio` of thu-ml/TetraJet-v2-NVFP4Training at ca5953f6).
/// Near the boundary of two bins, small updates of a weight change its quantized value by a whole step, back and forth.
/// With w a weight, Q(w) its value as fprop quantizes it, decoded, over the updates of a window:
///
/// | moved     | the sum of |w - w'|, w' the weight before the update                                    |
/// | jumped    | the sum of |Q(w) - Q(w')|                                                               |
/// | reset     | at the end of the window, where jumped > 0 and jumped >= threshold * moved: w becomes Q(w) |
///
/// A window begins after each update whose number is a multiple of the period. Moments of the optimizer do not change.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <ufp4/ufp4.hpp>
#include <utility>
#include <vector>

#include "checkpoint.hpp"
#include "model_config.hpp"
#include "model_recipe.hpp"
#include "parallel.hpp"

namespace train_lm {

struct osci_reset_settings {
  std::uint64_t period = 0;   ///< updates; 0: no weight is reset
  std::uint64_t window = 50;  ///< updates that are watched, below the period
  double threshold = 16;
};

class osci_reset {
 public:
  /// `weights`: of all linear layers; those whose W a recipe does not quantize are left out.
  osci_reset(const osci_reset_settings& settings, const model_recipe& recipe, const std::vector<linear_weight>& weights,
             const std::vector<parameter<float>>& parameters)
      : settings_(settings), recipe_(recipe) {
    for (const linear_weight& at : weights) {
      if (settings.period == 0 || !recipe.at(0, at.linear).operand(1).policy.quantized) continue;
      const parameter<float>& p = parameters[at.parameter];
      const matrix<float> zero = matrix<float>::Zero(p.value.rows(), p.value.cols());
      watched_.push_back({at, p.name, zero, zero, zero});
    }
  }

  /// After update number `step`, counted from 1.
  void after_update(std::uint64_t step, std::vector<parameter<float>>& parameters, thread_pool& threads) {
    if (settings_.period == 0) return;
    const std::uint64_t phase = step % settings_.period;
    if (step < settings_.period || phase > settings_.window) return;
    for (watched& w : watched_) {
      matrix<float>& value = parameters[w.at.parameter].value;
      if (phase == 0) {
        w.moved.setZero(), w.jumped.setZero();
      } else {
        const matrix<float> now = quantized(w.at.linear, step, value, threads);
        w.jumped += (now - quantized(w.at.linear, step, w.before, threads)).cwiseAbs();
        w.moved += (value - w.before).cwiseAbs();
        if (phase == settings_.window) reset(w, now, value);
      }
      w.before = value;
    }
  }

  std::uint64_t resets() const { return resets_; }  ///< weights that were reset, since this object was made

  /// What a checkpoint keeps, in a fixed order.
  std::vector<named_matrix> state() {
    std::vector<named_matrix> all;
    for (watched& w : watched_) {
      all.push_back({"osci_reset.before." + w.name, &w.before});
      all.push_back({"osci_reset.moved." + w.name, &w.moved});
      all.push_back({"osci_reset.jumped." + w.name, &w.jumped});
    }
    return all;
  }

 private:
  struct watched {
    linear_weight at;
    std::string name;
    matrix<float> before, moved, jumped;
  };

  /// Q(w), with the transform of fprop undone.
  matrix<float> quantized(std::uint32_t linear, std::uint64_t step, const matrix<float>& w,
                          thread_pool& threads) const {
    const auto operand = recipe_.at(step, linear).operand(1);
    matrix<float> q(w.rows(), w.cols());
    ufp4::fake_quantize(operand.policy.format, view_of(w), view_of(q), operand.transform, operand.policy.rule,
                        ufp4::undo_transform{}, threads.context());
    return q;
  }
  void reset(const watched& w, const matrix<float>& now, matrix<float>& value) {
    for (index i = 0; i < value.size(); ++i) {
      const double jumped = static_cast<double>(w.jumped.data()[i]), moved = static_cast<double>(w.moved.data()[i]);
      if (!(jumped > 0 && jumped >= settings_.threshold * moved)) continue;
      value.data()[i] = now.data()[i];
      ++resets_;
    }
  }

  osci_reset_settings settings_;
  model_recipe recipe_;
  std::vector<watched> watched_;
  std::uint64_t resets_ = 0;
};

}  // namespace train_lm
