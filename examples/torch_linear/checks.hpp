// ufp4 - gradient checks of ufp4_linear: by differences where y has a derivative, by definition where it is quantized.
// SPDX-License-Identifier: Apache-2.0
/// bf16: on numbers that bf16 represents, y is linear in x and in weight and every sum is exact in binary32: gradients
/// equal central differences. Quantized: y is a step function, and the recipe defines the gradient: it must have the
/// bits of the operations, and be within the bound of numerics.md of torch's matmul of the decoded operands.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "quantized_linear.hpp"

namespace torch_linear {

/// The input of a layer: x, its parameters and the gradient of its output.
struct problem {
  Tensor x, weight, bias, dy;
};
struct gradients {
  Tensor y, dx, dw, db;
};

/// Forward and backward through autograd.
inline gradients through_autograd(const problem& p, const bound_recipe& now) {
  const Tensor x = p.x.detach().requires_grad_(), w = p.weight.detach().requires_grad_(),
               b = p.bias.detach().requires_grad_();
  const Tensor y = quantized_linear(x, w, b, now);
  y.backward(p.dy);
  return {y.detach(), x.grad(), w.grad(), b.grad()};
}

// ---- Differences

/// Multiples of 1/8 up to 2: bf16 represents them and their neighbours, and sums of 2^10 of their products are exact.
inline Tensor eighths(std::int64_t rows, std::int64_t cols) { return torch::randint(-16, 17, {rows, cols}) / 8.0; }

/// The number of elements at which `gradient` is not (f(t + 1/8) - f(t - 1/8)) / (1/4) with f = sum(y dy), summed in
/// double.
inline std::int64_t wrong_places(const problem& p, const Tensor& t, const Tensor& gradient, const bound_recipe& now) {
  const torch::NoGradGuard none;
  const auto f = [&] {
    return (quantized_linear(p.x, p.weight, p.bias, now) * p.dy).sum(torch::kDouble).item<double>();
  };
  std::int64_t wrong = 0;
  Tensor places = t.view(-1);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const float before = places[i].item<float>();
    places[i] = before + 0.125f;
    const double above = f();
    places[i] = before - 0.125f;
    const double below = f();
    places[i] = before;
    if (gradient.view(-1)[i].item<double>() != (above - below) * 4) ++wrong;
  }
  return wrong;
}

struct difference_check {
  std::int64_t places = 0, wrong = 0;
};
/// Every element of x, weight and bias, under the recipe bf16.
inline difference_check check_by_differences(std::uint64_t seed) {
  torch::manual_seed(seed);
  const problem p{eighths(20, 40), eighths(24, 40), eighths(1, 24).view(-1), eighths(20, 24)};
  const auto now = ufp4::recipe::bf16_recipe(seed).at(0, 0);
  const gradients g = through_autograd(p, now);
  return {p.x.numel() + p.weight.numel() + p.bias.numel(),
          wrong_places(p, p.x, g.dx, now) + wrong_places(p, p.weight, g.dw, now) + wrong_places(p, p.bias, g.db, now)};
}

// ---- Definition

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && torch::equal(a.contiguous().view(torch::kInt), b.contiguous().view(torch::kInt));
}

/// The results of the operations on one thread, without torch. Float, two dimensions.
inline gradients through_operations(const problem& p, const bound_recipe& now) {
  const ufp4::cpu::context one{.threads = 1};
  const auto x = detail::view_as<float>(p.x), w = detail::view_as<float>(p.weight), dy = detail::view_as<float>(p.dy);
  gradients g{torch::empty_like(p.dy), torch::empty_like(p.x), torch::empty_like(p.weight), p.dy.sum(0)};
  ufp4::recipe::linear_forward(now, x, w, detail::view_as<float>(g.y), {}, one);
  ufp4::recipe::linear_backward_input(now, dy, w, detail::view_as<float>(g.dx), {}, one);
  ufp4::recipe::linear_backward_weight(now, dy, x, detail::view_as<float>(g.dw), {}, one);
  g.y += p.bias;
  return g;
}

/// Operand 0 .. 5 (docs/recipes.md), rows x contraction, quantized under the recipe and decoded, still transformed: the
/// transform cancels in the product.
inline Tensor decoded(const bound_recipe& now, int operand, const Tensor& x) {
  const auto o = now.operand(operand);
  if (!o.policy.quantized) return x.to(torch::kBFloat16).to(torch::kDouble);
  Tensor out = torch::empty(x.sizes(), torch::kFloat);
  const auto from = detail::view_as<float>(x), to = detail::view_as<float>(out);
  if (o.policy.ms_eden)
    ufp4::dequantize(ufp4::quantize_ms_eden(from, o.transform, o.rounding.random_bits), to);
  else
    ufp4::dequantize(ufp4::quantize(o.policy.format, from, o.transform, o.policy.rule, o.rounding), to);
  return out.to(torch::kDouble);
}

/// The highest ratio of |c - a b^T| to its bound (docs/numerics.md, 6): (K + 6) 2^-24 sum|a||b| for the sum, and 5 *
/// 2^-24 more for the roundings of decoding: at most two per element, four per product; the fifth covers second-order
/// terms.
inline double of_bound(const Tensor& c, const Tensor& a, const Tensor& b) {
  const double k = static_cast<double>(a.size(1));
  const Tensor bound = a.abs().matmul(b.abs().t()) * ((k + 11) * std::ldexp(1.0, -24)) + k * std::ldexp(1.0, -126);
  return ((c.to(torch::kDouble) - a.matmul(b.t())).abs() / bound).max().item<double>();
}

struct definition_check {
  bool same_bits = false;
  double y = 0, dx = 0, dw = 0;  ///< differences from torch's matmul over their bounds; must be at most 1
  bool holds() const { return same_bits && std::max({y, dx, dw}) <= 1; }
};
/// With a step and a layer other than 0, and shapes of whole blocks and transform runs, so that no padding is decoded.
inline definition_check check_by_definition(const training_recipe& recipe, std::uint64_t seed) {
  torch::manual_seed(seed);
  const problem p{torch::randn({128, 256}), torch::randn({128, 256}) / 8, torch::zeros(128), torch::randn({128, 128})};
  const auto now = recipe.at(/*step=*/100, /*layer=*/3);
  const gradients ours = through_autograd(p, now), operations = through_operations(p, now);
  definition_check c;
  c.same_bits =
      same_bits(ours.y, operations.y) && same_bits(ours.dx, operations.dx) && same_bits(ours.dw, operations.dw);
  c.y = of_bound(ours.y, decoded(now, 0, p.x), decoded(now, 1, p.weight));
  c.dx = of_bound(ours.dx, decoded(now, 2, p.dy), decoded(now, 3, p.weight.t()));
  c.dw = of_bound(ours.dw, decoded(now, 4, p.dy.t()), decoded(now, 5, p.x.t()));
  return c;
}

}  // namespace torch_linear
