// ufp4 - quantized_gemm on AMX: exact_blocks (gemm_blocks), and the fast modes (gemm_products).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/cpu/kernels/gemm/decode_amx.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_mixed_avx512.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_scalar.hpp>

UFP4_BEGIN_REGION(amx, UFP4_AMX)

/// fma(*x, y, sum) of each lane.
UFP4_LANE f32 fma_from(const float* x, f32 y, f32 sum) {
  asm("vfmadd231ps %1, %2, %0" : "+v"(sum) : "m"(*reinterpret_cast<const f32*>(x)), "v"(y));
  return sum;
}

/// What the kernels have in common.
struct tile_gemm {
  static constexpr std::size_t area = tile_side * tile_side;
  static constexpr std::size_t part_rows = 256, part_cols = 256;  ///< 256 KB of sums

  static std::size_t value_bytes(std::size_t k) { return up(k, tile_k) / tile_k * tile_bytes; }
  /// Of the sums of a part, its columns in panels of `width`.
  static std::size_t sum_bytes(const gemm_job& job, std::size_t rows, std::size_t width) {
    const std::size_t cols = job.right.rows() < part_cols ? job.right.rows() : part_cols;
    return up(rows, tile_side) * up(cols, width) * sizeof(float);
  }
};

/// exact_blocks: block dot products as binary32 tiles, scaled and added up in AVX-512 registers.
///
/// Element values are bf16 numbers and their products small integers times a power of two. So TDPBF16PS from a zeroed
/// tile gives a block's dot product as binary32 without a rounding, whatever its order of additions is; +0 where it is
/// zero, since its sums begin with +0. No subnormal number occurs that the unit could flush (takes_values).
///
/// Byte elements (int8) are bf16 numbers too. Tiles of int8 hold 64 k, more than one block of the presets, whose sums
/// must stay apart: such tiles would be half empty or less, and take no fewer products.
///
/// The vector units (a product and an fma for each row of a tile) work on one block, the tile unit on the next.
template <class Unit, features needs = features::all>
struct gemm_blocks : tile_gemm {
  static constexpr std::size_t tile_rows = tile_side, tile_cols = tile_side;

