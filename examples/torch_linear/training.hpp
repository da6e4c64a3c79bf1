// ufp4 - a toy task: a perceptron of two layers learns the output of another one; its Linear layers can be replaced.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quantized_linear.hpp"

namespace torch_linear {

struct losses {
  double before = 0, after = 0;
};

/// 2048 points of 32 numbers in 8 classes, which a random perceptron with 16 hidden units defines.
struct toy_task {
  Tensor x, label;

  explicit toy_task(std::uint64_t seed) {
    torch::manual_seed(seed);
    x = torch::randn({2048, 32});
    label = torch::tanh(x.matmul(torch::randn({32, 16}))).matmul(torch::randn({16, 8})).argmax(1);
  }
};

/// Two layers, made by make(in_features, out_features). The initial weights depend on the seed only, not on the layers'
/// type.
template <class Make>
torch::nn::Sequential make_mlp(std::uint64_t seed, const Make& make) {
  torch::manual_seed(seed);
  const auto first = make(32, 64), second = make(64, 8);
  return torch::nn::Sequential(first, torch::nn::ReLU(), second);
}

inline losses train(torch::nn::Sequential mlp, const toy_task& task, std::int64_t steps) {
  const auto loss_of_all = [&] {
    const torch::NoGradGuard none;
    return torch::nn::functional::cross_entropy(mlp->forward(task.x), task.label).item<double>();
  };
  torch::optim::Adam optimizer(mlp->parameters(), torch::optim::AdamOptions(3e-3));
  losses result{loss_of_all(), 0};
  constexpr std::int64_t batch = 128;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t first = step * batch % task.x.size(0);
    optimizer.zero_grad();
    const Tensor y = mlp->forward(task.x.slice(0, first, first + batch));
    torch::nn::functional::cross_entropy(y, task.label.slice(0, first, first + batch)).backward();
    optimizer.step();
  }
  result.after = loss_of_all();
  return result;
}

}  // namespace torch_linear
