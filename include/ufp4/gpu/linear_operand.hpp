// ufp4 - one operand of a layer's GEMM on a GPU, in one part for each expert: memory, quantization, what is saved.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/gemm.hpp>
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

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

using recipe::bound_recipe, recipe::expert_offsets, recipe::write_mode;

/// All parts of one operand, and the memory of their codes.
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

/// Part e as an operand of a GEMM.
inline gemm_side gemm_side_of(const layer_side& side, std::size_t e) {
  if (!side.ready.empty()) {
    gemm_side out = side.ready[e].side;
    if (out.extended != nullptr) out.extended = &side.policy().format;  // its own was that of the call that saved it
    return out;
  }
  const stored_quantize_job job = side.job(e);
  if (!side.quantizes()) {
    gemm_side out = side_of_plain(job.x, job.padded_cols, job.transform);
    out.rounds_plain_to_bf16 = true;
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

/// The quantization of part e.
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

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
