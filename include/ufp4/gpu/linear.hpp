// ufp4 - linear_forward, linear_backward_input, linear_backward_weight under a recipe on a GPU, dense and grouped by expert.
// SPDX-License-Identifier: Apache-2.0
//
// As the host's (recipe/linear.hpp): shapes, policies, sentences, and with accumulate::exact_blocks the bits. Matrices lie in device
// memory, offsets in the host's. A call queues, an expert after the other: both operands quantized into the workspace, then
// their GEMM; of a two-level format, ahead of them, the largest magnitude of all experts' parts.
//
// | workspace | linear_*_workspace_bytes of the same arguments: one expert's operands, since each expert's are used up      |
// |           | before the next one's are made                                                                         |
// | saved     | X^T for wgrad in memory of the caller's: linear_saved_bytes of it, alive until wgrad has run            |
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/gpu/kernels/hadamard.hpp>
#include <ufp4/gpu/kernels/quantize_launch.hpp>
#include <ufp4/recipe/linear_plan.hpp>
#include <ufp4/recipe/presets.hpp>
#include <vector>

namespace ufp4::gpu::inline UFP4_GPU {

/// The quantized X^T of a forward pass (one part an expert), for wgrad at the same step and layer, in device memory of the
/// caller's, on 256 bytes. What lies where is noted in this object when linear_forward is called, so a captured graph may be replayed.
class saved_activation {
 public:
  struct part {
    gemm_side side;
    int block = 16;  ///< length along the contraction axis
  };

  saved_activation() = default;
  explicit saved_activation(std::span<std::byte> memory) : memory_(memory) {}

  std::span<std::byte> memory() const { return memory_; }
  std::size_t parts() const { return parts_.size(); }
  std::vector<part>& raw() { return parts_; }
  const std::vector<part>& raw() const { return parts_; }

 private:
  std::span<std::byte> memory_;
  std::vector<part> parts_;
};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

using recipe::bound_recipe;
using ufp4::detail::sink;
using ufp4::detail::source;

/// One operand of a layer's GEMM in all its parts, and where its codes go.
struct layer_side {
  struct place {
    std::uint8_t* codes = nullptr;  ///< of an operand that is not quantized and must be kept: its bf16 copy
    std::byte* scales = nullptr;
  };

  const bound_recipe* now = nullptr;
  int index = 0;  ///< 0 .. 5, as recipe.hpp counts them
  std::vector<source> parts;
  std::vector<place> places;  ///< one a part; all the same where a part is used up before the next is made
  float* tensor_scale = nullptr;
  std::uint32_t* gmax_bits = nullptr;
  std::vector<saved_activation::part>
      ready{};  ///< made by an earlier call; nothing above but `now` and `index` counts then

