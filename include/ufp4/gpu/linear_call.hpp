// ufp4 - the linear operations on a GPU, checked, as GEMMs, one for each expert: workspace, queueing, explanation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/gemm_grouped.hpp>
#include <ufp4/gpu/hadamard.hpp>
#include <ufp4/recipe/linear_plan.hpp>
#include <ufp4/recipe/recipes.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// The quantized X^T of a forward pass, one part for each expert, for wgrad at the same step and layer, in memory of
/// the caller. linear_forward writes the layout into this object when it is called: a captured graph may be replayed.
class saved_activation {
 public:
  /// The operand of one expert.
  struct part {
    gemm_side side;  ///< its codes and scales
    int block = 16;  ///< length along the contraction axis
  };

  saved_activation() = default;
  /// Device memory, aligned to 256 bytes, that must outlive the backward pass.
  explicit saved_activation(std::span<std::byte> memory) : memory_(memory) {}

  std::span<std::byte> memory() const { return memory_; }            ///< as given
  std::size_t parts() const { return parts_.size(); }                ///< 1, or one for each expert
  std::vector<part>& raw() { return parts_; }                        ///< for the linear operations
  const std::vector<part>& raw() const { return parts_; }            ///< for the linear operations
  recipe::detail::saved_place& made() { return made_; }              ///< for the linear operations
  const recipe::detail::saved_place& made() const { return made_; }  ///< for the linear operations

 private:
  std::span<std::byte> memory_;
  std::vector<part> parts_;
  recipe::detail::saved_place made_;
};

/// The kernels that a linear operation would run; "" for an operand that is not quantized, was saved, or is empty.
struct linear_explanation {
  const char* operation = "";         ///< the operation
  const char* left = "";              ///< the kernel that quantizes the left operand
  const char* right = "";             ///< the kernel that quantizes the right operand
  std::vector<explanation> products;  ///< one for each expert

