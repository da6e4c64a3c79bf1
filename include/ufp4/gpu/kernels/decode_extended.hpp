// ufp4 - decodes matrices of extended formats on a GPU: to the caller's floats, and to values and scales for a product.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/gpu/thread/extended.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned decode_extended_threads = 256;

struct dequantize_extended_job {
  thread::extended_matrix from{};
  const float* tensor_scale = nullptr;  ///< null: 1
  sink out{};
};
/// fl(value * fl(block scale * outer scale)); a thread for each element.
UFP4_LAZY_KERNEL(decode_extended_threads) dequantize_extended(const dequantize_extended_job job) {
  const std::size_t at = std::size_t{block_index().x} * decode_extended_threads + thread_index().x;
  if (at >= job.out.rows * job.out.cols) return;
  const std::size_t row = at / job.out.cols, k = at % job.out.cols;
  format_spec f = job.from.format;
  const thread::further_grids grids = job.from.grids;
  grids.give_to(f);
  const thread::extended_block block = thread::block_of(job.from, f, row, k / static_cast<std::size_t>(f.block.cols),
                                                        job.tensor_scale == nullptr ? 1.0f : *job.tensor_scale);
  thread::store(job.out, row, k, product(thread::element_of(job.from, f, block.bits, row, k), block.scale));
}

/// An operand as binary32: its values without scales, and the scales of its blocks, row-major.
struct extended_operand_job {
  thread::extended_matrix from{};
  std::size_t rows = 0;
  float *values = nullptr, *scales = nullptr;
};
UFP4_LAZY_KERNEL(decode_extended_threads) decode_extended(const extended_operand_job job) {
  const std::size_t at = std::size_t{block_index().x} * decode_extended_threads + thread_index().x;
  if (at >= job.rows * job.from.padded_cols) return;
  const std::size_t row = at / job.from.padded_cols, k = at % job.from.padded_cols;
  format_spec f = job.from.format;
  const thread::further_grids grids = job.from.grids;
  grids.give_to(f);
  const auto length = static_cast<std::size_t>(f.block.cols);
  const thread::extended_block block = thread::block_of(job.from, f, row, k / length, 1.0f);
  job.values[at] = thread::element_of(job.from, f, block.bits, row, k);
  if (k % length == 0) job.scales[at / length] = block.scale;
}

inline std::size_t decoded_value_bytes(const gemm_side& side) {
  return (side.rows * side.padded_cols * sizeof(float) + 255) / 256 * 256;
}
inline std::size_t decoded_bytes(const gemm_side& side, unsigned block) {
  return decoded_value_bytes(side) + (side.rows * (side.padded_cols / block) * sizeof(float) + 255) / 256 * 256;
}

/// Queues the decoding of a side into `memory`, and makes the side the decoded matrix: values with block scales.
template <class Use = void>
error decode_side(gemm_side& side, unsigned block, std::byte* memory, stream where) {
  auto* values = reinterpret_cast<float*>(memory);
  auto* scales = reinterpret_cast<float*>(memory + decoded_value_bytes(side));
  const extended_operand_job job{
      {side.codes, side.scales, *side.extended, thread::further_grids_of(*side.extended), side.padded_cols},
      side.rows,
      values,
      scales};
  const auto stride = static_cast<std::ptrdiff_t>(side.padded_cols);
  side.is_quantized = false;
  side.unquantized = {values, dtype::f32, side.rows, side.padded_cols, stride, 1};
  side.scales = scales;
  side.scale = scale_kind::f32;
  side.block_rows = 1;
  side.transform = {};
  return detail::launch_each(listed<&decode_extended<Use>>, side.rows * (side.padded_cols / block) * block,
                             decode_extended_threads, 0, where, job);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
