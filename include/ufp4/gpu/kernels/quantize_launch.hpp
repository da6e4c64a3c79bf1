// ufp4 - chooses and launches the kernels of quantize, quantize_both and amax.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/kernels/amax_kernels.hpp>

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// The kernels that a quantization may need, as far as its types show (quantize.hpp, parts_of): a set of these bits.
///
/// | extended, blocks               | quantize_extended, quantize_blocks                                  |
/// | tensor_scaled, planned, levels | the paths of the lanes kernels                                      |
/// | transforms, long_runs          | those that only a transform, and only runs of more than 64, can use |
namespace parts {
inline constexpr unsigned extended = 1, blocks = 2, tensor_scaled = 4, planned = 8, levels = 16, transforms = 32,
                          long_runs = 64, all = 127;
}

/// Are columns contiguous, so that a tile is better read by columns and transposed in shared memory?
inline bool reads_columns(const source& x) { return x.row_stride == 1 && x.col_stride != 1 && x.rows > 1; }

inline source transposed(const source& x) { return {x.data, x.kind, x.cols, x.rows, x.col_stride, x.row_stride}; }

/// Queues a kernel whose blocks stride over the tiles: no more blocks than the multiprocessors hold at a time, so that
/// the cost per thread is paid once. At least one block, which writes the tensor scale if there is no tile.
template <class Job>
error launch_tiles(const listed_kernel<Job>& kernel, std::size_t tiles, std::size_t shared_bytes, stream where,
                   const Job& job) {
  device_facts device;
  if (const error e = facts(device); e != success) return e;
  const std::size_t most = UFP4_TUNE_TILE_BLOCKS * static_cast<std::size_t>(device.processors);
  const std::size_t blocks = tiles < most ? tiles : most;
  return launch(kernel, {static_cast<unsigned>(blocks == 0 ? 1 : blocks)}, {kernels::lanes_threads}, shared_bytes,
                where, job);
}

/// Groups of sixteen of a row that has so many columns and consists of whole runs.
inline std::uint32_t sixteens_of(std::size_t cols, std::size_t run) {
  return static_cast<std::uint32_t>((cols + run - 1) / run * (run / thread::run_of_thread));
}

/// The tiles of a matrix with contiguous rows that cover so many groups of sixteen in a row and in a column.
template <class Tile>
kernels::tiled_source tiles_of(const source& x, std::size_t across, std::size_t down) {
  const std::size_t wide = (across + Tile::sixteens - 1) / Tile::sixteens;
  const std::size_t high = (down + Tile::sixteens_down - 1) / Tile::sixteens_down;
  return {thread::reader_of(x), static_cast<unsigned>(wide * high), static_cast<std::uint32_t>(wide == 0 ? 1 : wide)};
}

inline std::size_t run_of(const transform_spec& t) { return t.n < thread::run_of_thread ? thread::run_of_thread : t.n; }

/// *bits = max(*bits, the amax) of the transpose of x, whose rows are contiguous, after a transform.
template <unsigned tile_rows>
error queue_amax_of_columns(const source& x, const kernels::amax_side& side, stream where) {
  using Tile = block::transposed_tile<tile_rows>;
  const kernels::amax_tiles_job job{
      tiles_of<Tile>(x, sixteens_of(x.cols, thread::run_of_thread), sixteens_of(x.rows, run_of(side.transform))),
      {},
      side};
  return launch_tiles(listed<&kernels::amax_tiles<false, tile_rows>>, job.from.tiles,
                      Tile::bytes + warp::sign_table::bytes, where, job);
}