  /// One line, and one for each product that differs from the previous one.
  std::string text() const {
    const auto by = [](const char* kernel) { return *kernel == '\0' ? "not quantized here" : kernel; };
    std::string all = detail::concat(operation, ": left ", by(left), ", right ", by(right)), last;
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

using recipe::bound_recipe, recipe::expert_offsets, recipe::write_mode;

struct layer_side {
  struct place {
    std::uint8_t* codes = nullptr;  ///< the bf16 copy of an operand that is kept without quantization
    std::byte* scales = nullptr;
  };

  const bound_recipe* now = nullptr;
  int index = 0;  ///< 0 .. 5, as recipe.hpp counts them
  ufp4::detail::buffer<source> parts{};
  std::vector<saved_activation::part> ready{};  ///< quantized by an earlier call; then there are no parts
  std::vector<place> places{};                  ///< one for each part, once memory has been assigned
  float* tensor_scale = nullptr;
  std::uint32_t* global_amax_bits = nullptr;

  const recipe::operand_policy& policy() const { return now->recipe().operand(index); }
  bool quantizes() const { return policy().quantized && ready.empty(); }
  bool two_level() const { return quantizes() && policy().format.has_tensor_scale(); }
  place place_of(std::size_t e) const { return places.empty() ? place{} : places[e]; }
  stored_quantize_job job(std::size_t e) const {
    format_spec format;
    return recipe::detail::job_of(*now, index, parts[e], static_cast<std::uint32_t>(e), format);
  }
};

inline std::size_t scale_bytes(const stored_quantize_job& job) {
  return job.strips() * scale_strip_of(job.format, job.padded_cols).bytes();
}

/// Assigns the memory of a side. `together` parts have their own memory; the parts after them use it again.
inline void cut_side(layer_side& side, std::size_t together, bool keeps, workspace_cutter& memory) {
  if (!side.quantizes() && !keeps) return;
  const workspace_cutter start = memory;
  workspace_cutter furthest = memory;
  for (std::size_t e = 0; e < side.parts.size(); ++e) {
    if (e % together == 0) memory = start;
    const auto job = side.job(e);
    const bool coded = side.quantizes();
    auto* codes = memory.take<std::uint8_t>(job.x.rows * (coded ? job.padded_cols / 2 : job.x.cols * sizeof(bf16)));
    side.places.push_back({codes, coded ? memory.take<std::byte>(scale_bytes(job)) : nullptr});
    if (furthest.used() < memory.used()) furthest = memory;
  }
  memory = furthest;
  if (!side.two_level()) return;
  side.tensor_scale = memory.take<float>(1);
  side.global_amax_bits = memory.take<std::uint32_t>(1);
}

inline gemm_side gemm_side_of(const layer_side& side, std::size_t e) {
  if (!side.ready.empty()) {
    gemm_side out = side.ready[e].side;
    if (out.extended != nullptr) out.extended = &side.policy().format;  // its own was that of the call that saved it
    return out;
  }
  const stored_quantize_job job = side.job(e);
  if (!side.quantizes()) {
    gemm_side out = side_of_unquantized(job.x, job.padded_cols, job.transform);
    out.rounds_unquantized_to_bf16 = true;
    return out;
  }
  gemm_side out = side_of_format(side.policy().format, job.x.rows, job.x.cols, job.transform);
  out.codes = side.place_of(e).codes;
  out.scales = side.place_of(e).scales;
  out.tensor_scale = side.tensor_scale;
  return out;
}

/// Checks that kernels have the quantizer, and can count the elements of what they quantize, or keep as bf16.
inline void check_places(const char* operation, const layer_side& side, bool keeps) {
  expects(!side.quantizes() || !side.policy().ms_eden, operation, ": ", recipe::detail::operand_names[side.index],
          ": MS-EDEN is not available on GPUs");
  expects(!side.quantizes() || side.policy().rounding.what != rounding_spec::kind::eden, operation, ": ",
          recipe::detail::operand_names[side.index], ": eden is not available on GPUs");
  if (!side.quantizes() && !keeps) return;
  for (std::size_t e = 0; e < side.parts.size(); ++e)
    check_places(operation, recipe::detail::operand_names[side.index], side.parts[e].rows, side.parts[e].cols);
}

/// Queues the amax over all parts, which the quantization of each part needs.
template <class = void>
error measure(const layer_side& side, stream where) {
  if (!side.two_level()) return success;
  if (const error e = set_zero(side.global_amax_bits, sizeof(std::uint32_t), where); e != success) return e;
  for (std::size_t part = 0; part < side.parts.size(); ++part) {
    if (side.parts[part].rows == 0 || side.parts[part].cols == 0) continue;
    if (const error e = queue_amax(side.job(part), side.global_amax_bits, where); e != success) return e;
  }
  return success;
}

inline quantize_task task_of_part(const layer_side& side, std::size_t e) {
  const recipe::bound_operand bound = side.now->operand(side.index, static_cast<std::uint32_t>(e));
  quantize_task task;
  task.job = side.job(e);
  task.job.counts = false;
  task.rule = bound.policy.rule;
  task.rounding = bound.rounding;
  task.codes = side.place_of(e).codes;
  task.scales = side.place_of(e).scales;
  task.tensor_scale = side.tensor_scale;
  task.global_amax_bits = side.global_amax_bits;
  return task;
}
template <class = void>
error quantize_part(const layer_side& side, std::size_t e, stream where) {
  return side.quantizes() ? queue_quantize(task_of_part(side, e), where) : success;
}

/// The number of experts whose products are multiplied together, if a kernel multiplies many in a launch.
inline constexpr std::size_t most_together = 32;

/// A call of a linear operation as its GEMMs, one for each expert.
struct layer_call {
  layer_side left, right;
  ufp4::detail::buffer<sink> out;
  write_mode mode = write_mode::overwrite;
  device_facts device{};                      ///< for one product: its share, if many are multiplied together
  std::size_t together = 1;                   ///< experts whose operands are in the workspace at the same time
  std::size_t operand_bytes = 0;              ///< of the workspace; that of the GEMM follows
  std::vector<const gemm_kernel*> kernels{};  ///< of each product; null: none, or the product is skipped

  bool skips(std::size_t e) const {
    return out[e].rows == 0 || out[e].cols == 0 ||
           (mode == write_mode::add && gemm_side_of(left, e).cols == 0);  // an expert without tokens adds nothing
  }
  gemm_job job(std::size_t e) const {
    return {.left = gemm_side_of(left, e),
            .right = gemm_side_of(right, e),
            .out = out[e],
            .block = static_cast<unsigned>(recipe::detail::block_of(*left.now, left.index).cols),
            .beta = mode == write_mode::add ? 1.0f : 0.0f,
            .mode = left.now->recipe().accumulate};
  }
};

/// Chooses the kernel of every product for a device, or its share; returns whether one multiplies many in a launch.
template <class = void>
bool choose_kernels(layer_call& call, const device_facts& device) {
  call.kernels.clear();
  bool many = false;
  for (std::size_t e = 0; e < call.out.size(); ++e) {
    const gemm_kernel* kernel = call.skips(e) ? nullptr : choose_kernel(call.job(e), device);
    call.kernels.push_back(kernel);
    many = many || (kernel != nullptr && kernel->run_group != nullptr);
  }
  return many;
}

/// Determines how a call runs on the current device, and assigns its memory.
template <class = void>
error prepare_layer(layer_call& call, std::span<std::byte> workspace) {
  if (const error e = facts(call.device); e != success) return e;
  const device_facts share = shared_among(call.device, call.out.size());
  if (call.out.size() > 1 && choose_kernels(call, share)) {
    call.device = share;
    call.together = most_together;
  } else {
    choose_kernels(call, call.device);
  }
  workspace_cutter memory(workspace);
  cut_side(call.left, call.together, false, memory);
  cut_side(call.right, call.together, false, memory);
  call.operand_bytes = (memory.used() + 255) / 256 * 256;
  return success;
}

inline std::size_t layer_bytes(const layer_call& call) {
  std::size_t most = 0;
  for (std::size_t e = 0; e < call.out.size(); ++e)
    if (const std::size_t own = kernel_bytes(call.kernels[e], call.job(e), call.device); own > most) most = own;
  return call.operand_bytes + most;
}
/// The workspace of a call that is not prepared, for either mode of writing the output.
template <class = void>
std::size_t most_layer_bytes(const layer_call& call) {
  std::size_t most = 0;
  for (const write_mode mode : {write_mode::overwrite, write_mode::add}) {
    layer_call here = call;
    here.mode = mode;
    if (prepare_layer(here, {}) != success) return 0;
    most = layer_bytes(here) > most ? layer_bytes(here) : most;
  }
  return most;
}

/// Queues the experts whose operands are in the workspace at the same time.
template <class = void>
status run_together(const char* operation, const context& ctx, const layer_call& call, std::size_t first) {
  const std::size_t own = call.operand_bytes;  // the workspace of the GEMM follows
  group_plan plan{.device = call.device};
  for (std::size_t part = first; part < call.out.size() && part < first + call.together; ++part) {
    if (call.skips(part)) continue;
    for (const layer_side* side : {&call.left, &call.right})
      if (const error e = quantize_part(*side, part, ctx.where); e != success) return status_of(operation, e);
    plan.jobs.push_back(call.job(part));
    plan.kernels.push_back(call.kernels[part]);
  }
  const auto rest = ctx.workspace.size() > own ? ctx.workspace.subspan(own) : std::span<std::byte>{};
  return run_group(operation, plan, rest, ctx.where);
}

template <class = void>
status queue_layer(const char* operation, const context& ctx, layer_call call) {
  for (const layer_side* side : {&call.left, &call.right}) check_places(operation, *side, false);
  if (const error e = prepare_layer(call, ctx.workspace); e != success) return status_of(operation, e);
  check_memory(operation, "context.workspace", ctx.workspace, layer_bytes(call));
  for (const layer_side* side : {&call.left, &call.right})
    if (const error e = measure(*side, ctx.where); e != success) return status_of(operation, e);
  for (std::size_t first = 0; first < call.out.size(); first += call.together)
    if (status s = run_together(operation, ctx, call, first); !s) return s;
  return {};
}

inline const char* quantizer_of(const layer_side& side) {
  for (std::size_t e = 0; side.quantizes() && e < side.parts.size(); ++e)
    if (side.parts[e].rows != 0 && side.parts[e].cols != 0) return quantize_kernel(task_of_part(side, e)).name;
  return "";
}

template <class = void>
linear_explanation explain_layer(const char* operation, layer_call call) {
  linear_explanation all{operation, quantizer_of(call.left), quantizer_of(call.right), {}};
  if (prepare_layer(call, {}) != success) return all;
  for (std::size_t e = 0; e < call.out.size(); ++e)
    all.products.push_back(explain_job(operation, call.job(e), call.device, call.kernels[e]));
  return all;
}
inline bool runs(const linear_explanation& all) { return !all.products.empty() && all_run(all.products); }

using recipe::detail::by_tokens, recipe::detail::by_weights, recipe::detail::transposed;
using recipe::detail::make_shape, recipe::detail::shape;

/// X^T for wgrad: of a matrix, or as a forward pass saved it.
inline layer_side saved_operand(const bound_recipe& now, const shape& s, const source& x) {
  return {&now, 5, transposed(by_tokens(s, x))};
}
inline layer_side saved_operand(const bound_recipe& now, const shape&, std::vector<saved_activation::part> saved) {
  return {&now, 5, {}, std::move(saved)};
}

/// A saved X^T: each part has its own memory.
inline layer_side saved_side(const bound_recipe& now, const shape& s, const source& x, workspace_cutter& memory) {
  layer_side side = saved_operand(now, s, x);
  cut_side(side, side.parts.size(), true, memory);
  return side;
}
inline saved_activation::part saved_part(const layer_side& side, std::size_t e) {
  saved_activation::part kept{gemm_side_of(side, e), recipe::detail::block_of(*side.now, side.index).cols};
  if (side.quantizes()) return kept;
  const auto stride = static_cast<std::ptrdiff_t>(kept.side.cols);
  kept.side.unquantized = {side.places[e].codes, dtype::bf16, kept.side.rows, kept.side.cols, stride, 1};
  return kept;
}

/// From shapes alone, because before linear_forward the object is empty.
inline layer_side saved_operand(const bound_recipe& now, const shape& s, const saved_activation&) {
  workspace_cutter counter;
  const source x{nullptr, dtype::f32, s.tokens, s.inputs, static_cast<std::ptrdiff_t>(s.inputs), 1};
  const layer_side side = saved_side(now, s, x, counter);
  std::vector<saved_activation::part> parts;
  parts.reserve(side.parts.size());
  for (std::size_t e = 0; e < side.parts.size(); ++e) parts.push_back(saved_part(side, e));
  return {&now, 5, {}, std::move(parts)};
}

/// Queues a saved X^T. An unquantized part is copied as bf16 by the Hadamard kernel.
template <class = void>
status save(const char* operation, const layer_side& side, saved_activation& saved, stream where) {
  if (const error e = measure(side, where); e != success) return status_of(operation, e);
  saved.raw().clear();
  for (std::size_t part = 0; part < side.parts.size(); ++part) {
    const saved_activation::part& kept = saved.raw().emplace_back(saved_part(side, part));
    const source& to = kept.side.unquantized;
    const sink copy{const_cast<void*>(to.data), to.kind, to.rows, to.cols, to.row_stride, to.col_stride};
    const error e = side.quantizes() ? quantize_part(side, part, where)
                                     : kernels::queue_hadamard(side.parts[part], copy, {}, false, to.cols, where);
    if (e != success) return status_of(operation, e);
  }
  return {};
}

/// A matrix_view of any type, as an input and as an output.
struct any_source : source {
  template <matrix_scalar T>
  any_source(const matrix_view<T>& x) : source(ufp4::detail::source_of(x)) {}
};
struct any_sink : sink {
  template <matrix_scalar T>
  any_sink(const matrix_view<T>& x) : sink(sink_of(x)) {}
};

template <class T>
concept matrix_or_saved = ufp4::detail::unquantized_input<T> || std::same_as<T, saved_activation>;

/// A saved X^T is passed on as it is, a matrix as its source.
using ufp4::detail::source_of;
inline const saved_activation& source_of(const saved_activation& saved) { return saved; }

// The three operations as calls. Their arguments need not be checked; without offsets the call is the dense one.

inline layer_call forward_of(const bound_recipe& now, const any_source& x, const any_source& w, const any_sink& y,
                             expert_offsets offsets) {
  const shape s = make_shape(x.rows, x.cols, y.cols, offsets);
  return {{&now, 0, by_tokens<source>(s, x)}, {&now, 1, by_weights<source>(s, w)}, by_tokens<sink>(s, y)};
}
inline layer_call backward_input_of(const bound_recipe& now, const any_source& dy, const any_source& w,
                                    const any_sink& dx, expert_offsets offsets,
                                    write_mode mode = write_mode::overwrite) {
  const shape s = make_shape(dy.rows, dx.cols, dy.cols, offsets);
  const auto right = transposed(by_weights<source>(s, w));
  return {{&now, 2, by_tokens<source>(s, dy)}, {&now, 3, right}, by_tokens<sink>(s, dx), mode};
}
/// `x`: the matrix, or its saved parts.
template <class X>
layer_call backward_weight_of(const bound_recipe& now, const any_source& dy, const X& x, const any_sink& dw,
                              expert_offsets offsets, write_mode mode = write_mode::overwrite) {
  const shape s = make_shape(dy.rows, dw.cols, dy.cols, offsets);
  return {{&now, 4, transposed(by_tokens<source>(s, dy))}, saved_operand(now, s, x), by_weights<sink>(s, dw), mode};
}

template <class = void>
status forward(const char* operation, const context& ctx, const bound_recipe& now, const any_source& x,
               expert_offsets offsets, const any_source& w, const any_sink& y, saved_activation* saved) {
  return checked([&]() -> status {
    const shape s = recipe::detail::check_forward(operation, now, x, offsets, w, y, saved != nullptr);
    const layer_call call = forward_of(now, x, w, y, offsets);
    if (saved == nullptr) return queue_layer(operation, ctx, call);
    workspace_cutter memory(saved->memory());
    const layer_side side = saved_side(now, s, x, memory);
    check_places(operation, side, true);
    check_memory(operation, "saved.memory", saved->memory(), memory.used());
    if (status done = queue_layer(operation, ctx, call); !done) return done;
    saved->made() = {now.step(), now.layer()};
    return save(operation, side, *saved, ctx.where);
  });
}
template <class = void>
status backward_input(const char* operation, const context& ctx, const bound_recipe& now, const any_source& dy,
                      expert_offsets offsets, const any_source& w, const any_sink& dx, write_mode mode) {
  return checked([&] {
    recipe::detail::check_backward_input(operation, now, dy, offsets, w, dx);
    return queue_layer(operation, ctx, backward_input_of(now, dy, w, dx, offsets, mode));
  });
}
/// What a check and a call take of X: a matrix as it is, of a saved X^T the shapes and the parts.
inline const source& shapes_of(const source& x) { return x; }
inline const source& parts_of(const source& x) { return x; }
inline const std::vector<saved_activation::part>& parts_of(const saved_activation& saved) { return saved.raw(); }
inline std::vector<recipe::detail::saved_shape> shapes_of(const saved_activation& saved) {
  std::vector<recipe::detail::saved_shape> shapes;
  for (const auto& [side, block] : saved.raw())
    shapes.push_back(
        {side.rows, side.cols, block, side.transform, side.is_quantized, side.grid, side.scale, saved.made()});
  return shapes;
}
/// `x`: the source of a matrix, or a saved_activation.
template <class X>
status backward_weight(const char* operation, const context& ctx, const bound_recipe& now, const any_source& dy,
                       const X& x, expert_offsets offsets, const any_sink& dw, write_mode mode) {
  return checked([&] {
    recipe::detail::check_backward_weight(operation, now, dy, shapes_of(x), offsets, dw);
    return queue_layer(operation, ctx, backward_weight_of(now, dy, parts_of(x), dw, offsets, mode));
  });
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
