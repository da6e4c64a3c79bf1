// ufp4 - hadamard_forward and hadamard_inverse of a whole matrix, run by run along its columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/quantize.hpp>

namespace ufp4::detail::inline UFP4_CODE {

template <matrix_scalar X, matrix_scalar Y>
void transform_rows(const char* operation, const cpu::context& ctx, const transform_spec& t, bool inverse,
                    const matrix_view<X>& x, const matrix_view<Y>& out) {
  check_transform(operation, t, inverse, x, out);
  const source from = source_of(x);
  const sink to = sink_of(out);
  const std::size_t padded = inverse ? x.cols() : out.cols();
  const auto& row = cpu::detail::kernel_for(
      cpu::detail::kernels::hadamard < features_of_scalar<X> | features_of_scalar < Y >>, cpu::resolve(ctx));
  cpu::detail::parallel_rows(ctx, x.rows(), padded, [&](std::size_t first, std::size_t last) {
    row.kernel(t, inverse, from, to, first, last);
  });
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// Transforms the rows of x (numerics 4), as quantize does before it scales.
///
/// | shape    | out has x's rows, and x's columns padded with zeros to a multiple of n                |
/// | aliasing | out may be x itself (the same data, type and strides); no other overlap, nor in out   |
/// | bits     | identical for every isa and thread count; bf16 and fp16 outputs are rounded once more |
template <detail::matrix_scalar X, detail::matrix_scalar Y, detail::transform Transform>
void hadamard_forward(const matrix_view<X>& x, const matrix_view<Y>& out, const Transform& t,
                      const cpu::context& ctx = {}) {
  detail::transform_rows("hadamard_forward", ctx, t.spec(), false, x, out);
}

/// The inverse of hadamard_forward: x has out's columns rounded up to a multiple of n; the padding is not written.
template <detail::matrix_scalar X, detail::matrix_scalar Y, detail::transform Transform>
void hadamard_inverse(const matrix_view<X>& x, const matrix_view<Y>& out, const Transform& t,
                      const cpu::context& ctx = {}) {
  detail::transform_rows("hadamard_inverse", ctx, t.spec(), true, x, out);
}

}  // namespace ufp4::inline UFP4_CODE
