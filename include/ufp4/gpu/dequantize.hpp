// ufp4 - dequantize on a GPU: from 4-bit blocks back to floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/kernels/quantize_launch.hpp>
#include <ufp4/gpu/matrix.hpp>
#include <ufp4/matrix/checks.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned dequantize_threads = 256;

struct dequantize_job {
  const std::uint8_t* codes = nullptr;
  const void* scales = nullptr;
  const float* tensor_scale = nullptr;  ///< null: 1
  format_spec format{};
  std::size_t padded_cols = 0;
  std::size_t across = 1;  ///< groups of sixteen in a row; the last may be incomplete
  unsigned block_shift = log2_of(static_cast<unsigned>(format.block.cols));  ///< log2 of the block's length
  unsigned rows_shift = log2_of(static_cast<unsigned>(format.block.rows));   ///< log2 of the block's rows
  sink out{};
};

/// Each thread reads eight bytes of codes and writes 64 or 32 bytes; consecutive threads decode consecutive elements.
UFP4_KERNEL(dequantize_threads) dequantize_rows(const dequantize_job job) {
  auto* table = reinterpret_cast<float*>(shared_memory());
  for (unsigned c = 0; c < 16; ++c)  // not value[thread]: for a run-time index the job is copied to local memory
    if (thread_index().x == c) table[c] = job.format.grid.value[c];
  sync_block();
  const std::size_t at = std::size_t{block_index().x} * dequantize_threads + thread_index().x;
  const thread::grid_place place = thread::split(at, job.across);
  const std::size_t row = place.row, k = place.sixteen * thread::run_of_thread;
  if (row >= job.out.rows) return;
  const std::size_t left = job.padded_cols - k;
  const unsigned count = left < thread::run_of_thread ? static_cast<unsigned>(left) : thread::run_of_thread;
  float v[thread::run_of_thread];
  thread::decode_sixteen(thread::load_codes(job.codes + (row * job.padded_cols + k) / 2, count / 2), table, v);

  const unsigned mask = (1u << job.block_shift) - 1;
  const std::size_t first = (row >> job.rows_shift) * (job.padded_cols >> job.block_shift);
  const float tensor = job.tensor_scale == nullptr ? 1.0f : *job.tensor_scale;
  float effective = 0;
  for (unsigned j = 0; j < thread::run_of_thread; ++j) {
    if ((j == 0 || (j & mask) == 0) && j < count)
      effective = product(thread::scale_at(job.format.scale, job.scales, first + ((k + j) >> job.block_shift)), tensor);
    v[j] = product(v[j], effective);
  }
  thread::store_sixteen(job.out, row, k, v);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// out = fl(value * fl(block scale * tensor scale)), rounded to out's type: the host's bits. A block with a scale of
/// NaN is NaN. out is q.rows() x q.cols() in device memory, with any strides, and must not overlap the memory of q. A
/// transform is not undone; hadamard_inverse does that. Needs no workspace.
template <any_block_format F, matrix_scalar T>
status dequantize(const context& ctx, const quantized_view<F>& q, const matrix_view<T>& out) {
  return detail::checked([&]() -> status {
    detail::check_dequantize("dequantize", q, out);
    const auto tensor_scale = reinterpret_cast<std::uintptr_t>(q.tensor_scale());
    const detail::sink to = detail::sink_of(out);
    detail::expects(tensor_scale == 0 || !detail::bytes_of(to).overlaps({tensor_scale, tensor_scale + sizeof(float)}),
                    "dequantize: tensor_scale overlaps out");
    const kernels::dequantize_job job{.codes = q.codes().data(),
                                      .scales = q.scales().data(),
                                      .tensor_scale = F::two_level ? q.tensor_scale() : nullptr,
                                      .format = spec_of<F>,
                                      .padded_cols = q.padded_cols(),
                                      .across = (out.cols() + thread::run_of_thread - 1) / thread::run_of_thread,
                                      .out = to};
    return detail::status_of("dequantize",
                             detail::launch_each(listed<&kernels::dequantize_rows>, out.rows() * job.across,
                                                 kernels::dequantize_threads, 16 * sizeof(float), ctx.where, job));
  });
}
/// The same for a matrix with memory of its own.
template <any_block_format F, matrix_scalar T>
status dequantize(const context& ctx, const quantized_matrix<F>& q, const matrix_view<T>& out) {
  return dequantize(ctx, q.view(), out);
}

}  // namespace ufp4::gpu::inline UFP4_GPU
