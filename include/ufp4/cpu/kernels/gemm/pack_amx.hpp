// ufp4 - rows of codes and scales for AMX kernels, and the tiles of C back to its rows.
// SPDX-License-Identifier: Apache-2.0
//
// A tile row of the right operand holds 32 k of one of its rows side by side, as the canonical layout has them, so
// nothing is transposed. Therefore tiles of C come out transposed: sixteen columns of C by sixteen of its rows. The
// left operand, packed once a call, is decoded by the same code (decode_amx.hpp) and transposed afterwards.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ufp4/cpu/kernels/gemm/pack_avx512.hpp>
#include <ufp4/cpu/kernels/kernels_avx512.hpp>
#include <ufp4/cpu/simd/amx.hpp>

namespace ufp4::cpu::detail::inline UFP4_TYPES {

inline constexpr std::size_t tile_side = 16;     ///< rows of a tile; columns of a tile of C
inline constexpr std::size_t tile_bytes = 1024;  ///< 16 rows of 64 bytes
inline constexpr std::size_t tile_k = 32;        ///< bf16 in a row of a tile
inline constexpr std::size_t slice_k = 512;  ///< K decoded at a time, at most; a multiple of every block and transform

}  // namespace ufp4::cpu::detail::inline UFP4_TYPES

UFP4_BEGIN_TARGET(UFP4_AMX)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace amx {

using avx512::broadcast_16;
using avx512::bytes_of;
using avx512::f32;
using avx512::half_u16;
using avx512::load_as;
using avx512::lookup_words;
using avx512::u32;

constexpr std::size_t up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// Rows of bytes: row r at p + r * step.
struct byte_rows {
  const std::uint8_t* p;
  std::size_t step;
};

/// Transposes sixteen rows of sixteen dwords.
inline void transpose_dwords(const std::uint8_t* from, std::size_t from_step, std::uint8_t* to, std::size_t to_step) {
  f32 v[tile_side];
  avx512::load_transposed(reinterpret_cast<const float*>(from), from_step / 4, v);
#pragma GCC unroll 16
  for (std::size_t i = 0; i < tile_side; ++i) avx512::store(to + i * to_step, v[i]);
}

/// The codes of K [k, k + depth) of rows [row, row + 16), row by row: in place, or staged where they are interleaved.
inline byte_rows code_rows_of(const quantized_source& q, std::size_t row, std::size_t k, std::size_t depth,
                              std::uint8_t (&staged)[tile_side * slice_k / 2]) {
  const std::uint8_t* p = q.codes + q.code_index(row, k);
  if (!q.interleaved) return {p, q.padded_cols / 2};
  constexpr std::size_t step = slice_k / 2;
  for (std::size_t at = 0; at < depth; at += 128) {
    std::uint8_t group[ufp4::detail::prepacked_layout::panel_bytes(128)] = {};
    const std::size_t left = depth - at, count = left < 128 ? left : 128;
    std::memcpy(group, p + at * 8, ufp4::detail::prepacked_layout::panel_bytes(count));
    transpose_dwords(group, 64, staged + at / 2, step);
  }
  return {staged, step};
}
/// The 8-bit scale codes of the first `live` of these rows.
inline byte_rows scale_rows_of(const quantized_source& q, std::size_t row, std::size_t live, std::size_t k,
                               std::size_t depth, std::uint8_t (&staged)[tile_side * slice_k / 16]) {
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  const auto* all = static_cast<const std::uint8_t*>(q.scales);
  if (!q.interleaved && q.format.block.rows == 1) return {all + q.scale_index(row, k / length), q.blocks()};
  constexpr std::size_t step = slice_k / 16;
  for (std::size_t r = 0; r < live; ++r)
    for (std::size_t b = 0; b < depth / length; ++b) staged[r * step + b] = all[q.scale_index(row + r, k / length + b)];
  return {staged, step};
}

/// Prefetches the codes and scales of 32 rows further on, which are read next but one: the hardware does not predict 16
/// short runs in 16 pages. One row at a time, while another is decoded, because more would wait for one another.
class row_prefetch {
 public:
  row_prefetch(const quantized_source& q, std::size_t row, std::size_t k, std::size_t depth) {
    const auto length = static_cast<std::size_t>(q.format.block.cols), row_next = row + 32;
    const auto size = static_cast<std::size_t>(ufp4::detail::scale_bytes(q.format.scale));
    if (q.interleaved || row_next + tile_side > q.rows) return;
    codes_ = {q.codes + q.code_index(row_next, k), q.padded_cols / 2};
    code_bytes_ = depth / 2;
    if (q.format.block.rows != 1) return;
    scales_ = {static_cast<const std::uint8_t*>(q.scales) + q.scale_index(row_next, k / length) * size,
               q.blocks() * size};
    scale_bytes_ = depth / length * size;
  }
  UFP4_LANE void fetch(std::size_t r) const {
    for (std::size_t i = 0; i < code_bytes_; i += 64) __builtin_prefetch(codes_.p + r * codes_.step + i);
    for (std::size_t i = 0; i < scale_bytes_; i += 64) __builtin_prefetch(scales_.p + r * scales_.step + i);
  }

 private:
  byte_rows codes_{}, scales_{};
  std::size_t code_bytes_ = 0, scale_bytes_ = 0;
};

/// Clears rows first .. 15 of the tiles of `depth` k.
inline void clear_rows(std::size_t first, std::size_t depth, std::uint8_t* out) {
  for (std::size_t r = first; r < tile_side; ++r)
    for (std::size_t at = 0; at < depth; at += tile_k) avx512::store(out + at / tile_k * tile_bytes + r * 64, u32{});
}

/// Stores a part of C from sums in tiles of 16 columns by 16 rows, the tiles of sixteen columns `down` tiles apart.
inline void store_tiles(const gemm_job& job, const gemm_part& part, const float* acc, std::size_t down) {
  constexpr std::size_t width = 64, area = tile_side * tile_side;
  alignas(64) float line[tile_side * width];
  for (std::size_t i = 0; i < part.rows; i += tile_side)
    for (std::size_t j = 0; j < part.cols; j += width) {
      const std::size_t rows = part.rows - i < tile_side ? part.rows - i : tile_side;
      const std::size_t cols = part.cols - j < width ? part.cols - j : width;
      for (std::size_t t = 0; t < cols; t += tile_side)
        transpose_dwords(
            reinterpret_cast<const std::uint8_t*>(acc + ((j + t) / tile_side * down + i / tile_side) * area), 64,
            reinterpret_cast<std::uint8_t*>(line + t), width * sizeof(float));
      avx512::store_sums(job, {part.row + i, rows, part.col + j, cols}, line, width);
    }
}

}  // namespace amx
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
