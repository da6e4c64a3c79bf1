// ufp4 - the code of docs/recipes.md, compiled.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#undef NDEBUG
#include <cassert>
#include <vector>

using namespace ufp4;

int main() {
  const std::size_t T = 64, K = 128, N = 96, experts = 3;
  std::vector<float> xs(T * K), ws(N * K), dys(T * N), ys(T * N), dxs(T * K), dws(N * K), saved_dws(N * K);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  for (std::size_t i = 0; i < ws.size(); ++i) ws[i] = static_cast<float>(i * 31 % 17) - 8.0f;
  for (std::size_t i = 0; i < dys.size(); ++i) dys[i] = static_cast<float>(i * 101 % 211) - 105.0f;
  matrix_view<const float> x{xs.data(), T, K}, w{ws.data(), N, K}, dy{dys.data(), T, N};
  matrix_view<float> y{ys.data(), T, N}, dx{dxs.data(), T, K}, dw{dws.data(), N, K};

  const auto recipe_of_run = recipe::ufp4_recipe(/*seed=*/1);
  const auto now = recipe_of_run.at(/*step=*/100, /*layer=*/3);
  linear_forward(now, x, w, y);                                     // Y  = X W^T
  linear_backward_input(now, dy, w, dx);                            // dX = dY W
  linear_backward_weight(now, dy, x, dw, recipe::write_mode::add);  // dW += dY^T X, into a float main gradient

  recipe::saved_activation saved;
  linear_forward(now, x, w, y, {.saved = &saved});  // keeps the quantized X^T: 4 bits an element and its scales
  linear_backward_weight(now, dy, saved, dw);       // the bits of quantizing X^T again
  assert(saved.parts() == 1 && saved.bytes() < T * K);
  linear_backward_weight(now, dy, x, matrix_view<float>{saved_dws.data(), N, K});
  assert(saved_dws == dws);

  auto ablation = recipe::nvfp4_recipe(1);
  ablation.wgrad.left.transform = ablation.wgrad.right.transform = {};     // no RHT
  ablation.dgrad.left.rounding = nearest_even{};                           // no stochastic rounding
  ablation.fprop.left.rule = four_over_six{};                              // another scale for X
  ablation.dgrad.left.quantized = ablation.dgrad.right.quantized = false;  // dgrad in bf16
  ablation.fprop.right.format = spec_of<nv_e1m2>;                          // W on the uniform grid
  linear_forward(ablation.at(100, 3), x, w, y);

  const recipe::operand_policy searched{
      .format = spec_of<nvfp4>, .rounding = stochastic{}, .transform = random_hadamard<16>{}, .rule = four_over_six{}};
  auto every_operand = recipe::uniform_recipe(/*seed=*/1, searched);
  linear_forward(every_operand.at(100, 3), x, w, y);

  // W quantized once, and a bias.
  std::vector<float> bias(N, 0.5f), again(T * N);
  const recipe::quantized_weight quantized_w = quantize_weight(now, w, {.backward = true});
  linear_forward(now, x, quantized_w, y, {.bias = bias});  // Y = X W^T + bias
  linear_backward_input(now, dy, quantized_w, dx);
  linear_forward(now, x, w, matrix_view<float>{again.data(), T, N}, {.bias = bias});
  assert(again == ys);

  // Mixture of experts: tokens sorted by expert, weights stacked.
  std::vector<float> stacked(experts * N * K, 0.5f);
  matrix_view<const float> expert_weights{stacked.data(), experts * N, K};
  const std::size_t offsets[] = {0, 20, 20, T};  // expert 1 has no tokens
  linear_forward_grouped(now, x, offsets, expert_weights, y);

  const stochastic random_bits = now.operand(2).rounding.random_bits;  // operand 2: dY in dgrad
  assert(random_bits.seed == recipe::derive(/*seed=*/1, /*step=*/100, /*layer=*/3, /*role=*/16 + 2));
}
