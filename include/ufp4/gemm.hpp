// ufp4 - quantized_gemm: C = alpha * A * B^T + beta * C, A and B in 4-bit blocks along K.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/cpu/gemm_driver.hpp>
#include <ufp4/dequantize.hpp>
#include <ufp4/matrix/product.hpp>
#include <ufp4/quantize.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// An operand ready to be multiplied: requests are quantized here.
template <class Q>
  requires(quantized_like<Q> || prepacked_like<Q>)
const Q& quantize_operand(const cpu::context&, const Q& q) {
  return q;  // NOLINT(bugprone-return-const-ref-from-parameter): used within the call that q was given to
}
template <class F, class T, class O>
any_quantized quantize_operand(const cpu::context& ctx, const quantize_request<F, T, O>& r) {
  any_quantized out(spec_of<format_of<F>>, r.x.rows(), r.x.cols(), r.options.transform);
  quantize_to<preset_of<F>>(ctx, source_of(r.x), r.options, out);
  return out;
}
inline unquantized_side quantize_operand(const cpu::context&, const unquantized_side& x) { return x; }

/// All panels of a matrix, into memory of prepacked_size.
inline void prepack_to(const cpu::context& ctx, const quantized_source& from, const quantized_sink& to) {
  if (from.rows == 0 || from.padded_cols == 0) return;
  const std::size_t panels = prepacked_layout::panels(from.rows), height = prepacked_layout::panel_rows;
  cpu::detail::parallel_rows(ctx, panels, from.padded_cols * height,
                             [&](std::size_t first, std::size_t last) { prepack_panels(from, to, first, last); });
}
inline void prepack_to(const cpu::context& ctx, const any_quantized_view& q, quantized_memory& out) {
  out.set_tensor_scale(q.tensor_scale());
  prepack_to(ctx, quantized_source_of(q), {out.codes().data(), out.scale_bytes().data()});
}
template <class Q>
constexpr features features_of_operand() {
  if constexpr (request_operand<Q> || quantized_like<Q> || prepacked_like<Q>)
    return features_of_matrix<Q> | only_if(prepacked_like<Q>, features::prepacked);
  else
    return features::mixed_input;
}
/// What a product of these types in `mode` or a stricter one needs.
template <any_operand A, any_operand B, accumulate mode>
inline constexpr features features_of_product =
    (features_of_operand<A>() | features_of_operand<B>() |
     only_if(static_block_length<A> == 0 || static_block_length<B> == 0 ||
                 !cpu::detail::integers_suffice(static_format<A>, static_format<B>, mode),
             features::any_product) |
     only_if(mode != accumulate::fast, features::other_mode));

