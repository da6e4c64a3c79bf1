// ufp4 - quantized_gemm of weights with zero points (matrix/zero_points.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gemm.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// fl(scale * (8 - zero point)) of every group.
inline void zero_point_offsets(const zero_point_matrix* w, float* offsets) {
  for (std::size_t g = 0; g < w->scales().size(); ++g)
    offsets[g] = w->scales()[g] * static_cast<float>(8 - w->zero_points()[g]);
}

/// The sums of one row of x over each group, rounded once.
inline void sum_groups(const float* x, std::size_t cols, std::size_t group, float* sums) {
  for (std::size_t k = 0; k < cols; k += group) {
    double sum = 0;
    for (std::size_t j = k; j < k + group; ++j) sum += static_cast<double>(x[j]);
    sums[k / group] = static_cast<float>(sum);
  }
}

/// C = product (alpha * signed part) + alpha * (the sum over groups of sum * offset, in binary64) + bias + beta * C.
inline void finish_zero_points(const source& x, const zero_point_matrix& w, const buffer<float>& offsets,
                               const matrix<float>& product, const sink& c, const gemm_options& options,
                               std::size_t first, std::size_t last) {
  const std::size_t groups = w.cols() / w.group();
  const buffer<float> row(w.cols()), sums(groups), line(w.rows());
  for (std::size_t i = first; i < last; ++i) {
    cpu::detail::load_row(x, i, 0, w.cols(), row.data());
    sum_groups(row.data(), w.cols(), w.group(), sums.data());
    for (std::size_t n = 0; n < w.rows(); ++n) {
      double part = 0;
      for (std::size_t g = 0; g < groups; ++g)
        part += static_cast<double>(sums[g]) * static_cast<double>(offsets[n * groups + g]);
      part = rounded(static_cast<double>(options.alpha) * part);
      float out = static_cast<float>(static_cast<double>(product(i, n)) + part);
      if (!options.bias.empty()) out = out + options.bias[n];
      if (options.beta != 0.0f) out = fma(options.beta, cpu::detail::load_element(c, i, n), out);
      line.data()[n] = out;
    }
    cpu::detail::store_row(c, i, 0, w.rows(), line.data());
  }
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// C[M,N] = alpha * X[M,K] * W[N,K]^T + bias + beta * C with float, bf16 or fp16 X.
///
/// | result  | within the bound of quantized_gemm in the same mode for X and W's signed part, plus 2^-23 times     |
/// |         | the sum of |x| * |offset|; the parts of the zero points are added in binary64                       |
/// | threads | as quantized_gemm; the same bits for every thread count                                             |
/// | errors  | std::invalid_argument as quantized_gemm's, before anything is written; C must not overlap X or bias |
/// | memory  | one binary32 matrix of the shape of C, and a float for each group of W                           |
template <detail::matrix_scalar T, detail::matrix_scalar U>
void quantized_gemm(const matrix_view<T>& x, const zero_point_matrix& w, const matrix_view<U>& c,
                    const gemm_options& options = {}, const cpu::context& ctx = {}) {
  const detail::sink out = detail::sink_of(c);
  detail::check_gemm("quantized_gemm", x, w.signed_part(), out, options);
  auto product = matrix<float>::uninitialized(c.rows(), c.cols());
  quantized_gemm(x, w.signed_part(), static_cast<const matrix_view<float>&>(product),
                 {.alpha = options.alpha, .accumulate = options.accumulate}, ctx);
  const detail::buffer<float> offsets(w.scales().size());
  cpu::detail::in_exact_environment(&detail::zero_point_offsets, &w, offsets.data());
  const detail::source from = detail::source_of(x);
  cpu::detail::parallel_rows(ctx, c.rows(), c.cols() * 4, [&](std::size_t first, std::size_t last) {
    detail::finish_zero_points(from, w, offsets, product, out, options, first, last);
  });
}

}  // namespace ufp4::inline UFP4_CODE
