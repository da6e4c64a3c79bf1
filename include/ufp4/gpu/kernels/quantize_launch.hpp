// ufp4 - chooses and launches the kernels of quantize, quantize_both and amax.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/kernels/amax_kernels.hpp>
#include <ufp4/gpu/kernels/quantize_blocks.hpp>
#include <ufp4/gpu/kernels/quantize_lanes.hpp>

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// Are columns contiguous, so that a tile is better read by columns and transposed in shared memory?
inline bool reads_columns(const source& x) { return x.row_stride == 1 && x.col_stride != 1 && x.rows > 1; }

/// Queues a kernel whose blocks stride over the tiles: at most four times the four blocks of 256 threads that a
/// multiprocessor holds, so that the cost per thread is paid rarely and the last round is a small part. At least one
/// block, which writes the tensor scale if there is no tile.
template <class Job>
error launch_tiles(const listed_kernel<Job>& kernel, std::size_t tiles, unsigned threads, std::size_t shared_bytes,
                   stream where, const Job& job) {
  device_facts device;
  if (const error e = facts(device); e != success) return e;
  const std::size_t most = 16 * static_cast<std::size_t>(device.processors), blocks = tiles < most ? tiles : most;
  return launch(kernel, {static_cast<unsigned>(blocks == 0 ? 1 : blocks)}, {threads}, shared_bytes, where, job);
}

/// *bits = max(*bits, the bits of the largest finite magnitude of job.x after its transform, padding included).
inline error queue_amax(const quantize_job& job, std::uint32_t* bits, stream where) {
  kernels::amax_job a{job.x, job.transform, 0, bits, {}};
  const bool transposed = reads_columns(a.x);
  if (transposed && a.transform.n == 1)  // the order does not matter
    a.x = {a.x.data, a.x.kind, a.x.cols, a.x.rows, a.x.col_stride, a.x.row_stride};
  const std::size_t run = a.transform.n < 16 ? 16 : a.transform.n;
  a.across = (a.x.cols + run - 1) / run * (run / 16);
  if (a.x.rows == 0 || a.across == 0) return success;
  if (!transposed || a.transform.n == 1) {
    const std::size_t tiles = (a.x.rows * a.across + kernels::amax_threads - 1) / kernels::amax_threads;
    return launch_tiles(listed<&kernels::amax_rows>, tiles, kernels::amax_threads, 0, where, a);
  }
  a.tile.sixteens = run <= 64 ? 4 : static_cast<unsigned>(run / 16);
  a.tile.shift = block::transposed_tile::banks / a.tile.sixteens;
  const std::size_t tiles =
      (a.x.rows + a.tile.rows() - 1) / a.tile.rows() * ((a.across + a.tile.sixteens - 1) / a.tile.sixteens);
  return launch_tiles(listed<&kernels::amax_transposed>, tiles, kernels::amax_threads, a.tile.bytes(), where, a);
}

/// Queues the scalar codec, for any coder.
template <class Coder>
error queue_blocks(const quantize_task& task, const Coder& coder, stream where) {
  const std::size_t strips = task.job.padded_cols == 0 ? 0 : task.job.strips();
  kernels::block_tiles t;
  t.width = static_cast<unsigned>(task.job.run());
  const unsigned strip = t.width * static_cast<unsigned>(task.job.format.block.rows);
  constexpr unsigned elements = 4096;  // 20 KiB with the codes, so that a multiprocessor holds several tiles
  t.strips = strip >= elements ? 1 : elements / strip;
  if (strips < t.strips) t.strips = static_cast<unsigned>(strips);
  t.rows = t.strips * static_cast<unsigned>(task.job.format.block.rows);
  t.across = strips == 0 ? 1 : task.job.padded_cols / t.width;
  if (strips == 0 && task.tensor_scale == nullptr) return success;
  const std::size_t groups = strips == 0 ? 1 : (strips + t.strips - 1) / t.strips;
  const std::size_t bytes = t.elements() * (sizeof(float) + 1);
  device_facts device;
  if (const error e = facts(device); e != success) return e;
  if (bytes > device.shared_bytes)  // a strip of 16384 elements takes 80 KiB
    return failed(not_supported, "quantize_blocks",
                  "the rows of a block times a run need more shared memory than a block of this device has");
  return launch(listed<&kernels::quantize_blocks<Coder>>, {static_cast<unsigned>(groups * t.across), 1, 1},
                {kernels::block_threads}, bytes, where, kernels::blocks_job<Coder>{task, coder, t});
}

inline unsigned lanes_of(std::size_t elements) {
  return elements <= thread::run_of_thread ? 1 : static_cast<unsigned>(elements / thread::run_of_thread);
}

