// ufp4 - linear_forward, linear_backward_input, linear_backward_weight under a recipe on a GPU, dense and grouped.
// SPDX-License-Identifier: Apache-2.0
//
// The same as the host's (recipe/linear.hpp) for shapes, policies and messages, and with accumulate::exact_blocks for
// the bits. Matrices are in device memory, offsets in host memory.
//
// A call first queues the amax over the parts of all experts, if a format has two levels of scales. Then, for one
// expert after the other, it queues the quantization of both operands into the workspace and their GEMM. If a kernel
// multiplies many products in one launch, the operands of 32 experts come first, then their GEMMs together.
//
// With `saved`, X^T for wgrad is in memory of the caller: linear_saved_bytes of it, valid until wgrad has run.
#pragma once

#include <ufp4/gpu/linear_call.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// Y[T,N] = X[T,K] W[N,K]^T under the recipe's fprop. With `saved`, also quantizes X^T for wgrad into saved->memory().
template <detail::matrix_scalar X, detail::matrix_scalar W, detail::matrix_scalar Y>
status linear_forward(const context& ctx, const recipe::bound_recipe& now, const matrix_view<X>& x,
                      const matrix_view<W>& w, const matrix_view<Y>& y, saved_activation* saved = nullptr) {
  const std::size_t offsets[] = {0, x.rows()};
  return detail::forward("linear_forward", ctx, now, x, offsets, w, y, saved);
}

/// dX[T,K] = dY[T,N] W[N,K] under the recipe's dgrad, written over dX or added to it.
template <detail::matrix_scalar D, detail::matrix_scalar W, detail::matrix_scalar X>
status linear_backward_input(const context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                             const matrix_view<W>& w, const matrix_view<X>& dx,
                             recipe::write_mode mode = recipe::write_mode::overwrite) {
  const std::size_t offsets[] = {0, dy.rows()};
  return detail::backward_input("linear_backward_input", ctx, now, dy, offsets, w, dx, mode);
}

/// dW[N,K] = dY[T,N]^T X[T,K] under the recipe's wgrad, written over dW or added to it (a float main gradient).
/// x_or_saved: X, or what linear_forward saved of it.
template <detail::matrix_scalar D, detail::matrix_or_saved Saved, detail::matrix_scalar W>
status linear_backward_weight(const context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                              const Saved& x_or_saved, const matrix_view<W>& dw,
                              recipe::write_mode mode = recipe::write_mode::overwrite) {
  const std::size_t offsets[] = {0, dy.rows()};
  return detail::backward_weight("linear_backward_weight", ctx, now, dy, detail::source_of(x_or_saved), offsets, dw,
                                 mode);
}

/// linear_forward with the tokens of expert e in rows offsets[e] .. offsets[e + 1] - 1.
template <detail::matrix_scalar X, detail::matrix_scalar W, detail::matrix_scalar Y>
status linear_forward_grouped(const context& ctx, const recipe::bound_recipe& now, const matrix_view<X>& x,
                              recipe::expert_offsets offsets, const matrix_view<W>& w, const matrix_view<Y>& y,
                              saved_activation* saved = nullptr) {
  return detail::forward("linear_forward_grouped", ctx, now, x, offsets, w, y, saved);
}
/// linear_backward_input by expert.
template <detail::matrix_scalar D, detail::matrix_scalar W, detail::matrix_scalar X>
status linear_backward_input_grouped(const context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                     recipe::expert_offsets offsets, const matrix_view<W>& w, const matrix_view<X>& dx,
                                     recipe::write_mode mode = recipe::write_mode::overwrite) {
  return detail::backward_input("linear_backward_input_grouped", ctx, now, dy, offsets, w, dx, mode);
}
/// linear_backward_weight by expert.
template <detail::matrix_scalar D, detail::matrix_or_saved Saved, detail::matrix_scalar W>
status linear_backward_weight_grouped(const context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                      const Saved& x_or_saved, recipe::expert_offsets offsets, const matrix_view<W>& dw,
                                      recipe::write_mode mode = recipe::write_mode::overwrite) {
  return detail::backward_weight("linear_backward_weight_grouped", ctx, now, dy, detail::source_of(x_or_saved), offsets,
                                 dw, mode);
}

// For the operation with these arguments on this device, grouped with `offsets`. Checks, reads and queues nothing.
//
// | *_workspace_bytes | bytes that context.workspace must have                                              |
// | explain_*         | the kernels that it would run; no products if the facts of the device are not known |
// | can_run_*         | is there a kernel for every product?                                                |

