// ufp4 - quantize on a GPU by the scalar codec, one thread for each block: takes everything.
// SPDX-License-Identifier: Apache-2.0
//
// A thread block stages a tile of whole strips in shared memory, so that device memory is read and written in order.
// Each thread then runs the codec of block/block_codec.hpp, or that of a preset. The library's own formats and policies
// use quantize_lanes.hpp; this kernel is their reference and takes everything else.
#pragma once

#include <ufp4/gpu/quantize_task.hpp>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/gpu/warp/reduce.hpp>
#include <ufp4/hadamard/transform.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned block_threads = 64;

/// A tile is `strips` strips by one run. Tiles are counted along rows first.
struct block_tiles {
  unsigned rows = 0, width = 0, strips = 0;
  std::size_t across = 0;  ///< tiles in a row of tiles

  UFP4_HD unsigned elements() const { return rows * width; }
};

template <class Coder>
struct blocks_job {
  quantize_task task;
  Coder coder;  ///< its tensor constants are computed in the kernel
  block_tiles tiles;
};

/// Reads the elements of a tile in the order of memory; zeros outside the matrix.
UFP4_DEVICE void stage_tile(const source& x, const block_tiles& t, std::size_t row, std::size_t col, float* tile) {
  const bool by_columns = x.row_stride == 1 && x.col_stride != 1;
  for (unsigned e = thread_index().x; e < t.elements(); e += block_threads) {
    const unsigned r = by_columns ? e % t.rows : e / t.width, k = by_columns ? e / t.rows : e % t.width;
    tile[r * t.width + k] = row + r < x.rows && col + k < x.cols ? thread::load(x, row + r, col + k) : 0.0f;
  }
}

/// The same, transformed. Every thread of the block sees the whole tile then.
UFP4_DEVICE void stage_transformed(const quantize_task& task, const block_tiles& t, std::size_t row, std::size_t col,
                                   float* tile) {
  stage_tile(task.job.x, t, row, col, tile);
  sync_block();
  const transform_spec& transform = task.job.transform;
  for (unsigned k = thread_index().x * transform.n; transform.n > 1 && k < t.elements();
       k += block_threads * transform.n)
    hadamard_forward(transform, tile + k);
  sync_block();
}

/// Adds what a thread counted to the report of a task, if it has one. Every lane of the wave must call it.
UFP4_DEVICE void report_counts(const quantize_task& task, const quantize_report& seen) {
  if (task.report != nullptr)
    warp::add_report(task.report,
                     {static_cast<std::uint32_t>(seen.nonfinite_blocks), static_cast<std::uint32_t>(seen.saturated),
                      static_cast<std::uint32_t>(seen.underflowed_scales)});
}

/// Codes every block of a tile; `codes` has one byte for each code.
template <class Coder>
UFP4_DEVICE void code_tile(const quantize_task& task, const Coder& coder, const block_tiles& t, std::size_t row,
                           std::size_t col, const float* tile, std::uint8_t* codes, quantize_report& seen) {
  const auto height = static_cast<unsigned>(task.job.format.block.rows);
  const auto length = static_cast<unsigned>(task.job.format.block.cols);
  const unsigned across = t.width / length;
  for (unsigned b = thread_index().x; b < t.strips * across; b += block_threads) {
    const unsigned r = b / across * height, k = b % across * length;
    if (row + r >= task.job.x.rows) continue;
    const std::uint64_t index =
        (task.job.first_row + row + r) * task.job.whole_padded_cols + task.job.first_col + col + k;
    const std::uint32_t bits =
        coder({tile + r * t.width + k, static_cast<int>(height), static_cast<int>(length), static_cast<int>(t.width)},
              index, task.job.whole_padded_cols, codes + r * t.width + k, seen);
    thread::store_scale(task.scales, task.job.format.scale,
                        (row + r) / height * (task.job.padded_cols / length) + (col + k) / length, bits);
  }
}

UFP4_DEVICE void store_tile(const quantize_task& task, const block_tiles& t, std::size_t row, std::size_t col,
                            const std::uint8_t* codes) {
  const unsigned bytes = t.width / 2;
  for (unsigned e = thread_index().x; e < t.rows * bytes; e += block_threads) {
    const std::size_t r = row + e / bytes;
    if (r < task.job.x.rows)
      task.codes[(r * task.job.padded_cols + col) / 2 + e % bytes] =
          static_cast<std::uint8_t>(codes[2 * e] | codes[2 * e + 1] << 4);
  }
}

template <class Coder>
UFP4_KERNEL(block_threads)
quantize_blocks(const blocks_job<Coder> job) {
  const block_tiles& t = job.tiles;
  const quantize_task& task = job.task;
  auto* tile = reinterpret_cast<float*>(shared_memory());
  auto* codes = shared_memory() + sizeof(float) * t.elements();
  const std::size_t row = block_index().x / t.across * t.rows, col = block_index().x % t.across * t.width;
  Coder coder = job.coder;
  leave_out_extended(coder.format);
  coder.tensor = constants_of(task, coder);
  publish_tensor_scale(task, coder.tensor);

  stage_transformed(task, t, row, col, tile);
  quantize_report seen{};
  code_tile(task, coder, t, row, col, tile, codes, seen);
  sync_block();
  store_tile(task, t, row, col, codes);
  report_counts(task, seen);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
