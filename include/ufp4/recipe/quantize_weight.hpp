// ufp4 - quantize_weight: W of a layer, quantized and prepacked once for several calls.
// SPDX-License-Identifier: Apache-2.0
//
// For weights that several calls use at one step of a layer: inference, or the microbatches of a training step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/recipe/quantize_parts.hpp>
#include <vector>

namespace ufp4::recipe::inline UFP4_TYPES {

/// What quantize_weight makes.
struct weight_options {
  std::size_t experts = 1;  ///< the rows of w are the weights of this many experts, stacked
  bool forward = true;      ///< W for linear_forward
  bool backward = false;    ///< W^T for linear_backward_input
};

}  // namespace ufp4::recipe::inline UFP4_TYPES

namespace ufp4::recipe::detail::inline UFP4_CODE {

inline shape check_quantize_weight(const bound_recipe& now, const source& w, const weight_options& options) {
  constexpr const char* operation = "quantize_weight";
  const std::size_t experts = options.experts;
  expects(options.forward || options.backward, operation, ": forward and backward are both false");
  expects(experts >= 1 && experts <= 1u << 16, operation, ": experts must be 1 .. 65536, got ", experts);
  expects(w.rows % experts == 0, operation, ": the rows of w must be a multiple of experts, ", experts, ", got ",
          w.rows);
  check_memory(operation, "w", w);
  check_entries(operation, "part", now.shard().part.size(), experts);
  if (options.forward) check_policies(operation, now, 0);
  if (options.backward) check_policies(operation, now, 2);
  return {0, w.cols, w.rows / experts, std::vector<std::size_t>(experts + 1)};
}

inline made_weight make_weight(const cpu::context& ctx, const bound_recipe& now, int i,
                               const std::vector<source>& parts) {
  made_weight made;
  made.parts = keep_parts(ctx, now, i, parts);
  for (std::size_t e = 0; e < parts.size(); ++e) {
    made.policies.push_back(now.operand(i, static_cast<std::uint32_t>(e)));
    if (made.parts[e].operand.is_quantized) prepack_part(ctx, made.parts[e]);
  }
  return made;
}

}  // namespace ufp4::recipe::detail::inline UFP4_CODE

namespace ufp4::recipe::inline UFP4_CODE {

/// Quantizes w, N x K or stacked E * N x K, under the recipe's policies of W (and of W^T with `backward`), and prepacks
/// the codes as the right operand of a GEMM. The result is independent of w's memory; an operand that the recipe does
/// not quantize is kept as a copy in bf16. Under a token_shard the amax_agreement of the weights is called here, and
/// not by the operations that take the result.
template <matrix_scalar T>
quantized_weight quantize_weight(const cpu::context& ctx, const bound_recipe& now, const matrix_view<T>& w,
                                 const weight_options& options = {}) {
  const detail::source from = ufp4::detail::source_of(w);
  const detail::shape s = detail::check_quantize_weight(now, from, options);
  cpu::resolve(ctx);
  const std::vector<detail::source> parts = detail::by_weights(s, from);
  quantized_weight made;
  made.set_origin(from.rows, from.cols, {now.step(), now.layer()});
  if (options.forward) made.raw(1) = detail::make_weight(ctx, now, 1, parts);
  if (options.backward) made.raw(3) = detail::make_weight(ctx, now, 3, detail::transposed(parts));
  return made;
}
template <matrix_scalar T>
quantized_weight quantize_weight(const bound_recipe& now, const matrix_view<T>& w, const weight_options& options = {}) {
  return quantize_weight(cpu::context{}, now, w, options);
}

}  // namespace ufp4::recipe::inline UFP4_CODE