  /// bf16 holds the values, and no sum of their products leaves the normal range.
  static bool takes_values(const gemm_job& job) {
    const auto good = [](const gemm_operand& side) {
      return side.exact() && has_short_values(side.q.format, 8) && side.q.format.grid.unit >= 0x1p-40f;
    };
    return job.block >= 16 && good(job.left) && good(job.right);
  }
  /// Eight rows or fewer are faster without tiles. In fast mode this kernel runs what gemm_bf16_amx does not take.
  static bool takes(const gemm_job& job) {
    return job.mode != accumulate::folded_bf16 && job.left.rows() > 8 && takes_values(job) && !job.left.interleaved();
  }

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
        decode_values<needs>(job.left.q, row + i, live, k, depth, tiles);
        return true;
      });
      scales_of<(needs & (scale_features | features::prepacked))>(
          job.left.q, row + i, live, 0, job.padded() / job.block,
          reinterpret_cast<float*>(out + value_bytes(job.padded())));
    }
  }

  static std::size_t scratch_bytes(const gemm_job& job, std::size_t rows) {
    return sum_bytes(job, rows, tile_side) + value_bytes(panel_k) + panel_k / 16 * tile_side * sizeof(float);
  }

  /// A product takes 16 k, or 32 of longer blocks.
  static tile_config config(const gemm_job& job) {
    const int k = job.block < tile_k ? 16 : 32;
    tile_config c;
    for (int t = 0; t < 2; ++t) c.shape(t, 16, 64).shape(2 + t, 16, 2 * k).shape(4 + t, k / 2, 64);
    return c;
  }

  /// One tile of C and the blocks of a panel.
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
    const f32 left = load(t.left_scale + b * tile_side);
    const float* right = t.right_scale + b * tile_side;
    ((sum[n] = fma_from(dots + n * tile_side, times(left, right + n), sum[n])), ...);
  }

  template <std::size_t... n>
  static void multiply_tile(const tile_job& t, float* acc, std::index_sequence<n...> rows) {
    alignas(64) float dots[2][area];
    f32 sum[tile_side] = {load(acc + n * tile_side)...};
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
    (store(acc + n * tile_side, sum[n]), ...);
  }

  static void multiply(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* memory) {
    auto* acc = reinterpret_cast<float*>(memory);
    std::memset(acc, 0, sum_bytes(job, part.rows, tile_side));
    multiply_panels(job, part, reinterpret_cast<const std::uint8_t*>(left), acc,
                    reinterpret_cast<std::uint8_t*>(memory + sum_bytes(job, part.rows, tile_side)));
    store_tiles<needs & stored_features>(job, part, acc, up(part.rows, tile_side) / tile_side);
  }

  static void multiply_panels(const gemm_job& job, const gemm_part& part, const std::uint8_t* left, float* acc,
                              std::uint8_t* right) {
    auto* right_scale = reinterpret_cast<float*>(right + value_bytes(panel_k));
    const std::size_t down = up(part.rows, tile_side) / tile_side;
    const tile_session<Unit> tiles(config(job));
    for (std::size_t k = 0; k < job.padded(); k += panel_k) {
      const std::size_t rest = job.padded() - k, depth = rest < panel_k ? rest : panel_k, blocks = depth / job.block;
      for (std::size_t j = 0; j < part.cols; j += tile_side) {
        const std::size_t live = part.cols - j < tile_side ? part.cols - j : tile_side;
        decode_values<needs>(job.right.q, part.col + j, live, k, depth, right);
        scales_of<(needs & (scale_features | features::prepacked))>(job.right.q, part.col + j, live, k / job.block,
                                                                    blocks, right_scale);
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
    return byte_kernel_of<gemm_blocks, needs>(isa::amx, "gemm_blocks_amx", 16, part_rows, part_cols);
  }
};

/// The fast modes: element x block scale as bf16 tiles, 32 x 32 of C in registers.
///
/// | fast        | formats of 8-bit scales, whose products with the grid are bf16 numbers; left also unquantized bf16 |
/// | folded_bf16 | quantized operands of any scale: products rounded to bf16                                  |
///
/// TDPBF16PS flushes subnormal operands. Where some value * scale of sixteen rows, or of 32 columns, is subnormal or
/// too large for bf16, that part of C is computed by gemm_blocks, which keeps scales apart, or by the portable kernel.
/// The same parts of unquantized rows, and those with subnormal elements, are computed by gemm_mixed_avx512. Blocks of
/// zeros are exempt: in mx formats they have the smallest scale.
template <class Unit, features needs = features::all>
struct gemm_products : tile_gemm {
  using blocks = gemm_blocks<Unit, needs>;
  static constexpr std::size_t width = 2 * tile_side, tile_rows = width, tile_cols = width;
  static constexpr std::size_t header = 64;  ///< of sixteen packed rows: whether they fit

  /// With up to 8 rows of codes reading the weights is the limit, and tiles only add work: 4 x 4096 x 4096 takes four
  /// times as long as with gemm_int8_avx512. With little work, making the tables of products takes most of the time.
  /// Rows that the integer kernel does not take are faster here from 4 on.
  static bool is_worthwhile(const gemm_job& job) {
    if (!job.left.is_quantized || !int8_fits(job)) return job.left.rows() > 3;
    return job.left.rows() > 8 && job.left.rows() * job.right.rows() * job.padded() >= std::size_t{1} << 17;
  }
  static bool takes(const gemm_job& job) {
    const auto good = [&](const gemm_operand& side) {
      if (has(needs, features::mixed_input) &&
          !side.is_quantized)  // gemm_mixed_avx512, which some of its rows may need, knows no weights of byte elements
        return &side == &job.left && bf16_terms(side) == 1 && mixed_fits(job) && !job.right.has_bytes();
      return products_fit(side.q) || (job.mode == accumulate::folded_bf16 && has_short_values(side.q.format, 24));
    };
    return is_worthwhile(job) && !job.left.interleaved() && job.mode != accumulate::exact_blocks && job.block >= 16 &&
           good(job.left) && good(job.right);
  }

  static std::size_t left_bytes(const gemm_job& job, std::size_t rows) {
    return up(rows, tile_side) / tile_side * (header + value_bytes(job.padded()));
  }

  /// Sixteen rows: whether all their products are bf16 numbers, then their tiles with k in pairs.
  static void pack_left(const gemm_job& job, std::size_t row, std::size_t rows, std::byte* memory) {
    if constexpr (has(needs, features::mixed_input))
      if (!job.left.is_quantized)
        return pack_tiles(job, rows, memory,
                          [&](std::size_t i, std::size_t live, std::size_t k, std::size_t depth, std::uint8_t* tiles) {
                            return unquantized_tiles(job.left.unquantized, row + i, live, k, depth, tiles);
                          });
    product_table products;
    const decoder d = decoder::begin(job.left.q, products);
    pack_tiles(job, rows, memory,
               [&](std::size_t i, std::size_t live, std::size_t k, std::size_t depth, std::uint8_t* tiles) {
                 return decode_products<needs>(d, row + i, live, k, depth, tiles);
               });
  }
  template <class Decode>
  static void pack_tiles(const gemm_job& job, std::size_t rows, std::byte* memory, const Decode& decode) {
    for (std::size_t i = 0; i < rows; i += tile_side) {
      auto* out = reinterpret_cast<std::uint8_t*>(memory + left_bytes(job, i));
      const std::size_t live = rows - i < tile_side ? rows - i : tile_side;
      out[0] = pack_rows(job.padded(), out + header, [&](std::size_t k, std::size_t depth, std::uint8_t* tiles) {
        return decode(i, live, k, depth, tiles);
      });
    }
  }
  static std::size_t scratch_bytes(const gemm_job& job, std::size_t rows) {
    return sum_bytes(job, rows, width) + 2 * value_bytes(panel_k) + sizeof(product_table);
  }

  static tile_config config() {
    tile_config c;
    for (int t = 0; t < 8; ++t) c.shape(t, 16, 64);
    return c;
  }

  /// A panel of two tiles of columns and `down` of rows, `step` bytes apart; acc: their tiles of C.
  struct panels {
    const std::uint8_t *left, *right;
    std::size_t step, steps;
    bool first;
  };
  template <int t>
  UFP4_LANE static void open(const panels& s, const float* acc) {
    if (s.first)
      Unit::template zero<t>();
    else
      Unit::template load<t>(acc, 64);
  }
  /// 32 columns by 32 rows of C, or 16.
  template <bool two>
  static void multiply_tiles(const panels& s, float* acc, std::size_t across) {
    const std::uint8_t *a = s.right, *b = a + value_bytes(panel_k), *x = s.left, *y = x + s.step;
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
    std::uint8_t* next = right + value_bytes(panel_k);
    if (!decode_products<needs>(d, part.col + j, one, k, depth, right)) return false;
    if (left > tile_side)
      return decode_products<needs>(d, part.col + j + tile_side, left < width ? left - tile_side : tile_side, k, depth,
                                    next);
    clear_rows(0, depth, next);
    return true;
  }

  /// K of a panel. 256: two panels of columns, two tiles of rows and four of C, 40 KB, stay in a first-level cache of
  /// 48 KB for all rows. With few rows, longer runs of every row are faster. No bit depends on it.
  static std::size_t depth_of(std::size_t rows) { return rows > 64 ? panel_k / 2 : panel_k; }

  /// Adds up all tiles of C. `fit`: whether all products of a panel are bf16 numbers; otherwise its sums are undefined.
  static void multiply_panels(const gemm_job& job, const gemm_part& part, const std::uint8_t* left, float* acc,
                              std::uint8_t* right, bool (&fit)[part_cols / width]) {
    const decoder d = decoder::begin(job.right.q, *reinterpret_cast<product_table*>(right + 2 * value_bytes(panel_k)));
    const std::size_t down = up(part.rows, tile_side) / tile_side, step = header + value_bytes(job.padded());
    const std::size_t most = depth_of(part.rows);
    const tile_session<Unit> tiles(config());
    for (std::size_t k = 0; k < job.padded(); k += most) {
      const std::size_t rest = job.padded() - k, depth = rest < most ? rest : most;
      for (std::size_t j = 0; j < part.cols; j += width) {
        fit[j / width] = fit[j / width] && decode_right(d, part, j, k, depth, right);
        if (!fit[j / width]) continue;
        float* sums = acc + j / tile_side * down * area;
        panels s{left + header + value_bytes(k), right, step, up(depth, tile_k) / tile_k, k == 0};
        std::size_t i = 0;
        for (; i + 2 <= down; i += 2, s.left += 2 * step) multiply_tiles<true>(s, sums + i * area, down * area);
        if (i < down) multiply_tiles<false>(s, sums + i * area, down * area);
      }
    }
  }

  template <class Kernel>
  static void multiply_by(const gemm_job& job, const gemm_part& part) {
    const std::size_t packed = Kernel::left_bytes(job, part.rows);
    const buffer<std::byte> memory(packed + Kernel::scratch_bytes(job, part.rows));
    Kernel::pack_left(job, part.row, part.rows, memory.data());
    Kernel::multiply(job, part, memory.data(), memory.data() + packed);
  }
  /// A panel of C, or some of its rows, whose products value * scale are not all bf16 numbers.
  [[gnu::cold]] static void multiply_apart(const gemm_job& job, const gemm_part& part) {
    static_assert(width <= blocks::part_cols && width <= gemm_tile);
    if constexpr (has(needs, features::mixed_input))
      if (!job.left.is_quantized) {
        for (std::size_t i = 0; i < part.rows; i += tile_side) {  // its tiles at fixed rows: no bit depends on the part
          const std::size_t rows = part.rows - i < tile_side ? part.rows - i : tile_side;
          multiply_by<mixed_gemm>(job, {part.row + i, rows, part.col, part.cols});
        }
        return;
      }
    if (blocks::takes_values(job)) return multiply_by<blocks>(job, part);
    gemm_job apart = job;
    apart.mode = accumulate::fast;  // no less exact than folding
    const buffer<std::byte> memory(gemm_scalar_kernel<needs>.scratch_bytes(apart, gemm_tile));
    for (std::size_t i = 0; i < part.rows; i += gemm_tile) {
      const std::size_t rows = part.rows - i < gemm_tile ? part.rows - i : gemm_tile;
      gemm_scalar<needs & stored_features>(apart, {part.row + i, rows, part.col, part.cols}, nullptr, memory.data());
    }
  }

  static void multiply(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* memory) {
    auto* acc = reinterpret_cast<float*>(memory);
    if (job.padded() == 0) std::memset(acc, 0, sum_bytes(job, part.rows, width));
    bool fit[part_cols / width];
    for (bool& f : fit) f = true;
    multiply_panels(job, part, reinterpret_cast<const std::uint8_t*>(left), acc,
                    reinterpret_cast<std::uint8_t*>(memory + sum_bytes(job, part.rows, width)), fit);
    bool all = true;
    for (const bool f : fit) all = all && f;
    for (std::size_t i = 0; i < part.rows; i += tile_side) all = all && left[left_bytes(job, i)] != std::byte{0};
    const std::size_t down = up(part.rows, tile_side) / tile_side;
    if (products_always_fit<needs> || all) return store_tiles < needs & stored_features > (job, part, acc, down);
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
        store_tiles<needs & stored_features>(job, tiles, acc + i / tile_side * area,
                                             up(panel.rows, tile_side) / tile_side);
    }
  }

  static constexpr gemm_kernel row() {
    return kernel_of<gemm_products, needs>(isa::amx, "gemm_bf16_amx", tile_k, part_rows, part_cols, accumulate::fast,
                                           features::byte_element);
  }
};

template <features needs = features::all>
inline constexpr gemm_kernel gemm_blocks_kernel = gemm_blocks<hardware, needs>::row();
template <features needs = features::all>
inline constexpr gemm_kernel gemm_bf16_kernel = gemm_products<hardware, needs>::row();
UFP4_END_REGION
