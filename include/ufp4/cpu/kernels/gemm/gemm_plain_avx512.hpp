// ufp4 - quantized_gemm on AVX-512 BF16 of rows of bf16 or fp16 that are not quantized: weights in 4 bits, fast mode.
// SPDX-License-Identifier: Apache-2.0
//
// A panel of 32 columns by 256 k of the weights is decoded to bf16 once and stays in the first-level cache while all
// rows are multiplied by it, twelve at a time. A dword is the pair (k, k + 4), as words of codes hold four nibbles.
//
// | folded | value * scale, a bf16 number: in products of more than few_rows rows, for scales of 8 bits          |
// | apart  | value; the sum of each block is scaled: otherwise, and where a product is subnormal or infinite     |
//
// A slice of 256 k of an element is summed from +0 by vdpbf16ps, the terms of less weight first (plain_bf16.hpp), and
// added to the slices before it. Roundings (numerics 6), in units of 2^-24 of the sum of magnitudes: one for each of
// at most 256 k, less than 2 for a second term, one for each slice or block after the first. That is at most K + 2, and
// the roundings of the result take 3. Folded sums below 2^-126 are flushed, at most one for each k.
#pragma once

#if defined(__x86_64__)

#include <ufp4/cpu/kernels/gemm/gemv_plain_avx512.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX512_BF16)
namespace ufp4::cpu::detail::inline UFP4_CODE::avx512 {

/// Scales of two times sixteen columns, sixteen floats a block, and the values of their codes.
struct plain_panel {
  static constexpr std::size_t halves = 2, cols = halves * lanes, depth = 256;
  static constexpr std::size_t most_blocks = depth / 8;

  alignas(64) std::uint32_t pairs[depth / 2][halves][lanes];
  alignas(64) float scale[halves][most_blocks * lanes];
  alignas(64) std::uint8_t staged[staged_code_bytes(depth)];
  std::size_t k, length;  ///< of the slice
  bool folded;
};

struct plain_gemm {
  static constexpr std::size_t tile_rows = 12, tile_cols = plain_panel::cols, depth = plain_panel::depth;
  static constexpr std::size_t few_rows = 32;  ///< with more, folding the scales takes less time than applying them

  /// Of the whole product, so that no bit depends on how it is divided.
  static bool folds(const gemm_job& job) { return job.out.rows > few_rows && products_fit(job.right.q); }
  /// Two terms are only faster than products in binary32 where scales are folded.
  static bool takes(const gemm_job& job) { return plain_fits(job) && (bf16_terms(job.left) == 1 || folds(job)); }

  // ---- Left: tiles of `live` rows in slices: whether an element needs fma; then a dword a row for each term and pair.

  static constexpr std::size_t header = 64;
  /// With a vector that is written beyond the last dwords.
  static std::size_t slice_bytes(const gemm_job& job, std::size_t live, std::size_t length) {
    return up(header + bf16_terms(job.left) * length / 2 * live * 4 + sizeof(u32));
  }
  static std::size_t tile_bytes(const gemm_job& job, std::size_t live) {
    const std::size_t k = job.padded(), rest = k % depth;
    if (live == 0) return 0;
    return k / depth * slice_bytes(job, live, depth) + (rest == 0 ? 0 : slice_bytes(job, live, rest));
  }
  static std::size_t left_bytes(const gemm_job& job, std::size_t rows) {
    return rows / tile_rows * tile_bytes(job, tile_rows) + tile_bytes(job, rows % tile_rows);
  }
  static void pack_left(const gemm_job& job, std::size_t row, std::size_t rows, std::byte* out) {
    for (std::size_t i = 0; i < rows; i += tile_rows) {
      const std::size_t live = rows - i < tile_rows ? rows - i : tile_rows;
      bf16_terms(job.left) == 1 ? pack_tile<1>(job, row + i, live, out + left_bytes(job, i))
                                : pack_tile<2>(job, row + i, live, out + left_bytes(job, i));
    }
  }
  template <std::size_t terms>
  static void pack_tile(const gemm_job& job, std::size_t row, std::size_t live, std::byte* out) {
    constexpr std::size_t most = depth / 2, step = terms * most;  // pairs of a row
    alignas(64) std::uint32_t pairs[lanes][step] = {};
    for (std::size_t k = 0; k < job.padded(); k += depth) {
      const std::size_t left = job.padded() - k, length = left < depth ? left : depth;
      std::uint32_t tiny = 0;
      for (std::size_t r = 0; r < live; ++r)
        tiny |= plain_pairs<terms>(job.left.plain, row + r, k, length, pairs[r], most);
      store(out, tiny);
      std::byte* to = out + header;
      for (std::size_t t = 0; t < terms; ++t)
        for (std::size_t i = 0; i < length / 2; i += lanes) {
          f32 v[lanes];
          load_transposed(reinterpret_cast<const float*>(pairs[0] + t * most + i), step, v);
          for (std::size_t j = 0; j < lanes && i + j < length / 2; ++j, to += live * 4) store(to, v[j]);
        }
      out += slice_bytes(job, live, length);
    }
  }

