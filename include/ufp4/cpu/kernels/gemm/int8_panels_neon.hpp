// ufp4 - quantized_gemm in integers with NEON: how panels of the operands are laid out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__aarch64__)

#include <ufp4/cpu/kernels/kernels_neon.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE::neon {

using s16 = std::int16_t __attribute__((vector_size(16)));
using half_s8 = std::int8_t __attribute__((vector_size(8)));

/// Panels of a tile of 4 x 8. A block is its pieces of 16 k and then its scales. A unit is a row of C, or two. Layout:
///
/// | left_piece, right_piece   | bytes of 16 k of 4 rows, of 8 columns                                              |
/// | left_scales, right_scales | binary32 numbers after a block's pieces                                            |
/// | put_left(at, r, v)        | 16 k of row r: v holds the eight even k, then the eight odd ones                   |
/// | put_right(at, i, c, e, o) | k 8i .. 8i + 7 (i = 0, 1) of columns c .. c + 3: a column's even k are dwords of e |
/// | put_..._scale(at, r, s)   | one row's; put_right_scale(at, c, s): four columns'                                |
/// | unit_rows, unit_registers | rows of C in a unit, and the registers that hold it                                |
/// | load_c, store_c, by_rows  | register c of a unit of C; the scales of a unit, as all its registers have them    |
template <class Layout>
struct int8_panels {
  static constexpr std::size_t rows = 4, cols = 8, depth = 1024;

  static std::size_t left_codes(const gemm_job& job) { return job.block / 16 * Layout::left_piece; }
  static std::size_t right_codes(const gemm_job& job) { return job.block / 16 * Layout::right_piece; }
  static std::size_t left_block(const gemm_job& job) { return left_codes(job) + 4 * Layout::left_scales; }
  static std::size_t right_block(const gemm_job& job) { return right_codes(job) + 4 * Layout::right_scales; }
  static std::size_t left_bytes(const gemm_job& job, std::size_t k) { return k / job.block * left_block(job); }
  static std::size_t right_bytes(const gemm_job& job, std::size_t k) { return k / job.block * right_block(job); }

  static u8 table_of_integers(const grid4& grid) {
    u8 table{};
    for (std::size_t c = 0; c < 16; ++c) table[c] = static_cast<std::uint8_t>(grid.integer[c]);
    return table;
  }

  /// 16 k of a row of codes: the even ones, then the odd ones.
  UFP4_LANE static u8 integers_of_16(u8 table, const std::uint8_t* codes, std::size_t step) {
    const std::uint32_t first = load_as<std::uint32_t>(codes), second = load_as<std::uint32_t>(codes + step);
    const u32 nibbles = u32{first, second, first >> 4, second >> 4} & broadcast(0x0F0F0F0Fu);
    return lookup_bytes(table, reinterpret_cast<u8>(nibbles));
  }
  /// The same of bytes.
  UFP4_LANE static u8 apart(u8 bytes) {
    return lookup_bytes(bytes, u8{0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15});
  }

  static void pack_left(const gemm_job& job, std::size_t row, std::size_t live, std::size_t k, std::size_t length,
                        std::byte* out) {
    const quantized_source& q = job.left.q;
    const u8 table = table_of_integers(q.format.grid);
    const std::size_t step = q.word_step();
    for (std::size_t r = 0; r < rows; ++r) {
      const std::uint8_t* codes = r < live ? q.codes + q.code_index(row + r, k) : nullptr;
      for (std::size_t b = 0; b < length / job.block; ++b) {
        std::byte* at = out + b * left_block(job);
        for (std::size_t c = 0; c < job.block; c += 16, at += Layout::left_piece) {
          if (codes == nullptr) {
            Layout::put_left(at, r, u8{});
            continue;
          }
          Layout::put_left(at, r, q.format.is_wide() ? apart(load_as<u8>(codes)) : integers_of_16(table, codes, step));
          codes += q.format.is_wide() ? 16 : 2 * step;
        }
        Layout::put_left_scale(at, r, codes == nullptr ? 0.0f : scale_at(q, row + r, k / job.block + b, 1.0f));
      }
    }
  }

