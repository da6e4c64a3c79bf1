// ufp4 - quantized_gemm, exact_blocks, on the matrix cores of AMD GPUs: one text for MFMA and both kinds of WMMA.
// SPDX-License-Identifier: Apache-2.0
//
// The grids' values are small integers times a power of two, and integers up to 2048 are fp16 numbers: an instruction with K = 16
// makes a block of 16's dot product as an integer below 2^24 in binary32, a chain of them a longer block's, exactly. Then
// acc = fma(d * unit, fl(sA sB), acc) in block order: the host's bits.
//
// A thread block of four waves makes 64 x 64 of C and walks along K by 64 columns, whose codes (packed) and scales (as floats) lie
// in shared memory twice: the next step's are on their way to registers while this one's are multiplied. A wave makes 32 x 32, so
// what it decodes is used twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/thread/decode.hpp>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/gpu/thread/epilogue.hpp>
#include <ufp4/hip/mfma_gfx90a.hpp>
#include <ufp4/hip/wmma_gfx11.hpp>
#include <ufp4/hip/wmma_gfx12.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned matrix_tile = 64, matrix_depth = 64;
inline constexpr unsigned matrix_lines = 2 * matrix_tile;        ///< rows of both operands
inline constexpr unsigned matrix_words = matrix_depth / 8;       ///< of a line's codes
inline constexpr unsigned matrix_stride = 4 * matrix_words + 8;  ///< bytes: lines begin in different banks
inline constexpr unsigned matrix_blocks = matrix_depth / 16;     ///< of a step, at most
inline constexpr std::size_t matrix_stage_bytes =
    std::size_t{matrix_lines} * (matrix_stride + matrix_blocks * sizeof(float));

struct matrix_job {
  gemm_job product{};
  thread::half_table integers[2]{};  ///< of the grids, as fp16
  float unit = 1;                    ///< the product of theirs
};

template <class Op>
struct matrix_worker {
  static constexpr unsigned threads = 4 * Op::wave;
  static constexpr unsigned code_words = matrix_lines * matrix_words / threads;
  static constexpr unsigned scale_words = matrix_lines * matrix_blocks / threads;
  const matrix_job& job;
  unsigned row, col;  ///< of C, where the tile begins

  UFP4_DEVICE const gemm_side& side(unsigned i) const { return i == 0 ? job.product.left : job.product.right; }
  UFP4_DEVICE unsigned blocks_of_step() const {
    return job.product.block >= matrix_depth ? 1 : matrix_depth / job.product.block;
  }
  UFP4_DEVICE unsigned char* codes(unsigned s) const { return shared_memory() + s % 2 * matrix_stage_bytes; }
  UFP4_DEVICE float* scales(unsigned s) const {
    return reinterpret_cast<float*>(codes(s) + matrix_lines * matrix_stride);
  }

  /// What a thread brings of step s.
  struct cargo {
    std::uint32_t code[code_words];
    float scale[scale_words];
  };
  UFP4_DEVICE void load(unsigned s, cargo& c) const {
    const std::size_t row_bytes = job.product.padded() / 2, blocks = job.product.blocks();
    for (unsigned i = 0; i < code_words; ++i) {
      const unsigned at = i * threads + thread_index().x, line = at / matrix_words;
      const std::size_t byte = std::size_t{s} * (matrix_depth / 2) + at % matrix_words * 4;
      const unsigned which = line / matrix_tile;
      const std::size_t r = (which == 0 ? row : col) + line % matrix_tile;
      const bool there = r < side(which).rows && byte < row_bytes;
      c.code[i] = there ? *reinterpret_cast<const std::uint32_t*>(side(which).codes + r * row_bytes + byte) : 0;
    }
    for (unsigned i = 0; i < scale_words; ++i) {
      const unsigned at = i * threads + thread_index().x, line = at % matrix_lines, b = at / matrix_lines;
      const unsigned which = line / matrix_tile;
      const std::size_t r = (which == 0 ? row : col) + line % matrix_tile;
      const std::size_t block = std::size_t{s} * matrix_depth / job.product.block + b;
      const bool there = r < side(which).rows && b < blocks_of_step() && block < blocks;
      c.scale[i] = there ? thread::scale_value(side(which).scale,
                                               thread::load_scale(side(which).scales, side(which).scale,
                                                                  r / side(which).block_rows * blocks + block))
                         : 0.0f;
    }
  }
  UFP4_DEVICE void put(unsigned s, const cargo& c) const {
    for (unsigned i = 0; i < code_words; ++i) {
      const unsigned at = i * threads + thread_index().x;
      *reinterpret_cast<std::uint32_t*>(codes(s) + at / matrix_words * matrix_stride + at % matrix_words * 4) =
          c.code[i];
    }
    for (unsigned i = 0; i < scale_words; ++i) scales(s)[i * threads + thread_index().x] = c.scale[i];
  }