/// Workspace of linear_forward.
template <detail::matrix_scalar X, detail::matrix_scalar W, detail::matrix_scalar Y>
std::size_t linear_forward_workspace_bytes(const recipe::bound_recipe& now, const matrix_view<X>& x,
                                           const matrix_view<W>& w, const matrix_view<Y>& y,
                                           recipe::expert_offsets offsets = {}) {
  return detail::most_layer_bytes(detail::forward_of(now, x, w, y, offsets));
}
/// The kernels of linear_forward.
template <detail::matrix_scalar X, detail::matrix_scalar W, detail::matrix_scalar Y>
linear_explanation explain_linear_forward(const context&, const recipe::bound_recipe& now, const matrix_view<X>& x,
                                          const matrix_view<W>& w, const matrix_view<Y>& y,
                                          recipe::expert_offsets offsets = {}) {
  return detail::explain_layer(offsets.empty() ? "linear_forward" : "linear_forward_grouped",
                               detail::forward_of(now, x, w, y, offsets));
}
/// Can linear_forward run?
bool can_run_linear_forward(const context& ctx, const auto&... arguments)
  requires requires { explain_linear_forward(ctx, arguments...); }
{
  return detail::runs(explain_linear_forward(ctx, arguments...));
}

/// Workspace of linear_backward_input.
template <detail::matrix_scalar D, detail::matrix_scalar W, detail::matrix_scalar X>
std::size_t linear_backward_input_workspace_bytes(const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                                  const matrix_view<W>& w, const matrix_view<X>& dx,
                                                  recipe::expert_offsets offsets = {}) {
  return detail::most_layer_bytes(detail::backward_input_of(now, dy, w, dx, offsets));
}
/// The kernels of linear_backward_input.
template <detail::matrix_scalar D, detail::matrix_scalar W, detail::matrix_scalar X>
linear_explanation explain_linear_backward_input(const context&, const recipe::bound_recipe& now,
                                                 const matrix_view<D>& dy, const matrix_view<W>& w,
                                                 const matrix_view<X>& dx, recipe::expert_offsets offsets = {}) {
  return detail::explain_layer(offsets.empty() ? "linear_backward_input" : "linear_backward_input_grouped",
                               detail::backward_input_of(now, dy, w, dx, offsets));
}
/// Can linear_backward_input run?
bool can_run_linear_backward_input(const context& ctx, const auto&... arguments)
  requires requires { explain_linear_backward_input(ctx, arguments...); }
{
  return detail::runs(explain_linear_backward_input(ctx, arguments...));
}

/// Workspace of linear_backward_weight.
template <detail::matrix_scalar D, detail::matrix_or_saved Saved, detail::matrix_scalar W>
std::size_t linear_backward_weight_workspace_bytes(const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                                   const Saved& x_or_saved, const matrix_view<W>& dw,
                                                   recipe::expert_offsets offsets = {}) {
  return detail::most_layer_bytes(detail::backward_weight_of(now, dy, detail::source_of(x_or_saved), dw, offsets));
}
/// The kernels of linear_backward_weight.
template <detail::matrix_scalar D, detail::matrix_or_saved Saved, detail::matrix_scalar W>
linear_explanation explain_linear_backward_weight(const context&, const recipe::bound_recipe& now,
                                                  const matrix_view<D>& dy, const Saved& x_or_saved,
                                                  const matrix_view<W>& dw, recipe::expert_offsets offsets = {}) {
  return detail::explain_layer(offsets.empty() ? "linear_backward_weight" : "linear_backward_weight_grouped",
                               detail::backward_weight_of(now, dy, detail::source_of(x_or_saved), dw, offsets));
}
/// Can linear_backward_weight run?
bool can_run_linear_backward_weight(const context& ctx, const auto&... arguments)
  requires requires { explain_linear_backward_weight(ctx, arguments...); }
{
  return detail::runs(explain_linear_backward_weight(ctx, arguments...));
}

/// Bytes of memory that a saved_activation of x needs.
template <detail::matrix_scalar X>
std::size_t linear_saved_bytes(const recipe::bound_recipe& now, const matrix_view<X>& x,
                               recipe::expert_offsets offsets = {}) {
  detail::workspace_cutter memory;
  (void)detail::saved_side(now, detail::make_shape(x.rows(), x.cols(), 0, offsets), detail::source_of(x), memory);
  return memory.used();
}

}  // namespace ufp4::gpu::inline UFP4_GPU