  static void pack_right(const gemm_job& job, std::size_t col, std::size_t live, std::size_t k, std::size_t length,
                         std::byte* out) {
    const quantized_source& q = job.right.q;
    const u8 table = table_of_integers(q.format.grid);
    const u32 mask = broadcast(0x0F0F0F0Fu);
    const std::size_t bytes = right_block(job);
    const int shift = __builtin_ctzll(job.block / 8);  // from dwords to blocks
    float scale[depth / 16 * lanes];
    for (std::size_t c = 0; c < cols; c += lanes) {
      const std::size_t first = live > c ? c : 0;  // columns that C does not have repeat others
      if (q.format.is_wide())
        wide_columns(job, col + first, live - first, c, k, length, out);
      else
        each_codes(q, col + first, live - first, k, length,
                   [&](std::size_t i, u32 codes) __attribute__((always_inline)) {
                     std::byte* at = out + i / 2 * Layout::right_piece + (i >> shift) * (4 * Layout::right_scales);
                     Layout::put_right(at, i % 2, c, lookup_bytes(table, reinterpret_cast<u8>(codes & mask)),
                                       lookup_bytes(table, reinterpret_cast<u8>(codes >> 4 & mask)));
                   });
      column_scales(job.right, col + first, live - first, k / job.block, length / job.block,
                    reinterpret_cast<std::byte*>(scale), sizeof(f32));
      for (std::size_t i = 0; i < length / job.block; ++i)
        Layout::put_right_scale(out + i * bytes + right_codes(job), c, load(scale + i * lanes));
    }
  }

  /// Four columns of a wide operand, column c of the tile and on.
  static void wide_columns(const gemm_job& job, std::size_t col, std::size_t live, std::size_t c, std::size_t k,
                           std::size_t length, std::byte* out) {
    const quantized_source& q = job.right.q;
    const std::uint8_t* row[lanes];
    for (std::size_t j = 0; j < lanes; ++j) row[j] = q.codes + q.code_index(lane_column(col, live, j), k);
    const int shift = __builtin_ctzll(job.block / 8);
    for (std::size_t i = 0; 8 * i < length; ++i) {
      std::uint64_t eight[lanes];
      for (std::size_t j = 0; j < lanes; ++j) eight[j] = load_as<std::uint64_t>(row[j] + 8 * i);
      const auto low = reinterpret_cast<u64>(apart(reinterpret_cast<u8>(u64{eight[0], eight[1]})));
      const auto high = reinterpret_cast<u64>(apart(reinterpret_cast<u8>(u64{eight[2], eight[3]})));
      std::byte* at = out + i / 2 * Layout::right_piece + (i >> shift) * (4 * Layout::right_scales);
      Layout::put_right(at, i % 2, c, reinterpret_cast<u8>(u64{low[0], high[0]}),
                        reinterpret_cast<u8>(u64{low[1], high[1]}));
    }
  }
};

/// Units of one row, in two registers of columns; a row's scale once.
struct row_units {
  static constexpr std::size_t left_scales = 4, right_scales = 8, unit_rows = 1, unit_registers = 2;

  UFP4_LANE static void put_left_scale(std::byte* at, std::size_t r, float s) { store(at + 4 * r, s); }
  UFP4_LANE static void put_right_scale(std::byte* at, std::size_t c, f32 s) { store(at + 4 * c, s); }
  UFP4_LANE static f32 by_rows(const std::byte* scales, std::size_t r) { return load_broadcast(scales + 4 * r); }
  UFP4_LANE static f32 load_c(const float* acc, std::size_t stride, std::size_t r, std::size_t c) {
    return load(acc + r * stride + c * lanes);
  }
  UFP4_LANE static void store_c(float* acc, std::size_t stride, std::size_t r, std::size_t c, f32 v) {
    store(acc + r * stride + c * lanes, v);
  }
};

/// Units of two rows; a register holds (row, column) {(2p, 2c), (2p, 2c + 1), (2p + 1, 2c), (2p + 1, 2c + 1)}.
struct pair_units {
  static constexpr std::size_t unit_rows = 2, unit_registers = 4;