template <accumulate mode, any_operand A, any_operand B, matrix_scalar T>
void multiply(const cpu::context& ctx, const A& a, const B& b, const matrix_view<T>& c, const gemm_options& options) {
  const sink out = sink_of(c);
  check_gemm("quantized_gemm", a, b, out, options);
  cpu::resolve(ctx);
  if (out.rows == 0 || out.cols == 0) return;
  const auto& side_a = quantize_operand(ctx, a);
  const auto& side_b = quantize_operand(ctx, b);
  const cpu::detail::gemm_job job = gemm_job_of(side_a, side_b, out, options);
  cpu::detail::run_gemms(ctx, cpu::detail::kernels::gemm<features_of_product<A, B, mode>>, {&job, 1});
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// C[M,N] = alpha * A[M,K] * B[N,K]^T + bias + beta * C.
///
/// | A, B      | any_quantized, quantized_matrix, a view of either, or operand<F>(x, policies...), quantized in this  |
/// |           | call; formats may differ, block lengths not. One of them may be an unquantized matrix_view, or       |
/// |           | unquantized(x, transform); B may be prepacked                                                        |
/// | C         | float, bf16 or fp16; overlaps neither an operand nor itself. Written after every check has passed    |
/// | transform | the same on both sides: it cancels in the product                                                    |
/// | NaN       | a block with a NaN scale makes every element of C that depends on it NaN                             |
/// | K = 0     | the same formulas with an empty sum; M = 0 or N = 0: nothing happens                                 |
/// | bits      | exact_blocks: identical on every backend, isa and thread count. fast: within the bound of numerics 6 |
template <detail::any_operand A, detail::any_operand B, detail::matrix_scalar T>
void quantized_gemm(const A& a, const B& b, const matrix_view<T>& c, const gemm_options& options,
                    const cpu::context& ctx = {}) {
  detail::multiply<accumulate::folded_bf16>(ctx, a, b, c, options);
}
/// The same with the default options, optionally followed by a context; compiles only what `fast` needs.
template <detail::any_operand A, detail::any_operand B, detail::matrix_scalar T>
void quantized_gemm(const A& a, const B& b, const matrix_view<T>& c, const std::same_as<cpu::context> auto&... ctx) {
  static_assert(sizeof...(ctx) <= 1, "two contexts in one call");
  detail::multiply<accumulate::fast>(detail::context_among(ctx...), a, b, c, {});
}

/// For other arguments: says which of them is not accepted.
template <detail::no_context A, class B, class C>
  requires(!detail::viewable<C> && !detail::is_batch<C>)
void quantized_gemm(const A&, const B&, const C&, const gemm_options& = {}, const cpu::context& = {}) {
  constexpr bool is_matrix = detail::viewable<C>;
  static_assert(is_matrix, "quantized_gemm: C is a matrix_view or matrix of float, bf16 or fp16");
}
template <class A, class B, class C>
void quantized_gemm(const cpu::context&, const A&, const B&, const C&, const gemm_options& = {}) {
  static_assert(std::is_void_v<A>, "quantized_gemm: a cpu::context is the last argument");
}

/// Weights in the order in which the GEMM kernels read them, for a right operand that is used again: the same bits as
/// with q itself, in less time. A copy: q may go.
inline any_prepacked prepack(const detail::quantized_argument& q, const cpu::context& ctx = {}) {
  any_prepacked out(q.spec(), q.rows(), q.cols(), q.transform());
  detail::prepack_to(ctx, q, out);
  return out;
}
/// The same into the caller's memory of prepacked_size, which must not overlap q. The returned view refers to it.
inline detail::any_prepacked_view prepack_into(const detail::quantized_argument& q, const quantized_storage& memory,
                                               const cpu::context& ctx = {}) {
  constexpr const char* operation = "prepack_into";
  detail::check_prepacked_spans(operation, {q.spec(), q.tensor_scale(), q.rows(), q.cols(), q.transform()},
                                memory.codes, memory.scales);
  detail::check_memory_apart(operation, q, memory);
  detail::prepack_to(ctx, detail::quantized_source_of(q), {memory.codes.data(), memory.scales.data()});
  return {q.spec(), memory.codes, memory.scales, q.tensor_scale(), q.rows(), q.cols(), q.transform()};
}
template <detail::quantized Q>
prepacked_matrix<typename Q::format> prepack(const Q& q, const cpu::context& ctx = {}) {
  prepacked_matrix<typename Q::format> out(q.rows(), q.cols(), q.transform());
  detail::prepack_to(ctx, q, out);
  return out;
}

/// Rows or columns of a prepacked matrix, prepacked: copies, with the conditions of those of a quantized matrix.
template <detail::prepacked_owner P>
P row_range(const P& p, std::size_t first, std::size_t count) {
  const auto q = unpack(p);
  return prepack(row_range(q, first, count), cpu::context{.threads = 1});
}
template <detail::prepacked_owner P>
P col_range(const P& p, std::size_t first, std::size_t count) {
  return prepack(col_range(unpack(p), first, count), cpu::context{.threads = 1});
}

}  // namespace ufp4::inline UFP4_CODE
