// ufp4 - quantize on a GPU with sixteen elements in the registers of each thread.
// SPDX-License-Identifier: Apache-2.0
//
// A thread reads sixteen consecutive elements of a row (64 bytes of binary32, 32 of a 16-bit type, 16 at a time), and
// the next threads the rest of the row, so a wave reads and writes whole cache lines. Shuffles between lanes compute
// the transform of a run and the amax of a block; each thread stores eight bytes of codes. Format, rule and rounding
// are data, so all threads take the same branches.
//
// | quantize_lanes            | rows are contiguous, or have any other stride                                     |
// | quantize_lanes_transposed | columns are contiguous (transpose(x)): a tile is transposed in shared memory      |
// | quantize_lanes_both       | reads a tile once for its rows and, through shared memory, for its columns        |
//
// Thread blocks stride over the matrix, so a thread computes the constants of the tensor, two divisions, only once.
//
// For blocks of 1 x 16 to 1 x 256, and for squares of 16, whose sixteen rows are in sixteen lanes.
#pragma once

#include <ufp4/gpu/block/transpose.hpp>
#include <ufp4/gpu/quantize_task.hpp>
#include <ufp4/gpu/thread/round.hpp>
#include <ufp4/gpu/warp/hadamard_run.hpp>
#include <ufp4/gpu/warp/reduce.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

using thread::grid_place;

inline constexpr unsigned lanes_threads = block::transposed_tile::threads;

/// One quantization, and values computed from it on the host.
struct lanes_side {
  quantize_task task{};
  thread::rounding_plan plan{};
  std::size_t rows = 0;           ///< of x; 0 if there is nothing to do
  std::size_t across = 1;         ///< groups of sixteen in a row
  std::size_t scales_across = 0;  ///< blocks of a row
  std::size_t tiles = 0;          ///< of 256 groups of sixteen, over which the thread blocks stride
  unsigned lanes_of_block = 1, lanes_of_run = 1;
  unsigned sixteens_of_block = 1;  ///< groups of sixteen along a row; 1 for squares
  bool squares = false, codes_on_words = true;
};

/// The place with index `at` for squares: sixteen rows, then the next sixteen columns.
UFP4_DEVICE grid_place split_squares(std::size_t at, std::size_t across) {
  const grid_place square = thread::split(at / 16, across);
  return {square.row * 16 + at % 16, square.sixteen};
}

/// The place of this thread in a tile of 256 groups of sixteen.
UFP4_DEVICE grid_place place_in_tile(const lanes_side& side, unsigned sixteens) {
  const unsigned me = thread_index().x;
  if (side.squares) return {me / (16 * sixteens) * 16 + me % 16, me / 16 % sixteens};
  return {me / sixteens, me % sixteens};
}

UFP4_DEVICE void store_codes(const lanes_side& side, const grid_place& at, const thread::sixteen_codes& codes) {
  std::uint8_t* to = side.task.codes + (at.row * side.across + at.sixteen) * 8;
  if (side.codes_on_words) {
    *reinterpret_cast<thread::words2*>(to) = {{codes.word[0], codes.word[1]}};
  } else {
    UFP4_UNROLL
    for (unsigned b = 0; b < 8; ++b) to[b] = static_cast<std::uint8_t>(codes.word[b / 4] >> (8 * (b % 4)));
  }
}

/// Codes and scale of sixteen elements as read, zeros outside the matrix. Every lane of the wave must call it.
UFP4_DEVICE void code_sixteen(const lanes_side& side, const tensor_constants& tensor, const grid_place& at,
                              float (&v)[thread::run_of_thread], quantize_report& seen) {
  const quantize_task& task = side.task;
  const format_spec& format = task.job.format;
  warp::hadamard(task.job.transform, false, static_cast<unsigned>(at.sixteen) % side.lanes_of_run, v);
  const std::uint32_t amax = warp::amax_bits(thread::amax_bits(v), side.lanes_of_block);
  if (at.row >= side.rows || at.sixteen >= side.across) return;  // no shuffle follows

  const bool finite = amax < infinity_bits, first = lane() % side.lanes_of_block == 0;
  block_scale scale{nan_scale(format.scale), 0, 0, false};
  if (finite) scale = thread::scale_of(format, task.rule, tensor, amax);
  if (first)
    thread::store_scale(
        task.scales, format.scale,
        (side.squares ? at.row / 16 : at.row) * side.scales_across + at.sixteen / side.sixteens_of_block, scale.bits);
  seen.nonfinite_blocks += first && !finite;
  seen.underflowed_scales += first && finite && scale.factor == 0.0f && amax != 0;

  thread::sixteen_codes codes{{side.plan.zeros, side.plan.zeros}};
  if (scale.factor != 0.0f && amax != 0) {  // an e8m0 scale is never 0, so amax is tested too
    thread::scale_sixteen(side.plan, scale, v);
    if (task.job.counts) seen.saturated += thread::count_beyond(side.plan, v);
    const std::uint64_t index = (task.job.first_row + at.row) * task.job.whole_padded_cols + task.job.first_col +
                                at.sixteen * thread::run_of_thread;
    codes = thread::round_sixteen(side.plan, format.grid, task.rounding, v, index);
  }
  store_codes(side, at, codes);
}

/// The constants of the tensor; stores its tensor scale.
UFP4_DEVICE tensor_constants begin(const lanes_side& side) {
  const block_coder<rounding_spec> coder{side.task.job.format, side.task.rule, {}, {}};
  const tensor_constants tensor = constants_of(side.task, coder);
  publish_tensor_scale(side.task, tensor);
  return tensor;
}

