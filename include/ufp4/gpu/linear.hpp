// ufp4 - linear_forward, linear_backward_input, linear_backward_weight under a recipe on a GPU, dense and grouped.
// SPDX-License-Identifier: Apache-2.0
//
// As the host's (recipe/linear.hpp): shapes, policies, messages, and with accumulate::exact_blocks the bits. Matrices
// lie in device memory, offsets in the host's. A call queues the largest magnitude of all experts' parts, where a
// format has two levels of scales; then, an expert after the other, both operands quantized into the workspace and
// their GEMM. Where a kernel multiplies many in a launch, 32 experts' operands come first and their GEMMs together,
// each with its share of the device.
//
// | workspace | linear_*_workspace_bytes of the same arguments: the operands of one expert,                  |
// |           | or of 32 that go out together                                                                |
// | saved     | X^T for wgrad in memory of the caller's: linear_saved_bytes of it, alive until wgrad has run |
// | explain   | explain_linear_*: which kernels quantize, and which multiply                                 |
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/gpu/gemm_grouped.hpp>
#include <ufp4/gpu/kernels/hadamard_kernel.hpp>
#include <ufp4/gpu/kernels/quantize_launch.hpp>
#include <ufp4/recipe/linear_plan.hpp>
#include <ufp4/recipe/recipes.hpp>
#include <utility>
#include <vector>

namespace ufp4::gpu::inline UFP4_GPU {

/// The quantized X^T of a forward pass (one part an expert), for wgrad at the same step and layer, in device memory of
/// the caller's, on 256 bytes. What lies where is noted in this object when linear_forward is called, so a captured
/// graph may be replayed.
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
  recipe::detail::saved_place& made() { return made_; }
  const recipe::detail::saved_place& made() const { return made_; }

 private:
  std::span<std::byte> memory_;
  std::vector<part> parts_;
  recipe::detail::saved_place made_;
};

/// Which kernels a linear operation would run.
///
/// | left, right | what quantizes the operand; "" for one that is not quantized, has been saved, or has no elements |
/// | products    | one an expert                                                                                    |
struct linear_explanation {
  const char* operation = "";
  const char* left = "";
  const char* right = "";
  std::vector<explanation> products;

  /// One line, and one for each product that differs from the one before.
  std::string text() const {
    const auto by = [](const char* kernel) { return *kernel == '\0' ? "not quantized here" : kernel; };
    std::string all = ufp4::detail::concat(operation, ": left ", by(left), ", right ", by(right)), last;
    for (const explanation& product : products) {
      std::string line = product.text();
      if (line != last) all += '\n' + line;
      last = std::move(line);
    }
    return all;
  }
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
  std::vector<source> parts{};
  std::vector<saved_activation::part> ready{};  ///< made by an earlier call; then there are no parts
  std::vector<place> places{};                  ///< one a part, once there is memory
  float* tensor_scale = nullptr;
  std::uint32_t* global_amax_bits = nullptr;

  const recipe::operand_policy& policy() const { return now->recipe().operand(index); }
  bool quantizes() const { return policy().quantized && ready.empty(); }
  bool two_level() const { return quantizes() && policy().format.two_level; }
  ufp4::detail::quantize_job job(std::size_t e) const {
    return recipe::detail::job_of(*now, index, parts[e], static_cast<std::uint32_t>(e));
  }
};

inline std::size_t code_bytes(const ufp4::detail::quantize_job& job) { return job.x.rows * job.padded_cols / 2; }
inline std::size_t scale_bytes(const ufp4::detail::quantize_job& job) {
  return job.strips() * (job.padded_cols / static_cast<std::size_t>(job.format.block.cols)) *
         static_cast<std::size_t>(ufp4::detail::scale_bytes(job.format.scale));
}

