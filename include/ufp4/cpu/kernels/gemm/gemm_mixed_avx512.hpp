// ufp4 - quantized_gemm on AVX-512 BF16 of rows of bf16 or fp16 that are not quantized: weights in 4 bits, fast mode.
// SPDX-License-Identifier: Apache-2.0
//
// A panel of 32 columns by 256 k of the weights is decoded to bf16 once and stays in the first-level cache while all
// rows are multiplied by it, twelve at a time. A dword is the pair (k, k + 4), as words of codes hold four nibbles.
//
// | folded | value * scale, a bf16 number: in products of more than few_rows rows, for scales of 8 bits          |
// | apart  | value; the sum of each block is scaled: otherwise, and where a product is subnormal or infinite     |
//
// A panel of 256 k of an element is summed from +0 by vdpbf16ps, the terms of less weight first (gemm_integers.hpp),
// and added to the panels before it. Roundings (numerics 6), in units of 2^-24 of the sum of magnitudes: one for each
// of at most 256 k, less than 2 for a second term, one for each panel or block after the first. That is at most K + 2,
// and the roundings of the result take 3. Folded sums below 2^-126 are flushed, at most one for each k.
#pragma once

#include <ufp4/cpu/kernels/gemm/gemv_mixed_avx512.hpp>

UFP4_BEGIN_REGION(avx512, UFP4_AVX512_BF16)

/// Scales of two times sixteen columns, sixteen floats a block, and the values of their codes.
struct mixed_panel {
  static constexpr std::size_t halves = 2, cols = halves * lanes, depth = 256;
  static constexpr std::size_t most_blocks = depth / 8;

  alignas(64) std::uint32_t pairs[depth / 2][halves][lanes];
  alignas(64) float scale[halves][most_blocks * lanes];
  alignas(64) std::uint8_t staged[staged_code_bytes(depth)];
  std::size_t k, length;  ///< of the panel
  bool folded;

  /// Lines of the next panel. They are prefetched a few at a time while this one is multiplied: a core waits for memory
  /// when it has asked for some twenty lines.
  static constexpr std::size_t most_lines = cols * (depth / 2 / 64 + 2 + depth / 8 * sizeof(float) / 64 + 2);
  const std::uint8_t* line[most_lines];
  std::size_t lines = 0;

  void add_lines(const std::uint8_t* first, std::size_t bytes) {
    const auto odd = static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(first) % 64);
    for (std::size_t i = 0; i < odd + bytes; i += 64) line[lines++] = first + i;
  }
  UFP4_LANE void prefetch_lines(std::size_t count) {
    for (; count != 0 && lines != 0; --count) __builtin_prefetch(line[--lines], 0, 2);
  }
};

struct mixed_gemm {
  static constexpr std::size_t tile_rows = 12, tile_cols = mixed_panel::cols, depth = mixed_panel::depth;
  static constexpr std::size_t few_rows = 32;  ///< with more, folding the scales takes less time than applying them

  /// Of the whole product, so that no bit depends on how it is divided.
  static bool folds(const gemm_job& job) { return job.out.rows > few_rows && products_fit(job.right.q); }
  /// Products in binary32 are faster for two to four rows, and for two terms unless scales are folded.
  static bool takes(const gemm_job& job) {
    return mixed_fits(job) && (bf16_terms(job.left) == 1 ? job.out.rows > 4 : folds(job));
  }

  // ---- Left: tiles of `live` rows in panels: whether an element needs fma; then a dword a row for each term and pair.

