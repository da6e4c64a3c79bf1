// ufp4 - amax on a GPU: the largest finite magnitude of a matrix, written to device memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/gpu/context.hpp>
#include <ufp4/gpu/kernels/quantize_launch.hpp>
#include <ufp4/matrix/checks.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// *out = the host's amax(x, t), in device memory: for tensor_amax_at, or for an all-reduce over ranks first (the order
/// of floats >= 0 is the order of their bits). Needs no workspace.
template <matrix_scalar T>
status amax(const context& ctx, const matrix_view<T>& x, float* out, const transform_spec& t = {}) {
  return detail::checked([&]() -> status {
    ufp4::detail::check_data("amax", "x", x);
    ufp4::detail::check_signs("amax", t);
    ufp4::detail::expects(out != nullptr, "amax: out is null");
    ufp4::detail::quantize_job job;
    job.x = ufp4::detail::source_of(x);
    job.transform = t;
    auto* bits = reinterpret_cast<std::uint32_t*>(out);
    const error e = set_zero(bits, sizeof *bits, ctx.where);
    return detail::status_of("amax", e == success ? detail::queue_amax(job, bits, ctx.where) : e);
  });
}
/// The same with a transform type, such as random_hadamard<16>.
template <matrix_scalar T, transform Transform>
status amax(const context& ctx, const matrix_view<T>& x, float* out, const Transform& t) {
  return amax(ctx, x, out, t.spec());
}

}  // namespace ufp4::gpu::inline UFP4_GPU