  UFP4_LANE static f32 load_c(const float* acc, std::size_t stride, std::size_t p, std::size_t c) {
    const float* at = acc + 2 * p * stride + 2 * c;
    return reinterpret_cast<f32>(u64{load_as<std::uint64_t>(at), load_as<std::uint64_t>(at + stride)});
  }
  UFP4_LANE static void store_c(float* acc, std::size_t stride, std::size_t p, std::size_t c, f32 v) {
    float* at = acc + 2 * p * stride + 2 * c;
    const auto halves = reinterpret_cast<u64>(v);
    store(at, std::uint64_t{halves[0]});
    store(at + stride, std::uint64_t{halves[1]});
  }
};

/// 16-bit integers. Left: a row's eight even k, then its odd ones. Right: for each k eight columns.
struct mla_layout : row_units {
  static constexpr std::size_t left_piece = 4 * 32, right_piece = 16 * 16;

  UFP4_LANE static void put_left(std::byte* at, std::size_t r, u8 v) {
    store(at + 32 * r, widened(v, 0));
    store(at + 32 * r + 16, widened(v, 1));
  }
  UFP4_LANE static void put_right(std::byte* at, std::size_t i, std::size_t c, u8 even, u8 odd) {
    std::int8_t bytes[2][16];
    store(bytes[0], even);
    store(bytes[1], odd);
    for (std::size_t k = 0; k < 8; ++k)
      for (std::size_t j = 0; j < 4; ++j)
        store(at + 16 * (8 * i + k) + 2 * (c + j), std::int16_t{bytes[k % 2][4 * j + k / 2]});
  }
  /// Half of sixteen signed bytes in 16 bits.
  UFP4_LANE static s16 widened(u8 v, std::size_t half) {
    half_s8 part;
    __builtin_memcpy(&part, reinterpret_cast<const char*>(&v) + 8 * half, 8);
    return __builtin_convertvector(part, s16);
  }
};

/// Bytes, in quads: even k below 8, even k from 8 on, odd below 8, odd from 8 on. Left: of a row. Right: of 8 columns.
struct sdot_layout : row_units {
  static constexpr std::size_t left_piece = 4 * 16, right_piece = 8 * 16;

  UFP4_LANE static void put_left(std::byte* at, std::size_t r, u8 v) { store(at + 16 * r, v); }
  UFP4_LANE static void put_right(std::byte* at, std::size_t i, std::size_t c, u8 even, u8 odd) {
    store(at + 32 * i + 4 * c, even);
    store(at + 32 * (2 + i) + 4 * c, odd);
  }
};

/// Bytes. 8 k of two rows or columns are a register: first k below 8 of every pair, then k from 8 on. Each row's scale
/// stands twice, each pair of columns' too, as C has them.
struct smmla_layout : pair_units {
  static constexpr std::size_t left_piece = 4 * 16, right_piece = 8 * 16, left_scales = 8, right_scales = 16;

  UFP4_LANE static void put_left(std::byte* at, std::size_t r, u8 v) {
    const auto dword = reinterpret_cast<u32>(v);  // even k below 8, even from 8 on, odd below 8, odd from 8 on
    std::byte* to = at + r / 2 * 16 + r % 2 * 8;
    store(to, std::uint32_t{dword[0]});
    store(to + 4, std::uint32_t{dword[2]});
    store(to + 32, std::uint32_t{dword[1]});
    store(to + 36, std::uint32_t{dword[3]});
  }
  UFP4_LANE static void put_left_scale(std::byte* at, std::size_t r, float s) {
    store(at + 8 * r, s);
    store(at + 8 * r + 4, s);
  }
  UFP4_LANE static void put_right(std::byte* at, std::size_t i, std::size_t c, u8 even, u8 odd) {
    const auto e = reinterpret_cast<u32>(even), o = reinterpret_cast<u32>(odd);
    store(at + 64 * i + 8 * c, low_pairs(e, o));
    store(at + 64 * i + 8 * c + 16, high_pairs(e, o));
  }
  UFP4_LANE static void put_right_scale(std::byte* at, std::size_t c, f32 s) {
    store(at + 8 * c, low_quads(s, s));
    store(at + 8 * c + 16, high_quads(s, s));
  }
  UFP4_LANE static f32 by_rows(const std::byte* scales, std::size_t p) { return load_as<f32>(scales + 16 * p); }
};

}  // namespace ufp4::cpu::detail::inline UFP4_CODE::neon

#endif
