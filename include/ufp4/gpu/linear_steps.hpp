// ufp4 - the three linear operations on a GPU, checked: which parts of X, W, Y and their gradients each one multiplies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <ufp4/gpu/linear_call.hpp>
#include <utility>
#include <vector>

namespace ufp4::gpu::detail::inline UFP4_GPU {

using recipe::detail::by_tokens;
using recipe::detail::by_weights;
using recipe::detail::transposed;

inline layer_call forward_call(const bound_recipe& now, const recipe::detail::shape& s, const source& x,
                               const source& w, const sink& y) {
  return {{&now, 0, by_tokens(s, x)}, {&now, 1, by_weights(s, w)}, by_tokens(s, y)};
}
inline layer_call backward_input_call(const bound_recipe& now, const recipe::detail::shape& s, const source& dy,
                                      const source& w, const sink& dx,
                                      recipe::write_mode mode = recipe::write_mode::overwrite) {
  return {{&now, 2, by_tokens(s, dy)}, {&now, 3, transposed(by_weights(s, w))}, by_tokens(s, dx), mode};
}
inline layer_call backward_weight_call(const bound_recipe& now, const recipe::detail::shape& s, const source& dy,
                                       const source& x, const sink& dw,
                                       recipe::write_mode mode = recipe::write_mode::overwrite) {
  return {{&now, 4, transposed(by_tokens(s, dy))}, {&now, 5, transposed(by_tokens(s, x))}, by_weights(s, dw), mode};
}
inline layer_call backward_weight_call(const bound_recipe& now, const recipe::detail::shape& s, const source& dy,
                                       std::vector<saved_activation::part> saved, const sink& dw,
                                       recipe::write_mode mode = recipe::write_mode::overwrite) {
  return {{&now, 4, transposed(by_tokens(s, dy))}, {&now, 5, {}, std::move(saved)}, by_weights(s, dw), mode};
}

/// A saved X^T: each part has its own memory.
inline layer_side saved_side(const bound_recipe& now, const recipe::detail::shape& s, const source& x,
                             workspace_cutter& memory) {
  layer_side side{&now, 5, transposed(by_tokens(s, x))};
  cut_side(side, side.parts.size(), true, memory);
  return side;
}
inline saved_activation::part saved_part(const layer_side& side, std::size_t e) {
  saved_activation::part kept{gemm_side_of(side, e), recipe::detail::block_of(*side.now, side.index).cols};
  if (side.quantizes()) return kept;
  const auto stride = static_cast<std::ptrdiff_t>(kept.side.cols);
  kept.side.plain = {side.places[e].codes, dtype::bf16, kept.side.rows, kept.side.cols, stride, 1};
  return kept;
}

/// Queues a saved X^T. A part that is not quantized is copied, rounded to bf16, by the Hadamard kernel without
/// transform.
inline status save(const char* operation, const layer_side& side, saved_activation& saved, stream where) {
  if (const error e = measure(side, where); e != success) return status_of(operation, e);
  saved.raw().clear();
  for (std::size_t part = 0; part < side.parts.size(); ++part) {
    const saved_activation::part& kept = saved.raw().emplace_back(saved_part(side, part));
    const source& to = kept.side.plain;
    const sink copy{const_cast<void*>(to.data), to.kind, to.rows, to.cols, to.row_stride, to.col_stride};
    const error e = side.quantizes() ? quantize_part(side, part, where)
                                     : queue_hadamard({side.parts[part], copy, {}, false, to.cols}, where);
    if (e != success) return status_of(operation, e);
  }
  return {};
}

inline status forward(const char* operation, const context& ctx, const bound_recipe& now, const source& x,
                      recipe::expert_offsets offsets, const source& w, const sink& y, saved_activation* saved) {
  return checked([&]() -> status {
    const auto s = recipe::detail::check_forward(operation, now, x, offsets, w, y, saved != nullptr);
    const layer_call call = forward_call(now, s, x, w, y);
    if (saved == nullptr) return queue_layer(operation, ctx, call);
    workspace_cutter memory(saved->memory());
    const layer_side side = saved_side(now, s, x, memory);
    check_memory(operation, "saved.memory", saved->memory(), memory.used());
    if (status done = queue_layer(operation, ctx, call); !done) return done;
    saved->made() = {now.step(), now.layer()};
    return save(operation, side, *saved, ctx.where);
  });
}
inline status backward_input(const char* operation, const context& ctx, const bound_recipe& now, const source& dy,
                             recipe::expert_offsets offsets, const source& w, const sink& dx, recipe::write_mode mode) {
  return checked([&] {
    const auto s = recipe::detail::check_backward_input(operation, now, dy, offsets, w, dx);
    return queue_layer(operation, ctx, backward_input_call(now, s, dy, w, dx, mode));
  });
}
/// What is checked of X: the matrix, or the shapes that a forward pass saved.
inline const source& shapes_of(const source& x) { return x; }
inline std::vector<recipe::detail::saved_shape> shapes_of(const saved_activation& saved) {
  std::vector<recipe::detail::saved_shape> shapes;
  for (const auto& part : saved.raw())
    shapes.push_back({part.side.rows, part.side.cols, part.block, part.side.transform, part.side.is_quantized,
                      part.side.grid, part.side.scale, saved.made()});
  return shapes;
}
template <class X>
status backward_weight(const char* operation, const context& ctx, const bound_recipe& now, const source& dy, const X& x,
                       recipe::expert_offsets offsets, const sink& dw, recipe::write_mode mode) {
  return checked([&] {
    const auto s = recipe::detail::check_backward_weight(operation, now, dy, shapes_of(x), offsets, dw);
    if constexpr (std::same_as<X, source>)
      return queue_layer(operation, ctx, backward_weight_call(now, s, dy, x, dw, mode));
    else
      return queue_layer(operation, ctx, backward_weight_call(now, s, dy, x.raw(), dw, mode));
  });
}

template <class T>
concept matrix_or_saved = ufp4::detail::plain_operand<T> || std::same_as<T, saved_activation>;

/// A saved X^T is passed on as it is, a matrix as its source.
inline const saved_activation& source_of(const saved_activation& saved) { return saved; }

// A call from arguments that are not checked; without offsets the dense one.

inline recipe::detail::shape unchecked_shape(std::size_t tokens, std::size_t inputs, std::size_t outputs,
                                             recipe::expert_offsets offsets) {
  return recipe::detail::make_shape(tokens, inputs, outputs, offsets);
}
inline layer_call forward_of(const bound_recipe& now, const source& x, const source& w, const sink& y,
                             recipe::expert_offsets offsets) {
  return forward_call(now, unchecked_shape(x.rows, x.cols, y.cols, offsets), x, w, y);
}
inline layer_call backward_input_of(const bound_recipe& now, const source& dy, const source& w, const sink& dx,
                                    recipe::expert_offsets offsets) {
  return backward_input_call(now, unchecked_shape(dy.rows, dx.cols, dy.cols, offsets), dy, w, dx);
}
inline layer_call backward_weight_of(const bound_recipe& now, const source& dy, const source& x, const sink& dw,
                                     recipe::expert_offsets offsets) {
  return backward_weight_call(now, unchecked_shape(dy.rows, x.cols, dy.cols, offsets), dy, x, dw);
}
/// From shapes alone, because before linear_forward the object is empty.
inline layer_call backward_weight_of(const bound_recipe& now, const source& dy, const saved_activation&, const sink& dw,
                                     recipe::expert_offsets offsets) {
  const auto s = unchecked_shape(dy.rows, dw.cols, dy.cols, offsets);
  workspace_cutter counter;
  const source x{nullptr, dtype::f32, s.tokens, s.inputs, static_cast<std::ptrdiff_t>(s.inputs), 1};
  const layer_side side = saved_side(now, s, x, counter);
  std::vector<saved_activation::part> parts;
  parts.reserve(side.parts.size());
  for (std::size_t e = 0; e < side.parts.size(); ++e) parts.push_back(saved_part(side, e));
  return backward_weight_call(now, s, dy, std::move(parts), dw);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
