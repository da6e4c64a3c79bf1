// ufp4 - dequantize on a GPU: from 4-bit blocks back to floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/kernels/decode_extended.hpp>
#include <ufp4/gpu/kernels/quantize_launch.hpp>
#include <ufp4/gpu/matrix.hpp>
#include <ufp4/matrix/checks.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned dequantize_threads = lanes_threads;

struct dequantize_job {
  const std::uint8_t* codes = nullptr;
  const void* scales = nullptr;
  const float* tensor_scale = nullptr;  ///< null: 1
  format_spec format{};
  std::size_t padded_cols = 0;
  thread::row_writer out{};
  unsigned tiles = 0;        ///< of 256 groups of sixteen, over which the thread blocks stride
  std::uint32_t across = 1;  ///< groups of sixteen in a row; the last may be incomplete
  unsigned block_shift = log2_of(static_cast<unsigned>(format.block.cols));  ///< log2 of the block's length
  unsigned rows_shift = log2_of(static_cast<unsigned>(format.block.rows));   ///< log2 of the block's rows
};

/// Multiplies the values of `count` codes, from element k of a row on, by the factors of their blocks.
UFP4_DEVICE void apply_scales(const dequantize_job& job, std::uint32_t row, std::size_t k, unsigned count, float tensor,
                              float (&v)[thread::run_of_thread]) {
  const std::uint64_t first = std::uint64_t{row >> job.rows_shift} * (job.padded_cols >> job.block_shift);
  const auto factor = [&](std::size_t at) {
    return product(thread::scale_at(job.format.scale, job.scales, first + (at >> job.block_shift)), tensor);
  };
  if (job.block_shift >= 4) {  // one block
    const float effective = factor(k);
    UFP4_UNROLL
    for (unsigned j = 0; j < thread::run_of_thread; ++j) v[j] = product(v[j], effective);
    return;
  }
  UFP4_UNROLL
  for (unsigned pair = 0; pair < thread::run_of_thread; pair += 2)
    if (pair < count) {
      const float effective = factor(k + pair);
      v[pair] = product(v[pair], effective);
      v[pair + 1] = product(v[pair + 1], effective);
    }
}

/// Each thread reads eight bytes of codes and writes 64 or 32 bytes; consecutive threads decode consecutive elements.
UFP4_LAZY_KERNEL(dequantize_threads) dequantize_rows(const dequantize_job job) {
  auto* table = reinterpret_cast<float*>(shared_memory());
  for (unsigned c = 0; c < 16; ++c)  // not value[thread]: for a run-time index the job is copied to local memory
    if (thread_index().x == c) table[c] = job.format.grid.value[c];
  sync_block();
  const float tensor = job.tensor_scale == nullptr ? 1.0f : *job.tensor_scale;
  grid_place at = thread::split(std::size_t{block_index().x} * dequantize_threads + thread_index().x, job.across);
  const grid_place step = thread::split(std::size_t{grid_size().x} * dequantize_threads, job.across);
  for (unsigned tile = block_index().x; tile < job.tiles; tile += grid_size().x) {
    if (at.row < job.out.places.rows) {
      const std::size_t k = std::size_t{at.sixteen} * thread::run_of_thread, left = job.padded_cols - k;
      const unsigned count = left < thread::run_of_thread ? static_cast<unsigned>(left) : thread::run_of_thread;
      float v[thread::run_of_thread];
      thread::decode_sixteen(thread::load_codes(job.codes + (at.row * job.padded_cols + k) / 2, count / 2), table, v);
      apply_scales(job, at.row, k, count, tensor, v);
      job.out.store(at.row, at.sixteen, v);
    }
    at = thread::advanced(at, step, job.across);
  }
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// Queues the decoding of all elements of `to`. The tensor scale is null for a format of one level.
template <features needs = features::all, class Use = void>
error queue_dequantize(const thread::extended_matrix& q, const float* tensor_scale, const sink& to, stream where) {
  const std::size_t across = (to.cols + thread::run_of_thread - 1) / thread::run_of_thread;
  const std::size_t tiles = (to.rows * across + kernels::dequantize_threads - 1) / kernels::dequantize_threads;
  if (tiles == 0) return success;
  if constexpr (has(needs, features::further_parts))
    if (has_extended_blocks(q.format))
      return launch_each(listed<&kernels::dequantize_extended<Use>>, to.rows * to.cols,
                         kernels::decode_extended_threads, 0, where,
                         kernels::dequantize_extended_job{q, tensor_scale, to});
  if constexpr (needs == features::all || !has(needs, features::further_parts)) {
    const kernels::dequantize_job job{.codes = q.codes,
                                      .scales = q.scales,
                                      .tensor_scale = tensor_scale,
                                      .format = q.format,
                                      .padded_cols = q.padded_cols,
                                      .out = thread::writer_of(to),
                                      .tiles = static_cast<unsigned>(tiles),
                                      .across = static_cast<std::uint32_t>(across)};
    return launch_tiles(listed<&kernels::dequantize_rows<Use>>, tiles, 16 * sizeof(float), where, job);
  }
  return not_supported;  // not reached
}
UFP4_GPU_FUNCTION(error queue_dequantize<features::all>(const thread::extended_matrix&, const float*, const sink&,
                                                        stream))

template <features needs = features::all, class Q, matrix_scalar T>
status dequantize_as(const context& ctx, const Q& q, const format_spec& format, const matrix_view<T>& out) {
  return checked([&]() -> status {
    check_dequantize("dequantize", q, out);
    const auto tensor_scale = reinterpret_cast<std::uintptr_t>(q.tensor_scale());
    const sink to = sink_of(out);
    expects(tensor_scale == 0 || !bytes_of(to).overlaps({tensor_scale, tensor_scale + sizeof(float)}),
            "dequantize: tensor_scale overlaps out");
    check_places("dequantize", "out", out.rows(), out.cols());
    const float* scale = format.has_tensor_scale() ? q.tensor_scale() : nullptr;
    const thread::extended_matrix from{q.codes().data(), q.scales().data(), format, thread::further_grids_of(format),
                                       q.padded_cols()};
    return status_of("dequantize", queue_dequantize<needs>(from, scale, to, ctx.where));
  });
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// out = fl(value * fl(block scale * tensor scale)), rounded to out's type: the host's bits. A block with a scale of
/// NaN is NaN. out is q.rows() x q.cols() in device memory, with any strides, and must not overlap the memory of q. A
/// transform is not undone; hadamard_inverse does that. Needs no workspace.
template <detail::any_block_format F, detail::matrix_scalar T>
status dequantize(const context& ctx, const quantized_view<F>& q, const matrix_view<T>& out) {
  using detail::features;
  constexpr features own = detail::features_of(spec_of<F>) & features::further_parts;
  return detail::dequantize_as<detail::kernels_are_external ? features::all : own>(ctx, q, spec_of<F>, out);
}
/// The same for a matrix with memory of its own.
template <detail::any_block_format F, detail::matrix_scalar T>
status dequantize(const context& ctx, const quantized_matrix<F>& q, const matrix_view<T>& out) {
  return dequantize(ctx, q.view(), out);
}

}  // namespace ufp4::gpu::inline UFP4_GPU
