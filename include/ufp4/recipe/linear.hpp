// ufp4 - linear_forward, linear_backward_input, linear_backward_weight under a recipe, dense and grouped by expert.
// SPDX-License-Identifier: Apache-2.0
//
// | bits       | each equals the quantization of its two operands under the recipe's policies and one quantized_gemm  |
// | matrices   | float, bf16 or fp16 views with any strides; the output must not overlap an input, or itself          |
// | W          | a matrix, or a quantized_weight (recipe/quantize_weight.hpp) of this step and layer: the same bits   |
// | errors     | std::invalid_argument names the argument and the values, before anything is written                  |
// | part       | a call may hold a part of a batch: token_shard of recipe/recipe.hpp                                  |
//
// *_grouped are for a mixture of experts: tokens sorted by expert (recipe::expert_offsets), W and dW stacked, E*N x K.
// Each expert's tokens are an operand of their own, whose rows start at 0. One tensor amax serves all experts of a
// call. An expert without tokens writes zeros to its part of dW, or adds nothing (numerics 7).
#pragma once

#include <ufp4/recipe/quantize_weight.hpp>

namespace ufp4::recipe::detail::inline UFP4_CODE {

/// A matrix_view or a quantized_weight.
template <class W>
concept linear_weight = requires(const W& w) { weight_input(w); };

/// Operand 1 (W) or 3 (W^T): made by quantize_weight, or quantized here into `own`.
template <class = void>  // so that an include instantiates no kernel (cpu/kernels.hpp)
const std::vector<stored_operand>& weight_parts(const cpu::context& ctx, const bound_recipe& now, int i, const shape& s,
                                                const weight_input& w, std::vector<stored_operand>& own) {
  if (w.made != nullptr) return w.made->raw(i).parts;
  const buffer<source> parts = by_weights(s, w.matrix);
  own = quantize_parts(ctx, now, i, i == 1 ? parts : transposed(parts));
  return own;
}

template <features needs = features::all>
void multiply_parts(const cpu::context& ctx, const bound_recipe& now, int left_index,
                    const std::vector<stored_operand>& left, const std::vector<stored_operand>& right,
                    const buffer<sink>& out, write_mode mode, const float* bias = nullptr) {
  const buffer<gemm_job> jobs(out.size());
  std::size_t count = 0;
  for (std::size_t e = 0; e < out.size(); ++e) {
    if (out[e].rows == 0 || out[e].cols == 0) continue;
    if (left[e].operand.cols() == 0 && mode == write_mode::add) continue;  // an expert without tokens
    ::new (jobs.data() + count++) gemm_job{.left = left[e].operand,
                                           .right = right[e].operand,
                                           .out = out[e],
                                           .block = static_cast<std::size_t>(block_of(now, left_index).cols),
                                           .beta = mode == write_mode::add ? 1.0f : 0.0f,
                                           .mode = now.recipe().accumulate,
                                           .bias = bias == nullptr ? nullptr : bias + e * out[e].cols};
  }
  cpu::detail::run_gemms(ctx, cpu::detail::kernels::gemm<needs>, {jobs.data(), count});
}

template <class = void>
void forward(const char* operation, const cpu::context& ctx, const bound_recipe& now, const source& x,
             expert_offsets offsets, const weight_input& w, const sink& y, const forward_options& options) {
  const shape s = check_forward(operation, now, x, offsets, w, y, options.saved != nullptr, placing::parts);
  check_bias(operation, s, y, options.bias);
  cpu::resolve(ctx);
  const buffer<source> tokens = by_tokens(s, x);
  const auto left = quantize_parts(ctx, now, 0, tokens);
  std::vector<stored_operand> own;
  const auto& right = weight_parts(ctx, now, 1, s, w, own);
  if (options.saved != nullptr) {
    options.saved->raw() = keep_parts(ctx, now, 5, transposed(tokens));
    options.saved->made() = {now.step(), now.layer()};
  }
  multiply_parts(ctx, now, 0, left, right, by_tokens(s, y), write_mode::overwrite,
                 options.bias.empty() ? nullptr : options.bias.data());
}

template <class = void>
void backward_input(const char* operation, const cpu::context& ctx, const bound_recipe& now, const source& dy,
                    expert_offsets offsets, const weight_input& w, const sink& dx, write_mode mode) {
  const shape s = check_backward_input(operation, now, dy, offsets, w, dx, placing::parts);
  cpu::resolve(ctx);
  const auto left = quantize_parts(ctx, now, 2, by_tokens(s, dy));
  std::vector<stored_operand> own;
  const auto& right = weight_parts(ctx, now, 3, s, w, own);
  multiply_parts(ctx, now, 2, left, right, by_tokens(s, dx), mode);
}

/// X: a source, or what linear_forward saved of it.
template <class X>
void backward_weight(const char* operation, const cpu::context& ctx, const bound_recipe& now, const source& dy,
                     const X& x, expert_offsets offsets, const sink& dw, write_mode mode) {
  const shape s = check_backward_weight(operation, now, dy, shapes_of(x), offsets, dw, placing::parts);
  cpu::resolve(ctx);
  const auto left = quantize_parts(ctx, now, 4, transposed(by_tokens(s, dy)));
  if constexpr (std::is_same_v<X, saved_activation>)
    multiply_parts(ctx, now, 4, left, x.raw(), by_weights(s, dw), mode);
  else
    multiply_parts(ctx, now, 4, left, quantize_parts(ctx, now, 5, transposed(by_tokens(s, x))), by_weights(s, dw),
                   mode);
}

template <matrix_scalar T>
source activation_of(const matrix_view<T>& x) {
  return source_of(x);
}
inline const saved_activation& activation_of(const saved_activation& x) { return x; }

/// A matrix_view or a saved_activation.
template <class X>
concept linear_activation = requires(const X& x) { activation_of(x); };

}  // namespace ufp4::recipe::detail::inline UFP4_CODE

