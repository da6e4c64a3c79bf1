// ufp4 - the fast modes on AMX: element x block scale as bf16 tiles, 32 x 32 of C in registers.
// SPDX-License-Identifier: Apache-2.0
//
// | fast        | formats of 8-bit scales, whose products with the grid are bf16 numbers |
// | folded_bf16 | those, and any other scale: products rounded to bf16                   |
//
// TDPBF16PS flushes subnormal operands. Where some value * scale of sixteen rows, or of 32 columns, is subnormal or too
// large for bf16, that part of C is computed by the kernel for exact_blocks, which keeps scales apart, or by the
// portable one. Blocks of zeros are exempt: in mx formats they have the smallest scale.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/kernels/gemm/gemm_blocks_amx.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_scalar.hpp>

UFP4_BEGIN_TARGET(UFP4_AMX)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace amx {

template <class Unit>
struct gemm_products {
  using blocks = gemm_blocks<Unit>;
  static constexpr std::size_t area = tile_side * tile_side, width = 2 * tile_side;
  static constexpr std::size_t part_rows = 256,
                               part_cols = 256;  ///< 256 KB of sums beside 128 KB of a slice's left rows
  static constexpr std::size_t header = 64;      ///< of sixteen packed rows: whether they fit

  static bool takes_formats(const gemm_job& job) {
    const auto good = [&](const gemm_operand& side) {
      if (!side.is_quantized) return false;
      return products_fit(side.q) || (job.mode == accumulate::folded_bf16 && has_short_values(side.q.format.grid, 24));
    };
    return job.mode != accumulate::exact_blocks && job.block >= 16 && good(job.left) && good(job.right);
  }
  /// With up to 3 rows memory is the limit, and tiles only add work.
  static bool takes(const gemm_job& job) {
    return job.left.rows() > 3 && takes_formats(job) && !job.left.interleaved();
  }

  static std::size_t value_bytes(std::size_t k) { return blocks::value_bytes(k); }
  static std::size_t left_bytes(const gemm_job& job, std::size_t rows) {
    return up(rows, tile_side) / tile_side * (header + value_bytes(job.padded()));
  }

  /// Sixteen rows: whether all their products are bf16 numbers, then their tiles with k in pairs.
  static void pack_left(const gemm_job& job, std::size_t row, std::size_t rows, std::byte* memory) {
    product_table products;
    const decoder d = decoder::begin(job.left.q, products);
    for (std::size_t i = 0; i < rows; i += tile_side) {
      auto* out = reinterpret_cast<std::uint8_t*>(memory + left_bytes(job, i));
      const std::size_t live = rows - i < tile_side ? rows - i : tile_side;
      out[0] = pack_rows(job.padded(), out + header, [&](std::size_t k, std::size_t depth, std::uint8_t* tiles) {
        return decode_products(d, row + i, live, k, depth, tiles);
      });
    }
  }
  static std::size_t sum_bytes(const gemm_job& job, std::size_t rows) {
    const std::size_t cols = job.right.rows() < part_cols ? job.right.rows() : part_cols;
    return up(rows, tile_side) * up(cols, width) * sizeof(float);
  }
  static std::size_t scratch_bytes(const gemm_job& job, std::size_t rows) {
    return sum_bytes(job, rows) + 2 * value_bytes(slice_k) + sizeof(product_table);
  }

  static tile_config config() {
    tile_config c;
    for (int t = 0; t < 8; ++t) c.shape(t, 16, 64);
    return c;
  }

  /// A slice of two tiles of columns and `down` of rows, `step` bytes apart; acc: their tiles of C.
  struct slice {
    const std::uint8_t *left, *right;
    std::size_t step, steps;
    bool first;
  };
  template <int t>
  UFP4_LANE static void open(const slice& s, const float* acc) {
    if (s.first)
      Unit::template zero<t>();
    else
      Unit::template load<t>(acc, 64);
  }
  /// 32 columns by 32 rows of C, or 16.
  template <bool two>
  static void multiply_tiles(const slice& s, float* acc, std::size_t across) {
    const std::uint8_t *a = s.right, *b = a + value_bytes(slice_k), *x = s.left, *y = x + s.step;
    open<0>(s, acc), open<1>(s, acc + across);
    if constexpr (two) open<2>(s, acc + area), open<3>(s, acc + across + area);
    for (std::size_t k = 0; k < s.steps; ++k, a += tile_bytes, b += tile_bytes, x += tile_bytes, y += tile_bytes) {
      Unit::template load<4>(a, 64);
      Unit::template load<6>(x, 64);
      Unit::template dot_bf16<0, 4, 6>();
      Unit::template load<5>(b, 64);
      Unit::template dot_bf16<1, 5, 6>();
      if constexpr (two) {
        Unit::template load<7>(y, 64);
        Unit::template dot_bf16<2, 4, 7>();
        Unit::template dot_bf16<3, 5, 7>();
      }
    }
    Unit::template store<0>(acc, 64), Unit::template store<1>(acc + across, 64);
    if constexpr (two) Unit::template store<2>(acc + area, 64), Unit::template store<3>(acc + across + area, 64);
  }

  /// False if some product is not a bf16 number.
  static bool decode_right(const decoder& d, const gemm_part& part, std::size_t j, std::size_t k, std::size_t depth,
                           std::uint8_t* right) {
    const std::size_t left = part.cols - j, one = left < tile_side ? left : tile_side;
    std::uint8_t* next = right + value_bytes(slice_k);
    if (!decode_products(d, part.col + j, one, k, depth, right)) return false;
    if (left > tile_side)
      return decode_products(d, part.col + j + tile_side, left < width ? left - tile_side : tile_side, k, depth, next);
    clear_rows(0, depth, next);
    return true;
  }

  /// K of a slice. 256: two panels of columns, two tiles of rows and four of C, 40 KB, stay in a first-level cache of
  /// 48 KB for all rows. With few rows, longer runs of every row are faster. No bit depends on it.
  static std::size_t depth_of(std::size_t rows) { return rows > 64 ? slice_k / 2 : slice_k; }

  /// Adds up all tiles of C. `fit`: whether all products of a panel of columns are bf16 numbers; the sums of others are
  /// undefined.
  static void multiply_slices(const gemm_job& job, const gemm_part& part, const std::uint8_t* left, float* acc,
                              std::uint8_t* right, bool (&fit)[part_cols / width]) {
    const decoder d = decoder::begin(job.right.q, *reinterpret_cast<product_table*>(right + 2 * value_bytes(slice_k)));
    const std::size_t down = up(part.rows, tile_side) / tile_side, step = header + value_bytes(job.padded());
    const std::size_t most = depth_of(part.rows);
    const tile_session<Unit> tiles(config());
    for (std::size_t k = 0; k < job.padded(); k += most) {
      const std::size_t rest = job.padded() - k, depth = rest < most ? rest : most;
      for (std::size_t j = 0; j < part.cols; j += width) {
        fit[j / width] = fit[j / width] && decode_right(d, part, j, k, depth, right);
        if (!fit[j / width]) continue;
        float* sums = acc + j / tile_side * down * area;
        slice s{left + header + value_bytes(k), right, step, up(depth, tile_k) / tile_k, k == 0};
        std::size_t i = 0;
        for (; i + 2 <= down; i += 2, s.left += 2 * step) multiply_tiles<true>(s, sums + i * area, down * area);
        if (i < down) multiply_tiles<false>(s, sums + i * area, down * area);
      }
    }
  }

  /// A panel of C, or some of its rows, whose products value * scale are not all bf16 numbers.
  [[gnu::cold]] static void multiply_apart(const gemm_job& job, const gemm_part& part) {
    static_assert(width <= blocks::part_cols && width <= gemm_tile);
    if (blocks::takes_values(job)) {
      const std::size_t packed = blocks::left_bytes(job, part.rows);
      const ufp4::detail::buffer<std::byte> memory(packed + blocks::scratch_bytes(job, part.rows));
      blocks::pack_left(job, part.row, part.rows, memory.data());
      return blocks::multiply(job, part, memory.data(), memory.data() + packed);
    }
    gemm_job apart = job;
    apart.mode = accumulate::fast;  // no less exact than folding
    const ufp4::detail::buffer<std::byte> memory(gemm_scalar_kernel.scratch_bytes(apart, gemm_tile));
    for (std::size_t i = 0; i < part.rows; i += gemm_tile) {
      const std::size_t rows = part.rows - i < gemm_tile ? part.rows - i : gemm_tile;
      gemm_scalar(apart, {part.row + i, rows, part.col, part.cols}, nullptr, memory.data());
    }
  }

  static void multiply(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* memory) {
    auto* acc = reinterpret_cast<float*>(memory);
    if (job.padded() == 0) std::memset(acc, 0, sum_bytes(job, part.rows));
    bool fit[part_cols / width];
    for (bool& f : fit) f = true;
    multiply_slices(job, part, reinterpret_cast<const std::uint8_t*>(left), acc,
                    reinterpret_cast<std::uint8_t*>(memory + sum_bytes(job, part.rows)), fit);
    bool all = true;
    for (const bool f : fit) all = all && f;
    for (std::size_t i = 0; i < part.rows; i += tile_side) all = all && left[left_bytes(job, i)] != std::byte{0};
    const std::size_t down = up(part.rows, tile_side) / tile_side;
    if (all) return store_tiles(job, part, acc, down);
    for (std::size_t j = 0; j < part.cols; j += width) {
      const std::size_t cols = part.cols - j < width ? part.cols - j : width;
      store_panel(job, {part.row, part.rows, part.col + j, cols}, fit[j / width], left,
                  acc + j / tile_side * down * area);
    }
  }
  /// Which elements are computed by the other kernel does not depend on how C is cut into parts.
  [[gnu::cold]] static void store_panel(const gemm_job& job, const gemm_part& panel, bool fit, const std::byte* left,
                                        const float* acc) {
    if (!fit) return multiply_apart(job, panel);
    for (std::size_t i = 0; i < panel.rows; i += tile_side) {
      const std::size_t rows = panel.rows - i < tile_side ? panel.rows - i : tile_side;
      const gemm_part tiles{panel.row + i, rows, panel.col, panel.cols};
      if (left[left_bytes(job, i)] == std::byte{0})
        multiply_apart(job, tiles);
      else
        store_tiles(job, tiles, acc + i / tile_side * area, up(panel.rows, tile_side) / tile_side);
    }
  }

  static constexpr gemm_kernel row() {
    return kernel_of<gemm_products>({.tier = isa::amx,
                                     .name = "gemm_bf16_amx",
                                     .tile_rows = width,
                                     .tile_cols = width,
                                     .tile_depth = tile_k,
                                     .part_rows = part_rows,
                                     .part_cols = part_cols});
  }
};

}  // namespace amx

inline constexpr gemm_kernel gemm_bf16_amx_kernel = amx::gemm_products<amx::hardware>::row();

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
