// ufp4 - gemm_job: a product as the GPU's kernels take it; gemm_kernel: a kernel as quantized_gemm chooses it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/block/presets.hpp>
#include <ufp4/gpu/vendor.hpp>
#include <ufp4/matrix/job.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// One operand of a product: codes and scales in the canonical layout, or a plain matrix.
/// Pointers are to device memory.
struct gemm_side {
  bool is_quantized = true;                         ///< false for a plain matrix
  const std::uint8_t* codes = nullptr;              ///< or the plain elements
  const void* scales = nullptr;                     ///< block scales, in the type `scale`
  const float* tensor_scale = nullptr;              ///< null: 1
  grid4 grid{};                                     ///< the element format
  scale_kind scale = scale_kind::f32;               ///< the type of the block scales
  unsigned block_rows = 1;                          ///< rows that share a scale
  std::size_t rows = 0, cols = 0, padded_cols = 0;  ///< of the operand
  ufp4::detail::source plain{};                     ///< if not quantized: the matrix, without the transform
  bool rounds_plain_to_bf16 = false;                ///< its elements are first rounded to nearest even: the bf16 recipe
  transform_spec transform{};                       ///< of a plain operand

  /// Are the values of the grid small integers times a power of two?
  UFP4_HD bool exact() const { return is_quantized && grid.exact_products; }
};

/// C = alpha * left * right^T + bias + beta * C: the parameter of a kernel.
struct gemm_job {
  gemm_side left{}, right{};           ///< the operands
  ufp4::detail::sink out{};            ///< C
  unsigned block = 16;                 ///< length along K of a block of either side
  float alpha = 1, beta = 0;           ///< as in gemm_options
  accumulate mode = accumulate::fast;  ///< as in gemm_options
  const float* bias = nullptr;         ///< one float for each column of C, or null

  UFP4_HD std::size_t padded() const { return left.padded_cols; }          ///< the padded length of K
  UFP4_HD std::size_t blocks() const { return left.padded_cols / block; }  ///< blocks along K
};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// A power of two as a shift.
inline unsigned log2_of(unsigned power) { return static_cast<unsigned>(__builtin_ctz(power)); }
inline bool is_aligned(const void* p, std::size_t bytes) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; }

/// Does the grid have the values of E2M1, code by code?
inline bool is_e2m1(const grid4& grid) {
  constexpr grid4 e2m1 = grid_of<fp4<E2M1>>();
  for (unsigned c = 0; c < 16; ++c)
    if (grid.value[c] != e2m1.value[c]) return false;
  return true;
}

/// Do both operands have blocks and scales of that kind, and grids for which holds(grid)?
template <class Holds>
bool has_blocks(const gemm_job& job, unsigned block, scale_kind scale, const Holds& holds) {
  const auto fits = [&](const gemm_side& s) { return s.is_quantized && s.scale == scale && holds(s.grid); };
  return job.block == block && fits(job.left) && fits(job.right);
}

