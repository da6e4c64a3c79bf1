// ufp4 - gemv_stream: how the `fast` kernels for at most 64 rows on one side read the long operand ("weights") once.
// SPDX-License-Identifier: Apache-2.0
//
// Bound by memory bandwidth, so what counts is how few instructions a warp needs for a weight, and how many bytes are
// on their way. Rows of weights are the rows of mma.sync, the few rows of the other operand ("narrow") its columns.
//
// | thread block | has 16 or 32 rows of weights; its eight warps divide K                                             |
// | warp         | takes 128 of every 1024 columns. Nothing is shared until the end: a lane loads what it is to       |
// |              | multiply, and decodes it in registers. Narrow rows are decoded once for all weights of the warp    |
// | registers    | two slabs of weights: one is multiplied while the loads of the other are under way                 |
// | end          | the warps' sums go through shared memory and are added in the order of the warps                   |
//
// The order along K is the same for every number of rows and thread blocks, so the bits depend on the operands and the
// device alone. Rows outside an operand repeat its last row, and their results are dropped; outside K codes are zero.
// What docs/gpu.md says about the truncated sums of tensor cores holds for the columns of each warp.
//
// A kernel flags what its operands of an mma cannot represent. Then every element of the thread block is computed again
// from codes and scales, in binary64 (thread/epilogue.hpp).
#pragma once

#include <ufp4/cuda/fragments_sm80.hpp>
#include <ufp4/cuda/mma_sm80.hpp>
#include <ufp4/gpu/thread/epilogue.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

struct stream_side {
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
  std::size_t rows = 0;
  unsigned rows_shift = 0;  ///< log2 of the rows that share a scale

  UFP4_DEVICE std::size_t row(std::size_t at) const { return at < rows ? at : rows - 1; }
};
struct stream_job {
  stream_side weights{}, narrow{};
  std::size_t padded = 0;
  bool swapped = false;  ///< weights are the left operand
  gemm_job product{};
};

/// Tiles of 16 rows of weights times groups of 8 narrow rows; or of 4, in columns n and n + 4, for the halves of 32 k.
template <unsigned tiles_, unsigned groups_, bool halves_ = false>
struct stream_shape {
  static constexpr unsigned threads = 256, warps = threads / 32, part_k = 128;
  static constexpr unsigned tiles = tiles_, groups = groups_, rows = 16 * tiles, columns = 8 * groups;
  static constexpr bool halves = halves_;
  static constexpr unsigned narrow_rows = halves ? columns / 2 : columns;
  static constexpr unsigned warp_floats = rows * columns;
  static constexpr std::size_t shared_bytes = sizeof(float) * warps * warp_floats;
  static_assert(shared_bytes <= 64 * 1024);
};

/// Sums of one warp, in the places of mma.sync.
template <class Shape>
struct stream_sums {
  float acc[Shape::tiles][Shape::groups][4] = {};
};

/// Calls load(buffer, slab) and multiply(buffer) for slabs of 1024 columns, one slab ahead; load is also called for
/// slabs behind K. The conditions are the same for the whole thread block.
template <class Buffer, class Load, class Multiply>
UFP4_DEVICE void stream_slabs(std::size_t padded, const Load& load, const Multiply& multiply) {
  const auto slabs = static_cast<unsigned>((padded + 1023) / 1024);
  Buffer even{}, odd{};
  load(even, 0), load(odd, 1);
  for (unsigned slab = 0; slab < slabs; slab += 2) {
    multiply(even);
    load(even, slab + 2);
    if (slab + 1 < slabs) multiply(odd);
    load(odd, slab + 3);
  }
}

/// Adds up the warps' sums times a power of two, and stores C. `unfit`: a value was not represented.
template <class Shape>
UFP4_DEVICE void store_stream(const stream_job& job, std::size_t first_row, const stream_sums<Shape>& sums, bool unfit,
                              float factor = 1) {
  auto* shared = reinterpret_cast<float*>(shared_memory());
  float* mine = shared + thread_index().x / 32 * Shape::warp_floats;
  mma::store_tiles(sums.acc, mine, Shape::columns);
  sync_wave();
  if (unfit) mine[0] = ufp4::detail::quiet_nan;  // instead of a sum
  sync_block();
  bool usable = true;
  for (unsigned w = 0; w < Shape::warps; ++w)
    usable = usable && ufp4::detail::is_finite(shared[w * Shape::warp_floats]);
  const thread::epilogue to = thread::epilogue_of(job.product);
  for (unsigned at = thread_index().x; at < Shape::rows * Shape::narrow_rows; at += Shape::threads) {
    const unsigned row = at / Shape::narrow_rows, n = at % Shape::narrow_rows;
    const std::size_t i = first_row + row;
    if (i >= job.weights.rows || n >= job.narrow.rows) continue;
    const float* first = shared + row * Shape::columns + (Shape::halves ? n / 4 * 8 + n % 4 : n);
    float sum = usable ? 0.0f : ufp4::detail::quiet_nan;
    for (unsigned w = 0; w < Shape::warps; ++w) {
      sum += first[w * Shape::warp_floats];
      if constexpr (Shape::halves) sum += first[w * Shape::warp_floats + 4];
    }
    thread::store_sum(job.product, to, job.swapped ? i : n, job.swapped ? n : i, sum * factor);
  }
}

inline stream_side stream_side_of(const gemm_side& side) {
  return {side.codes, static_cast<const std::uint8_t*>(side.scales), side.rows, log2_of(side.block_rows)};
}
/// The side with fewer rows is the narrow one; the left one if both have as many.
inline bool weights_are_left(const gemm_job& job) { return job.right.rows < job.left.rows; }
inline stream_job stream_job_of(const gemm_job& job) {
  const bool swapped = weights_are_left(job);
  return {.weights = stream_side_of(swapped ? job.left : job.right),
          .narrow = stream_side_of(swapped ? job.right : job.left),
          .padded = job.padded(),
          .swapped = swapped,
          .product = job};
}
inline std::size_t narrow_rows(const gemm_job& job) {
  return job.left.rows < job.right.rows ? job.left.rows : job.right.rows;
}

/// Does 32 rows of weights for each thread block keep most of the device busy?
inline bool streams_two_tiles(const gemm_job& job, const device_facts& facts) {
  const std::size_t weight_rows = weights_are_left(job) ? job.left.rows : job.right.rows;
  return 4 * ((weight_rows + 31) / 32) >= 3 * static_cast<std::size_t>(facts.processors);
}

template <class Shape, class Job>
error launch_stream(const listed_kernel<Job>& kernel, const Job& job, stream where) {
  const std::size_t blocks = (job.weights.rows + Shape::rows - 1) / Shape::rows;
  return launch(kernel, {static_cast<unsigned>(blocks)}, {Shape::threads}, Shape::shared_bytes, where, job);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