namespace ufp4::recipe::inline UFP4_CODE {

/// Y[T,N] = X[T,K] W[N,K]^T + bias under the recipe's fprop. With `saved`, also quantizes X^T for wgrad: the bits that
/// linear_backward_weight would compute from x at this step and layer.
template <detail::matrix_scalar X, detail::linear_weight W, detail::matrix_scalar Y>
void linear_forward(const bound_recipe& now, const matrix_view<X>& x, const W& w, const matrix_view<Y>& y,
                    const forward_options& options = {}, const cpu::context& ctx = {}) {
  const std::size_t offsets[] = {0, x.rows()};
  detail::forward("linear_forward", ctx, now, ufp4::detail::source_of(x), offsets, w, ufp4::detail::sink_of(y),
                  options);
}

/// dX[T,K] = dY[T,N] W[N,K] under the recipe's dgrad; overwrites dX or adds to it.
template <detail::matrix_scalar D, detail::linear_weight W, detail::matrix_scalar X>
void linear_backward_input(const bound_recipe& now, const matrix_view<D>& dy, const W& w, const matrix_view<X>& dx,
                           write_mode mode = write_mode::overwrite, const cpu::context& ctx = {}) {
  const std::size_t offsets[] = {0, dy.rows()};
  detail::backward_input("linear_backward_input", ctx, now, ufp4::detail::source_of(dy), offsets, w,
                         ufp4::detail::sink_of(dx), mode);
}

/// dW[N,K] = dY[T,N]^T X[T,K] under the recipe's wgrad, from x or what linear_forward saved; overwrites dW or adds.
template <detail::matrix_scalar D, detail::linear_activation X, detail::matrix_scalar W>
void linear_backward_weight(const bound_recipe& now, const matrix_view<D>& dy, const X& x_or_saved,
                            const matrix_view<W>& dw, write_mode mode = write_mode::overwrite,
                            const cpu::context& ctx = {}) {
  const std::size_t offsets[] = {0, dy.rows()};
  detail::backward_weight("linear_backward_weight", ctx, now, ufp4::detail::source_of(dy),
                          detail::activation_of(x_or_saved), offsets, ufp4::detail::sink_of(dw), mode);
}

/// linear_forward of each expert's tokens with its rows of W; bias has E * N entries, stacked as W.
template <detail::matrix_scalar X, detail::linear_weight W, detail::matrix_scalar Y>
void linear_forward_grouped(const bound_recipe& now, const matrix_view<X>& x, expert_offsets offsets, const W& w,
                            const matrix_view<Y>& y, const forward_options& options = {},
                            const cpu::context& ctx = {}) {
  detail::forward("linear_forward_grouped", ctx, now, ufp4::detail::source_of(x), offsets, w, ufp4::detail::sink_of(y),
                  options);
}

/// linear_backward_input of each expert's tokens with its rows of W.
template <detail::matrix_scalar D, detail::linear_weight W, detail::matrix_scalar X>
void linear_backward_input_grouped(const bound_recipe& now, const matrix_view<D>& dy, expert_offsets offsets,
                                   const W& w, const matrix_view<X>& dx, write_mode mode = write_mode::overwrite,
                                   const cpu::context& ctx = {}) {
  detail::backward_input("linear_backward_input_grouped", ctx, now, ufp4::detail::source_of(dy), offsets, w,
                         ufp4::detail::sink_of(dx), mode);
}

/// linear_backward_weight of each expert's tokens into its rows of dW.
template <detail::matrix_scalar D, detail::linear_activation X, detail::matrix_scalar W>
void linear_backward_weight_grouped(const bound_recipe& now, const matrix_view<D>& dy, const X& x_or_saved,
                                    expert_offsets offsets, const matrix_view<W>& dw,
                                    write_mode mode = write_mode::overwrite, const cpu::context& ctx = {}) {
  detail::backward_weight("linear_backward_weight_grouped", ctx, now, ufp4::detail::source_of(dy),
                          detail::activation_of(x_or_saved), offsets, ufp4::detail::sink_of(dw), mode);
}

}  // namespace ufp4::recipe::inline UFP4_CODE
