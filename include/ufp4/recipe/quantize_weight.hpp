// ufp4 - quantize_weight: W of a layer, quantized and prepacked once for several calls.
// SPDX-License-Identifier: Apache-2.0
//
// For weights that several calls use at one step of a layer: inference, or the microbatches of a training step.
#pragma once

#include <ufp4/gemm.hpp>
#include <ufp4/quantize_ms_eden.hpp>
#include <ufp4/recipe/linear_plan.hpp>

namespace ufp4::recipe::detail::inline UFP4_CODE {

/// The amax of operand i over all processes, given the amax of this call's part.
inline float agreed_amax(const bound_recipe& now, int i, float local_amax) {
  const amax_agreement& agree = has_tokens(i) ? now.shard().tokens : now.shard().weights;
  if (!agree) return local_amax;
  const float all = agree.amax(agree.state, local_amax);
  const std::uint32_t bits = opaque_bits(all);
  expects(bits <= max_finite_bits && bits >= opaque_bits(local_amax), "token_shard.",
          has_tokens(i) ? "tokens" : "weights", ": the amax must be finite and not below that of this call: got ", all,
          " for ", operand_names[i], ", this call has ", local_amax);
  return all;
}

/// The amax of all parts of an operand, from which its one tensor scale follows; 0 for an operand without one.
template <class = void>  // so that an include instantiates no kernel (cpu/kernels.hpp)
float global_amax_of(const cpu::context& ctx, const bound_recipe& now, int i, const buffer<source>& parts) {
  float global_amax = 0;
  if (!now.recipe().operand(i).quantized || !now.recipe().operand(i).format.has_tensor_scale()) return global_amax;
  for (std::size_t e = 0; e < parts.size(); ++e) {
    format_spec format;
    const float amax = amax_of<>(ctx, job_of(now, i, parts[e], static_cast<std::uint32_t>(e), format));
    global_amax = opaque_bits(amax) > opaque_bits(global_amax) ? amax : global_amax;
  }
  return agreed_amax(now, i, global_amax);
}

/// Codes and scales under a rounding policy and a scale rule; returns the tensor scale.
template <class = void>
float code_operand(const cpu::context& ctx, const cpu::detail::quantize_job& job, const bound_operand& bound,
                   float global_amax, const cpu::detail::quantized_sink& to) {
  kernel_coder coder{job.format, bound.policy.rule, {}, bound.rounding};
  cpu::detail::in_exact_environment(&constants_into<decltype(coder)>, &coder, global_amax);
  quantize_with<features::all>(ctx, cpu::resolve(ctx), job, coder, to, nullptr);
  return coder.tensor.decode;
}

template <class = void>
stored_operand quantize_operand(const cpu::context& ctx, const bound_recipe& now, int i, const source& x,
                                float global_amax, std::uint32_t expert) {
  buffer<format_spec> format(1);
  quantize_job job = job_of(now, i, x, expert, format[0]);
  if (!now.recipe().operand(i).quantized) return {std::move(format), {.is_quantized = false, .unquantized = job}};
  const bound_operand bound = now.operand(i, expert);
  const quantized_size size = storage_of(operand_names[i], {job.format, 1, x.rows, x.cols, bound.transform});
  buffer<std::uint8_t> codes(size.codes), scales(size.scales);
  const cpu::detail::quantized_sink to{codes.data(), scales.data()};
  const float tensor_scale = bound.policy.ms_eden
                                 ? quantize_ms_eden_to(ctx, job, global_amax, bound.rounding.random_bits, to)
                                 : code_operand(ctx, job, bound, global_amax, to);
  const quantized_source q{codes.data(), scales.data(),   job.format,   x.rows,
                           x.cols,       job.padded_cols, tensor_scale, bound.transform};
  return {std::move(format), {.q = q}, std::move(codes), std::move(scales)};
}
template <class = void>
std::vector<stored_operand> quantize_parts(const cpu::context& ctx, const bound_recipe& now, int i,
                                           const buffer<source>& parts) {
  const float global_amax = global_amax_of(ctx, now, i, parts);
  std::vector<stored_operand> out;
  out.reserve(parts.size());
  for (std::size_t e = 0; e < parts.size(); ++e)
    out.push_back(quantize_operand(ctx, now, i, parts[e], global_amax, static_cast<std::uint32_t>(e)));
  return out;
}

/// Replaces the reference to the caller's matrix by a copy in bf16.
inline void copy_unquantized(stored_operand& part) {
  source& x = part.operand.unquantized.x;
  part.copy = buffer<bf16>(x.rows * x.cols);
  const sink to{part.copy.data(), dtype::bf16, x.rows, x.cols, static_cast<std::ptrdiff_t>(x.cols), 1};
  const buffer<float> line(x.cols);
  for (std::size_t r = 0; r < x.rows; ++r) {
    cpu::detail::load_row(x, r, 0, x.cols, line.data());
    cpu::detail::store_row(to, r, 0, x.cols, line.data());
  }
  x = {part.copy.data(), dtype::bf16, x.rows, x.cols, static_cast<std::ptrdiff_t>(x.cols), 1};
}

/// quantize_parts, independent of the caller's matrix from then on.
template <class = void>
std::vector<stored_operand> keep_parts(const cpu::context& ctx, const bound_recipe& now, int i,
                                       const buffer<source>& parts) {
  std::vector<stored_operand> kept = quantize_parts(ctx, now, i, parts);
  for (stored_operand& p : kept)
    if (!p.operand.is_quantized) copy_unquantized(p);
  return kept;
}

/// Reorders codes and scales into the prepacked_layout, in which a GEMM reads its right operand.
inline void prepack_part(const cpu::context& ctx, stored_operand& part) {
  quantized_source& q = part.operand.q;
  if (q.rows == 0 || q.padded_cols == 0) return;
  const quantized_size size = prepacked_size("prepack", {q.format, q.tensor_scale, q.rows, q.cols, q.transform});
  buffer<std::uint8_t> codes(size.codes), scales(size.scales);
  prepack_to(ctx, q, {codes.data(), scales.data()});
  part.codes = std::move(codes);
  part.scales = std::move(scales);
  q.codes = part.codes.data();
  q.scales = part.scales.data();
  q.interleaved = true;
}

/// How the parts of a saved X^T were made; a matrix as it is.
inline const source& shapes_of(const source& x) { return x; }
inline buffer<saved_shape> shapes_of(const saved_activation& saved) {
  buffer<saved_shape> all(saved.parts());
  for (std::size_t e = 0; e < all.size(); ++e) {
    const gemm_operand& o = saved.raw()[e].operand;
    const format_spec& f = o.is_quantized ? o.q.format : o.unquantized.format;
    all[e] = {o.rows(), o.cols(), f.block.cols, o.transform(), o.is_quantized, f.grid, f.scale, saved.made()};
  }
  return all;
}

inline shape check_quantize_weight(const bound_recipe& now, const source& w, const weight_options& options) {
  constexpr const char* operation = "quantize_weight";
  const std::size_t experts = options.experts;
  expects(options.forward || options.backward, operation, ": forward and backward are both false");
  expects(experts >= 1 && experts <= 1u << 16, operation, ": experts must be 1 .. 65536, got ", experts);
  expects(w.rows % experts == 0, operation, ": the rows of w must be a multiple of experts, ", experts, ", got ",
          w.rows);
  check_data(operation, "w", w);
  check_entries(operation, "part", now.shard().part.size(), experts);
  if (options.forward) check_policies(operation, now, 0);
  if (options.backward) check_policies(operation, now, 2);
  return {0, w.cols, w.rows / experts, buffer<std::size_t>(experts + 1)};
}

template <class = void>
made_weight make_weight(const cpu::context& ctx, const bound_recipe& now, int i, const buffer<source>& parts) {
  made_weight made{buffer<bound_operand>(parts.size()), keep_parts(ctx, now, i, parts)};
  for (std::size_t e = 0; e < parts.size(); ++e) {
    made.policies[e] = now.operand(i, static_cast<std::uint32_t>(e));
    if (made.parts[e].operand.is_quantized) prepack_part(ctx, made.parts[e]);
  }
  return made;
}

}  // namespace ufp4::recipe::detail::inline UFP4_CODE

namespace ufp4::recipe::inline UFP4_CODE {

/// Quantizes w, N x K or stacked E * N x K, under the recipe's policies of W (and of W^T with `backward`), and prepacks
/// the codes as the right operand of a GEMM. The result is independent of w's memory; what the recipe does not quantize
/// is copied in bf16. Under a token_shard the weights' amax_agreement is called here, not by later operations.
template <detail::matrix_scalar T>
quantized_weight quantize_weight(const bound_recipe& now, const matrix_view<T>& w, const weight_options& options = {},
                                 const cpu::context& ctx = {}) {
  const detail::source from = ufp4::detail::source_of(w);
  const detail::shape s = detail::check_quantize_weight(now, from, options);
  cpu::resolve(ctx);
  const auto parts = detail::by_weights(s, from);
  quantized_weight made;
  made.set_origin(from.rows, from.cols, {now.step(), now.layer()});
  if (options.forward) made.raw(1) = detail::make_weight(ctx, now, 1, parts);
  if (options.backward) made.raw(3) = detail::make_weight(ctx, now, 3, detail::transposed(parts));
  return made;
}

}  // namespace ufp4::recipe::inline UFP4_CODE