/// The amax of a grid's integers.
inline int integer_amax(const grid4& grid) {
  int amax = 0;
  for (const int i : grid.integer) amax = amax < i ? i : amax < -i ? -i : amax;
  return amax;
}
/// The exponent of the product of the grids' units.
inline int dot_exponent(const gemm_job& job) {
  return ufp4::detail::floor_log2(job.left.grid.unit) + ufp4::detail::floor_log2(job.right.grid.unit);
}
/// Is every block's dot product an integer below `most` (at most 2^24) times the units, and therefore a float?
inline bool exact_dots_below(const gemm_job& job, std::int64_t most) {
  if (!job.left.exact() || !job.right.exact()) return false;
  const std::int64_t product = std::int64_t{integer_amax(job.left.grid)} * integer_amax(job.right.grid);
  const int exponent = dot_exponent(job);
  return product * job.block < most && exponent >= -149 && exponent <= 103;
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// One way to multiply. The vendor's table, gemm_kernels(), lists the kernels, the fastest first; a job runs on the
/// first kernel that takes it.
///
/// | instruction  | the machine instruction that multiplies: "fma", "mma.sync.m16n8k32.s8", ...                      |
/// | takes        | can this program's code run the job on this device? Reads no data                                |
/// | workspace    | bytes of device memory that `run` needs                                                          |
/// | run          | queues the kernel                                                                                |
/// | fast_is      | exact_blocks if `fast` gives the bits of exact_blocks wherever those are finite                  |
/// | experimental | not run on any device yet, and built on instructions that the CPU simulator does not emulate:    |
/// |              | chosen only if the program defines UFP4_EXPERIMENTAL (docs/gpu.md, cuda/first_call_check.hpp)    |
/// | tile_side    | rows and columns of the tiles that a job alone would be cut into; null: tile_rows and tile_cols  |
/// | run_group    | queues many jobs at once. They differ only in pointers, shapes and strides, have no bias and are |
/// |              | not empty. Null: they are run one by one                                                         |
struct gemm_kernel {
  const char* name = "";                                          ///< as explain() reports it
  const char* instruction = "";                                   ///< as explain() reports it
  unsigned tile_rows = 1, tile_cols = 1;                          ///< the part of C that one thread block computes
  bool (*takes)(const gemm_job&, const device_facts&) = nullptr;  ///< whether the kernel supports the call
  /// Bytes that the call needs.
  std::size_t (*workspace)(const gemm_job&, const device_facts&) = [](const gemm_job&, const device_facts&) {
    return std::size_t{0};
  };
  /// Queues the call.
  error (*run)(const gemm_job&, const device_facts&, std::span<std::byte> workspace, stream) = nullptr;
  accumulate fast_is = accumulate::fast;  ///< what the kernel computes in mode `fast`
  bool experimental = false;              ///< see the table above
  /// Rows and columns of the tile, if they depend on the call.
  unsigned (*tile_side)(const gemm_job&, const device_facts&) = nullptr;
  /// Queues several products in one launch; nullptr if it cannot.
  error (*run_group)(std::span<const gemm_job>, const device_facts&, stream) = nullptr;
};

/// The kernels for the GPUs that this program is compiled for, the fastest first. cuda.hpp and hip.hpp define it.
std::span<const gemm_kernel* const> gemm_kernels();

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::kernels::inline UFP4_GPU {

using namespace gpu::detail;  // the file of a kernel also has its host code

/// The tiles of C, one for each thread block.
struct tile_grid {
  unsigned down = 0, across = 0;
};
/// A tile: its index down and across.
struct tile_index {
  unsigned down, across;
};
/// The tile of a thread block. Consecutive thread blocks, which run at the same time, compute neighbouring tiles: eight
/// tile rows of one tile column, then of the next column, so that the operands they share are in the cache.
UFP4_DEVICE tile_index banded_tile(const tile_grid& tiles, unsigned at) {
  const unsigned band = 8 * tiles.across, first = at / band * 8, left = tiles.down - first;
  const unsigned down = left < 8 ? left : 8;
  return {first + at % band % down, at % band / down};
}

/// Queues a thread block for each rows x cols of C; sets job.tiles.
template <class Job>
error launch_tiled(void (*kernel)(Job), Job job, const ufp4::detail::sink& out, unsigned rows, unsigned cols,
                   unsigned threads, std::size_t shared_bytes, stream where) {
  const std::size_t down = (out.rows + rows - 1) / rows, across = (out.cols + cols - 1) / cols;
  if (down == 0 || across == 0) return success;
  if (down > 0x7FFFFFFFu / across) return not_supported;  // a grid has at most 2^31 - 1 blocks
  job.tiles = {static_cast<unsigned>(down), static_cast<unsigned>(across)};
  return launch(kernel, {job.tiles.down * job.tiles.across}, {threads}, shared_bytes, where, job);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
