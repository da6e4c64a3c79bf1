// ufp4 - quantized_gemm: C = alpha * A * B^T + beta * C, A and B in 4-bit blocks along K.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <ufp4/cpu/gemm_driver.hpp>
#include <ufp4/dequantize.hpp>
#include <ufp4/quantize.hpp>

namespace ufp4::inline UFP4_TYPES {

/// | alpha, beta | C is read only if beta is not 0                                                            |
/// | accumulate  | fast: any order, fixed for an isa and a build, never by threads; |C - E| as in numerics 6   |
/// |             | exact_blocks: the same bits on every backend; folded_bf16: looser, by request only          |
struct gemm_options {
  float alpha = 1.0f;
  float beta = 0.0f;
  ufp4::accumulate accumulate = ufp4::accumulate::fast;
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

template <class T>
struct is_request : std::false_type {};
template <class F, class T, rounding_policy R>
struct is_request<quantize_request<F, T, R>> : std::true_type {};
template <class T>
struct is_plain : std::false_type {};
template <class T>
struct is_plain<matrix_view<T>> : std::true_type {};
template <class T>
struct is_plain<unquantized_operand<T>> : std::true_type {};

template <class T>
concept request_operand = is_request<T>::value;
template <class T>
concept plain_operand = is_plain<T>::value;
/// What either side of a GEMM may be; at least one is not plain.
template <class T>
concept any_operand = quantized<T> || request_operand<T> || plain_operand<T>;

/// A side as it is multiplied: views stay, requests are quantized here.
template <quantized Q>
quantized_view<typename Q::format> realize(const cpu::context&, const Q& q) {
  return q;
}
template <class F, class T, rounding_policy R>
quantized_matrix<format_of<F>> realize(const cpu::context& ctx, const quantize_request<F, T, R>& r) {
  quantized_matrix<format_of<F>> out(r.x.rows(), r.x.cols(), r.options.transform);
  out.set_tensor_scale(quantize_to<F>(ctx, r.x, r.options, {out.codes().data(), out.scales().data()}));
  return out;
}
template <class T>
unquantized_operand<T> realize(const cpu::context&, const matrix_view<T>& x) {
  return unquantized(x);
}
template <class T>
unquantized_operand<T> realize(const cpu::context&, const unquantized_operand<T>& x) {
  return x;
}

/// What can be known of a side before it is quantized: shapes are checked on it, so that nothing is done in vain.
struct operand_shape {
  std::size_t rows = 0, cols = 0, padded_cols = 0;
  int block = 0;  ///< 0: plain, takes the other side's
  transform_spec transform;
  bool stochastic = false;
  ufp4::stochastic coins;
};

template <quantized Q>
operand_shape shape_of(const Q& q) {
  return {q.rows(), q.cols(), q.padded_cols(), Q::format::block.cols, q.transform(), false, {}};
}
template <class F, class T, rounding_policy R>
operand_shape shape_of(const quantize_request<F, T, R>& r) {
  constexpr block_shape block = format_of<F>::block;
  operand_shape s{r.x.rows(), r.x.cols(), padded_length(r.x.cols(), block, r.options.transform),
                  block.cols, r.options.transform, false, {}};
  if constexpr (std::is_same_v<R, rounding_spec>) {
    s.stochastic = r.options.rounding.what == rounding_spec::kind::stochastic;
    s.coins = r.options.rounding.coins;
  }
  return s;
}
template <class T>
operand_shape shape_of(const unquantized_operand<T>& x) {
  return {x.x.rows(), x.x.cols(), 0, 0, x.transform, false, {}};
}
template <class T>
operand_shape shape_of(const matrix_view<T>& x) {
  return shape_of(unquantized(x));
}

inline void check_product(const operand_shape& a, const operand_shape& b, const sink& c) {
  constexpr const char* verb = "quantized_gemm: ";
  expects(a.cols == b.cols, verb, "A has ", a.cols, " columns (K), but B has ", b.cols);
  expects(c.rows == a.rows, verb, "C has ", c.rows, " rows, but A has ", a.rows);
  expects(c.cols == b.rows, verb, "C has ", c.cols, " columns, but B has ", b.rows, " rows");
  expects(a.block == 0 || b.block == 0 || a.block == b.block, verb, "A has blocks of ", a.block, ", but B has blocks of ",
          b.block);
  expects(a.transform.n == b.transform.n, verb, "A was transformed in runs of ", a.transform.n, ", but B in runs of ",
          b.transform.n, " (1: not at all)");
  expects(same_map(a.transform, b.transform), verb, "A and B were transformed with different signs (first words ",
          a.transform.signs[0], " and ", b.transform.signs[0], ")");
  expects(!(a.stochastic && b.stochastic && a.coins.seed == b.coins.seed && a.coins.stream == b.coins.stream), verb,
          "A and B would be rounded with the same coins: seed ", a.coins.seed, ", stream ", a.coins.stream,
          " on both sides; give one of them another stream");
  expects(c.data != nullptr || c.rows == 0 || c.cols == 0, verb, "C is null, but has ", c.rows, " x ", c.cols,
          " elements");
}

/// The memory of a side must not be written through C.
template <quantized Q>
void check_operand(const char* name, const Q& q, const byte_range& c) {
  const auto codes = reinterpret_cast<std::uintptr_t>(q.codes().data());
  const auto scales = reinterpret_cast<std::uintptr_t>(q.scales().data());
  expects(!c.overlaps({codes, codes + q.codes().size_bytes()}), "quantized_gemm: C overlaps the codes of ", name);
  expects(!c.overlaps({scales, scales + q.scales().size_bytes()}), "quantized_gemm: C overlaps the scales of ", name);
}
template <class F, class T, rounding_policy R>
void check_operand(const char* name, const quantize_request<F, T, R>& r, const byte_range& c) {
  check_quantize<F>("quantized_gemm", r.x, r.options);
  expects(!c.overlaps(bytes_of(source_of(r.x))), "quantized_gemm: C overlaps ", name);
}
template <class T>
void check_operand(const char* name, const unquantized_operand<T>& x, const byte_range& c) {
  check_data("quantized_gemm", name, x.x);
  check_signs("quantized_gemm", x.transform);
  expects(!c.overlaps(bytes_of(source_of(x.x))), "quantized_gemm: C overlaps ", name);
}
template <class T>
void check_operand(const char* name, const matrix_view<T>& x, const byte_range& c) {
  check_operand(name, unquantized(x), c);
}

/// A realized side as kernels take it. `block`: what a plain side is cut into.
template <quantized Q>
cpu::detail::gemm_operand gemm_operand_of(const Q& q, int) {
  cpu::detail::gemm_operand side;
  side.q = quantized_source_of(quantized_view<typename Q::format>(q));
  return side;
}
template <class T>
cpu::detail::gemm_operand gemm_operand_of(const unquantized_operand<T>& x, int block) {
  cpu::detail::gemm_operand side;
  side.is_quantized = false;
  side.plain.x = source_of(x.x);
  side.plain.format.block = block_shape(block);
  side.plain.transform = x.transform;
  side.plain.padded_cols = padded_length(x.x.cols(), side.plain.format.block, x.transform);
  return side;
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// C[M,N] = alpha * A[M,K] * B[N,K]^T + beta * C.
///
/// | A, B      | quantized_matrix, quantized_view, or operand<F>(x, policies...) quantized on the fly; formats may   |
/// |           | differ, block lengths not. One of them may be a plain matrix_view, or unquantized(x, transform)     |
/// | C         | float, bf16 or fp16; must not overlap an operand. Written after every check has passed              |
/// | transform | the same on both sides: it cancels in the product                                                   |
/// | NaN       | a block with a NaN scale makes every product that touches it NaN                                    |
/// | K = 0     | the same formulas with an empty sum; M = 0 or N = 0: nothing happens                                |
/// | bits      | exact_blocks: identical on every backend, isa and thread count. fast: within the bound of numerics 6 |
template <detail::any_operand A, detail::any_operand B, matrix_scalar T>
void quantized_gemm(const cpu::context& ctx, const A& a, const B& b, const matrix_view<T>& c,
                    const gemm_options& options = {}) {
  static_assert(!(detail::plain_operand<A> && detail::plain_operand<B>), "at least one side must be quantized");
  const detail::sink out = detail::sink_of(c);
  const detail::operand_shape left = detail::shape_of(a), right = detail::shape_of(b);
  detail::check_product(left, right, out);
  detail::check_operand("A", a, detail::bytes_of(out));
  detail::check_operand("B", b, detail::bytes_of(out));
  cpu::resolve(ctx);
  if (out.rows == 0 || out.cols == 0) return;
  const auto realized_a = detail::realize(ctx, a);
  const auto realized_b = detail::realize(ctx, b);
  const int block = left.block != 0 ? left.block : right.block;
  cpu::detail::gemm_job job;
  job.left = detail::gemm_operand_of(realized_a, block);
  job.right = detail::gemm_operand_of(realized_b, block);
  job.out = out;
  job.block = static_cast<std::size_t>(block);
  job.alpha = options.alpha;
  job.beta = options.beta;
  job.mode = options.accumulate;
  cpu::detail::run_gemms(ctx, {&job, 1});
}
template <detail::any_operand A, detail::any_operand B, matrix_scalar T>
void quantized_gemm(const A& a, const B& b, const matrix_view<T>& c, const gemm_options& options = {}) {
  quantized_gemm(cpu::context{}, a, b, c, options);
}

}  // namespace ufp4::inline UFP4_CODE
