// ufp4 - linear_forward, linear_backward_input, linear_backward_weight under a recipe, dense and grouped by expert.
// SPDX-License-Identifier: Apache-2.0
//
// Each equals quantizing its two operands under the recipe's policies and one quantized_gemm, bit for bit. Inputs and
// outputs are float, bf16 or fp16 views; nothing is written before shapes and policies are checked; the output must not
// overlap an input. An optional cpu::context comes first. A call may hold a part of a batch: recipe/token_shard.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <ufp4/gemm.hpp>
#include <ufp4/recipe/linear_plan.hpp>
#include <ufp4/recipe/recipe.hpp>
#include <vector>

namespace ufp4::recipe::detail::inline UFP4_TYPES {

using cpu::detail::gemm_operand;

/// An operand ready to multiply: codes and scales of its own, or a plain matrix that is rounded to bf16 as it is read.
struct stored_operand {
  gemm_operand operand;
  ufp4::detail::buffer<std::uint8_t> codes, scales;
  ufp4::detail::buffer<ufp4::bf16> copy;  ///< of a plain matrix that must outlive its owner's
};

}  // namespace ufp4::recipe::detail::inline UFP4_TYPES

namespace ufp4::recipe::inline UFP4_TYPES {

/// The quantized X^T of a forward pass (one part an expert), for wgrad at the same step and layer.
/// Moves, does not copy.
class saved_activation {
 public:
  saved_activation() = default;
  saved_activation(saved_activation&&) = default;  // a copy's operands would point into the original's buffers
  saved_activation& operator=(saved_activation&&) = default;

  std::size_t parts() const { return parts_.size(); }
  /// Bytes of codes, scales and copies held.
  std::size_t bytes() const {
    std::size_t total = 0;
    for (const auto& p : parts_) total += p.codes.size() + p.scales.size() + p.copy.size() * sizeof(ufp4::bf16);
    return total;
  }
  std::vector<detail::stored_operand>& raw() { return parts_; }
  const std::vector<detail::stored_operand>& raw() const { return parts_; }
  detail::saved_place& made() { return made_; }
  const detail::saved_place& made() const { return made_; }

 private:
  std::vector<detail::stored_operand> parts_;
  detail::saved_place made_;
};

}  // namespace ufp4::recipe::inline UFP4_TYPES