/// Cuts a side's memory, `together` parts at a time: what is made after them lies in the same place.
inline void cut_side(layer_side& side, std::size_t together, bool keeps, workspace_cutter& memory) {
  if (!side.quantizes() && !keeps) return;
  const workspace_cutter start = memory;
  workspace_cutter furthest = memory;
  for (std::size_t e = 0; e < side.parts.size(); ++e) {
    if (e % together == 0) memory = start;
    const auto job = side.job(e);
    const bool coded = side.quantizes();
    auto* codes = memory.take<std::uint8_t>(coded ? code_bytes(job) : job.x.rows * job.x.cols * sizeof(bf16));
    side.places.push_back({codes, coded ? memory.take<std::byte>(scale_bytes(job)) : nullptr});
    if (furthest.used() < memory.used()) furthest = memory;
  }
  memory = furthest;
  if (!side.two_level()) return;
  side.tensor_scale = memory.take<float>(1);
  side.global_amax_bits = memory.take<std::uint32_t>(1);
}

/// Part e as a GEMM reads it.
inline gemm_side gemm_side_of(const layer_side& side, std::size_t e) {
  if (!side.ready.empty()) return side.ready[e].side;
  const ufp4::detail::quantize_job job = side.job(e);
  gemm_side out;
  if (side.quantizes()) {
    out = side_of_format(job.format, job.x.rows, job.x.cols, job.transform);
    if (!side.places.empty()) {
      out.codes = side.places[e].codes;
      out.scales = side.places[e].scales;
    }
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
  if (!side.two_level()) return success;
  if (const error e = set_zero(side.global_amax_bits, sizeof(std::uint32_t), where); e != success) return e;
  for (std::size_t part = 0; part < side.parts.size(); ++part) {
    if (side.parts[part].rows == 0 || side.parts[part].cols == 0) continue;
    if (const error e = queue_amax(side.job(part), side.global_amax_bits, where); e != success) return e;
  }
  return success;
}

/// The quantization of part e.
inline quantize_task task_of_part(const layer_side& side, std::size_t e) {
  const recipe::bound_operand bound = side.now->operand(side.index, static_cast<std::uint32_t>(e));
  quantize_task task;
  task.job = side.job(e);
  task.job.counts = false;
  task.rule = bound.policy.rule;
  task.rounding = bound.rounding;
  if (!side.places.empty()) {
    task.codes = side.places[e].codes;
    task.scales = side.places[e].scales;
  }
  task.tensor_scale = side.tensor_scale;
  task.global_amax_bits = side.global_amax_bits;
  return task;
}
inline error quantize_part(const layer_side& side, std::size_t e, stream where) {
  return side.quantizes() ? queue_quantize(task_of_part(side, e), where) : success;
}

/// Experts whose products go out together where a kernel multiplies many in a launch.
inline constexpr std::size_t most_together = 32;

/// A call of a linear operation as its GEMMs, one an expert.
struct layer_call {
  layer_side left, right;
  std::vector<sink> out;
  recipe::write mode = recipe::write::overwrite;
  device_facts device{};          ///< as a product sees it: its share where many go out together
  std::size_t together = 1;       ///< experts whose operands lie in the workspace at once
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
  /// Is there a product that a kernel would take into a launch of many, given its share of the device?
  bool multiplies_many(const device_facts& share) const {
    for (std::size_t e = 0; out.size() > 1 && e < out.size(); ++e)
      if (!skips(e))
        if (const gemm_kernel* kernel = choose_kernel(job(e), share); kernel != nullptr && kernel->run_group != nullptr)
          return true;
    return false;
  }
};

/// Finds out how a call runs on the current device, and cuts its memory.
inline error prepare_layer(layer_call& call, std::span<std::byte> workspace) {
  if (const error e = facts(call.device); e != success) return e;
  const device_facts share = shared_among(call.device, call.out.size());
  if (call.multiplies_many(share)) {
    call.device = share;
    call.together = most_together;
  }
  workspace_cutter memory(workspace);
  cut_side(call.left, call.together, false, memory);
  cut_side(call.right, call.together, false, memory);
  call.operand_bytes = (memory.used() + 255) / 256 * 256;
  return success;
}

/// What a prepared call needs.
inline std::size_t layer_bytes(const layer_call& call) {
  std::size_t most = 0;
  for (std::size_t e = 0; e < call.out.size(); ++e) {
    const std::size_t own = call.skips(e) ? 0 : kernel_bytes(call.job(e), call.device);
    most = own > most ? own : most;
  }
  return call.operand_bytes + most;
}
/// The same whether the output is written over or added to, of one that is not prepared.
inline std::size_t most_layer_bytes(const layer_call& call) {
  std::size_t most = 0;
  for (const recipe::write mode : {recipe::write::overwrite, recipe::write::add}) {
    layer_call here = call;
    here.mode = mode;
    if (prepare_layer(here, {}) != success) return 0;
    most = layer_bytes(here) > most ? layer_bytes(here) : most;
  }
  return most;
}

/// Queues the experts whose operands lie in the workspace at once.
inline status run_together(const char* operation, const context& ctx, const layer_call& call, std::size_t first) {
  const std::size_t own = call.operand_bytes;  // behind it is what a GEMM needs
  std::vector<gemm_job> jobs;
  for (std::size_t part = first; part < call.out.size() && part < first + call.together; ++part) {
    if (call.skips(part)) continue;
    for (const layer_side* side : {&call.left, &call.right})
      if (const error e = quantize_part(*side, part, ctx.where); e != success) return status_of(operation, e);
    jobs.push_back(call.job(part));
  }
  const auto rest = ctx.workspace.size() > own ? ctx.workspace.subspan(own) : std::span<std::byte>{};
  return run_group(operation, jobs, call.device, rest, ctx.where);
}

/// Checks the workspace and runs.
inline status queue_layer(const char* operation, const context& ctx, layer_call call) {
  if (const error e = prepare_layer(call, ctx.workspace); e != success) return status_of(operation, e);
  check_workspace(operation, ctx, layer_bytes(call));
  for (const layer_side* side : {&call.left, &call.right})
    if (const error e = measure(*side, ctx.where); e != success) return status_of(operation, e);
  for (std::size_t first = 0; first < call.out.size(); first += call.together)
    if (status s = run_together(operation, ctx, call, first); !s) return s;
  return {};
}

inline const char* quantizer_of(const layer_side& side) {
  for (std::size_t e = 0; side.quantizes() && e < side.parts.size(); ++e)
    if (side.parts[e].rows != 0 && side.parts[e].cols != 0) return quantize_kernel_name(task_of_part(side, e));
  return "";
}

inline linear_explanation explain_layer(const char* operation, layer_call call) {
  linear_explanation all{operation, quantizer_of(call.left), quantizer_of(call.right), {}};
  if (prepare_layer(call, {}) != success) return all;
  for (std::size_t e = 0; e < call.out.size(); ++e)
    all.products.push_back(explain_job(operation, call.job(e), call.device));
  return all;
}
inline bool runs(const linear_explanation& all) {
  for (const explanation& product : all.products)
    if (*product.kernel == '\0') return false;
  return !all.products.empty();
}

using recipe::detail::by_tokens;
using recipe::detail::by_weights;
using recipe::detail::transposed;

inline layer_call forward_call(const bound_recipe& now, const recipe::detail::shape& s, const source& x,
                               const source& w, const sink& y) {
  return {{&now, 0, by_tokens(s, x)}, {&now, 1, by_weights(s, w)}, by_tokens(s, y)};
}
inline layer_call backward_input_call(const bound_recipe& now, const recipe::detail::shape& s, const source& dy,
                                      const source& w, const sink& dx, recipe::write mode) {
  return {{&now, 2, by_tokens(s, dy)}, {&now, 3, transposed(by_weights(s, w))}, by_tokens(s, dx), mode};
}
inline layer_call backward_weight_call(const bound_recipe& now, const recipe::detail::shape& s, const source& dy,
                                       const source& x, const sink& dw, recipe::write mode) {
  return {{&now, 4, transposed(by_tokens(s, dy))}, {&now, 5, transposed(by_tokens(s, x))}, by_weights(s, dw), mode};
}
inline layer_call backward_weight_call(const bound_recipe& now, const recipe::detail::shape& s, const source& dy,
                                       std::vector<saved_activation::part> saved, const sink& dw, recipe::write mode) {
  return {{&now, 4, transposed(by_tokens(s, dy))}, {&now, 5, {}, std::move(saved)}, by_weights(s, dw), mode};
}

/// A saved X^T: all parts at once.
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

/// X, rounded to the output's type, by the transform that is none.
inline error queue_copy(const source& x, const sink& out, stream where) {
  const kernels::hadamard_job job{x, out, {}, false, x.cols};
  const std::size_t blocks = (x.rows * job.across() + kernels::hadamard_threads - 1) / kernels::hadamard_threads;
  if (blocks == 0) return success;
  return launch(&kernels::hadamard_rows, {static_cast<unsigned>(blocks)}, {kernels::hadamard_threads}, 0, where, job);
}

/// Queues the making of a saved X^T; a part that is not quantized is copied, rounded to bf16.
inline status save(const char* operation, const layer_side& side, saved_activation& saved, stream where) {
  if (const error e = measure(side, where); e != success) return status_of(operation, e);
  saved.raw().clear();
  for (std::size_t part = 0; part < side.parts.size(); ++part) {
    const saved_activation::part& kept = saved.raw().emplace_back(saved_part(side, part));
    const source& to = kept.side.plain;
    const sink copy{const_cast<void*>(to.data), to.kind, to.rows, to.cols, to.row_stride, to.col_stride};
    const error e = side.quantizes() ? quantize_part(side, part, where) : queue_copy(side.parts[part], copy, where);
    if (e != success) return status_of(operation, e);
  }
  return {};
}

inline status forward(const char* operation, const context& ctx, const bound_recipe& now, const source& x,
                      recipe::expert_offsets offsets, const source& w, const sink& y, saved_activation* saved) {
  const auto s = recipe::detail::check_forward(operation, now, x, offsets, w, y, saved != nullptr);
  const layer_call call = forward_call(now, s, x, w, y);
  if (saved == nullptr) return queue_layer(operation, ctx, call);
  workspace_cutter memory(saved->memory());
  const layer_side side = saved_side(now, s, x, memory);
  const auto first = reinterpret_cast<std::uintptr_t>(saved->memory().data());
  ufp4::detail::expects(first % 256 == 0, operation, ": saved.memory begins at address ", first,
                        ", not a multiple of 256");
  ufp4::detail::expects(saved->memory().size() >= memory.used(), operation, ": saved.memory has ",
                        saved->memory().size(), " bytes, but the call needs ", memory.used());
  if (status done = queue_layer(operation, ctx, call); !done) return done;
  saved->made() = {now.step(), now.layer()};
  return save(operation, side, *saved, ctx.where);
}

inline status backward_input(const char* operation, const context& ctx, const bound_recipe& now, const source& dy,
                             recipe::expert_offsets offsets, const source& w, const sink& dx, recipe::write mode) {
  const auto s = recipe::detail::check_backward_input(operation, now, dy, offsets, w, dx);
  return queue_layer(operation, ctx, backward_input_call(now, s, dy, w, dx, mode));
}

inline status backward_weight(const char* operation, const context& ctx, const bound_recipe& now, const source& dy,
                              const source& x, recipe::expert_offsets offsets, const sink& dw, recipe::write mode) {
  const auto s = recipe::detail::check_backward_weight(operation, now, dy, x, offsets, dw);
  return queue_layer(operation, ctx, backward_weight_call(now, s, dy, x, dw, mode));
}

inline status backward_weight(const char* operation, const context& ctx, const bound_recipe& now, const source& dy,
                              const saved_activation& saved, recipe::expert_offsets offsets, const sink& dw,
                              recipe::write mode) {
  std::vector<recipe::detail::saved_shape> shapes;
  for (const auto& part : saved.raw())
    shapes.push_back({part.side.rows, part.side.cols, part.block, part.side.transform, part.side.is_quantized,
                      part.side.grid, part.side.scale, saved.made()});
  const auto s = recipe::detail::check_backward_weight(operation, now, dy, shapes, offsets, dw);
  return queue_layer(operation, ctx, backward_weight_call(now, s, dy, saved.raw(), dw, mode));
}

// A call from its arguments, unchecked; without offsets the dense one.

inline recipe::detail::shape unchecked_shape(std::size_t tokens, std::size_t inputs, std::size_t outputs,
                                             recipe::expert_offsets offsets) {
  if (offsets.empty()) return {tokens, inputs, outputs, {0, tokens}};
  return {tokens, inputs, outputs, {offsets.begin(), offsets.end()}};
}
template <class X, class W, class Y>
layer_call forward_of(const bound_recipe& now, const matrix_view<X>& x, const matrix_view<W>& w,
                      const matrix_view<Y>& y, recipe::expert_offsets offsets) {
  return forward_call(now, unchecked_shape(x.rows(), x.cols(), y.cols(), offsets), ufp4::detail::source_of(x),
                      ufp4::detail::source_of(w), ufp4::detail::sink_of(y));
}
template <class D, class W, class X>
layer_call backward_input_of(const bound_recipe& now, const matrix_view<D>& dy, const matrix_view<W>& w,
                             const matrix_view<X>& dx, recipe::expert_offsets offsets) {
  return backward_input_call(now, unchecked_shape(dy.rows(), dx.cols(), dy.cols(), offsets),
                             ufp4::detail::source_of(dy), ufp4::detail::source_of(w), ufp4::detail::sink_of(dx),
                             recipe::write::overwrite);
}
template <class D, class X, class W>
layer_call backward_weight_of(const bound_recipe& now, const matrix_view<D>& dy, const matrix_view<X>& x,
                              const matrix_view<W>& dw, recipe::expert_offsets offsets) {
  return backward_weight_call(now, unchecked_shape(dy.rows(), x.cols(), dy.cols(), offsets),
                              ufp4::detail::source_of(dy), ufp4::detail::source_of(x), ufp4::detail::sink_of(dw),
                              recipe::write::overwrite);
}
/// From shapes alone: asked before linear_forward, the object holds nothing yet.
template <class D, class W>
layer_call backward_weight_of(const bound_recipe& now, const matrix_view<D>& dy, const saved_activation&,
                              const matrix_view<W>& dw, recipe::expert_offsets offsets) {
  const auto s = unchecked_shape(dy.rows(), dw.cols(), dy.cols(), offsets);
  workspace_cutter elsewhere;
  const source x{nullptr, dtype::f32, s.tokens, s.inputs, static_cast<std::ptrdiff_t>(s.inputs), 1};
  const layer_side side = saved_side(now, s, x, elsewhere);
  std::vector<saved_activation::part> parts;
  parts.reserve(side.parts.size());
  for (std::size_t e = 0; e < side.parts.size(); ++e) parts.push_back(saved_part(side, e));
  return backward_weight_call(now, s, ufp4::detail::source_of(dy), std::move(parts), ufp4::detail::sink_of(dw),
                              recipe::write::overwrite);
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

// Of a operation of the same arguments on the current device; give `offsets` for the grouped one.
// Nothing is checked, read or queued.
//
// | *_workspace_bytes | bytes that context.workspace must have                                                    |
// | explain_*         | which kernels it would run; no products where the device cannot be asked                   |
// | can_run_*         | has every product a kernel?                                                                |

template <matrix_scalar X, matrix_scalar W, matrix_scalar Y>
std::size_t linear_forward_workspace_bytes(const recipe::bound_recipe& now, const matrix_view<X>& x,
                                           const matrix_view<W>& w, const matrix_view<Y>& y,
                                           recipe::expert_offsets offsets = {}) {
  return detail::most_layer_bytes(detail::forward_of(now, x, w, y, offsets));
}
template <matrix_scalar X, matrix_scalar W, matrix_scalar Y>
linear_explanation explain_linear_forward(const context&, const recipe::bound_recipe& now, const matrix_view<X>& x,
                                          const matrix_view<W>& w, const matrix_view<Y>& y,
                                          recipe::expert_offsets offsets = {}) {
  return detail::explain_layer(offsets.empty() ? "linear_forward" : "linear_forward_grouped",
                               detail::forward_of(now, x, w, y, offsets));
}
template <matrix_scalar X, matrix_scalar W, matrix_scalar Y>
bool can_run_linear_forward(const context& ctx, const recipe::bound_recipe& now, const matrix_view<X>& x,
                            const matrix_view<W>& w, const matrix_view<Y>& y, recipe::expert_offsets offsets = {}) {
  return detail::runs(explain_linear_forward(ctx, now, x, w, y, offsets));
}

template <matrix_scalar D, matrix_scalar W, matrix_scalar X>
std::size_t linear_backward_input_workspace_bytes(const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                                  const matrix_view<W>& w, const matrix_view<X>& dx,
                                                  recipe::expert_offsets offsets = {}) {
  return detail::most_layer_bytes(detail::backward_input_of(now, dy, w, dx, offsets));
}
template <matrix_scalar D, matrix_scalar W, matrix_scalar X>
linear_explanation explain_linear_backward_input(const context&, const recipe::bound_recipe& now,
                                                 const matrix_view<D>& dy, const matrix_view<W>& w,
                                                 const matrix_view<X>& dx, recipe::expert_offsets offsets = {}) {
  return detail::explain_layer(offsets.empty() ? "linear_backward_input" : "linear_backward_input_grouped",
                               detail::backward_input_of(now, dy, w, dx, offsets));
}
template <matrix_scalar D, matrix_scalar W, matrix_scalar X>
bool can_run_linear_backward_input(const context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                   const matrix_view<W>& w, const matrix_view<X>& dx,
                                   recipe::expert_offsets offsets = {}) {
  return detail::runs(explain_linear_backward_input(ctx, now, dy, w, dx, offsets));
}

// x_or_saved: x, or the saved_activation of it, for which it need not have been made yet.

template <matrix_scalar D, class Saved, matrix_scalar W>
std::size_t linear_backward_weight_workspace_bytes(const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                                   const Saved& x_or_saved, const matrix_view<W>& dw,
                                                   recipe::expert_offsets offsets = {}) {
  return detail::most_layer_bytes(detail::backward_weight_of(now, dy, x_or_saved, dw, offsets));
}
template <matrix_scalar D, class Saved, matrix_scalar W>
linear_explanation explain_linear_backward_weight(const context&, const recipe::bound_recipe& now,
                                                  const matrix_view<D>& dy, const Saved& x_or_saved,
                                                  const matrix_view<W>& dw, recipe::expert_offsets offsets = {}) {
  return detail::explain_layer(offsets.empty() ? "linear_backward_weight" : "linear_backward_weight_grouped",
                               detail::backward_weight_of(now, dy, x_or_saved, dw, offsets));
}
template <matrix_scalar D, class Saved, matrix_scalar W>
bool can_run_linear_backward_weight(const context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                    const Saved& x_or_saved, const matrix_view<W>& dw,
                                    recipe::expert_offsets offsets = {}) {
  return detail::runs(explain_linear_backward_weight(ctx, now, dy, x_or_saved, dw, offsets));
}

/// Bytes that saved_activation needs for linear_forward of x.
template <matrix_scalar X>
std::size_t linear_saved_bytes(const recipe::bound_recipe& now, const matrix_view<X>& x,
                               recipe::expert_offsets offsets = {}) {
  detail::workspace_cutter memory;
  (void)detail::saved_side(now, detail::unchecked_shape(x.rows(), x.cols(), 0, offsets), ufp4::detail::source_of(x),
                           memory);
  return memory.used();
}

}  // namespace ufp4::gpu::inline UFP4_GPU
