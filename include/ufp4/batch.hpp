// ufp4 - batches: quantize, dequantize, measure and multiply many matrices of one shape.
// SPDX-License-Identifier: Apache-2.0
//
// A quantized batch is a std::vector of any_quantized, or of quantized_matrix<F>. Matrix i has the bits that its rows
// have in the stack of all matrices, one below the other, each padded to whole blocks. With batch_amax::shared, a batch
// therefore equals its stack divided into parts, random bits included (numerics 3).
#pragma once

#include <ufp4/analysis/measure.hpp>
#include <ufp4/gemm_grouped.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// body(i, options) for every matrix, with its place in the stack and, where the format needs one, its amax.
template <class T, class O, class Body>
void each_of_batch(const char* operation, const cpu::context& ctx, const format_spec& format, const matrix_batch<T>& x,
                   batch_amax which, O options, const Body& body) {
  expects(which <= batch_amax::own, operation, ": invalid batch_amax ", static_cast<unsigned>(which));
  expects(which == batch_amax::shared || format.has_tensor_scale(), operation,
          ": " UFP4_NO_TENSOR_SCALE("batch_amax::own"));
  expects(which == batch_amax::shared || !options.has_amax, operation,
          ": batch_amax::own contradicts a tensor_amax, which all matrices share");
  expects(!options.has_shard, operation, ": a batch sets the shard of each matrix itself; leave shard out");
  for (std::size_t i = 0; i < x.size(); ++i) check_quantize(operation, format, source_of(x[i]), options);
  const auto amax = [&](std::size_t i) { return amax_of<O::needs>(ctx, make_job(source_of(x[i]), format, options)); };
  const bool shares = format.has_tensor_scale() && which == batch_amax::shared && !options.has_amax;
  for (std::size_t i = 0; shares && i < x.size(); ++i) {
    const float here = amax(i);
    options.global_amax = here > options.global_amax ? here : options.global_amax;
  }
  options.has_amax = options.has_amax || format.has_tensor_scale();
  options.has_shard = true;
  for (std::size_t i = 0; i < x.size(); ++i) {
    options.place = {i * scale_rows(x.rows(), format.block) * static_cast<std::size_t>(format.block.rows), 0, x.cols()};
    if (which == batch_amax::own) options.global_amax = amax(i);
    body(i, options);
  }
}

template <class Q, class T>
void check_batch_shapes(const char* operation, const std::vector<Q>& q, const matrix_batch<T>& out) {
  expects(q.size() == out.size(), operation, ": batch size mismatch: ", q.size(), " quantized matrices, ", out.size(),
          " outputs");
}

/// Two matrices of a batch that are k apart share an element where k * stride + i * row_stride is a multiple
/// j * col_stride, for |i| < rows and |j| < cols. The elements of one matrix must not overlap (check_output).
inline bool matrices_overlap(const sink& first, std::size_t size, std::ptrdiff_t stride) {
  const auto rows = static_cast<std::ptrdiff_t>(first.rows), cols = static_cast<std::ptrdiff_t>(first.cols);
  if (rows == 0 || cols == 0) return false;
  const std::size_t reach =
      (first.rows - 1) * magnitude(first.row_stride) + (first.cols - 1) * magnitude(first.col_stride);
  for (std::size_t k = 1; k < size && k * magnitude(stride) <= reach; ++k)
    for (std::ptrdiff_t i = 1 - rows; i < rows; ++i) {
      const std::ptrdiff_t apart = static_cast<std::ptrdiff_t>(k) * stride + i * first.row_stride;
      if (apart == 0) return true;
      if (first.col_stride == 0 || apart % first.col_stride != 0) continue;
      if (magnitude(apart / first.col_stride) < first.cols) return true;
    }
  return false;
}

/// What is checked of a batch that is written: no two elements, of any of its matrices, have the same address.
template <matrix_scalar T>
void check_batch_output(const char* operation, const matrix_batch<T>& out) {
  if (out.size() == 0) return;
  const sink first = sink_of(out[0]);
  check_output(operation, "out", first);
  expects(!matrices_overlap(first, out.size(), out.stride()), operation, ": matrices of out overlap: ", out.size(),
          " of ", first.rows, " x ", first.cols, " with row stride ", first.row_stride, ", column stride ",
          first.col_stride, " and stride ", out.stride());
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// Quantizes every matrix of a batch. The policies are those of quantize, but for shard.
template <class T, class... Policies>
std::vector<any_quantized> quantize(const format_spec& format, const matrix_batch<T>& x, batch_amax which,
                                    const Policies&... policies) {
  const cpu::context ctx = detail::context_among(policies...);
  std::vector<any_quantized> all;
  all.reserve(x.size());
  detail::each_of_batch("quantize", ctx, format, x, which, detail::collect(policies...),
                        [&](std::size_t i, const auto& options) {
                          any_quantized& out = all.emplace_back(format, x.rows(), x.cols(), options.transform);
                          detail::quantize_to(ctx, detail::source_of(x[i]), options, out);
                        });
  return all;
}
template <detail::any_block_format F, class T, class... Policies>
std::vector<quantized_matrix<F>> quantize(const matrix_batch<T>& x, batch_amax which, const Policies&... policies) {
  std::vector<any_quantized> all = quantize(spec_of<F>, x, which, policies...);
  std::vector<quantized_matrix<F>> typed;
  typed.reserve(all.size());
  for (any_quantized& q : all) typed.emplace_back(static_cast<any_quantized&&>(q));
  return typed;
}

/// Decodes every matrix.
template <detail::quantized_like Q, class T>
void dequantize(const std::vector<Q>& q, const matrix_batch<T>& out, const cpu::context& ctx = {}) {
  detail::check_batch_shapes("dequantize", q, out);
  detail::check_batch_output("dequantize", out);
  for (std::size_t i = 0; i < q.size(); ++i) detail::check_dequantize("dequantize", any_quantized_view(q[i]), out[i]);
  for (std::size_t i = 0; i < q.size(); ++i) dequantize(q[i], out[i], ctx);
}

/// C[i] = alpha * A[i] * B[i]^T + beta * C[i], all products in one call (quantized_gemm_grouped).
template <detail::quantized_like A, detail::quantized_like B, class T>
void quantized_gemm(const std::vector<A>& a, const std::vector<B>& b, const matrix_batch<T>& c,
                    const gemm_options& options = {}, const cpu::context& ctx = {}) {
  detail::check_batch_shapes("quantized_gemm", a, c);
  std::vector<matrix_view<T>> outputs;
  outputs.reserve(c.size());
  for (std::size_t i = 0; i < c.size(); ++i) outputs.push_back(c[i]);
  quantized_gemm_grouped(a, b, outputs, options, ctx);
}

}  // namespace ufp4::inline UFP4_CODE

namespace ufp4::analysis::inline UFP4_CODE {

/// One report of all matrices of a batch, quantized as quantize(format, x, which, policies...) would.
template <class T, class... Policies>
report measure(const format_spec& format, const matrix_batch<T>& x, batch_amax which, const Policies&... policies) {
  const cpu::context ctx = ufp4::detail::context_among(policies...);
  detail::totals all;
  ufp4::detail::each_of_batch("analysis::measure", ctx, format, x, which, ufp4::detail::collect(policies...),
                              [&](std::size_t i, const auto& options) {
                                detail::add_part(ctx, format, ufp4::detail::source_of(x[i]), options, all);
                              });
  return all.result(format);
}

}  // namespace ufp4::analysis::inline UFP4_CODE
