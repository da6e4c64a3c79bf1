// ufp4 - quantizing the operands of a linear operation on a CPU, part by part, and keeping them for later calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/gemm.hpp>
#include <ufp4/recipe/linear_plan.hpp>
#include <utility>
#include <vector>

namespace ufp4::recipe::detail::inline UFP4_CODE {

/// The amax of operand i over all processes, given the amax of this call's part.
inline float agreed_amax(const bound_recipe& now, int i, float local_amax) {
  const amax_agreement& agree = has_tokens(i) ? now.shard().tokens : now.shard().weights;
  if (!agree) return local_amax;
  const float all = agree.amax(agree.state, local_amax);
  const std::uint32_t bits = ufp4::detail::opaque_bits(all);
  expects(bits <= ufp4::detail::max_finite_bits && bits >= ufp4::detail::opaque_bits(local_amax), "token_shard.",
          has_tokens(i) ? "tokens" : "weights", ": the amax must be finite and not below that of this call: got ", all,
          " for ", operand_names[i], ", this call has ", local_amax);
  return all;
}

/// The amax of all parts of an operand, from which its one tensor scale follows; 0 for an operand without one.
inline float global_amax_of(const cpu::context& ctx, const bound_recipe& now, int i, std::span<const source> parts) {
  float global_amax = 0;
  if (!now.recipe().operand(i).quantized || !now.recipe().operand(i).format.two_level) return global_amax;
  for (std::size_t e = 0; e < parts.size(); ++e) {
    const float amax = ufp4::detail::amax_of(ctx, job_of(now, i, parts[e], static_cast<std::uint32_t>(e)));
    global_amax = ufp4::detail::opaque_bits(amax) > ufp4::detail::opaque_bits(global_amax) ? amax : global_amax;
  }
  return agreed_amax(now, i, global_amax);
}

inline stored_operand quantize_operand(const cpu::context& ctx, const bound_recipe& now, int i, const source& x,
                                       float global_amax, std::uint32_t expert) {
  const cpu::detail::quantize_job job = job_of(now, i, x, expert);
  stored_operand out;
  out.operand.is_quantized = now.recipe().operand(i).quantized;
  out.operand.plain = job;
  if (!out.operand.is_quantized) return out;
  const bound_operand bound = now.operand(i, expert);
  const auto length = static_cast<std::size_t>(job.format.block.cols);
  const auto width = static_cast<std::size_t>(ufp4::detail::scale_bytes(job.format.scale));
  out.codes = ufp4::detail::buffer<std::uint8_t>(x.rows * job.padded_cols / 2);
  out.scales = ufp4::detail::buffer<std::uint8_t>(job.strips() * (job.padded_cols / length) * width);
  block_coder<rounding_spec> coder{job.format, bound.policy.rule, {}, bound.rounding};
  cpu::detail::in_exact_environment(&ufp4::detail::tensor_constants_into, &coder.format, &coder.rule, global_amax,
                                    &coder.tensor);
  ufp4::detail::quantize_with(ctx, cpu::resolve(ctx), job, coder, {out.codes.data(), out.scales.data()}, nullptr);
  out.operand.q = {out.codes.data(), out.scales.data(), job.format,          x.rows,
                   x.cols,           job.padded_cols,   coder.tensor.decode, bound.transform};
  return out;
}

/// One operand in all its parts (one, or one per expert).
inline std::vector<stored_operand> quantize_parts(const cpu::context& ctx, const bound_recipe& now, int i,
                                                  std::span<const source> parts) {
  const float global_amax = global_amax_of(ctx, now, i, parts);
  std::vector<stored_operand> out;
  out.reserve(parts.size());
  for (std::size_t e = 0; e < parts.size(); ++e)
    out.push_back(quantize_operand(ctx, now, i, parts[e], global_amax, static_cast<std::uint32_t>(e)));
  return out;
}

/// Replaces the reference to the caller's matrix by a copy in bf16.
inline void copy_plain(stored_operand& part) {
  source& x = part.operand.plain.x;
  part.copy = ufp4::detail::buffer<ufp4::bf16>(x.rows * x.cols);
  const sink to{part.copy.data(), dtype::bf16, x.rows, x.cols, static_cast<std::ptrdiff_t>(x.cols), 1};
  const ufp4::detail::buffer<float> line(x.cols);
  for (std::size_t r = 0; r < x.rows; ++r) {
    cpu::detail::load_row(x, r, 0, x.cols, line.data());
    cpu::detail::store_row(to, r, 0, x.cols, line.data());
  }
  x = {part.copy.data(), dtype::bf16, x.rows, x.cols, static_cast<std::ptrdiff_t>(x.cols), 1};
}

/// quantize_parts, independent of the caller's matrix from then on.
inline std::vector<stored_operand> keep_parts(const cpu::context& ctx, const bound_recipe& now, int i,
                                              std::span<const source> parts) {
  std::vector<stored_operand> kept = quantize_parts(ctx, now, i, parts);
  for (stored_operand& p : kept)
    if (p.operand.is_quantized)
      p.operand.plain = {};
    else
      copy_plain(p);
  return kept;
}

/// Reorders codes and scales into the interleaved layout of matrix/prepacked.hpp, which a GEMM's right operand is read
/// in. Rows that fill the last panel of 16 get codes of zero and scales of zero bits.
inline void prepack_part(const cpu::context& ctx, stored_operand& part) {
  ufp4::detail::quantized_source& q = part.operand.q;
  if (q.rows == 0 || q.padded_cols == 0) return;
  const quantized_size size = ufp4::detail::prepacked_size({q.format, q.tensor_scale, q.rows, q.cols, q.transform});
  ufp4::detail::buffer<std::uint8_t> codes(size.codes), scales(size.scales);
  ufp4::detail::prepack_to(ctx, q, {codes.data(), scales.data()});
  part.codes = std::move(codes);
  part.scales = std::move(scales);
  q.codes = part.codes.data();
  q.scales = part.scales.data();
  q.interleaved = true;
}

/// How the parts of a saved X^T were made.
inline std::vector<saved_shape> shapes_of(const saved_activation& saved) {
  std::vector<saved_shape> all;
  for (const stored_operand& part : saved.raw()) {
    const ufp4::detail::gemm_operand& o = part.operand;
    const format_spec& f = o.is_quantized ? o.q.format : o.plain.format;
    all.push_back({o.rows(), o.cols(), f.block.cols, o.transform(), o.is_quantized, f.grid, f.scale, saved.made()});
  }
  return all;
}

}  // namespace ufp4::recipe::detail::inline UFP4_CODE
