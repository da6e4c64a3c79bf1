// ufp4 - operands for libraries that multiply block-scaled matrices: scales in the 128x4 layout, codes in bytes.
// SPDX-License-Identifier: Apache-2.0
//
// Codes of E2M1 are not changed. Other grids become E4M3 bytes of the same values (thread/containers.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/block/layouts.hpp>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/kernels/decode_bf16.hpp>
#include <ufp4/gpu/thread/containers.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned swizzle_threads = 128, swizzle_tiles = 8, widen_threads = 256;

struct swizzle_job {
  const std::uint8_t* scales = nullptr;
  std::size_t rows = 0, cols = 0;  ///< of elements, and of scales
  unsigned block_rows = 1;
  bool is_signed = false;          ///< e4m3, of which the library reads seven bits
  std::uint32_t most = 0xFEu;      ///< the largest scale code, besides NaN, that the library can multiply
  std::uint8_t* out = nullptr;     ///< swizzled_size(rows, cols), aligned to 16 bytes
  std::uint32_t* unfit = nullptr;  ///< set to 1 by a negative scale or one above `most`
};

/// Four scales as a word of the layout; 0 outside the matrix.
UFP4_DEVICE std::uint32_t four_scales(const swizzle_job& job, std::size_t row, std::size_t col) {
  std::uint32_t word = 0;
  bool unfit = false;
  for (unsigned j = 0; j < 4; ++j) {
    if (row >= job.rows || col + j >= job.cols) continue;
    std::uint32_t c = job.scales[row / job.block_rows * job.cols + col + j];
    if (job.is_signed) {
      unfit = unfit || (c > 0x80u && c < 0xFFu);
      c &= 0x7Fu;
    }
    unfit = unfit || (c > job.most && c != 0xFFu);
    word |= c << (8 * j);
  }
  if (unfit) atomic_max(job.unfit, 1u);
  return word;
}

/// A block makes eight consecutive tiles of 128 x 4, each thread one row: it reads 32 contiguous bytes, a memory
/// sector, in eight steps, and the block writes the 512 bytes of a tile in one step.
UFP4_KERNEL(swizzle_threads) swizzle_rows(const swizzle_job job) {
  const std::size_t row = std::size_t{block_index().x} * 128 + thread_index().x;
  for (unsigned t = 0; t < swizzle_tiles; ++t) {
    const std::size_t col = (std::size_t{block_index().y} * swizzle_tiles + t) * 4;
    if (col >= job.cols) continue;
    const std::uint32_t word = four_scales(job, row, col);
    __builtin_memcpy(__builtin_assume_aligned(job.out + swizzled_index(row, col, job.cols), 4), &word, 4);
  }
}

struct widen_job {
  const std::uint8_t* codes = nullptr;
  std::size_t eights = 0;
  thread::container_table table{};
  std::uint8_t* out = nullptr;  ///< 8 bytes for every eight codes, aligned to 16 bytes
};

/// Eight codes for each thread: 4 bytes read, 8 written; consecutive threads access consecutive bytes.
UFP4_KERNEL(widen_threads) widen_codes(const widen_job job) {
  const std::size_t at = std::size_t{block_index().x} * widen_threads + thread_index().x;
  if (at >= job.eights) return;
  const thread::eight_containers bytes = thread::containers_of(load_word(job.codes + 4 * at), job.table);
  __builtin_memcpy(__builtin_assume_aligned(job.out + 8 * at, 8), &bytes, 8);
}

inline std::size_t swizzled_bytes(const gemm_side& side, unsigned block) {
  return swizzled_size(side.rows, side.padded_cols / block);
}

/// Queues `out` = the 8-bit scales of a side, one row of scales for each row, in the 128x4 layout. E4M3 ends at
/// 448, so a scale of 2^(limit - 9) keeps every element below 2^limit; only e8m0 has larger ones.
inline error queue_swizzle_scales(const gemm_side& side, unsigned block, std::uint8_t* out, std::uint32_t* unfit,
                                  stream where, int limit = 128) {
  const int most = side.scale == scale_kind::e8m0 && limit < 128 ? 127 + limit - 9 : 0xFE;
  const swizzle_job job{static_cast<const std::uint8_t*>(side.scales),
                        side.rows,
                        side.padded_cols / block,
                        side.block_rows,
                        side.scale == scale_kind::e4m3,
                        static_cast<std::uint32_t>(most),
                        out,
                        unfit};
  const std::size_t down = (job.rows + 127) / 128, of_block = 4 * swizzle_tiles;
  const std::size_t across = (job.cols + of_block - 1) / of_block;
  if (down == 0 || across == 0) return success;
  return launch(&swizzle_rows, {static_cast<unsigned>(down), static_cast<unsigned>(across)}, {swizzle_threads}, 0,
                where, job);
}

/// Queues `out` = the codes of a side as E4M3 bytes, rows x padded_cols.
inline error queue_widen_codes(const gemm_side& side, std::uint8_t* out, stream where) {
  const widen_job job{side.codes, side.rows * side.padded_cols / 8, thread::container_table_of(side.grid), out};
  const std::size_t blocks = (job.eights + widen_threads - 1) / widen_threads;
  if (blocks == 0) return success;
  return launch(&widen_codes, {static_cast<unsigned>(blocks)}, {widen_threads}, 0, where, job);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