  static constexpr std::size_t header = 64;
  /// With a vector that is written beyond the last dwords.
  static std::size_t panel_bytes(const gemm_job& job, std::size_t live, std::size_t length) {
    return up(header + bf16_terms(job.left) * length / 2 * live * 4 + sizeof(u32));
  }
  static std::size_t tile_bytes(const gemm_job& job, std::size_t live) {
    const std::size_t k = job.padded(), rest = k % depth;
    if (live == 0) return 0;
    return k / depth * panel_bytes(job, live, depth) + (rest == 0 ? 0 : panel_bytes(job, live, rest));
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
        tiny |= unquantized_pairs<terms>(job.left.unquantized, row + r, k, length, pairs[r], most);
      store(out, tiny);
      std::byte* to = out + header;
      for (std::size_t t = 0; t < terms; ++t)
        for (std::size_t i = 0; i < length / 2; i += lanes) {
          f32 v[lanes];
          load_transposed(reinterpret_cast<const float*>(pairs[0] + t * most + i), step, v);
          for (std::size_t j = 0; j < lanes && i + j < length / 2; ++j, to += live * 4) store(to, v[j]);
        }
      out += panel_bytes(job, live, length);
    }
  }

  // ---- Right: a panel.

  /// Half a panel; `live` of its columns exist.
  template <bool folded>
  static void decode_half(const gemm_job& job, std::size_t half, std::size_t col, std::size_t live, mixed_panel& p) {
    const quantized_source& q = job.right.q;
    const code_rows codes = codes_of(q, col, live, p.k, p.length, p.staged);
    const u32 table = bf16_table(q.format.grid);
    const int shift = __builtin_ctzll(job.block);  // from k to blocks
    const float* scale = p.scale[half];
    std::uint32_t* to = p.pairs[0][half];
    for (std::size_t k = 0; k < p.length; k += 64) {
      const octad group = codes_at(codes, k);
#pragma GCC unroll 8
      for (std::size_t j = 0; j < 8; ++j) {
        if (k + 8 * j == p.length) return;
        f32 by{};
        if constexpr (folded) by = load(scale + ((k + 8 * j) >> shift) * lanes);
#pragma GCC unroll 4
        for (std::uint32_t i = 0; i < 4; ++i, to += mixed_panel::cols) {
          const u32 v = lookup_words(table, group.v[j] >> 4 * i);
          store(to, folded ? folded_pair(v, by) : v);
        }
      }
    }
  }
  /// Both products, which are bf16 numbers.
  UFP4_LANE static u32 folded_pair(u32 pair, f32 by) {
    return as_bits(as_float(pair & 0xFFFF0000u) * by) | as_bits(as_float(pair << 16) * by) >> 16;
  }

  /// Lists the codes and scales of a panel of sixteen columns, which are short runs of sixteen rows, or two runs.
  static void list_lines(const quantized_source& q, std::size_t col, std::size_t k, mixed_panel& p) {
    if (col >= q.rows || k >= q.padded_cols) return;
    const auto length = static_cast<std::size_t>(q.format.block.cols);
    const auto bytes = static_cast<std::size_t>(scale_bytes(q.format.scale));
    const auto* scales = static_cast<const std::uint8_t*>(q.scales);
    const std::size_t left = q.padded_cols - k, depth_here = left < depth ? left : depth,
                      rows = q.interleaved ? 1 : lanes;
    for (std::size_t r = col; r < col + rows && r < q.rows; ++r) {
      p.add_lines(q.codes + q.code_index(r, k), depth_here / 2 * (lanes / rows));
      p.add_lines(scales + q.scale_index(r, k / length) * bytes, depth_here / length * bytes * (lanes / rows));
    }
  }
  /// `next_col`, `next_k`: the panel that is decoded after this one.
  static void decode(const gemm_job& job, const gemm_part& columns, std::size_t next_col, std::size_t next_k,
                     mixed_panel& p) {
    const quantized_source& q = job.right.q;
    const std::size_t blocks = p.length / job.block;
    p.folded = folds(job);
    p.prefetch_lines(mixed_panel::most_lines);  // what is left
    for (std::size_t h = 0, col = columns.col; h < mixed_panel::halves; ++h, col += lanes) {
      const std::size_t before = h * lanes, left = columns.cols > before ? columns.cols - before : 0;
      const std::size_t live = left < lanes ? left : lanes;
      if (live == 0) break;
      scales_of(q, col, live, p.k / job.block, blocks, p.scale[h]);
      if (p.folded && q.format.scale == scale_kind::e8m0 && any_scale_outside(scales_in_range(q), p.scale[h], blocks))
        p.folded = blocks_fit(q, col, live, p.k, p.length);
    }
    for (std::size_t h = 0, col = columns.col; h < mixed_panel::halves; ++h, col += lanes) {
      const std::size_t before = h * lanes, left = columns.cols > before ? columns.cols - before : 0;
      if (left == 0) {
        for (std::size_t i = 0; i < p.length / 2; ++i) store(p.pairs[i][h], u32{});
        for (std::size_t b = 0; b < blocks; ++b) store(p.scale[h] + b * lanes, f32{});
        break;
      }
      const std::size_t live = left < lanes ? left : lanes;
      p.folded ? decode_half<true>(job, h, col, live, p) : decode_half<false>(job, h, col, live, p);
      list_lines(q, next_col + h * lanes, next_k, p);
    }
  }

  // ---- The register tile.

  template <std::size_t rows>
  struct tile_sums {
    f32 v[rows][mixed_panel::halves] = {};
  };
  /// Adds `count` pairs; those of the left operand are `step` dwords apart.
  template <std::size_t step, std::size_t rows>
  UFP4_LANE static void add_products(tile_sums<rows>& sum, const std::uint32_t (*pairs)[mixed_panel::halves][lanes],
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
      for (std::size_t h = 0; h < mixed_panel::halves; ++h, acc += lanes) store(acc, load(acc) + sum.v[r][h]);
  }

  template <std::size_t rows>
  static void multiply_folded(mixed_panel& p, std::size_t terms, const std::uint32_t* left, float* acc) {
    tile_sums<rows> sum;
    p.prefetch_lines(16);
    for (std::size_t t = 0; t < terms; ++t)
      add_products<rows>(sum, p.pairs, left + t * p.length / 2 * rows, p.length / 2);
    add_sums(sum, acc);
  }
  /// At most six rows, so that the sums of a block and of the panel stay in registers.
  template <std::size_t rows, std::size_t first, std::size_t count>
  static void multiply_blocks(mixed_panel& p, std::size_t block, std::size_t terms, const std::uint32_t* left,
                              float* acc) {
    tile_sums<count> all;
    const float* scale = p.scale[0];
    for (std::size_t k = 0; k < p.length; k += block, scale += lanes) {
      tile_sums<count> sum;
      p.prefetch_lines(2);
      for (std::size_t t = 0; t < terms; ++t)
        add_products<rows>(sum, p.pairs + k / 2, left + (t * p.length + k) / 2 * rows + first, block / 2);
      const f32 by[] = {load(scale), load(scale + mixed_panel::most_blocks * lanes)};
#pragma GCC unroll 6
      for (std::size_t r = 0; r < count; ++r)
#pragma GCC unroll 2
        for (std::size_t h = 0; h < mixed_panel::halves; ++h) all.v[r][h] = fma(sum.v[r][h], by[h], all.v[r][h]);
    }
    add_sums(all, acc + first * tile_cols);
  }
  template <std::size_t rows>
  static void multiply_apart(mixed_panel& p, std::size_t block, std::size_t terms, const std::uint32_t* left,
                             float* acc) {
    constexpr std::size_t half = rows > 6 ? rows - rows / 2 : rows;
    multiply_blocks<rows, 0, half>(p, block, terms, left, acc);
    if constexpr (half != rows) multiply_blocks<rows, half, rows - half>(p, block, terms, left, acc);
  }
  /// By fma, which keeps subnormal numbers.
  [[gnu::cold]] static void multiply_by_fma(const mixed_panel& p, std::size_t rows, std::size_t block,
                                            std::size_t terms, const std::uint32_t* left, float* acc) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t h = 0; h < mixed_panel::halves; ++h, acc += lanes) {
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
  static void multiply_tile(const gemm_job& job, mixed_panel& p, std::size_t live, const std::byte* panel, float* acc) {
    const std::size_t terms = bf16_terms(job.left);
    const auto* left = reinterpret_cast<const std::uint32_t*>(panel + header);
    if (*reinterpret_cast<const std::uint32_t*>(panel) != 0)
      return multiply_by_fma(p, live, job.block, terms, left, acc);
    with_tile_rows(live, [&]<std::size_t rows>() {
      p.folded ? multiply_folded<rows>(p, terms, left, acc) : multiply_apart<rows>(p, job.block, terms, left, acc);
    });
  }

  // ---- A part of C: panel by panel, so that the rows of a panel stay in the second-level cache for all panels.

  static constexpr std::size_t part_rows = 516, part_cols = 4 * tile_cols;

  static std::size_t sum_bytes(const gemm_job& job, std::size_t rows) {
    const std::size_t cols = job.out.cols < part_cols ? up(job.out.cols, tile_cols) : part_cols;
    return up(rows * cols * sizeof(float));
  }
  static std::size_t scratch_bytes(const gemm_job& job, std::size_t rows) {
    return sum_bytes(job, rows) + sizeof(mixed_panel);
  }
  /// Columns of a part from its column j on, at most those of a panel.
  static gemm_part panel_of(const gemm_part& part, std::size_t j) {
    const std::size_t left = part.cols - j;
    return {part.row, part.rows, part.col + j, left < tile_cols ? left : tile_cols};
  }
  static void multiply_panel(const gemm_job& job, const gemm_part& columns, const std::byte* left, mixed_panel& p,
                             float* acc) {
    for (std::size_t i = 0; i < columns.rows; i += tile_rows) {
      const std::size_t live = columns.rows - i < tile_rows ? columns.rows - i : tile_rows;
      multiply_tile(job, p, live, left + left_bytes(job, i) + p.k / depth * panel_bytes(job, live, depth),
                    acc + i * tile_cols);
    }
  }
  static void multiply(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* scratch) {
    auto* acc = reinterpret_cast<float*>(scratch);
    mixed_panel& p = *::new (scratch + sum_bytes(job, part.rows)) mixed_panel;
    std::memset(acc, 0, part.rows * up(part.cols, tile_cols) * sizeof(float));
    for (p.k = 0; p.k < job.padded(); p.k += depth) {
      p.length = job.padded() - p.k < depth ? job.padded() - p.k : depth;
      for (std::size_t j = 0; j < part.cols; j += tile_cols) {
        const bool last = j + tile_cols >= part.cols, end = p.k + depth >= job.padded();
        const std::size_t next_col = !last ? part.col + j + tile_cols : end ? part.col + part.cols : part.col;
        decode(job, panel_of(part, j), next_col, !last ? p.k : end ? 0 : p.k + depth, p);
        multiply_panel(job, panel_of(part, j), left, p, acc + j * part.rows);
      }
    }
    for (std::size_t j = 0; j < part.cols; j += tile_cols)
      store_sums(job, panel_of(part, j), acc + j * part.rows, tile_cols);
  }
};

template <features needs = features::all>
inline constexpr gemm_kernel gemm_mixed_kernel = kernel_of<mixed_gemm, needs>(
    isa::avx512_bf16, "gemm_mixed_avx512", 2, mixed_gemm::part_rows, mixed_gemm::part_cols, accumulate::fast);
UFP4_END_REGION
