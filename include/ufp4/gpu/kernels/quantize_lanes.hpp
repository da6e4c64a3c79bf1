// ufp4 - quantize on a GPU with sixteen elements in the registers of each thread.
// SPDX-License-Identifier: Apache-2.0
//
// A thread reads sixteen consecutive elements of a row (64 bytes of binary32, 32 of a 16-bit type, 16 at a time), and
// the next threads the rest of the row, so a wave reads and writes whole cache lines. Shuffles between lanes compute
// the transform of a run and the amax of a block; each thread stores eight bytes of codes. Format, rule and rounding
// are data, so all threads take the same branches; only grids without a plan have a kernel of their own, whose values
// are in local memory.
//
// Thread blocks stride over the matrix, so a thread computes what does not depend on its place only once: the constants
// of the tensor, two divisions; the signs of the transform; the place of its first sixteen elements.
//
// For blocks of 1 x 16 to 1 x 256, and for squares of 16, whose sixteen rows are in sixteen lanes.
#pragma once

#include <ufp4/gpu/kernels/quantize_blocks.hpp>
#include <ufp4/gpu/thread/round.hpp>
#include <ufp4/gpu/thread/scale.hpp>
#include <ufp4/gpu/warp/hadamard_run.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

using thread::grid_place;

inline constexpr unsigned lanes_threads = 256;

/// How codes and scales are computed, known at compile time.
///
/// | tensor_scaled | two levels of scales; code_by_plan; the factors of all scales are in a table in shared memory    |
/// | planned       | any scale; code_by_plan                                                                          |
/// | levels        | everything else; code_by_levels, with values in local memory                                     |
enum class lanes_path : std::uint8_t { tensor_scaled, planned, levels };

/// One quantization, and values computed from it on the host.
struct lanes_side {
  quantize_task task{};
  thread::row_reader reader{};
  thread::rounding_plan plan{};
  thread::scale_plan scale{};
  thread::sixteen_rounding rounding{};
  std::uint64_t first_index = 0;    ///< element index of the first element
  std::uint32_t rows = 0;           ///< of x; 0 if there is nothing to do
  std::uint32_t across = 1;         ///< groups of sixteen in a row
  std::uint32_t scales_across = 0;  ///< blocks of a row
  unsigned tiles = 0;               ///< of 256 groups of sixteen, over which the thread blocks stride
  unsigned lanes_of_block = 1, lanes_of_run = 1;
  unsigned block_shift = 0, row_shift = 0;  ///< log2 of a block's groups of sixteen along a row, and of its rows
  bool squares = false, codes_on_words = true;
  float joined = 1;  ///< the factor of the transform if it is joined to those of the blocks; else 1
  float limit = 0;   ///< plan.bound * joined: of the amax of a block times its factor
};

/// Of shared memory for the tables of one side: of the signs, and of the factors if tensor_scaled.
template <lanes_path path>
inline constexpr std::size_t table_bytes =
    warp::sign_table::bytes + (path == lanes_path::tensor_scaled ? 256 * sizeof(float) : 0);

struct lanes_constants {
  tensor_constants tensor;
  warp::sign_table signs;
  unsigned place;        ///< of the lane in its run
  bool stores_scale;     ///< is it the first lane of its block?
  const float* factors;  ///< joined_factor of each scale, if tensor_scaled
};

/// fl(fl(v c) f) is fl(v (c f)) for the power of two c unless v c is subnormal. For f up to 2^90 such an element has
/// the code of 0 either way. So c is joined to f, or to the divisor; the result is negative, -f, where it is not.
UFP4_DEVICE float joined_factor(const lanes_side& side, float f) {
  if (to_bits(f) - (37u << 23) >= 180u << 23) return -f;  // not 2^-90 to 2^90
  return product(f, side.scale.divides ? to_float((254u << 23) - to_bits(side.joined)) : side.joined);
}