namespace ufp4::recipe::detail::inline UFP4_CODE {

/// What all who hold a part of the operand agree on, given this call's own largest magnitude.
inline float agreed(const bound_recipe& now, int i, float here) {
  const amax_agreement& agree = has_tokens(i) ? now.shard().tokens : now.shard().weights;
  if (!agree) return here;
  const float all = agree.largest(agree.state, here);
  const std::uint32_t bits = ufp4::detail::opaque_bits(all);
  expects(bits <= ufp4::detail::max_finite_bits && bits >= ufp4::detail::opaque_bits(here), "token_shard.",
          has_tokens(i) ? "tokens" : "weights", " answered ", all, " for ", operand_names[i],
          ", whose largest magnitude is ", here, " in this call alone");
  return all;
}

/// The largest magnitude over all parts of an operand: one tensor scale for all experts of a call, and for all calls
/// that hold a part of a batch.
inline float global_amax_of(const cpu::context& ctx, const bound_recipe& now, int i, std::span<const source> parts) {
  float global_amax = 0;
  if (!now.recipe().operand(i).quantized || !now.recipe().operand(i).format.two_level) return global_amax;
  for (std::size_t e = 0; e < parts.size(); ++e) {
    const float here = ufp4::detail::amax_of(ctx, job_of(now, i, parts[e], static_cast<std::uint32_t>(e)));
    global_amax = ufp4::detail::opaque_bits(here) > ufp4::detail::opaque_bits(global_amax) ? here : global_amax;
  }
  return agreed(now, i, global_amax);
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

/// One operand in all its parts (one, or one an expert).
inline std::vector<stored_operand> quantize_parts(const cpu::context& ctx, const bound_recipe& now, int i,
                                                  std::span<const source> parts) {
  const float global_amax = global_amax_of(ctx, now, i, parts);
  std::vector<stored_operand> out;
  out.reserve(parts.size());
  for (std::size_t e = 0; e < parts.size(); ++e)
    out.push_back(quantize_operand(ctx, now, i, parts[e], global_amax, static_cast<std::uint32_t>(e)));
  return out;
}

/// The same, independent of the caller's matrix from then on.
inline std::vector<stored_operand> keep_parts(const cpu::context& ctx, const bound_recipe& now, int i,
                                              std::span<const source> parts) {
  std::vector<stored_operand> kept = quantize_parts(ctx, now, i, parts);
  for (stored_operand& p : kept) {
    if (p.operand.is_quantized) {
      p.operand.plain = {};  // it points to the caller's matrix
      continue;
    }
    source& x = p.operand.plain.x;
    p.copy = ufp4::detail::buffer<ufp4::bf16>(x.rows * x.cols);
    const sink to{p.copy.data(), dtype::bf16, x.rows, x.cols, static_cast<std::ptrdiff_t>(x.cols), 1};
    const ufp4::detail::buffer<float> line(x.cols);
    for (std::size_t r = 0; r < x.rows; ++r) {
      cpu::detail::load_row(x, r, 0, x.cols, line.data());
      cpu::detail::store_row(to, r, 0, x.cols, line.data());
    }
    x = {p.copy.data(), dtype::bf16, x.rows, x.cols, static_cast<std::ptrdiff_t>(x.cols), 1};
  }
  return kept;
}

inline void multiply_parts(const cpu::context& ctx, const bound_recipe& now, int left_index,
                           const std::vector<stored_operand>& left, const std::vector<stored_operand>& right,
                           std::span<const sink> out, write mode) {
  std::vector<cpu::detail::gemm_job> jobs;
  jobs.reserve(out.size());
  for (std::size_t e = 0; e < out.size(); ++e) {
    if (out[e].rows == 0 || out[e].cols == 0) continue;
    if (left[e].operand.cols() == 0 && mode == write::add) continue;  // an expert without tokens
    cpu::detail::gemm_job& job = jobs.emplace_back();
    job.left = left[e].operand;
    job.right = right[e].operand;
    job.out = out[e];
    job.block = static_cast<std::size_t>(block_of(now, left_index).cols);
    job.beta = mode == write::add ? 1.0f : 0.0f;
    job.mode = now.recipe().accumulate;
  }
  cpu::detail::run_gemms(ctx, jobs);
}

inline void forward(const char* operation, const cpu::context& ctx, const bound_recipe& now, const source& x,
                    expert_offsets offsets, const source& w, const sink& y, saved_activation* saved) {
  const shape s = check_forward(operation, now, x, offsets, w, y, saved != nullptr, placing::parts);
  cpu::resolve(ctx);
  const std::vector<source> tokens = by_tokens(s, x);
  const auto left = quantize_parts(ctx, now, 0, tokens), right = quantize_parts(ctx, now, 1, by_weights(s, w));
  if (saved != nullptr) {
    saved->raw() = keep_parts(ctx, now, 5, transposed(tokens));
    saved->made() = {now.step(), now.layer()};
  }
  multiply_parts(ctx, now, 0, left, right, by_tokens(s, y), write::overwrite);
}

inline void backward_input(const char* operation, const cpu::context& ctx, const bound_recipe& now, const source& dy,
                           expert_offsets offsets, const source& w, const sink& dx, write mode) {
  const shape s = check_backward_input(operation, now, dy, offsets, w, dx, placing::parts);
  cpu::resolve(ctx);
  const auto left = quantize_parts(ctx, now, 2, by_tokens(s, dy));
  const auto right = quantize_parts(ctx, now, 3, transposed(by_weights(s, w)));
  multiply_parts(ctx, now, 2, left, right, by_tokens(s, dx), mode);
}

inline void backward_weight(const char* operation, const cpu::context& ctx, const bound_recipe& now, const source& dy,
                            const source& x, expert_offsets offsets, const sink& dw, write mode) {
  const shape s = check_backward_weight(operation, now, dy, x, offsets, dw, placing::parts);
  cpu::resolve(ctx);
  const auto left = quantize_parts(ctx, now, 4, transposed(by_tokens(s, dy)));
  const auto right = quantize_parts(ctx, now, 5, transposed(by_tokens(s, x)));
  multiply_parts(ctx, now, 4, left, right, by_weights(s, dw), mode);
}

inline std::vector<saved_shape> shapes_of(const saved_activation& saved) {
  std::vector<saved_shape> all;
  for (const stored_operand& part : saved.raw()) {
    const gemm_operand& o = part.operand;
    const format_spec& f = o.is_quantized ? o.q.format : o.plain.format;
    all.push_back({o.rows(), o.cols(), f.block.cols, o.transform(), o.is_quantized, f.grid, f.scale, saved.made()});
  }
  return all;
}

inline void backward_weight(const char* operation, const cpu::context& ctx, const bound_recipe& now, const source& dy,
                            const saved_activation& saved, expert_offsets offsets, const sink& dw, write mode) {
  const shape s = check_backward_weight(operation, now, dy, shapes_of(saved), offsets, dw, placing::parts);
  cpu::resolve(ctx);
  const auto left = quantize_parts(ctx, now, 4, transposed(by_tokens(s, dy)));
  multiply_parts(ctx, now, 4, left, saved.raw(), by_weights(s, dw), mode);
}

}  // namespace ufp4::recipe::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// Y[T,N] = X[T,K] W[N,K]^T under the recipe's fprop. With `saved`, also quantizes X^T for wgrad: the bits that
/// linear_backward_weight would compute again from x at this step and layer.
template <matrix_scalar X, matrix_scalar W, matrix_scalar Y>
void linear_forward(const cpu::context& ctx, const recipe::bound_recipe& now, const matrix_view<X>& x,
                    const matrix_view<W>& w, const matrix_view<Y>& y, recipe::saved_activation* saved = nullptr) {
  const std::size_t offsets[] = {0, x.rows()};
  recipe::detail::forward("linear_forward", ctx, now, detail::source_of(x), offsets, detail::source_of(w),
                          detail::sink_of(y), saved);
}

/// dX[T,K] = dY[T,N] W[N,K] under the recipe's dgrad, written over dX or added to it.
template <matrix_scalar D, matrix_scalar W, matrix_scalar X>
void linear_backward_input(const cpu::context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                           const matrix_view<W>& w, const matrix_view<X>& dx,
                           recipe::write mode = recipe::write::overwrite) {
  const std::size_t offsets[] = {0, dy.rows()};
  recipe::detail::backward_input("linear_backward_input", ctx, now, detail::source_of(dy), offsets,
                                 detail::source_of(w), detail::sink_of(dx), mode);
}

/// dW[N,K] = dY[T,N]^T X[T,K] under the recipe's wgrad, written over dW or added to it (a float main gradient).
template <matrix_scalar D, matrix_scalar X, matrix_scalar W>
void linear_backward_weight(const cpu::context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                            const matrix_view<X>& x, const matrix_view<W>& dw,
                            recipe::write mode = recipe::write::overwrite) {
  const std::size_t offsets[] = {0, dy.rows()};
  recipe::detail::backward_weight("linear_backward_weight", ctx, now, detail::source_of(dy), detail::source_of(x),
                                  offsets, detail::sink_of(dw), mode);
}
/// The same from what linear_forward saved.
template <matrix_scalar D, matrix_scalar W>
void linear_backward_weight(const cpu::context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                            const recipe::saved_activation& saved, const matrix_view<W>& dw,
                            recipe::write mode = recipe::write::overwrite) {
  const std::size_t offsets[] = {0, dy.rows()};
  recipe::detail::backward_weight("linear_backward_weight", ctx, now, detail::source_of(dy), saved, offsets,
                                  detail::sink_of(dw), mode);
}

// Mixture of experts: tokens sorted by expert (recipe::expert_offsets), W and dW stacked, E*N x K. Each expert's tokens
// are an operand of their own, its rows starting at 0; one tensor amax serves all experts of a call; an expert without
// tokens writes zeros to its part of dW, or adds nothing. (numerics 7)

template <matrix_scalar X, matrix_scalar W, matrix_scalar Y>
void linear_forward_grouped(const cpu::context& ctx, const recipe::bound_recipe& now, const matrix_view<X>& x,
                            recipe::expert_offsets offsets, const matrix_view<W>& w, const matrix_view<Y>& y,
                            recipe::saved_activation* saved = nullptr) {
  recipe::detail::forward("linear_forward_grouped", ctx, now, detail::source_of(x), offsets, detail::source_of(w),
                          detail::sink_of(y), saved);
}
template <matrix_scalar D, matrix_scalar W, matrix_scalar X>
void linear_backward_input_grouped(const cpu::context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                   recipe::expert_offsets offsets, const matrix_view<W>& w, const matrix_view<X>& dx,
                                   recipe::write mode = recipe::write::overwrite) {
  recipe::detail::backward_input("linear_backward_input_grouped", ctx, now, detail::source_of(dy), offsets,
                                 detail::source_of(w), detail::sink_of(dx), mode);
}
template <matrix_scalar D, matrix_scalar X, matrix_scalar W>
void linear_backward_weight_grouped(const cpu::context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                    const matrix_view<X>& x, recipe::expert_offsets offsets, const matrix_view<W>& dw,
                                    recipe::write mode = recipe::write::overwrite) {
  recipe::detail::backward_weight("linear_backward_weight_grouped", ctx, now, detail::source_of(dy),
                                  detail::source_of(x), offsets, detail::sink_of(dw), mode);
}
template <matrix_scalar D, matrix_scalar W>
void linear_backward_weight_grouped(const cpu::context& ctx, const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                    const recipe::saved_activation& saved, recipe::expert_offsets offsets,
                                    const matrix_view<W>& dw, recipe::write mode = recipe::write::overwrite) {
  recipe::detail::backward_weight("linear_backward_weight_grouped", ctx, now, detail::source_of(dy), saved, offsets,
                                  detail::sink_of(dw), mode);
}

// Without a context: all cores, the best instructions.

template <class X, class W, class Y>
void linear_forward(const recipe::bound_recipe& now, const matrix_view<X>& x, const matrix_view<W>& w,
                    const matrix_view<Y>& y, recipe::saved_activation* saved = nullptr) {
  linear_forward(cpu::context{}, now, x, w, y, saved);
}
template <class D, class W, class X>
void linear_backward_input(const recipe::bound_recipe& now, const matrix_view<D>& dy, const matrix_view<W>& w,
                           const matrix_view<X>& dx, recipe::write mode = recipe::write::overwrite) {
  linear_backward_input(cpu::context{}, now, dy, w, dx, mode);
}
template <class D, class Saved, class W>
void linear_backward_weight(const recipe::bound_recipe& now, const matrix_view<D>& dy, const Saved& x_or_saved,
                            const matrix_view<W>& dw, recipe::write mode = recipe::write::overwrite) {
  linear_backward_weight(cpu::context{}, now, dy, x_or_saved, dw, mode);
}
template <class X, class W, class Y>
void linear_forward_grouped(const recipe::bound_recipe& now, const matrix_view<X>& x, recipe::expert_offsets offsets,
                            const matrix_view<W>& w, const matrix_view<Y>& y,
                            recipe::saved_activation* saved = nullptr) {
  linear_forward_grouped(cpu::context{}, now, x, offsets, w, y, saved);
}
template <class D, class W, class X>
void linear_backward_input_grouped(const recipe::bound_recipe& now, const matrix_view<D>& dy,
                                   recipe::expert_offsets offsets, const matrix_view<W>& w, const matrix_view<X>& dx,
                                   recipe::write mode = recipe::write::overwrite) {
  linear_backward_input_grouped(cpu::context{}, now, dy, offsets, w, dx, mode);
}
template <class D, class Saved, class W>
void linear_backward_weight_grouped(const recipe::bound_recipe& now, const matrix_view<D>& dy, const Saved& x_or_saved,
                                    recipe::expert_offsets offsets, const matrix_view<W>& dw,
                                    recipe::write mode = recipe::write::overwrite) {
  linear_backward_weight_grouped(cpu::context{}, now, dy, x_or_saved, offsets, dw, mode);
}

}  // namespace ufp4::inline UFP4_CODE