  const recipe::operand_policy& policy() const { return now->recipe().operand(index); }
  bool two_level() const { return policy().quantized && policy().format.two_level; }
  ufp4::detail::quantize_job job(std::size_t e) const {
    return recipe::detail::job_of(*now, index, parts[e], static_cast<std::uint32_t>(e));
  }
};

inline std::size_t code_bytes(const ufp4::detail::quantize_job& job) { return job.x.rows * job.padded_cols / 2; }
inline std::size_t scale_bytes(const ufp4::detail::quantize_job& job) {
  return job.strips() * (job.padded_cols / static_cast<std::size_t>(job.format.block.cols)) *
         static_cast<std::size_t>(ufp4::detail::scale_bytes(job.format.scale));
}

/// Memory for a side's parts, one after the other at the same place.
inline layer_side working_side(const bound_recipe& now, int index, std::vector<source> parts,
                               workspace_cutter& memory) {
  layer_side side{.now = &now, .index = index, .parts = std::move(parts), .places = {}};
  side.places.resize(side.parts.size());
  if (!side.policy().quantized) return side;
  std::size_t codes = 0, scales = 0;
  for (std::size_t e = 0; e < side.parts.size(); ++e) {
    const auto job = side.job(e);
    codes = code_bytes(job) > codes ? code_bytes(job) : codes;
    scales = scale_bytes(job) > scales ? scale_bytes(job) : scales;
  }
  const layer_side::place shared{memory.take<std::uint8_t>(codes), memory.take<std::byte>(scales)};
  for (layer_side::place& p : side.places) p = shared;
  if (!side.two_level()) return side;
  side.tensor_scale = memory.take<float>(1);
  side.gmax_bits = memory.take<std::uint32_t>(1);
  return side;
}

/// Memory for all of a side's parts at once.
inline layer_side kept_side(const bound_recipe& now, int index, std::vector<source> parts, workspace_cutter& memory) {
  layer_side side{.now = &now, .index = index, .parts = std::move(parts), .places = {}};
  for (std::size_t e = 0; e < side.parts.size(); ++e) {
    const auto job = side.job(e);
    const bool quantized = side.policy().quantized;
    const std::size_t bytes = quantized ? code_bytes(job) : job.x.rows * job.x.cols * sizeof(bf16);
    auto* codes = memory.take<std::uint8_t>(bytes);
    side.places.push_back({codes, quantized ? memory.take<std::byte>(scale_bytes(job)) : nullptr});
  }
  if (!side.two_level()) return side;
  side.tensor_scale = memory.take<float>(1);
  side.gmax_bits = memory.take<std::uint32_t>(1);
  return side;
}

/// Part e as a GEMM reads it.
inline gemm_side gemm_side_of(const layer_side& side, std::size_t e) {
  if (!side.ready.empty()) return side.ready[e].side;
  const ufp4::detail::quantize_job job = side.job(e);
  gemm_side out;
  if (side.policy().quantized) {
    out = side_of_format(job.format, job.x.rows, job.x.cols, job.transform);
    out.codes = side.places[e].codes;
    out.scales = side.places[e].scales;
    out.tensor_scale = side.tensor_scale;
    return out;
  }
  out.is_quantized = false;
  out.plain = job.x;
  out.rounds_plain_to_bf16 = true;
  out.transform = job.transform;
  out.rows = job.x.rows;
  out.cols = job.x.cols;
  out.padded_cols = job.padded_cols;
  return out;
}

/// Queues what comes before any part: the largest magnitude over all of them.
inline error measure(const layer_side& side, stream where) {
  if (!side.ready.empty() || !side.two_level()) return success;
  if (const error e = set_zero(side.gmax_bits, sizeof(std::uint32_t), where); e != success) return e;
  for (std::size_t part = 0; part < side.parts.size(); ++part) {
    if (side.parts[part].rows == 0 || side.parts[part].cols == 0) continue;
    if (const error e = queue_amax(side.job(part), side.gmax_bits, where); e != success) return e;
  }
  return success;
}

/// Queues the quantization of part e.
inline error quantize_part(const layer_side& side, std::size_t e, stream where) {
  if (!side.ready.empty() || !side.policy().quantized) return success;
  const recipe::bound_operand bound = side.now->operand(side.index, static_cast<std::uint32_t>(e));
  quantize_task task;
  task.job = side.job(e);
  task.job.counts = false;
  task.rule = bound.policy.rule;
  task.rounding = bound.rounding;
  task.codes = side.places[e].codes;
  task.scales = side.places[e].scales;
  task.tensor_scale = side.tensor_scale;
  task.gmax_bits = side.gmax_bits;
  return queue_quantize(task, where);
}

/// A call of a linear verb as its GEMMs, one an expert.
struct layer_call {
  layer_side left, right;
  std::vector<sink> out;
  recipe::write mode = recipe::write::overwrite;
  std::size_t operand_bytes = 0;  ///< of workspace; a GEMM's own comes behind

