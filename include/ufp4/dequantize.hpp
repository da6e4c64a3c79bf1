// ufp4 - dequantize: from 4-bit blocks back to floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ufp4/cpu/dispatch.hpp>
#include <ufp4/cpu/parallel.hpp>
#include <ufp4/quantize.hpp>

namespace ufp4::inline UFP4_CODE {

/// out = fl(value * fl(block scale * tensor scale)), rounded to out's type; a block with a NaN scale gives NaN.
///
/// | shape     | out is q.rows() x q.cols(): padding is not written                                          |
/// | transform | not undone: it cancels in a product (fake_quantize with undo_transform, hadamard_inverse)   |
/// | aliasing  | out must not overlap q's codes or scales                                                    |
/// | bits      | identical for every isa and thread count                                                    |
template <quantized Q, matrix_scalar T>
void dequantize(const cpu::context& ctx, const Q& q, const matrix_view<T>& out) {
  const quantized_view<typename Q::format> view = q;
  detail::check_dequantize("dequantize", view, out);
  const auto& row = cpu::detail::kernel_for(cpu::detail::kernels::dequantize, cpu::resolve(ctx));
  const cpu::detail::quantized_source from = detail::quantized_source_of(view);
  const detail::sink to = detail::sink_of(out);
  cpu::detail::parallel_rows(ctx, q.rows(), q.padded_cols(),
                             [&](std::size_t first, std::size_t last) { row.kernel(from, to, first, last); });
}
template <quantized Q, matrix_scalar T>
void dequantize(const Q& q, const matrix_view<T>& out) {
  dequantize(cpu::context{}, q, out);
}

}  // namespace ufp4::inline UFP4_CODE