/// Can the lanes kernels quantize this format with this rule? A search for the scale, or blocks that sixteen lanes
/// cannot hold, need more than registers.
inline bool takes_lanes(const quantize_task& task) {
  const block_shape& b = task.job.format.block;
  const bool square = b.rows == 16 && b.cols == 16 && task.job.transform.n <= 16;
  return (square || (b.rows == 1 && b.cols >= 16)) && !task.rule.mse_search &&
         task.rule.what != scale_rule_spec::kind::four_over_six && !task.job.rounds_input_to_bf16;
}

inline kernels::lanes_side side_of(const quantize_task& task) {
  const block_shape& b = task.job.format.block;
  kernels::lanes_side side;
  side.task = task;
  side.plan = thread::plan_of(task.job.format.grid);
  side.squares = b.rows != 1;
  side.rows = task.job.padded_cols == 0 ? 0 : task.job.x.rows;
  side.across = task.job.padded_cols == 0 ? 1 : task.job.padded_cols / thread::run_of_thread;
  side.scales_across = task.job.padded_cols / static_cast<std::size_t>(b.cols);
  side.sixteens_of_block = lanes_of(static_cast<std::size_t>(b.cols));
  side.lanes_of_block = side.squares ? 16 : side.sixteens_of_block;
  side.lanes_of_run = lanes_of(task.job.transform.n);
  side.codes_on_words = is_aligned(task.codes, 8);
  return side;
}

inline error queue_lanes(const quantize_task& task, stream where) {
  kernels::lanes_side side = side_of(task);
  if (side.rows == 0 && task.tensor_scale == nullptr) return success;
  const std::size_t rows = side.squares ? (side.rows + 15) / 16 * 16 : side.rows;
  if (!reads_columns(task.job.x)) {
    side.tiles = (rows * side.across + kernels::lanes_threads - 1) / kernels::lanes_threads;
    return launch_tiles(listed<&kernels::quantize_lanes>, side.tiles, kernels::lanes_threads, 0, where, side);
  }
  kernels::transposed_job job{side, {}, 1};
  const unsigned run = lanes_of(task.job.run());
  job.tile.sixteens = run < 4 ? 4 : run;
  job.tile.shift = side.squares ? 16 : block::transposed_tile::banks / job.tile.sixteens;
  job.across = (side.across + job.tile.sixteens - 1) / job.tile.sixteens;
  job.side.tiles = (rows + job.tile.rows() - 1) / job.tile.rows() * job.across;
  return launch_tiles(listed<&kernels::quantize_lanes_transposed>, job.side.tiles, kernels::lanes_threads,
                      job.tile.bytes(), where, job);
}

/// Queues a quantization: codes, scales and the tensor scale of a two-level format are written, the report is added to.
inline error queue_quantize(const quantize_task& task, stream where) {
  if (takes_lanes(task)) return queue_lanes(task, where);
  return queue_blocks(task, block_coder<rounding_spec>{task.job.format, task.rule, {}, task.rounding}, where);
}

inline const char* quantize_kernel_name(const quantize_task& task) {
  if (!takes_lanes(task)) return "quantize_blocks";
  return reads_columns(task.job.x) ? "quantize_lanes_transposed" : "quantize_lanes";
}
inline const char* quantize_kernel_note(const quantize_task& task) {
  if (!takes_lanes(task)) {
    const bool searches = task.rule.mse_search || task.rule.what == scale_rule_spec::kind::four_over_six;
    return searches ? "a search for the scale uses one thread for each block"
                    : "blocks of this shape (or squares with a transform longer than 16) use one thread for each block";
  }
  if (thread::plan_of(task.job.format.grid).kind == thread::rounding_plan::grid::levels)
    return "values are rounded by a loop over the grid's levels";
  const bool fast =
      task.rounding.what == rounding_spec::kind::nearest_even || task.rounding.what == rounding_spec::kind::stochastic;
  return fast ? "" : "nearest_away and toward_zero round by a loop over the grid's levels";
}

/// Can one kernel quantize a.x and its transpose b.x?
inline bool takes_both(const quantize_task& a, const quantize_task& b) {
  const auto& x = a.job.x;
  return takes_lanes(a) && takes_lanes(b) && a.job.run() <= kernels::both_edge && b.job.run() <= kernels::both_edge &&
         (x.col_stride == 1 || x.row_stride == 1) && x.rows != 0 && x.cols != 0;
}

/// Queues both quantizations; requires takes_both(a, b).
inline error queue_both(const quantize_task& a, const quantize_task& b, stream where) {
  if (a.job.x.col_stride != 1) return queue_both(b, a, where);
  kernels::both_job job{side_of(a), side_of(b), 1};
  const auto tiles = [](std::size_t padded) { return (padded + kernels::both_edge - 1) / kernels::both_edge; };
  job.across = tiles(a.job.padded_cols);
  job.rows.tiles = tiles(b.job.padded_cols) * job.across;
  return launch_tiles(listed<&kernels::quantize_lanes_both>, job.rows.tiles, kernels::lanes_threads,
                      sizeof(float) * kernels::both_edge * kernels::both_edge, where, job);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
