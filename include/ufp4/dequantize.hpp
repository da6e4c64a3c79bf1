// ufp4 - dequantize: from 4-bit blocks back to floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/cpu/dispatch.hpp>
#include <ufp4/cpu/parallel.hpp>
#include <ufp4/matrix/matrix.hpp>
#include <ufp4/matrix/prepacked.hpp>
#include <ufp4/matrix/zero_points.hpp>
#include <ufp4/quantize.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// What dequantize decodes; gemm_zero_points.hpp defines it for a zero_point_matrix.
template <class Q>
concept decodable = quantized_like<Q> || prepacked_like<Q> || std::is_same_v<Q, zero_point_matrix>;

inline void dequantize_to(const cpu::context& ctx, const quantized_source& from, const sink& to) {
  const auto& row = cpu::detail::kernel_for(cpu::detail::kernels::dequantize, cpu::resolve(ctx));
  cpu::detail::parallel_rows(ctx, from.rows, from.padded_cols,
                             [&](std::size_t first, std::size_t last) { row.kernel(from, to, first, last); });
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// out = fl(value * fl(block scale * tensor scale)), rounded to out's type; a block with a NaN scale gives NaN.
///
/// | shape     | out is q.rows() x q.cols(): padding is not written                                          |
/// | transform | not undone: it cancels in a product (fake_quantize with undo_transform, hadamard_inverse)   |
/// | aliasing  | out must not overlap q's codes or scales                                                    |
/// | bits      | identical for every isa and thread count                                                    |
template <quantized_like Q, matrix_scalar T>
void dequantize(const cpu::context& ctx, const Q& q, const matrix_view<T>& out) {
  const any_quantized_view view = q;
  detail::check_dequantize("dequantize", view, out);
  detail::dequantize_to(ctx, detail::quantized_source_of(view), detail::sink_of(out));
}
/// The same of a prepacked matrix: dequantize(unpack(p), out).
template <prepacked_like P, matrix_scalar T>
void dequantize(const cpu::context& ctx, const P& p, const matrix_view<T>& out) {
  detail::check_dequantize("dequantize", p, out);
  dequantize(ctx, unpack(p), out);
}
template <detail::decodable Q, matrix_scalar T>
void dequantize(const Q& q, const matrix_view<T>& out) {
  dequantize(cpu::context{}, q, out);
}

/// Decodes into a new matrix of T: dequantize<bf16>(q).
template <matrix_scalar T = float, detail::decodable Q>
matrix<T> dequantize(const cpu::context& ctx, const Q& q) {
  auto out = matrix<T>::uninitialized(q.rows(), q.cols());
  dequantize(ctx, q, static_cast<const matrix_view<T>&>(out));
  return out;
}
template <matrix_scalar T = float, detail::decodable Q>
matrix<T> dequantize(const Q& q) {
  return dequantize<T>(cpu::context{}, q);
}

}  // namespace ufp4::inline UFP4_CODE