/// *bits = max(*bits, the bits of the amax of job.x after its transform, padding included); so *also, if not null.
template <unsigned of = parts::all, class Use = void>
error queue_amax(const stored_quantize_job& job, std::uint32_t* bits, stream where, std::uint32_t* also = nullptr) {
  source x = job.x;
  const kernels::amax_side side{job.transform, bits};
  if (x.rows == 0 || x.cols == 0) return success;
  if (reads_columns(x)) {
    x = transposed(x);  // without a transform the order does not matter
    if constexpr ((of & parts::transforms) != 0) {
      if (job.transform.n > 64) return queue_amax_of_columns<256>(x, side, where);
      if (job.transform.n > 1) return queue_amax_of_columns<64>(x, side, where);
    }
  }
  kernels::amax_job a{thread::reader_of(x), side, also, 0, sixteens_of(x.cols, run_of(job.transform))};
  a.tiles = static_cast<unsigned>((x.rows * a.across + kernels::amax_threads - 1) / kernels::amax_threads);
  return launch_tiles(listed<&kernels::amax_rows<Use>>, a.tiles, warp::sign_table::bytes, where, a);
}
UFP4_GPU_FUNCTION(error queue_amax<parts::all>(const stored_quantize_job&, std::uint32_t*, stream, std::uint32_t*))

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

inline unsigned lanes_of(std::size_t elements) {
  return elements <= thread::run_of_thread ? 1 : static_cast<unsigned>(elements / thread::run_of_thread);
}

/// A search for the scale, or blocks that sixteen lanes cannot hold, need more than the registers of lanes kernels.
inline bool takes_lanes(const quantize_task& task) {
  const block_shape& b = task.job.format.block;
  const bool square = b.rows == 16 && b.cols == 16 && task.job.transform.n <= 16;
  return (square || (b.rows == 1 && b.cols >= 16)) && !has_extended_blocks(task.job.format) &&
         !ufp4::detail::reads_values(task.rule) && !task.job.rounds_input_to_bf16;
}

using kernels::lanes_path, kernels::table_bytes;

inline lanes_path path_of(const quantize_task& task) {
  if (!thread::has_plan(thread::plan_of(task.job.format.grid), task.rounding)) return lanes_path::levels;
  return task.job.format.has_tensor_scale() ? lanes_path::tensor_scaled : lanes_path::planned;
}

/// The factor of the transform if it may be joined to those of the blocks: a power of two, before a rounding by plan.
inline float joined_factor_of(const quantize_task& task) {
  const transform_spec& t = task.job.transform;
  const bool power = t.n == 16 || t.n == 64 || t.n == 256;
  return power && !t.rounds_to_bf16 && path_of(task) != lanes_path::levels ? hadamard_factor(t.n) : 1.0f;
}

inline kernels::lanes_side side_of(const quantize_task& task) {
  const block_shape& b = task.job.format.block;
  const bool empty = task.job.padded_cols == 0;
  kernels::lanes_side side;
  side.task = task;
  side.plan = thread::plan_of(task.job.format.grid);
  side.scale = thread::scale_plan_of(task.job.format, task.rule);
  side.squares = b.rows != 1;
  side.rows = empty ? 0 : static_cast<std::uint32_t>(task.job.x.rows);
  side.across = empty ? 1 : static_cast<std::uint32_t>(task.job.padded_cols / thread::run_of_thread);
  side.scales_across = static_cast<std::uint32_t>(task.job.padded_cols / static_cast<std::size_t>(b.cols));
  side.block_shift = log2_of(lanes_of(static_cast<std::size_t>(b.cols)));
  side.lanes_of_block = side.squares ? 16 : 1u << side.block_shift;
  side.lanes_of_run = lanes_of(task.job.transform.n);
  side.codes_on_words = is_aligned(task.codes, 8);
  side.reader = thread::reader_of(task.job.x);
  side.rounding = thread::sixteen_rounding_of(task.rounding);
  side.row_shift = side.squares ? 4 : 0;
  side.first_index = task.job.first_row * task.job.whole_padded_cols + task.job.first_col;
  side.joined = joined_factor_of(task);
  side.limit = side.plan.bound * side.joined;
  return side;
}

