// ufp4 - quantize on a GPU for extended formats: arrays of outer scales, several grids, one-bit exponents, e6m2 scales.
// SPDX-License-Identifier: Apache-2.0
//
// A thread block quantizes a region of a strip, the rows of one block: whole runs and all their outer scales cover.
// It stages tiles of the region in shared memory; if the format has an array of outer scales it reads the region
// twice, first for the amaxes. Each thread runs the codec of block/block_codec.hpp. No kernel is made for one format:
// the format is data.
#pragma once

#include <ufp4/gpu/kernels/quantize_blocks.hpp>
#include <ufp4/gpu/thread/extended.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned most_outers = 128;  ///< outer scales in a region: a run of 256 over a block of 2

template <class Coder>
struct extended_job {
  quantize_task task;
  Coder coder;  ///< its grids and constants are set in the kernel
  thread::further_grids grids;
  std::size_t width = 0, across = 0;  ///< columns of a region; regions in a strip
  unsigned tile = 0;                  ///< columns that are staged together: whole runs
};

/// The columns of a strip that one thread block quantizes.
struct strip_region {
  std::size_t strip, row, first, last;  ///< row: of the matrix
};

/// body(col, tile's shape) for every staged tile of a region.
template <class Body>
UFP4_DEVICE void each_tile(const quantize_task& task, const strip_region& region, unsigned tile_cols, float* tile,
                           const Body& body) {
  for (std::size_t col = region.first; col < region.last; col += tile_cols) {
    const std::size_t left = region.last - col;
    block_tiles t;
    t.rows = static_cast<unsigned>(task.job.format.block.rows);
    t.width = left < tile_cols ? static_cast<unsigned>(left) : tile_cols;
    t.strips = 1;
    sync_block();  // others may still read the tile before
    stage_transformed(task, t, region.row, col, tile);
    body(col, t);
  }
}

/// The amaxes of the finite elements that each outer scale of a region covers.
UFP4_DEVICE void find_amaxes(const quantize_task& task, const strip_region& region, unsigned tile_cols,
                             std::size_t covered, float* tile, std::uint32_t* amax) {
  for (unsigned i = thread_index().x; i < most_outers; i += block_threads) amax[i] = 0;
  each_tile(task, region, tile_cols, tile, [&](std::size_t col, const block_tiles& t) {
    for (unsigned e = thread_index().x; e < t.elements(); e += block_threads) {
      const std::uint32_t m = magnitude_bits(tile[e]);
      if (m != 0 && m < infinity_bits) atomic_max(amax + (col + e % t.width - region.first) / covered, m);
    }
  });
  sync_block();
}

/// Stores what belongs to a block: its bits; with the first block that it covers the outer scale; and with the first
/// block of a strip the bytes between the scales, zeros.
UFP4_DEVICE void store_block(const format_spec& f, std::size_t padded_cols, void* scales, std::size_t strip,
                             std::size_t col, std::uint32_t bits, float outer) {
  const thread::strip_scales to(f, padded_cols, scales, strip);
  const std::size_t block = col / static_cast<std::size_t>(f.block.cols);
  to.store_block_bits(block, bits);
  if (to.covered() == 0) return;
  if (block == 0) to.clear_gap();
  if (col % to.covered() == 0) to.store_outer(col / to.covered(), ufp4::detail::encode_scale(f.outer.type, outer));
}

template <class Coder>
UFP4_KERNEL(block_threads)
quantize_extended(const extended_job<Coder> job) {
  const quantize_task& task = job.task;
  auto* amax = reinterpret_cast<std::uint32_t*>(shared_memory());
  auto* tile = reinterpret_cast<float*>(amax + most_outers);
  Coder coder = job.coder;
  const thread::further_grids grids = job.grids;
  grids.give_to(coder.format);
  const format_spec& f = coder.format;
  const std::size_t covered = outer_columns(f, task.job.padded_cols);
  if (covered == 0) coder.tensor = constants_of(task, coder);
  publish_tensor_scale(task, coder.tensor);
  if (task.job.padded_cols == 0 || task.job.x.rows == 0) return;

  const std::size_t strip = block_index().x / job.across, first = block_index().x % job.across * job.width;
  const std::size_t end = first + job.width < task.job.padded_cols ? first + job.width : task.job.padded_cols;
  const strip_region region{strip, strip * static_cast<std::size_t>(f.block.rows), first, end};
  if (covered != 0) find_amaxes(task, region, job.tile, covered, tile, amax);
  const auto height = static_cast<int>(f.block.rows), length = static_cast<int>(f.block.cols);
  quantize_report seen{};
  each_tile(task, region, job.tile, tile, [&](std::size_t col, const block_tiles& t) {
    auto* codes = reinterpret_cast<std::uint8_t*>(tile + t.elements());
    for (unsigned k = thread_index().x * static_cast<unsigned>(length); k < t.width;
         k += block_threads * static_cast<unsigned>(length)) {
      if (covered != 0)
        coder.tensor = ufp4::detail::constants_of(coder, to_float(amax[(col + k - region.first) / covered]));
      const std::uint64_t index =
          (task.job.first_row + region.row) * task.job.whole_padded_cols + task.job.first_col + col + k;
      const std::uint32_t bits = coder({tile + k, height, length, static_cast<int>(t.width)}, index,
                                       task.job.whole_padded_cols, codes + k, seen);
      store_block(f, task.job.padded_cols, task.scales, strip, col + k, bits, coder.tensor.decode);
    }
    sync_block();
    store_tile(task, t, region.row, col, codes);
  });
  report_counts(task, seen);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// Queues the kernel of extended formats, for any coder.
template <class Coder>
error queue_extended(const quantize_task& task, const Coder& coder, stream where) {
  const format_spec& f = task.job.format;
  const std::size_t padded = task.job.padded_cols, run = task.job.run(), covered = outer_columns(f, padded);
  const std::size_t strips = padded == 0 ? 0 : task.job.strips();
  if (strips == 0 && task.tensor_scale == nullptr) return success;
  constexpr std::size_t elements = 4096;
  const std::size_t fitting = elements / static_cast<std::size_t>(f.block.rows) / run * run;
  const std::size_t tile = fitting < run ? run : fitting,
                    region = covered == 0 ? tile : ufp4::detail::common_columns(run, covered);
  kernels::extended_job<Coder> job{task, coder, thread::further_grids_of(f)};
  job.width = region < padded ? region : padded;
  job.across = strips == 0 ? 1 : (padded + job.width - 1) / job.width;
  job.tile = static_cast<unsigned>(tile < job.width ? tile : job.width);
  const std::size_t blocks = strips == 0 ? 1 : strips * job.across;
  const std::size_t bytes = kernels::most_outers * sizeof(std::uint32_t) +
                            job.tile * static_cast<std::size_t>(f.block.rows) * (sizeof(float) + 1);
  device_facts device;
  if (const error e = facts(device); e != success) return e;
  if (bytes > device.shared_bytes || blocks > 0x7FFFFFFFu)
    return failed(not_supported, "quantize_extended",
                  "the rows of a block times a run need more shared memory than a block of this device has, or the "
                  "matrix has 2^31 outer scales");
  return launch(listed<&kernels::quantize_extended<Coder>>, {static_cast<unsigned>(blocks), 1, 1},
                {kernels::block_threads}, bytes, where, job);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
