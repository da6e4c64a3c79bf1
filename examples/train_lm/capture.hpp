// ufp4 - capture: the operands of every linear layer of one training step, for a file of tensors.
// SPDX-License-Identifier: Apache-2.0
/// A linear layer has three tensors: X, its inputs, of tokens x inputs; W, its weights, of outputs x inputs, those of
/// experts one below the other; dY, the gradients of its outputs, of tokens x outputs. fprop multiplies X and W, dgrad
/// dY and W^T, wgrad dY^T and X^T. All tokens of the batch are rows; with experts they are sorted by expert, with rows
/// of zeros between them (token_segments).
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "checkpoint.hpp"
#include "linear.hpp"
#include "model_config.hpp"

namespace train_lm {

/// An engine that also copies the operands of its calls.
class capturing_engine final : public linear_engine<float> {
 public:
  explicit capturing_engine(linear_engine<float>& inner) : inner_(inner) {}

  void forward(std::uint32_t linear, const token_segments& s, const matrix<float>& x, const matrix<float>& w,
               matrix<float>& y) override {
    keep("X", linear, x);
    keep("W", linear, w);
    inner_.forward(linear, s, x, w, y);
  }
  void backward_input(std::uint32_t linear, const token_segments& s, const matrix<float>& dy, const matrix<float>& w,
                      matrix<float>& dx) override {
    inner_.backward_input(linear, s, dy, w, dx);
  }
  void backward_weight(std::uint32_t linear, const token_segments& s, const matrix<float>& dy, const matrix<float>& x,
                       matrix<float>& dw) override {
    keep("dY", linear, dy);
    inner_.backward_weight(linear, s, dy, x, dw);
  }

  /// "X.block0.qkv" and so on, in the order of the calls. The matrices belong to the engine.
  std::vector<named_matrix> operands() {
    std::vector<named_matrix> all;
    for (captured& c : kept_) all.push_back({c.name, &c.value});
    return all;
  }

 private:
  struct captured {
    std::string name;
    matrix<float> value;
  };
  void keep(const char* operand, std::uint32_t linear, const matrix<float>& x) {
    kept_.push_back({std::string(operand) + ".block" + std::to_string(linear / 4) + "." + linear_names[linear % 4], x});
  }

  linear_engine<float>& inner_;
  std::list<captured> kept_;
};

}  // namespace train_lm
