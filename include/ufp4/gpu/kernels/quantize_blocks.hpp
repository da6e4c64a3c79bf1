// ufp4 - quantize on a GPU by the scalar codec, one thread for each block: takes everything.
// SPDX-License-Identifier: Apache-2.0
//
// A thread block stages a tile of whole strips in shared memory, so that device memory is read and written in order.
// Each thread then runs the codec of block/block_codec.hpp, or that of a preset. The library's own formats and policies
// use quantize_lanes.hpp; this kernel is their reference and takes everything else.
#pragma once

#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/gpu/thread/extended.hpp>
#include <ufp4/gpu/warp/reduce.hpp>
#include <ufp4/hadamard/transform.hpp>

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// One quantization as operations pass it to the kernels. Pointers are to device memory.
struct quantize_task {
  stored_quantize_job job{};
  scale_rule_spec rule{};
  rounding_spec rounding{};
  std::uint8_t* codes = nullptr;
  void* scales = nullptr;
  float* tensor_scale = nullptr;                    ///< written for a two-level format
  const std::uint32_t* global_amax_bits = nullptr;  ///< of the tensor, computed before on the same stream
  float global_amax = 0;                            ///< if global_amax_bits is null
  quantize_report* report = nullptr;                ///< is added to; null: no report
};

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// Takes extended parts from a thread's copy of a format: an index of a grid would put it into memory.
UFP4_DEVICE void leave_out_extended(format_spec& f) {
  f.byte = byte_element::none;
  f.choice = {};
  f.block.group = {};
}

/// The constants of a two-level format. Each thread computes them: two divisions cost less than waiting for a kernel.
/// An amax in device memory that is negative or not finite makes the tensor scale NaN.
template <class Coder>
UFP4_DEVICE tensor_constants constants_of(const quantize_task& task, const Coder& coder) {
  std::uint32_t bits = task.global_amax_bits != nullptr ? *task.global_amax_bits : to_bits(task.global_amax);
  if (bits == sign_mask) bits = 0;
  tensor_constants tensor{};
  if constexpr (requires { Coder::constants(coder.format, 0.0f); })
    tensor = Coder::constants(coder.format, to_float(bits));
  else
    tensor = make_tensor_constants(coder.format, coder.rule, to_float(bits));
  if (task.job.format.has_tensor_scale() && bits >= infinity_bits) tensor.decode = to_float(0x7FC00000u);
  return tensor;
}

UFP4_DEVICE void publish_tensor_scale(const quantize_task& task, const tensor_constants& tensor) {
  if (task.tensor_scale != nullptr && block_index().x == 0 && thread_index().x == 0) *task.tensor_scale = tensor.decode;
}

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

// Extended formats: arrays of outer scales, several grids, one-bit exponents, e6m2 scales. A thread block quantizes a
// region of a strip, the rows of one block: whole runs and all their outer scales cover. If the format has an array of
// outer scales it reads the region twice, first for the amaxes.

inline constexpr unsigned most_outers = 128;  ///< outer scales in a region: a run of 256 over a block of 2

template <class Coder>
struct extended_job {
  quantize_task task;
  Coder coder;  ///< its grids and constants are set in the kernel
  thread::further_grids grids;
  std::size_t width = 0, across = 0;  ///< columns of a region; regions in a strip
  unsigned tile = 0;                  ///< columns that are staged together: whole runs
};

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

/// Stores a block's bits; with the first of an outer scale that; with the first of a strip zeros between the scales.
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
  const format_spec& f = job.coder.format;
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
      Coder own = job.coder;  // given its grids where they are read: else nvcc reads them through generic addresses
      own.tensor = coder.tensor;
      grids.give_to(own.format);
      const std::uint32_t bits = own({tile + k, height, length, static_cast<int>(t.width)}, index,
                                     task.job.whole_padded_cols, codes + k, seen);
      store_block(f, task.job.padded_cols, task.scales, strip, col + k, bits, coder.tensor.decode);
    }
    sync_block();
    store_tile(task, t, region.row, col, codes);
  });
  report_counts(task, seen);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