  // ---- Right: a panel.

  /// Half a panel; `live` of its columns exist.
  static void decode_half(const gemm_job& job, std::size_t half, std::size_t col, std::size_t live, plain_panel& p) {
    const quantized_source& q = job.right.q;
    const code_rows codes = codes_of(q, col, live, p.k, p.length, p.staged);
    const u32 table = bf16_table(q.format.grid);
    const int shift = __builtin_ctzll(job.block);  // from k to blocks
    octad group{};
    for (std::size_t g = 0; g < p.length / 8; ++g) {
      if (g % 8 == 0) group = codes_at(codes, g * 8);
      const u32 dword = group.v[g % 8];
      const f32 by = load(p.scale[half] + (g * 8 >> shift) * lanes);
#pragma GCC unroll 4
      for (std::uint32_t i = 0; i < 4; ++i) {
        const u32 v = lookup_words(table, dword >> 4 * i);
        store(p.pairs[4 * g + i][half], p.folded ? folded_pair(v, by) : v);
      }
    }
  }
  /// Both products, which are bf16 numbers.
  UFP4_LANE static u32 folded_pair(u32 pair, f32 by) {
    return as_bits(as_float(pair & 0xFFFF0000u) * by) | as_bits(as_float(pair << 16) * by) >> 16;
  }

  static bool in_range(const magnitude_range& range, const float* scales, std::size_t blocks) {
    u32 outside{};
    for (std::size_t b = 0; b < blocks; ++b) {
      const u32 m = load_as<u32>(scales + b * lanes) & magnitude_mask;
      outside |= reinterpret_cast<u32>((m < range.low || m > range.high) && m != 0u && m <= infinity_bits);
    }
    return !any(outside);
  }

  static void decode(const gemm_job& job, const gemm_part& columns, plain_panel& p) {
    const quantized_source& q = job.right.q;
    const std::size_t blocks = p.length / job.block;
    p.folded = folds(job);
    for (std::size_t h = 0, col = columns.col; h < plain_panel::halves; ++h, col += lanes) {
      const std::size_t before = h * lanes, left = columns.cols > before ? columns.cols - before : 0;
      const std::size_t live = left < lanes ? left : lanes;
      if (live == 0) break;
      scales_of(q, col, live, p.k / job.block, blocks, p.scale[h]);
      if (p.folded && q.format.scale == scale_kind::e8m0 && !in_range(scales_in_range(q), p.scale[h], blocks))
        p.folded = blocks_fit(q, col, live, p.k, p.length);
    }
    for (std::size_t h = 0, col = columns.col; h < plain_panel::halves; ++h, col += lanes) {
      const std::size_t before = h * lanes, left = columns.cols > before ? columns.cols - before : 0;
      if (left == 0) {
        for (std::size_t i = 0; i < p.length / 2; ++i) store(p.pairs[i][h], u32{});
        for (std::size_t b = 0; b < blocks; ++b) store(p.scale[h] + b * lanes, f32{});
        break;
      }
      decode_half(job, h, col, left < lanes ? left : lanes, p);
      prefetch_codes(q, col, p.k, depth);
      prefetch_scales(q, col, p.k / job.block, blocks);
    }
  }

  // ---- The register tile.

  template <std::size_t rows>
  struct tile_sums {
    f32 v[rows][plain_panel::halves] = {};
  };
  /// Adds `count` pairs; those of the left operand are `step` dwords apart.
  template <std::size_t step, std::size_t rows>
  UFP4_LANE static void add_products(tile_sums<rows>& sum, const std::uint32_t (*pairs)[plain_panel::halves][lanes],
                                     const std::uint32_t* left, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i, left += step) {
      const u32 first = load_as<u32>(pairs[i][0]), second = load_as<u32>(pairs[i][1]);
#pragma GCC unroll 12
      for (std::size_t r = 0; r < rows; ++r) {
        const u32 factors = as_bits(load_broadcast(left + r));
        add_pairs(sum.v[r][0], first, factors);
        add_pairs(sum.v[r][1], second, factors);
      }
    }
  }

  template <std::size_t rows>
  UFP4_LANE static void add_sums(const tile_sums<rows>& sum, float* acc) {
#pragma GCC unroll 12
    for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 2
      for (std::size_t h = 0; h < plain_panel::halves; ++h, acc += lanes) store(acc, load(acc) + sum.v[r][h]);
  }