UFP4_KERNEL(lanes_threads) quantize_lanes(const lanes_side side) {
  const tensor_constants tensor = begin(side);
  quantize_report seen{};
  for (std::size_t tile = block_index().x; tile < side.tiles; tile += grid_size().x) {
    const std::size_t n = tile * lanes_threads + thread_index().x;
    const grid_place at = side.squares ? split_squares(n, side.across) : thread::split(n, side.across);
    float v[thread::run_of_thread];
    thread::load_sixteen(side.task.job.x, at.row, at.sixteen * thread::run_of_thread, v);
    code_sixteen(side, tensor, at, v, seen);
  }
  if (side.task.report != nullptr) warp::add_report(side.task.report, seen);
}

struct transposed_job {
  lanes_side side{};
  block::transposed_tile tile{};
  std::size_t across = 1;  ///< tiles in a row of tiles
};

UFP4_KERNEL(lanes_threads) quantize_lanes_transposed(const transposed_job job) {
  const tensor_constants tensor = begin(job.side);
  const block::transposed_tile& t = job.tile;
  const grid_place in = place_in_tile(job.side, t.sixteens);
  auto* shared = reinterpret_cast<float*>(shared_memory());
  quantize_report seen{};
  for (std::size_t n = block_index().x; n < job.side.tiles; n += grid_size().x) {
    const grid_place tile = thread::split(n, job.across);
    float v[thread::run_of_thread];
    sync_block();  // the previous tile has been read
    block::stage(job.side.task.job.x, t, tile.row * t.rows(), tile.sixteen * t.cols(), shared);
    sync_block();
    block::take_sixteen(t, shared, static_cast<unsigned>(in.row), static_cast<unsigned>(in.sixteen), v);
    code_sixteen(job.side, tensor, {tile.row * t.rows() + in.row, tile.sixteen * t.sixteens + in.sixteen}, v, seen);
  }
  if (job.side.task.report != nullptr) warp::add_report(job.side.task.report, seen);
}

/// Tiles of 64 x 64 of x, read by rows; `cols` quantizes the transpose.
struct both_job {
  lanes_side rows{}, cols{};
  std::size_t across = 1;
};
inline constexpr unsigned both_edge = 64;

/// The index of element (r, c) of the tile in shared memory. Eight rows by four groups of sixteen are in different
/// banks, and so are eight columns by four groups, so neither stores nor loads have bank conflicts.
UFP4_HD constexpr unsigned both_at(unsigned r, unsigned c) {
  return r * both_edge + (((c ^ r) & 7u) | ((c >> 4 ^ r >> 4) & 3u) << 3 | (c >> 3 & 1u) << 5);
}

/// Reads the rows of a tile, stores them to shared memory, and codes them.
UFP4_DEVICE void code_rows(const lanes_side& side, const tensor_constants& tensor, const grid_place& tile,
                           float* shared, quantize_report& seen) {
  constexpr unsigned sixteens = both_edge / thread::run_of_thread;
  const grid_place in = place_in_tile(side, sixteens);
  const grid_place at{tile.row * both_edge + in.row, tile.sixteen * sixteens + in.sixteen};
  float v[thread::run_of_thread];
  thread::load_sixteen(side.task.job.x, at.row, at.sixteen * thread::run_of_thread, v);
  UFP4_UNROLL
  for (unsigned j = 0; j < thread::run_of_thread; ++j)
    shared[both_at(static_cast<unsigned>(in.row), static_cast<unsigned>(in.sixteen) * thread::run_of_thread + j)] =
        v[j];
  code_sixteen(side, tensor, at, v, seen);
}
/// Codes the columns of the tile in shared memory.
UFP4_DEVICE void code_columns(const lanes_side& side, const tensor_constants& tensor, const grid_place& tile,
                              const float* shared, quantize_report& seen) {
  constexpr unsigned sixteens = both_edge / thread::run_of_thread;
  const grid_place in = place_in_tile(side, sixteens);
  float v[thread::run_of_thread];
  UFP4_UNROLL
  for (unsigned j = 0; j < thread::run_of_thread; ++j)
    v[j] =
        shared[both_at(static_cast<unsigned>(in.sixteen) * thread::run_of_thread + j, static_cast<unsigned>(in.row))];
  code_sixteen(side, tensor, {tile.sixteen * both_edge + in.row, tile.row * sixteens + in.sixteen}, v, seen);
}

UFP4_KERNEL(lanes_threads) quantize_lanes_both(const both_job job) {
  const tensor_constants of_rows = begin(job.rows), of_cols = begin(job.cols);
  auto* shared = reinterpret_cast<float*>(shared_memory());
  quantize_report seen_rows{}, seen_cols{};
  for (std::size_t n = block_index().x; n < job.rows.tiles; n += grid_size().x) {
    const grid_place tile = thread::split(n, job.across);
    sync_block();  // the columns of the previous tile have been read
    code_rows(job.rows, of_rows, tile, shared, seen_rows);
    sync_block();
    code_columns(job.cols, of_cols, tile, shared, seen_cols);
  }
  if (job.rows.task.report != nullptr) warp::add_report(job.rows.task.report, seen_rows);
  if (job.cols.task.report != nullptr) warp::add_report(job.cols.task.report, seen_cols);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
