// ufp4 - hadamard_forward and hadamard_inverse on a GPU, with the host's bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/context.hpp>
#include <ufp4/gpu/kernels/hadamard_kernel.hpp>
#include <ufp4/matrix/checks.hpp>

namespace ufp4::gpu::detail::inline UFP4_GPU {

template <matrix_scalar X, matrix_scalar Y>
status transform_rows(const char* operation, const context& ctx, const transform_spec& t, bool inverse,
                      const matrix_view<X>& x, const matrix_view<Y>& out) {
  return checked([&]() -> status {
    ufp4::detail::check_transform(operation, t, inverse, x, out);
    return status_of(operation, queue_hadamard({ufp4::detail::source_of(x), ufp4::detail::sink_of(out), t, inverse,
                                                inverse ? x.cols() : out.cols()},
                                               ctx.where));
  });
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// The same as the host's (hadamard.hpp) for shapes, aliasing and bits. x and out are in device memory.
template <matrix_scalar X, matrix_scalar Y, transform Transform>
status hadamard_forward(const context& ctx, const matrix_view<X>& x, const matrix_view<Y>& out, const Transform& t) {
  return detail::transform_rows("hadamard_forward", ctx, t.spec(), false, x, out);
}
/// The inverse, in the same way.
template <matrix_scalar X, matrix_scalar Y, transform Transform>
status hadamard_inverse(const context& ctx, const matrix_view<X>& x, const matrix_view<Y>& out, const Transform& t) {
  return detail::transform_rows("hadamard_inverse", ctx, t.spec(), true, x, out);
}

}  // namespace ufp4::gpu::inline UFP4_GPU