  bool skips(std::size_t e) const {
    return out[e].rows == 0 || out[e].cols == 0 ||
           (mode == recipe::write::add && gemm_side_of(left, e).cols == 0);  // an expert without tokens
  }
  gemm_job job(std::size_t e) const {
    gemm_job j;
    j.left = gemm_side_of(left, e);
    j.right = gemm_side_of(right, e);
    j.out = out[e];
    j.block = static_cast<unsigned>(recipe::detail::block_of(*left.now, left.index).cols);
    j.beta = mode == recipe::write::add ? 1.0f : 0.0f;
    j.mode = left.now->recipe().accumulate;
    return j;
  }
  std::size_t workspace_bytes(const device_facts& device) const {
    std::size_t most = 0;
    for (std::size_t e = 0; e < out.size(); ++e) {
      const std::size_t here = skips(e) ? 0 : kernel_bytes(job(e), device);
      most = here > most ? here : most;
    }
    return operand_bytes + most;
  }
};

inline layer_call layer_call_of(const bound_recipe& now, int left, std::vector<source> left_parts,
                                std::vector<source> right_parts, std::vector<sink> out, recipe::write mode,
                                std::span<std::byte> workspace) {
  workspace_cutter memory(workspace);
  layer_call call{working_side(now, left, std::move(left_parts), memory),
                  working_side(now, left + 1, std::move(right_parts), memory), std::move(out), mode};
  call.operand_bytes = (memory.used() + 255) / 256 * 256;
  return call;
}

inline status run_layer(const char* verb, const context& ctx, const layer_call& call, const device_facts& device) {
  for (const layer_side* side : {&call.left, &call.right})
    if (const error e = measure(*side, ctx.where); e != success) return status_of(verb, e);
  for (std::size_t part = 0; part < call.out.size(); ++part) {
    if (call.skips(part)) continue;
    for (const layer_side* side : {&call.left, &call.right})
      if (const error e = quantize_part(*side, part, ctx.where); e != success) return status_of(verb, e);
    const std::span<std::byte> rest =
        ctx.workspace.size() > call.operand_bytes ? ctx.workspace.subspan(call.operand_bytes) : std::span<std::byte>{};
    if (status s = run_gemm(verb, call.job(part), device, rest, ctx.where); !s) return s;
  }
  return {};
}

/// Checks the workspace and runs.
inline status queue_layer(const char* verb, const context& ctx, const layer_call& call) {
  device_facts device;
  if (const error e = facts(device); e != success) return status_of(verb, e);
  check_workspace(verb, ctx, call.workspace_bytes(device));
  return run_layer(verb, ctx, call, device);
}

/// The same whether the output is written over or added to.
inline std::size_t layer_bytes(layer_call call) {
  device_facts device;
  if (facts(device) != success) return 0;
  std::size_t most = 0;
  for (const recipe::write mode : {recipe::write::overwrite, recipe::write::add}) {
    call.mode = mode;
    const std::size_t here = call.workspace_bytes(device);
    most = here > most ? here : most;
  }
  return most;
}

using recipe::detail::by_tokens;
using recipe::detail::by_weights;
using recipe::detail::transposed;

inline recipe::detail::shape shape_of_call(std::size_t tokens, std::size_t inputs, std::size_t outputs,
                                           recipe::expert_offsets offsets) {
  if (offsets.empty()) return {tokens, inputs, outputs, {0, tokens}};
  return {tokens, inputs, outputs, {offsets.begin(), offsets.end()}};
}

inline layer_call forward_call(const bound_recipe& now, const recipe::detail::shape& s, const source& x,
                               const source& w, const sink& y, std::span<std::byte> workspace) {
  return layer_call_of(now, 0, by_tokens(s, x), by_weights(s, w), by_tokens(s, y), recipe::write::overwrite, workspace);
}
inline layer_call backward_input_call(const bound_recipe& now, const recipe::detail::shape& s, const source& dy,
                                      const source& w, const sink& dx, recipe::write mode,
                                      std::span<std::byte> workspace) {
  return layer_call_of(now, 2, by_tokens(s, dy), transposed(by_weights(s, w)), by_tokens(s, dx), mode, workspace);
}
inline layer_call backward_weight_call(const bound_recipe& now, const recipe::detail::shape& s, const source& dy,
                                       const source& x, const sink& dw, recipe::write mode,
                                       std::span<std::byte> workspace) {
  return layer_call_of(now, 4, transposed(by_tokens(s, dy)), transposed(by_tokens(s, x)), by_weights(s, dw), mode,
                       workspace);
}
inline layer_call backward_weight_call(const bound_recipe& now, const recipe::detail::shape& s, const source& dy,
                                       const saved_activation& saved, const sink& dw, recipe::write mode,
                                       std::span<std::byte> workspace) {
  workspace_cutter memory(workspace);
  layer_call call{working_side(now, 4, transposed(by_tokens(s, dy)), memory), {}, by_weights(s, dw), mode};
  call.right.now = &now;
  call.right.index = 5;
  call.right.ready = saved.raw();
  call.operand_bytes = (memory.used() + 255) / 256 * 256;
  return call;
}

/// X, rounded to the output's type, by the transform that is none.
inline error queue_copy(const source& x, const sink& out, stream where) {
  const kernels::hadamard_job job{x, out, {}, false, x.cols};
  const std::size_t blocks = (x.rows * job.across() + kernels::hadamard_threads - 1) / kernels::hadamard_threads;
  if (blocks == 0) return success;
  return launch(&kernels::hadamard_rows, {static_cast<unsigned>(blocks)}, {kernels::hadamard_threads}, 0, where, job);
}

inline layer_side saved_side(const bound_recipe& now, const recipe::detail::shape& s, const source& x,
                             workspace_cutter& memory) {
  return kept_side(now, 5, transposed(by_tokens(s, x)), memory);
}

/// Queues the making of a saved X^T; a part that is not quantized is copied, rounded to bf16.
inline status save(const char* verb, const layer_side& side, saved_activation& saved, stream where) {
  if (const error e = measure(side, where); e != success) return status_of(verb, e);
  saved.raw().clear();
  for (std::size_t part = 0; part < side.parts.size(); ++part) {
    saved_activation::part kept{gemm_side_of(side, part), recipe::detail::block_of(*side.now, side.index).cols};
    if (side.policy().quantized) {
      if (const error e = quantize_part(side, part, where); e != success) return status_of(verb, e);
    } else {
      const source& x = side.parts[part];
      const sink copy{side.places[part].codes, dtype::bf16, x.rows, x.cols, static_cast<std::ptrdiff_t>(x.cols), 1};
      if (const error e = queue_copy(x, copy, where); e != success) return status_of(verb, e);
      kept.side.plain = {copy.data, copy.kind, copy.rows, copy.cols, copy.row_stride, copy.col_stride};
    }
    saved.raw().push_back(kept);
  }
  return {};
}

inline status forward(const char* verb, const context& ctx, const bound_recipe& now, const source& x,
                      recipe::expert_offsets offsets, const source& w, const sink& y, saved_activation* saved) {
  const auto s = recipe::detail::check_forward(verb, now, x, offsets, w, y, saved != nullptr);
  const layer_call call = forward_call(now, s, x, w, y, ctx.workspace);
  if (saved == nullptr) return queue_layer(verb, ctx, call);
  workspace_cutter memory(saved->memory());
  const layer_side side = saved_side(now, s, x, memory);
  const auto first = reinterpret_cast<std::uintptr_t>(saved->memory().data());
  ufp4::detail::expects(first % 256 == 0, verb, ": saved.memory begins at address ", first, ", not a multiple of 256");
  ufp4::detail::expects(saved->memory().size() >= memory.used(), verb, ": saved.memory has ", saved->memory().size(),
                        " bytes, but the call needs ", memory.used());
  if (status done = queue_layer(verb, ctx, call); !done) return done;
  return save(verb, side, *saved, ctx.where);
}

inline status backward_input(const char* verb, const context& ctx, const bound_recipe& now, const source& dy,
                             recipe::expert_offsets offsets, const source& w, const sink& dx, recipe::write mode) {
  const auto s = recipe::detail::check_backward_input(verb, now, dy, offsets, w, dx);
  return queue_layer(verb, ctx, backward_input_call(now, s, dy, w, dx, mode, ctx.workspace));
}

inline status backward_weight(const char* verb, const context& ctx, const bound_recipe& now, const source& dy,
                              const source& x, recipe::expert_offsets offsets, const sink& dw, recipe::write mode) {
  const auto s = recipe::detail::check_backward_weight(verb, now, dy, x, offsets, dw);
  return queue_layer(verb, ctx, backward_weight_call(now, s, dy, x, dw, mode, ctx.workspace));
}

inline status backward_weight(const char* verb, const context& ctx, const bound_recipe& now, const source& dy,
                              const saved_activation& saved, recipe::expert_offsets offsets, const sink& dw,
                              recipe::write mode) {
  std::vector<recipe::detail::saved_shape> shapes;
  for (const auto& part : saved.raw())
    shapes.push_back({part.side.rows, part.side.cols, part.block, part.side.transform});
  const auto s = recipe::detail::check_backward_weight(verb, now, dy, shapes, offsets, dw);
  return queue_layer(verb, ctx, backward_weight_call(now, s, dy, saved, dw, mode, ctx.workspace));
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// Y[T,N] = X[T,K] W[N,K]^T under the recipe's fprop. With `saved`, also quantizes X^T for wgrad into saved->memory().
template <matrix_scalar X, matrix_scalar W, matrix_scalar Y>
status linear_forward(const context& ctx, const recipe::bound_recipe& now, const matrix_view<X>& x,
                      const matrix_view<W>& w, const matrix_view<Y>& y, saved_activation* saved = nullptr) {
  const std::size_t offsets[] = {0, x.rows()};
  return detail::checked([&] {
    return detail::forward("linear_forward", ctx, now, ufp4::detail::source_of(x), offsets, ufp4::detail::source_of(w),
                           ufp4::detail::sink_of(y), saved);
  });
}

/// dX[T,K] = dY[T,N] W[N,K] under the recipe's dgrad, written over dX or added to it.
template <matrix_scalar D, matrix_scalar W, matrix_scalar X>
status linear_backward_input(const context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                             const matrix_view<W>& w, const matrix_view<X>& dx,
                             recipe::write mode = recipe::write::overwrite) {
  const std::size_t offsets[] = {0, dy.rows()};
  return detail::checked([&] {
    return detail::backward_input("linear_backward_input", ctx, now, ufp4::detail::source_of(dy), offsets,
                                  ufp4::detail::source_of(w), ufp4::detail::sink_of(dx), mode);
  });
}

/// dW[N,K] = dY[T,N]^T X[T,K] under the recipe's wgrad, written over dW or added to it (a float main gradient).
template <matrix_scalar D, matrix_scalar X, matrix_scalar W>
status linear_backward_weight(const context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                              const matrix_view<X>& x, const matrix_view<W>& dw,
                              recipe::write mode = recipe::write::overwrite) {
  const std::size_t offsets[] = {0, dy.rows()};
  return detail::checked([&] {
    return detail::backward_weight("linear_backward_weight", ctx, now, ufp4::detail::source_of(dy),
                                   ufp4::detail::source_of(x), offsets, ufp4::detail::sink_of(dw), mode);
  });
}
/// The same from what linear_forward saved.
template <matrix_scalar D, matrix_scalar W>
status linear_backward_weight(const context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                              const saved_activation& saved, const matrix_view<W>& dw,
                              recipe::write mode = recipe::write::overwrite) {
  const std::size_t offsets[] = {0, dy.rows()};
  return detail::checked([&] {
    return detail::backward_weight("linear_backward_weight", ctx, now, ufp4::detail::source_of(dy), saved, offsets,
                                   ufp4::detail::sink_of(dw), mode);
  });
}

// Mixture of experts: as on the host. offsets lies in the host's memory and is read by the call.

template <matrix_scalar X, matrix_scalar W, matrix_scalar Y>
status linear_forward_grouped(const context& ctx, const recipe::bound_recipe& now, const matrix_view<X>& x,
                              recipe::expert_offsets offsets, const matrix_view<W>& w, const matrix_view<Y>& y,
                              saved_activation* saved = nullptr) {
  return detail::checked([&] {
    return detail::forward("linear_forward_grouped", ctx, now, ufp4::detail::source_of(x), offsets,
                           ufp4::detail::source_of(w), ufp4::detail::sink_of(y), saved);
  });
}
template <matrix_scalar D, matrix_scalar W, matrix_scalar X>
status linear_backward_input_grouped(const context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                     recipe::expert_offsets offsets, const matrix_view<W>& w, const matrix_view<X>& dx,
                                     recipe::write mode = recipe::write::overwrite) {
  return detail::checked([&] {
    return detail::backward_input("linear_backward_input_grouped", ctx, now, ufp4::detail::source_of(dy), offsets,
                                  ufp4::detail::source_of(w), ufp4::detail::sink_of(dx), mode);
  });
}
template <matrix_scalar D, matrix_scalar X, matrix_scalar W>
status linear_backward_weight_grouped(const context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                      const matrix_view<X>& x, recipe::expert_offsets offsets, const matrix_view<W>& dw,
                                      recipe::write mode = recipe::write::overwrite) {
  return detail::checked([&] {
    return detail::backward_weight("linear_backward_weight_grouped", ctx, now, ufp4::detail::source_of(dy),
                                   ufp4::detail::source_of(x), offsets, ufp4::detail::sink_of(dw), mode);
  });
}
template <matrix_scalar D, matrix_scalar W>
status linear_backward_weight_grouped(const context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                      const saved_activation& saved, recipe::expert_offsets offsets,
                                      const matrix_view<W>& dw, recipe::write mode = recipe::write::overwrite) {
  return detail::checked([&] {
    return detail::backward_weight("linear_backward_weight_grouped", ctx, now, ufp4::detail::source_of(dy), saved,
                                   offsets, ufp4::detail::sink_of(dw), mode);
  });
}

// Bytes that context.workspace must have for a verb of the same arguments on the current device; give `offsets` for the grouped
// one. Nothing is checked.

template <matrix_scalar X, matrix_scalar W, matrix_scalar Y>
std::size_t linear_forward_workspace_bytes(const recipe::bound_recipe& now, const matrix_view<X>& x,
                                           const matrix_view<W>& w, const matrix_view<Y>& y,
                                           recipe::expert_offsets offsets = {}) {
  const auto s = detail::shape_of_call(x.rows(), x.cols(), y.cols(), offsets);
  return detail::layer_bytes(detail::forward_call(now, s, ufp4::detail::source_of(x), ufp4::detail::source_of(w),
                                                  ufp4::detail::sink_of(y), {}));
}
template <matrix_scalar D, matrix_scalar W, matrix_scalar X>
std::size_t linear_backward_input_workspace_bytes(const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                                  const matrix_view<W>& w, const matrix_view<X>& dx,
                                                  recipe::expert_offsets offsets = {}) {
  const auto s = detail::shape_of_call(dy.rows(), dx.cols(), dy.cols(), offsets);
  return detail::layer_bytes(detail::backward_input_call(now, s, ufp4::detail::source_of(dy),
                                                         ufp4::detail::source_of(w), ufp4::detail::sink_of(dx),
                                                         recipe::write::overwrite, {}));
}
template <matrix_scalar D, matrix_scalar X, matrix_scalar W>
std::size_t linear_backward_weight_workspace_bytes(const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                                   const matrix_view<X>& x, const matrix_view<W>& dw,
                                                   recipe::expert_offsets offsets = {}) {
  const auto s = detail::shape_of_call(dy.rows(), x.cols(), dy.cols(), offsets);
  return detail::layer_bytes(detail::backward_weight_call(now, s, ufp4::detail::source_of(dy),
                                                          ufp4::detail::source_of(x), ufp4::detail::sink_of(dw),
                                                          recipe::write::overwrite, {}));
}
template <matrix_scalar D, matrix_scalar W>
std::size_t linear_backward_weight_workspace_bytes(const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                                   const saved_activation&, const matrix_view<W>& dw,
                                                   recipe::expert_offsets offsets = {}) {
  const auto s = detail::shape_of_call(dy.rows(), dw.cols(), dy.cols(), offsets);
  detail::layer_call call = detail::backward_weight_call(now, s, ufp4::detail::source_of(dy), saved_activation{},
                                                         ufp4::detail::sink_of(dw), recipe::write::overwrite, {});
  // from shapes alone: asked before linear_forward, the object holds nothing yet
  detail::workspace_cutter elsewhere;
  const ufp4::detail::source x{nullptr, dtype::f32, s.tokens, s.inputs, static_cast<std::ptrdiff_t>(s.inputs), 1};
  call.right = detail::saved_side(now, s, x, elsewhere);
  return detail::layer_bytes(call);
}

/// Bytes that saved_activation needs for linear_forward of x.
template <matrix_scalar X>
std::size_t linear_saved_bytes(const recipe::bound_recipe& now, const matrix_view<X>& x,
                               recipe::expert_offsets offsets = {}) {
  detail::workspace_cutter memory;
  (void)detail::saved_side(now, detail::shape_of_call(x.rows(), x.cols(), 0, offsets), ufp4::detail::source_of(x),
                           memory);
  return memory.used();
}

}  // namespace ufp4::gpu::inline UFP4_GPU
