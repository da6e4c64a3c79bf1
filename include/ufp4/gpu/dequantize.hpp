// ufp4 - dequantize on a GPU: from 4-bit blocks back to floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/gpu/context.hpp>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/kernels/dequantize_kernel.hpp>
#include <ufp4/gpu/kernels/quantize_launch.hpp>
#include <ufp4/gpu/matrix.hpp>
#include <ufp4/matrix/checks.hpp>

namespace ufp4::gpu::detail::inline UFP4_GPU {

template <any_block_format F, matrix_scalar T>
status dequantize_view(const context& ctx, const quantized_view<F>& q, const matrix_view<T>& out) {
  return checked([&]() -> status {
    ufp4::detail::check_dequantize("dequantize", q, out);
    const auto tensor_scale = reinterpret_cast<std::uintptr_t>(q.tensor_scale());
    const ufp4::detail::sink to = ufp4::detail::sink_of(out);
    ufp4::detail::expects(
        tensor_scale == 0 || !ufp4::detail::bytes_of(to).overlaps({tensor_scale, tensor_scale + sizeof(float)}),
        "dequantize: tensor_scale overlaps out");
    if (out.rows() == 0 || out.cols() == 0) return {};
    const kernels::dequantize_job job{q.codes().data(),
                                      q.scales().data(),
                                      F::two_level ? q.tensor_scale() : nullptr,
                                      spec_of<F>,
                                      q.padded_cols(),
                                      (out.cols() + thread::run_of_thread - 1) / thread::run_of_thread,
                                      log2_of(static_cast<unsigned>(F::block.cols)),
                                      log2_of(static_cast<unsigned>(F::block.rows)),
                                      to};
    return status_of("dequantize",
                     launch(&kernels::dequantize_rows, blocks_for(out.rows() * job.across, kernels::dequantize_threads),
                            {kernels::dequantize_threads}, 16 * sizeof(float), ctx.where, job));
  });
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// out = fl(value * fl(block scale * tensor scale)), rounded to out's type: the host's bits. A block with a scale of
/// NaN is NaN. out is q.rows() x q.cols() in device memory, with any strides, and must not overlap the memory of q. A
/// transform is not undone; hadamard_inverse does that. Needs no workspace.
template <any_block_format F, matrix_scalar T>
status dequantize(const context& ctx, const quantized_view<F>& q, const matrix_view<T>& out) {
  return detail::dequantize_view(ctx, q, out);
}
/// The same for a matrix with memory of its own.
template <any_block_format F, matrix_scalar T>
status dequantize(const context& ctx, const quantized_matrix<F>& q, const matrix_view<T>& out) {
  return detail::dequantize_view(ctx, q.view(), out);
}

}  // namespace ufp4::gpu::inline UFP4_GPU
