// ufp4 - dequantize: from 4-bit blocks back to floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/matrix/matrix.hpp>
#include <ufp4/matrix/prepacked.hpp>
#include <ufp4/matrix/product.hpp>
#include <ufp4/matrix/zero_points.hpp>
#include <ufp4/quantize.hpp>

namespace ufp4::detail::inline UFP4_CODE {
template <class Q>
concept decodable = quantized_like<Q> || prepacked_like<Q> || std::is_same_v<Q, zero_point_matrix>;

template <features needs, matrix_scalar T>
void dequantize_to(const cpu::context& ctx, const quantized_source& from, const matrix_view<T>& out) {
  const auto& row = cpu::detail::kernel_for(cpu::detail::kernels::dequantize<needs>, cpu::resolve(ctx));
  const sink to = sink_of(out);
  cpu::detail::parallel_rows(ctx, from.rows, from.padded_cols,
                             [&](std::size_t first, std::size_t last) { row.kernel(from, to, first, last); });
}

/// Rows first .. last - 1 of w, decoded by a table of 16 values a group.
inline void dequantize_zero_points(const zero_point_matrix& w, const sink& out, std::size_t first, std::size_t last) {
  const std::size_t cols = w.cols(), group = w.group(), groups = cols / group;
  const buffer<float> line(cols);
  for (std::size_t n = first; n < last; ++n) {
    const std::uint8_t* codes = w.signed_part().codes().data() + n * cols / 2;
    for (std::size_t g = 0; g < groups; ++g) {
      float value[16];  // by the stored code, which has bit 3 flipped
      for (int code = 0; code < 16; ++code)
        value[code ^ 8] = w.scales()[n * groups + g] * static_cast<float>(code - w.zero_points()[n * groups + g]);
      for (std::size_t k = g * group; k < (g + 1) * group; k += 2) {
        line.data()[k] = value[codes[k / 2] & 15];
        line.data()[k + 1] = value[codes[k / 2] >> 4];
      }
    }
    cpu::detail::store_row(out, n, 0, cols, line.data());
  }
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// out = fl(value * fl(block scale * tensor scale)), rounded to out's type; a block with a NaN scale gives NaN.
///
/// | shape     | out is q.rows() x q.cols(): padding is not written                                          |
/// | transform | not undone: it cancels in a product (fake_quantize with undo_transform, hadamard_inverse)   |
/// | aliasing  | out must not overlap q's codes or scales, and its elements not each other                   |
/// | bits      | identical for every isa and thread count                                                    |
template <detail::quantized_like Q, detail::matrix_scalar T>
void dequantize(const Q& q, const matrix_view<T>& out, const cpu::context& ctx = {}) {
  detail::check_dequantize("dequantize", q, out);
  constexpr detail::features needs = detail::features_of_matrix<Q> | detail::features_of_scalar<T>;
  detail::dequantize_to<needs>(ctx, detail::quantized_source_of(q), out);
}
/// The same of a prepacked matrix: dequantize(unpack(p), out).
template <detail::prepacked_like P, detail::matrix_scalar T>
void dequantize(const P& p, const matrix_view<T>& out, const cpu::context& ctx = {}) {
  detail::check_dequantize("dequantize", p, out);
  dequantize(unpack(p), out, ctx);
}
/// out = fl(scale * (code - zero point)), rounded to out's type. Threads and errors as dequantize of other matrices.
template <detail::matrix_scalar T>
void dequantize(const zero_point_matrix& w, const matrix_view<T>& out, const cpu::context& ctx = {}) {
  detail::check_decoded("dequantize", w, out);
  const detail::sink to = detail::sink_of(out);
  cpu::detail::parallel_rows(ctx, w.rows(), w.cols(), [&](std::size_t first, std::size_t last) {
    detail::dequantize_zero_points(w, to, first, last);
  });
}
/// For other arguments: says which of them is not accepted.
template <detail::no_context Q, detail::no_context Out>
  requires(!detail::viewable<Out> && !detail::is_batch<Out>)
void dequantize(const Q&, const Out&, const cpu::context& = {}) {
  constexpr bool is_matrix = detail::viewable<Out>;
  static_assert(is_matrix, "dequantize: out is a matrix_view or matrix of float, bf16 or fp16");
}
template <class T = float, class... Arguments>
void dequantize(const cpu::context&, const Arguments&...) {
  constexpr bool is_alone = sizeof...(Arguments) == 0;
  static_assert(is_alone, "dequantize: a cpu::context is the last argument");
}

/// Decodes into a new matrix of T: dequantize<bf16>(q).
template <detail::matrix_scalar T = float, detail::decodable Q>
matrix<T> dequantize(const Q& q, const cpu::context& ctx = {}) {
  auto out = matrix<T>::uninitialized(q.rows(), q.cols());
  dequantize(q, static_cast<const matrix_view<T>&>(out), ctx);
  return out;
}

}  // namespace ufp4::inline UFP4_CODE