template <lanes_path path, unsigned tile_rows>
error queue_columns(const kernels::lanes_side& side, stream where) {
  using Tile = block::transposed_tile<tile_rows>;
  const source& x = side.task.job.x;
  const kernels::tiles_job job{
      tiles_of<Tile>(transposed(x), sixteens_of(side.rows, thread::run_of_thread), side.rows == 0 ? 0 : side.across),
      {},
      side};
  return launch_tiles(listed<&kernels::quantize_tiles<path, false, tile_rows>>, job.from.tiles,
                      Tile::bytes + table_bytes<path>, where, job);
}

template <lanes_path path>
error queue_rows(kernels::lanes_side side, stream where) {
  const std::size_t rows = side.squares ? (std::size_t{side.rows} + 15) / 16 * 16 : side.rows;
  side.tiles = static_cast<unsigned>((rows * side.across + kernels::lanes_threads - 1) / kernels::lanes_threads);
  return launch_tiles(listed<&kernels::quantize_lanes<path>>, side.tiles, table_bytes<path>, where, side);
}

template <lanes_path path>
error queue_path(const kernels::lanes_side& side, stream where) {
  constexpr unsigned tile_rows = path == lanes_path::levels ? 256 : 64;
  return reads_columns(side.task.job.x) ? queue_columns<path, tile_rows>(side, where) : queue_rows<path>(side, where);
}

template <unsigned of>
error queue_lanes(const quantize_task& task, stream where) {
  const kernels::lanes_side side = side_of(task);
  if (side.rows == 0 && task.tensor_scale == nullptr) return success;
  const lanes_path path = path_of(task);
  if constexpr ((of & parts::levels) != 0)
    if (path == lanes_path::levels) return queue_path<lanes_path::levels>(side, where);
  if constexpr ((of & parts::long_runs) != 0)
    if (task.job.run() > 64 && reads_columns(task.job.x)) return queue_columns<lanes_path::planned, 256>(side, where);
  if constexpr ((of & parts::planned) != 0)
    if (path == lanes_path::planned) return queue_path<lanes_path::planned>(side, where);
  if constexpr ((of & parts::tensor_scaled) != 0) return queue_path<lanes_path::tensor_scaled>(side, where);
  return not_supported;  // not reached
}

template <bool extended, class Rule, class Rounding>
error queue_scalar(const quantize_task& task, const Rule& rule, const Rounding& rounding, stream where) {
  const block_coder<Rounding, Rule, extended ? features::all : ~features::further_parts> coder{
      task.job.format, rule, {}, rounding};
  if constexpr (extended)
    return queue_extended(task, coder, where);
  else
    return queue_blocks(task, coder, where);
}

/// Queues a quantization: codes, scales and the tensor scale of a two-level format are written, the report is added to.
template <unsigned of = parts::all>
error queue_quantize(const quantize_task& task, stream where) {
  if constexpr ((of & parts::extended) != 0)
    if (has_extended_blocks(task.job.format)) return queue_scalar<true>(task, task.rule, task.rounding, where);
  if (takes_lanes(task)) return queue_lanes<of>(task, where);
  if constexpr ((of & parts::blocks) != 0) return queue_scalar<false>(task, task.rule, task.rounding, where);
  return not_supported;  // not reached
}
UFP4_GPU_FUNCTION(error queue_quantize<parts::all>(const quantize_task&, stream))

/// A kernel's name, and why a faster one is not used.
struct kernel_choice {
  const char *name, *note;
};
inline kernel_choice quantize_kernel(const quantize_task& task) {
  if (has_extended_blocks(task.job.format))
    return {"quantize_extended", "an extended format uses one thread for each block"};
  if (!takes_lanes(task))
    return {"quantize_blocks",
            ufp4::detail::reads_values(task.rule)
                ? "a scale rule that reads a block's values uses one thread for each block"
                : "blocks of this shape (or squares with a transform longer than 16) use one thread for each block"};
  const bool has_levels = thread::plan_of(task.job.format.grid).kind == thread::rounding_plan::grid::levels;
  return {reads_columns(task.job.x) ? "quantize_tiles" : "quantize_lanes",
          has_levels                            ? "values are rounded by a loop over the grid's levels"
          : path_of(task) == lanes_path::levels ? "nearest_away and toward_zero round by a loop over the grid's levels"
                                                : ""};
}