  // A wave's corner of the tile: 2 x 2 products of 16 x 16.
  UFP4_DEVICE unsigned wave() const { return thread_index().x / Op::wave; }
  UFP4_DEVICE unsigned first_row() const { return wave() / 2 * 32; }
  UFP4_DEVICE unsigned first_col() const { return wave() % 2 * 32; }

  /// A lane's columns of 16 that begin at `column`, of a line: integers as fp16.
  UFP4_DEVICE void fragment(unsigned s, unsigned which, unsigned line, unsigned column,
                            std::uint32_t (&out)[Op::words]) const {
    const unsigned first = column + Op::first_column(lane());
    const unsigned char* from = codes(s) + line * matrix_stride + first / 2;
    if constexpr (Op::words == 2) {
      std::uint32_t pairs[4];
      thread::decode8_halves(job.integers[which], *reinterpret_cast<const std::uint16_t*>(from), pairs);
      out[0] = pairs[0], out[1] = pairs[1];
    } else {
      for (unsigned w = 0; w < Op::words / 4; ++w) {
        std::uint32_t pairs[4];
        thread::decode8_halves(job.integers[which], reinterpret_cast<const std::uint32_t*>(from)[w], pairs);
        for (unsigned i = 0; i < 4; ++i) out[4 * w + i] = pairs[i];
      }
    }
  }

  struct sums {
    float dot[2][2][Op::sums] = {}, acc[2][2][Op::sums] = {};
  };

  /// The block whose last columns were added: acc = fma(dot * unit, fl(sA sB), acc), and dot = 0.
  UFP4_DEVICE void finish(unsigned s, unsigned b, sums& to) const {
    const float* scale = scales(s) + b * matrix_lines;
    for (unsigned m = 0; m < 2; ++m)
      for (unsigned n = 0; n < 2; ++n) {
        const float right = scale[matrix_tile + first_col() + 16 * n + lane() % 16];
        for (unsigned i = 0; i < Op::sums; ++i) {
          const float left = scale[first_row() + 16 * m + Op::row_of_sum(lane(), i)];
          const float d = ufp4::detail::rounded(to.dot[m][n][i] * job.unit);
          to.acc[m][n][i] = ufp4::detail::fma(d, ufp4::detail::rounded(left * right), to.acc[m][n][i]);
          to.dot[m][n][i] = 0;
        }
      }
  }

  UFP4_DEVICE void multiply(unsigned s, sums& to) const {
    const std::size_t left = job.product.padded() - std::size_t{s} * matrix_depth;
    const unsigned depth = left < matrix_depth ? static_cast<unsigned>(left) : matrix_depth;
    for (unsigned k = 0; k < depth; k += 16) {
      std::uint32_t a[2][Op::words], b[2][Op::words];
      for (unsigned i = 0; i < 2; ++i) {
        fragment(s, 0, first_row() + 16 * i + lane() % 16, k, a[i]);
        fragment(s, 1, matrix_tile + first_col() + 16 * i + lane() % 16, k, b[i]);
      }
      for (unsigned m = 0; m < 2; ++m)
        for (unsigned n = 0; n < 2; ++n) Op::multiply_f16(to.dot[m][n], a[m], b[n]);
      const std::size_t end = std::size_t{s} * matrix_depth + k + 16;
      if (end % job.product.block == 0) finish(s, job.product.block >= matrix_depth ? 0 : k / job.product.block, to);
    }
  }

  UFP4_DEVICE void run(sums& to) const {
    const auto steps = static_cast<unsigned>((job.product.padded() + matrix_depth - 1) / matrix_depth);
    cargo next;
    if (steps != 0) load(0, next), put(0, next);
    sync_block();
    for (unsigned s = 0; s < steps; ++s) {
      if (s + 1 < steps) load(s + 1, next);
      multiply(s, to);
      if (s + 1 < steps) put(s + 1, next);  // the other half of the memory, last read a step ago
      sync_block();
    }
  }

