// ufp4 - exact_blocks on AMX: block dot products as binary32 tiles, scaled and added up in AVX-512 registers.
// SPDX-License-Identifier: Apache-2.0
//
// Element values are bf16 numbers and their products small integers times a power of two. So TDPBF16PS from a zeroed
// tile gives a block's dot product as binary32 without a rounding, whatever its order of additions is; +0 where it is
// zero, since its sums begin with +0. No subnormal number occurs that the unit could flush (takes_values).
//
// The vector units, a product and an fma for each of a tile's 16 rows, work on one block while the tile unit works on
// the next.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/kernels/gemm/decode_amx.hpp>
#include <utility>

UFP4_BEGIN_TARGET(UFP4_AMX)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace amx {

/// x * y, y from memory.
UFP4_LANE f32 fma_from(const float* x, f32 y, f32 sum) {
  asm("vfmadd231ps %1, %2, %0" : "+v"(sum) : "m"(*reinterpret_cast<const f32*>(x)), "v"(y));
  return sum;
}

template <class Unit>
struct gemm_blocks {
  static constexpr std::size_t area = tile_side * tile_side;
  static constexpr std::size_t part_rows = 256,
                               part_cols = 256;  ///< 256 KB of sums beside 288 KB of a slice's left rows

  /// bf16 holds the values, and no sum of their products leaves the normal range.
  static bool takes_values(const gemm_job& job) {
    const auto good = [](const gemm_operand& side) {
      return side.exact() && has_short_values(side.q.format.grid, 8) && side.q.format.grid.unit >= 0x1p-40f;
    };
    return job.block >= 16 && good(job.left) && good(job.right);
  }
  /// Eight rows or fewer are faster without tiles. In fast mode this kernel runs what gemm_bf16_amx does not take.
  static bool takes(const gemm_job& job) {
    return job.mode != accumulate::folded_bf16 && job.left.rows() > 8 && takes_values(job) && !job.left.interleaved();
  }

  static std::size_t value_bytes(std::size_t k) { return up(k, tile_k) / tile_k * tile_bytes; }
  static std::size_t tile_rows_bytes(const gemm_job& job) {
    return value_bytes(job.padded()) + job.padded() / job.block * tile_side * sizeof(float);
  }
  static std::size_t left_bytes(const gemm_job& job, std::size_t rows) {
    return up(rows, tile_side) / tile_side * tile_rows_bytes(job);
  }

  /// Sixteen rows: their tiles with k in pairs, then their scales, sixteen floats a block.
  static void pack_left(const gemm_job& job, std::size_t row, std::size_t rows, std::byte* memory) {
    for (std::size_t i = 0; i < rows; i += tile_side) {
      auto* out = reinterpret_cast<std::uint8_t*>(memory + left_bytes(job, i));
      const std::size_t live = rows - i < tile_side ? rows - i : tile_side;
      pack_rows(job.padded(), out, [&](std::size_t k, std::size_t depth, std::uint8_t* tiles) {
        decode_values(job.left.q, row + i, live, k, depth, tiles);
        return true;
      });
      avx512::scales_of(job.left.q, row + i, live, 0, job.padded() / job.block,
                        reinterpret_cast<float*>(out + value_bytes(job.padded())));
    }
  }

  static std::size_t sum_bytes(const gemm_job& job, std::size_t rows) {
    const std::size_t cols = job.right.rows() < part_cols ? job.right.rows() : part_cols;
    return up(rows, tile_side) * up(cols, tile_side) * sizeof(float);
  }
  static std::size_t scratch_bytes(const gemm_job& job, std::size_t rows) {
    return sum_bytes(job, rows) + value_bytes(slice_k) + slice_k / 16 * tile_side * sizeof(float);
  }

  /// A product takes 16 k, or 32 of longer blocks.
  static tile_config config(const gemm_job& job) {
    const int k = job.block < tile_k ? 16 : 32;
    tile_config c;
    for (int t = 0; t < 2; ++t) c.shape(t, 16, 64).shape(2 + t, 16, 2 * k).shape(4 + t, k / 2, 64);
    return c;
  }

  /// One tile of C and the blocks of a slice.
  struct tile_job {
    const std::uint8_t *left, *right;
    const float *left_scale, *right_scale;
    std::size_t block, blocks;
  };

  /// The dot products of block b, in the tiles numbered after `set`.
  template <int set>
  UFP4_LANE static void multiply_block(const tile_job& t, std::size_t b, float (&dots)[area]) {
    Unit::template zero<set>();
    if (t.block == 16) {
      Unit::template load<2 + set>(t.right + b / 2 * tile_bytes + b % 2 * 32, 64);
      Unit::template load<4 + set>(t.left + b * (tile_bytes / 2), 64);
      Unit::template dot_bf16<set, 2 + set, 4 + set>();
    }
    for (std::size_t k = 0; k + tile_k <= t.block; k += tile_k) {
      const std::size_t at = (b * t.block + k) / tile_k * tile_bytes;
      Unit::template load<2 + set>(t.right + at, 64);
      Unit::template load<4 + set>(t.left + at, 64);
      Unit::template dot_bf16<set, 2 + set, 4 + set>();
    }
    Unit::template store<set>(dots, 64);
  }

  /// sum[n] = fma(dots[n], fl(left scale * right scale), sum[n]) for the 16 rows of a tile, every lane a row of C.
  template <std::size_t... n>
  UFP4_LANE static void add_block(const tile_job& t, std::size_t b, const float (&dots)[area], f32 (&sum)[tile_side],
                                  std::index_sequence<n...>) {
    const f32 left = avx512::load(t.left_scale + b * tile_side);
    const float* right = t.right_scale + b * tile_side;
    ((sum[n] = fma_from(dots + n * tile_side, times(left, right + n), sum[n])), ...);
  }

  template <std::size_t... n>
  static void multiply_tile(const tile_job& t, float* acc, std::index_sequence<n...> rows) {
    alignas(64) float dots[2][area];
    f32 sum[tile_side] = {avx512::load(acc + n * tile_side)...};
    multiply_block<0>(t, 0, dots[0]);
    std::size_t b = 0;
    for (; b + 2 < t.blocks; b += 2) {
      multiply_block<1>(t, b + 1, dots[1]);
      add_block(t, b, dots[0], sum, rows);
      multiply_block<0>(t, b + 2, dots[0]);
      add_block(t, b + 1, dots[1], sum, rows);
    }
    const bool two = b + 1 < t.blocks;
    if (two) multiply_block<1>(t, b + 1, dots[1]);
    add_block(t, b, dots[0], sum, rows);
    if (two) add_block(t, b + 1, dots[1], sum, rows);
    (avx512::store(acc + n * tile_side, sum[n]), ...);
  }

  static void multiply(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* memory) {
    auto* acc = reinterpret_cast<float*>(memory);
    std::memset(acc, 0, sum_bytes(job, part.rows));
    multiply_slices(job, part, reinterpret_cast<const std::uint8_t*>(left), acc,
                    reinterpret_cast<std::uint8_t*>(memory + sum_bytes(job, part.rows)));
    store_tiles(job, part, acc, up(part.rows, tile_side) / tile_side);
  }

  static void multiply_slices(const gemm_job& job, const gemm_part& part, const std::uint8_t* left, float* acc,
                              std::uint8_t* right) {
    auto* right_scale = reinterpret_cast<float*>(right + value_bytes(slice_k));
    const std::size_t down = up(part.rows, tile_side) / tile_side;
    const tile_session<Unit> tiles(config(job));
    for (std::size_t k = 0; k < job.padded(); k += slice_k) {
      const std::size_t rest = job.padded() - k, depth = rest < slice_k ? rest : slice_k, blocks = depth / job.block;
      for (std::size_t j = 0; j < part.cols; j += tile_side) {
        const std::size_t live = part.cols - j < tile_side ? part.cols - j : tile_side;
        decode_values(job.right.q, part.col + j, live, k, depth, right);
        avx512::scales_of(job.right.q, part.col + j, live, k / job.block, blocks, right_scale);
        for (std::size_t i = 0; i < down; ++i) {
          const std::uint8_t* rows = left + i * tile_rows_bytes(job);
          const auto* scales = reinterpret_cast<const float*>(rows + value_bytes(job.padded()));
          multiply_tile(
              {rows + value_bytes(k), right, scales + k / job.block * tile_side, right_scale, job.block, blocks},
              acc + (j / tile_side * down + i) * area, std::make_index_sequence<tile_side>());
        }
      }
    }
  }

  static constexpr gemm_kernel row() {
    return kernel_of<gemm_blocks>({.tier = isa::amx,
                                   .name = "gemm_blocks_amx",
                                   .tile_rows = tile_side,
                                   .tile_cols = tile_side,
                                   .tile_depth = 16,
                                   .part_rows = part_rows,
                                   .part_cols = part_cols,
                                   .fast_is = accumulate::exact_blocks});
  }
};

}  // namespace amx

inline constexpr gemm_kernel gemm_blocks_amx_kernel = amx::gemm_blocks<amx::hardware>::row();

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