/// The tile that quantize_both reads once: the longest run of either side is its edge.
using tile_of_both = block::transposed_tile<64>;

inline bool takes_both(const quantize_task& a, const quantize_task& b) {
  const auto& x = a.job.x;
  return takes_lanes(a) && takes_lanes(b) && a.job.run() <= tile_of_both::rows && b.job.run() <= tile_of_both::rows &&
         (x.col_stride == 1 || x.row_stride == 1) && x.rows != 0 && x.cols != 0;
}

template <lanes_path path>
error queue_both_by(const kernels::tiles_job& job, stream where) {
  return launch_tiles(listed<&kernels::quantize_tiles<path, true, tile_of_both::rows>>, job.from.tiles,
                      tile_of_both::bytes + 2 * table_bytes<path>, where, job);
}

/// Queues both quantizations; requires takes_both(a, b). `of`: the parts of either.
template <unsigned of = parts::all>
error queue_both(const quantize_task& a, const quantize_task& b, stream where) {
  if (a.job.x.col_stride != 1) return queue_both<of>(b, a, where);
  kernels::tiles_job job{{}, side_of(a), side_of(b)};
  job.from = tiles_of<tile_of_both>(a.job.x, job.rows.across, job.cols.across);
  const lanes_path of_a = path_of(a), of_b = path_of(b);
  if constexpr ((of & parts::levels) != 0)
    if (of_a == lanes_path::levels || of_b == lanes_path::levels) {
      job.rows.joined = job.cols.joined = 1;
      return queue_both_by<lanes_path::levels>(job, where);
    }
  if constexpr ((of & parts::tensor_scaled) != 0)
    if (of_a == of_b && of_a == lanes_path::tensor_scaled) return queue_both_by<lanes_path::tensor_scaled>(job, where);
  if constexpr ((of & parts::planned) != 0) return queue_both_by<lanes_path::planned>(job, where);
  return not_supported;  // not reached
}
UFP4_GPU_FUNCTION(error queue_both<parts::all>(const quantize_task&, const quantize_task&, stream))

/// The amax of a.x after a's transform and of its transpose b.x after b's, x read once; requires takes_both(a, b).
template <unsigned of = parts::all>
error queue_amax_both(const stored_quantize_job& a, std::uint32_t* bits_a, const stored_quantize_job& b,
                      std::uint32_t* bits_b, stream where) {
  if (a.transform.n == 1 && b.transform.n == 1) return queue_amax<of>(a, bits_a, where, bits_b);
  if (a.x.col_stride != 1) return queue_amax_both<of>(b, bits_b, a, bits_a, where);
  if constexpr ((of & parts::transforms) != 0) {
    const kernels::amax_tiles_job job{tiles_of<tile_of_both>(a.x, sixteens_of(a.x.cols, run_of(a.transform)),
                                                             sixteens_of(b.x.cols, run_of(b.transform))),
                                      {a.transform, bits_a},
                                      {b.transform, bits_b}};
    return launch_tiles(listed<&kernels::amax_tiles<(of & parts::transforms) != 0, tile_of_both::rows>>, job.from.tiles,
                        tile_of_both::bytes + 2 * warp::sign_table::bytes, where, job);
  }
  return not_supported;  // not reached
}
UFP4_GPU_FUNCTION(error queue_amax_both<parts::all>(const stored_quantize_job&, std::uint32_t*,
                                                    const stored_quantize_job&, std::uint32_t*, stream))

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