/// Also stores the tensor scale. `sixteen`: of the thread's first elements; its others are whole runs further.
/// `tables`: table_bytes of shared memory. A barrier must follow.
template <lanes_path path>
UFP4_DEVICE lanes_constants begin(const lanes_side& side, unsigned sixteen, void* tables) {
  block_coder<rounding_spec> coder{side.task.job.format, side.task.rule, {}, {}};
  leave_out_extended(coder.format);
  auto* table = static_cast<float*>(tables);
  float* factors = table + warp::sign_table::bytes / sizeof(float);
  const lanes_constants known{constants_of(side.task, coder),
                              {table},
                              sixteen & (side.lanes_of_run - 1),
                              (lane() & (side.lanes_of_block - 1)) == 0,
                              factors};
  publish_tensor_scale(side.task, known.tensor);
  known.signs.write(side.task.job.transform);
  if constexpr (path == lanes_path::tensor_scaled) {
    const std::uint32_t bits = thread_index().x;
    const float factor =
        bits > max_scale(side.scale.kind) ? 0.0f : thread::scale_factor(side.scale, known.tensor, bits);
    factors[bits] = joined_factor(side, factor);
  }
  return known;
}

struct run_scale {
  std::uint32_t bits;
  float factor;
};
template <lanes_path path>
UFP4_DEVICE run_scale scale_of_run(const lanes_side& side, const lanes_constants& known, std::uint32_t amax) {
  const bool finite = amax < infinity_bits;
  if constexpr (path == lanes_path::tensor_scaled) {
    const std::uint32_t code =
        thread::encode_eighths(side.scale, product(to_float(amax), known.tensor.scale_factor)) & 0xFFu;
    const std::uint32_t bits = finite ? code : side.scale.nan;
    return {bits, known.factors[bits]};
  }
  const std::uint32_t of_amax = thread::scale_bits(side.scale, known.tensor, finite ? to_float(amax) : 0.0f);
  const std::uint32_t bits = finite ? of_amax : side.scale.nan;
  if (!finite || amax == 0) return {bits, 0.0f};  // an e8m0 scale is never 0, so amax is tested too
  return {bits, joined_factor(side, thread::scale_factor(side.scale, known.tensor, bits))};
}

/// The values that are rounded, and 1 as their factor, for a block whose factor is 0 (codes of +0) or negative, or
/// whose values may exceed plan.bound: beyond it they are that, and keep their signs.
UFP4_DEVICE float scale_special(const lanes_side& side, float factor, float (&v)[thread::run_of_thread]) {
  const float first = factor < 0.0f ? side.joined : 1.0f, most = side.plan.bound;
  UFP4_UNROLL
  for (unsigned j = 0; j < thread::run_of_thread; ++j) {
    const float t = product(product(v[j], first), factor < 0.0f ? -factor : factor);
    v[j] = factor == 0.0f ? 0.0f : t > most ? most : t < -most ? -most : t;
  }
  return 1.0f;
}
/// The same without the bound, where codes may be those of x / factor.
UFP4_DEVICE float join_special(const lanes_side& side, float factor, float (&v)[thread::run_of_thread]) {
  UFP4_UNROLL
  for (unsigned j = 0; j < thread::run_of_thread; ++j) v[j] = factor == 0.0f ? 0.0f : product(v[j], side.joined);
  return factor == 0.0f ? 1.0f : -factor;
}

