// ufp4 - dequantize_rows: the kernel of dequantize, sixteen elements for each thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/block/block_format.hpp>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned dequantize_threads = 256;

struct dequantize_job {
  const std::uint8_t* codes = nullptr;
  const void* scales = nullptr;
  const float* tensor_scale = nullptr;  ///< null: 1
  format_spec format{};
  std::size_t padded_cols = 0;
  std::size_t across = 1;    ///< groups of sixteen in a row; the last may be incomplete
  unsigned block_shift = 4;  ///< log2 of the block's length
  unsigned rows_shift = 0;   ///< log2 of the block's rows
  ufp4::detail::sink out{};
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
      effective = ufp4::detail::product(
          thread::scale_at(job.format.scale, job.scales, first + ((k + j) >> job.block_shift)), tensor);
    v[j] = ufp4::detail::product(v[j], effective);
  }
  thread::store_sixteen(job.out, row, k, v);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