  template <std::size_t rows>
  static void multiply_folded(const plain_panel& p, std::size_t terms, const std::uint32_t* left, float* acc) {
    tile_sums<rows> sum;
    for (std::size_t t = 0; t < terms; ++t)
      add_products<rows>(sum, p.pairs, left + t * p.length / 2 * rows, p.length / 2);
    add_sums(sum, acc);
  }
  /// At most six rows, so that the sums of a block and of the slice stay in registers.
  template <std::size_t rows, std::size_t first, std::size_t count>
  static void multiply_blocks(const plain_panel& p, std::size_t block, std::size_t terms, const std::uint32_t* left,
                              float* acc) {
    tile_sums<count> all;
    const float* scale = p.scale[0];
    for (std::size_t k = 0; k < p.length; k += block, scale += lanes) {
      tile_sums<count> sum;
      for (std::size_t t = 0; t < terms; ++t)
        add_products<rows>(sum, p.pairs + k / 2, left + (t * p.length + k) / 2 * rows + first, block / 2);
      const f32 by[] = {load(scale), load(scale + plain_panel::most_blocks * lanes)};
#pragma GCC unroll 6
      for (std::size_t r = 0; r < count; ++r)
#pragma GCC unroll 2
        for (std::size_t h = 0; h < plain_panel::halves; ++h) all.v[r][h] = fma(sum.v[r][h], by[h], all.v[r][h]);
    }
    add_sums(all, acc + first * tile_cols);
  }
  template <std::size_t rows>
  static void multiply_apart(const plain_panel& p, std::size_t block, std::size_t terms, const std::uint32_t* left,
                             float* acc) {
    constexpr std::size_t half = rows > 6 ? rows - rows / 2 : rows;
    multiply_blocks<rows, 0, half>(p, block, terms, left, acc);
    if constexpr (half != rows) multiply_blocks<rows, half, rows - half>(p, block, terms, left, acc);
  }
  /// By fma, which keeps subnormal numbers.
  [[gnu::cold]] static void multiply_by_fma(const plain_panel& p, std::size_t rows, std::size_t block,
                                            std::size_t terms, const std::uint32_t* left, float* acc) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t h = 0; h < plain_panel::halves; ++h, acc += lanes) {
        f32 all{};
        for (std::size_t k = 0; k < p.length; k += block) {
          f32 sum{};
          for (std::size_t t = 0; t < terms; ++t)
            for (std::size_t i = k / 2; i < (k + block) / 2; ++i)
              add_pairs_by_fma(sum, load_as<u32>(p.pairs[i][h]), broadcast(left[(t * p.length / 2 + i) * rows + r]));
          all = p.folded ? all + sum : fma(sum, load(p.scale[h] + k / block * lanes), all);
        }
        store(acc, load(acc) + all);
      }
  }

  template <class F>
  static void with_tile_rows(std::size_t rows, const F& f) {
    switch (rows) {
      case 9: return f.template operator()<9>();
      case 10: return f.template operator()<10>();
      case 11: return f.template operator()<11>();
      case 12: return f.template operator()<12>();
      default: return with_rows(rows, f);
    }
  }
  static void multiply_tile(const gemm_job& job, const plain_panel& p, std::size_t live, const std::byte* slice,
                            float* acc) {
    const std::size_t terms = bf16_terms(job.left);
    const auto* left = reinterpret_cast<const std::uint32_t*>(slice + header);
    if (*reinterpret_cast<const std::uint32_t*>(slice) != 0)
      return multiply_by_fma(p, live, job.block, terms, left, acc);
    with_tile_rows(live, [&]<std::size_t rows>() {
      p.folded ? multiply_folded<rows>(p, terms, left, acc) : multiply_apart<rows>(p, job.block, terms, left, acc);
    });
  }

  // ---- A part of C.

  static std::size_t scratch_bytes(const gemm_job&, std::size_t rows) {
    return up(rows * tile_cols * sizeof(float)) + sizeof(plain_panel);
  }
  static void multiply_panel(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* scratch) {
    auto* acc = reinterpret_cast<float*>(scratch);
    plain_panel& p = *::new (scratch + up(part.rows * tile_cols * sizeof(float))) plain_panel;
    for (std::size_t i = 0; i < part.rows * tile_cols; ++i) acc[i] = 0.0f;
    for (p.k = 0; p.k < job.padded(); p.k += depth) {
      p.length = job.padded() - p.k < depth ? job.padded() - p.k : depth;
      decode(job, part, p);
      for (std::size_t i = 0; i < part.rows; i += tile_rows) {
        const std::size_t live = part.rows - i < tile_rows ? part.rows - i : tile_rows;
        multiply_tile(job, p, live, left + left_bytes(job, i) + p.k / depth * slice_bytes(job, live, depth),
                      acc + i * tile_cols);
      }
    }
    store_sums(job, part, acc, tile_cols);
  }
  static void multiply(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* scratch) {
    for (std::size_t j = 0; j < part.cols; j += tile_cols)
      multiply_panel(job, {part.row, part.rows, part.col + j, part.cols - j < tile_cols ? part.cols - j : tile_cols},
                     left, scratch);
  }
};

template <class Use = void>
inline constexpr gemm_kernel gemm_plain_kernel =
    kernel_of<plain_gemm, Use>(isa::avx512_bf16, "gemm_plain_avx512", 2, 516, 256, accumulate::fast);

}  // namespace ufp4::cpu::detail::inline UFP4_CODE::avx512
UFP4_END_TARGET

#endif