/// block_scale::is_limited of a factor that joined_factor has left out.
UFP4_DEVICE bool is_limited(const lanes_side& side, float factor) {
  return factor == -max_finite && !side.scale.divides;
}
/// The codes of sixteen values of a block with that amax and factor; those of +0 if the factor is 0.
template <lanes_path path>
UFP4_DEVICE thread::sixteen_codes code_values(const lanes_side& side, std::uint32_t amax, float factor,
                                              const grid_place& at, float (&v)[thread::run_of_thread],
                                              warp::lane_counts& seen) {
  const quantize_task& task = side.task;
  constexpr bool bounded = path == lanes_path::tensor_scaled;
  bool limited = false;  // then what is not 0 counts as saturated
  if constexpr (bounded) {
    if (!(factor > 0.0f && product(to_float(amax), factor) <= side.limit)) {
      limited = is_limited(side, factor);
      factor = scale_special(side, factor, v);
    }
  } else if (!(factor > 0.0f)) {
    limited = is_limited(side, factor);
    factor = join_special(side, factor, v);
  }
  thread::scale_sixteen(side.plan, factor, !bounded && side.scale.divides, v);
  if (task.job.counts) {
    if constexpr (path == lanes_path::levels)
      seen.saturated += thread::count_beyond(
          limited ? ufp4::detail::value_range{0.0f, 0.0f} : ufp4::detail::value_range_of(task.job.format.grid), v);
    else
      seen.saturated += thread::count_beyond(limited ? 0u : side.plan.qmax_bits, v);
  }
  const std::uint64_t index =
      side.first_index + at.row * task.job.whole_padded_cols + std::uint64_t{at.sixteen} * thread::run_of_thread;
  if constexpr (path == lanes_path::levels)
    return thread::code_by_levels(task.job.format.grid, task.rounding, v, index);
  else
    return thread::code_by_plan<bounded>(side.plan, side.rounding, v, index);
}

/// Codes and scale of sixteen elements as read, zeros outside the matrix. Every lane of the wave must call it.
template <lanes_path path>
UFP4_DEVICE void code_sixteen(const lanes_side& side, const lanes_constants& known, const grid_place& at,
                              float (&v)[thread::run_of_thread], warp::lane_counts& seen) {
  const quantize_task& task = side.task;
  const transform_spec& transform = task.job.transform;
  warp::hadamard_sums(transform, known.signs, known.place, v);
  if (transform.n != 1 && side.joined == 1.0f) warp::scale_and_round(transform, v);
  const float largest = product(to_float(thread::amax_bits(v)), side.joined);
  const std::uint32_t amax = warp::amax_bits(to_bits(largest), side.lanes_of_block);
  if (at.row >= side.rows || at.sixteen >= side.across) return;  // no shuffle follows

  const run_scale scale = scale_of_run<path>(side, known, amax);
  if (known.stores_scale) {
    const std::uint64_t block =
        wide_product(at.row >> side.row_shift, side.scales_across) + (at.sixteen >> side.block_shift);
    if constexpr (path == lanes_path::tensor_scaled)
      static_cast<std::uint8_t*>(task.scales)[block] = static_cast<std::uint8_t>(scale.bits);
    else
      thread::store_scale(task.scales, side.scale.kind, block, scale.bits);
    if (task.job.counts) {
      seen.nonfinite += amax >= infinity_bits;
      seen.underflowed += amax < infinity_bits && scale.factor == 0.0f && amax != 0;
    }
  }
  const thread::sixteen_codes codes = code_values<path>(side, amax, scale.factor, at, v, seen);
  thread::store_sixteen(task.codes + (wide_product(at.row, side.across) + at.sixteen) * 8, codes, side.codes_on_words);
}

template <lanes_path path>
UFP4_KERNEL(lanes_threads)
quantize_lanes(const lanes_side side) {
  const unsigned me = thread_index().x, units = lanes_threads >> side.row_shift;  // squares are places of 16 lanes
  const unsigned in_square = side.squares ? me % 16 : 0;
  const std::size_t first = std::size_t{block_index().x} * units + (me >> side.row_shift);
  grid_place at = thread::split(first, side.across);
  const grid_place step = thread::split(std::size_t{grid_size().x} * units, side.across);
  const lanes_constants known = begin<path>(side, at.sixteen, shared_memory());
  sync_block();
  warp::lane_counts seen{};
  for (unsigned tile = block_index().x; tile < side.tiles; tile += grid_size().x) {
    const grid_place here{at.row << side.row_shift | in_square, at.sixteen};
    float v[thread::run_of_thread];
    side.reader.load(here.row, here.sixteen, v);
    code_sixteen<path>(side, known, here, v, seen);
    at = thread::advanced(at, step, side.across);
  }
  if (side.task.report != nullptr) warp::add_report(side.task.report, seen);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