  UFP4_DEVICE void store(const sums& from) const {
    const thread::result_scales by = thread::scales_of(job.product);
    for (unsigned m = 0; m < 2; ++m)
      for (unsigned n = 0; n < 2; ++n)
        for (unsigned i = 0; i < Op::sums; ++i) {
          const std::size_t r = row + first_row() + 16 * m + Op::row_of_sum(lane(), i);
          const std::size_t c = col + first_col() + 16 * n + lane() % 16;
          if (r < job.product.out.rows && c < job.product.out.cols)
            thread::store_result(job.product, by, r, c, from.acc[m][n][i]);
        }
  }
};

template <class Op>
UFP4_KERNEL(matrix_worker<Op>::threads)
multiply_matrix_blocks(const matrix_job job) {
  const matrix_worker<Op> worker{job, block_index().x * matrix_tile, block_index().y * matrix_tile};
  typename matrix_worker<Op>::sums sums;
  worker.run(sums);
  worker.store(sums);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// Are the grid's integers fp16 numbers?
inline bool integers_fit_f16(const grid4& grid) {
  for (const int i : grid.integer)
    if (i < -2048 || i > 2048) return false;
  return grid.exact_products;
}
inline thread::half_table integer_table(const grid4& grid) {
  thread::half_table t;
  for (unsigned c = 0; c < 16; ++c) {
    const std::uint32_t bits = fp16(static_cast<float>(grid.integer[c])).bits();
    t.low.set(c, bits), t.high.set(c, bits >> 8);
  }
  return t;
}
/// dot * unit must be a binary32 number for every dot below 2^24.
inline bool unit_fits(const gemm_job& job) {
  const int exponent = ufp4::detail::floor_log2(job.left.grid.unit) + ufp4::detail::floor_log2(job.right.grid.unit);
  return exponent >= -149 && exponent <= 103;
}

template <class Op>
bool matrix_blocks_take(const gemm_job& job, const device_facts& device) {
  const auto aligned = [](const gemm_side& s) { return reinterpret_cast<std::uintptr_t>(s.codes) % 4 == 0; };
  return Op::runs_on(device.architecture) && device.wave == static_cast<int>(Op::wave) &&
         job.mode != accumulate::folded_bf16 && job.block >= 16 && job.left.exact() && job.right.exact() &&
         integers_fit_f16(job.left.grid) && integers_fit_f16(job.right.grid) && unit_fits(job) && aligned(job.left) &&
         aligned(job.right) && job.out.rows < 1u << 31 && job.out.cols <= 65535u * kernels::matrix_tile;
}

template <class Op>
error run_matrix_blocks(const gemm_job& job, const device_facts&, std::span<std::byte>, stream where) {
  const kernels::matrix_job all{
      job, {integer_table(job.left.grid), integer_table(job.right.grid)}, job.left.grid.unit * job.right.grid.unit};
  const auto tiles = [](std::size_t n) {
    return static_cast<unsigned>((n + kernels::matrix_tile - 1) / kernels::matrix_tile);
  };
  return launch(&kernels::multiply_matrix_blocks<Op>, {tiles(job.out.rows), tiles(job.out.cols)},
                {kernels::matrix_worker<Op>::threads}, 2 * kernels::matrix_stage_bytes, where, all);
}

template <class Op>
constexpr gemm_kernel matrix_blocks_kernel(const char* name) {
  return {
      .name = name,
      .instruction = Op::instruction,
      .tile_rows = kernels::matrix_tile,
      .tile_cols = kernels::matrix_tile,
      .takes = &matrix_blocks_take<Op>,
      .workspace = [](const gemm_job&, const device_facts&) { return std::size_t{0}; },
      .run = &run_matrix_blocks<Op>,
      .fast_is = accumulate::exact_blocks,
  };
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr gemm_kernel gemm_blocks_gfx90a =
    gpu::detail::matrix_blocks_kernel<mma::mfma_gfx90a>("gemm_blocks_gfx90a");
inline constexpr gemm_kernel gemm_blocks_gfx11 =
    gpu::detail::matrix_blocks_kernel<mma::wmma_gfx11>("gemm_blocks_gfx11");
inline constexpr gemm_kernel gemm_blocks_gfx12 =
    gpu::detail::matrix_blocks_kernel<mma::wmma_gfx12>("gemm_blocks_gfx12");

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
