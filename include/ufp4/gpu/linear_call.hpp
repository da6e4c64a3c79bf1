// ufp4 - a linear operation on a GPU as its GEMMs, one for each expert: workspace, queueing, explanation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <ufp4/gpu/gemm_grouped.hpp>
#include <ufp4/gpu/linear_operand.hpp>
#include <utility>
#include <vector>

namespace ufp4::gpu::inline UFP4_GPU {

/// The kernels that a linear operation would run.
///
/// | left, right | the kernel that quantizes; "" for an operand that is not quantized, was saved, or is empty |
/// | products    | one for each expert                                                                        |
struct linear_explanation {
  const char* operation = "";         ///< the operation
  const char* left = "";              ///< how the left operand is made
  const char* right = "";             ///< how the right operand is made
  std::vector<explanation> products;  ///< one for each product

  /// One line, and one for each product that differs from the previous one.
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

/// The number of experts whose products are multiplied together, if a kernel multiplies many in a launch.
inline constexpr std::size_t most_together = 32;

/// A call of a linear operation as its GEMMs, one for each expert.
struct layer_call {
  layer_side left, right;
  ufp4::detail::buffer<sink> out;
  recipe::write_mode mode = recipe::write_mode::overwrite;
  device_facts device{};          ///< for one product: its share, if many are multiplied together
  std::size_t together = 1;       ///< experts whose operands are in the workspace at the same time
  std::size_t operand_bytes = 0;  ///< of the workspace; that of the GEMM follows

  bool skips(std::size_t e) const {
    return out[e].rows == 0 || out[e].cols == 0 ||
           (mode == recipe::write_mode::add &&
            gemm_side_of(left, e).cols == 0);  // an expert without tokens adds nothing
  }
  gemm_job job(std::size_t e) const {
    gemm_job j;
    j.left = gemm_side_of(left, e);
    j.right = gemm_side_of(right, e);
    j.out = out[e];
    j.block = static_cast<unsigned>(recipe::detail::block_of(*left.now, left.index).cols);
    j.beta = mode == recipe::write_mode::add ? 1.0f : 0.0f;
    j.mode = left.now->recipe().accumulate;
    return j;
  }
  /// Is there a product whose kernel, with a share of the device, multiplies many in a launch?
  bool multiplies_many(const device_facts& share) const {
    for (std::size_t e = 0; out.size() > 1 && e < out.size(); ++e)
      if (!skips(e))
        if (const gemm_kernel* kernel = choose_kernel(job(e), share); kernel != nullptr && kernel->run_group != nullptr)
          return true;
    return false;
  }
};

/// Determines how a call runs on the current device, and assigns its memory.
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

/// The workspace that a prepared call needs.
inline std::size_t layer_bytes(const layer_call& call) {
  std::size_t most = 0;
  for (std::size_t e = 0; e < call.out.size(); ++e) {
    const std::size_t own = call.skips(e) ? 0 : kernel_bytes(call.job(e), call.device);
    most = own > most ? own : most;
  }
  return call.operand_bytes + most;
}
/// The same for a call that is not prepared, for either mode of writing the output.
inline std::size_t most_layer_bytes(const layer_call& call) {
  std::size_t most = 0;
  for (const recipe::write_mode mode : {recipe::write_mode::overwrite, recipe::write_mode::add}) {
    layer_call here = call;
    here.mode = mode;
    if (prepare_layer(here, {}) != success) return 0;
    most = layer_bytes(here) > most ? layer_bytes(here) : most;
  }
  return most;
}

/// Queues the experts whose operands are in the workspace at the same time.
inline status run_together(const char* operation, const context& ctx, const layer_call& call, std::size_t first) {
  const std::size_t own = call.operand_bytes;  // the workspace of the GEMM follows
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

/// Checks the workspace and queues a call.
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

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
