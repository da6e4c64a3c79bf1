// ufp4 - blocks with outer scales, several grids or one-bit exponents, for AVX-512 GEMM kernels.
// SPDX-License-Identifier: Apache-2.0
//
// The values of a format are integers of one unit, so the byte of a decoded element is an entry of one table. Its index
// is the code in bits 0 to 3 and, in bits 4 and 5, its selector: the number of the block's grid or the sum of the
// element's exponents.
//
// | block_bits_of      | what is stored for blocks of sixteen rows, a row a lane                     |
// | extended_scales_of | their scales times their outer scales                                       |
// | exponent_selectors | of sixteen rows; selector_of: of one row                                    |
// | selected_table     | the table                                                                   |
//
// Lanes of rows that the matrix does not have repeat its last row.
#pragma once

#if defined(__x86_64__)

#include <ufp4/cpu/kernels/gemm/pack_avx512.hpp>
#include <ufp4/cpu/kernels/kernels_avx512.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE::avx512 {

/// What is stored for the blocks of sixteen rows: that of row r begins at p + r * step. Up to 64 bytes beyond it may be
/// read.
struct stored_rows {
  const std::uint8_t* p;
  std::size_t step;
};
/// Bytes that stored_rows_of may need for so many blocks of a row.
constexpr std::size_t staged_block_bytes(std::size_t count) { return lanes * (4 * count + 64); }

/// Of blocks [block, block + count) of rows [row, row + live), as codes_of takes rows; not interleaved.
inline stored_rows stored_rows_of(const quantized_source& q, std::size_t row, std::size_t live, std::size_t block,
                                  std::size_t count, std::uint8_t* staged) {
  const auto* all = static_cast<const std::uint8_t*>(q.scales);
  const scale_strip strip = q.strip();
  const std::size_t bytes = count * strip.block_bytes, pitch = strip.bytes(), step = bytes + 64;
  const std::size_t last = (row + lanes - 1) * pitch + block * strip.block_bytes;
  if (live == lanes && q.format.block.rows == 1 && last + step <= q.rows * pitch)
    return {all + row * pitch + block * strip.block_bytes, pitch};
  for (std::size_t r = 0; r < lanes; ++r, staged += step) {
    std::memcpy(staged, all + q.scale_index(row + (r < live ? r : live - 1), block) * strip.block_bytes, bytes);
    std::memset(staged + bytes, 0, 64);
  }
  return {staged - lanes * step, step};
}

/// The bits of `count` blocks of sixteen rows, `bytes` bytes each: out[b * 16 + r]. Writes up to 31 blocks more.
inline void unpack_blocks(const stored_rows& rows, std::size_t bytes, std::size_t count, std::uint32_t* out) {
  const auto width = static_cast<std::uint32_t>(8 * bytes);
  const std::uint32_t mask = ~0u >> (32 - width);
  for (std::size_t at = 0; at < count * bytes; at += 32) {
    const octad piece = transposed_32(rows.p + at, rows.step);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i)
      for (std::uint32_t shift = 0; shift < 32; shift += width, out += lanes) store(out, piece.v[i] >> shift & mask);
  }
}
/// Of blocks [block, block + count) of rows [row, row + live), as codes_of takes rows.
inline void block_bits_of(const quantized_source& q, std::size_t row, std::size_t live, std::size_t block,
                          std::size_t count, std::uint8_t* staged, std::uint32_t* out) {
  const auto bytes = static_cast<std::size_t>(block_bytes(q.format.scale, q.format.choice.count, q.format.block));
  if (!q.interleaved) return unpack_blocks(stored_rows_of(q, row, live, block, count, staged), bytes, count, out);
  const auto* p = static_cast<const std::uint8_t*>(q.scales) + q.scale_index(row, block) * bytes;
  for (std::size_t b = 0; b < count; ++b, p += lanes * bytes)
    store(out + b * lanes, bytes == 1   ? widen_bytes(p)
                           : bytes == 2 ? widen_words(load_as<half_u16>(p))
                                        : load_as<u32>(p));
}

/// The outer scales of rows [row, row + live), as codes_of takes rows.
class outer_rows {
 public:
  outer_rows(const quantized_source& q, std::size_t row, std::size_t live) : kind_(q.format.outer.type) {
    const scale_strip strip = q.strip();
    const std::size_t first = q.interleaved ? q.layout().outer_at(q.rows, strip) : strip.outer_at();
    const std::size_t pitch = q.interleaved ? strip.outers * strip.outer_bytes : strip.bytes();
    for (std::size_t r = 0; r < lanes; ++r) {
      const std::size_t i = row + (r < live ? r : live - 1);
      row_[r] = static_cast<const std::uint8_t*>(q.scales) + first +
                (q.interleaved ? i : q.divided(i, q.format.block.rows)) * pitch;
    }
  }
  /// Number `i` of each row.
  f32 operator()(std::size_t i) const {
    const std::size_t bytes = kind_ == scale_kind::f32 ? 4 : 2;
    alignas(64) std::uint32_t bits[lanes] = {};
    for (std::size_t r = 0; r < lanes; ++r)
      bytes == 4 ? __builtin_memcpy(bits + r, row_[r] + i * 4, 4) : __builtin_memcpy(bits + r, row_[r] + i * 2, 2);
    return decode_scale_bits(kind_, load_as<u32>(bits));
  }

 private:
  scale_kind kind_;
  const std::uint8_t* row_[lanes];
};

/// The scales of blocks with these bits, as scales_of gives them, a row a lane, times their outer scales. With several
/// grids the bits become selectors, in each byte.
inline void extended_scales_of(const quantized_source& q, std::size_t row, std::size_t live, std::size_t block,
                               std::size_t count, std::uint32_t* bits, float* out) {
  const dequantize_kernel::block_parts parts(q.format);
  for (std::size_t b = 0; b < count; ++b) {
    const u32 stored = load_as<u32>(bits + b * lanes);
    store(out + b * lanes, parts.scale(stored));
    if (q.format.choice.count != 0) store(bits + b * lanes, parts.grid(stored) * 0x10101010u);
  }
  if (!q.format.has_outer_array()) return;
  const outer_rows outer(q, row, live);
  const std::size_t covered = outer_columns(q.format, q.padded_cols) / static_cast<std::size_t>(q.format.block.cols);
  for (std::size_t b = 0; b < count;) {
    const std::size_t segment = (block + b) / covered, end = (segment + 1) * covered - block;
    const f32 by = outer(segment);
    for (; b < count && b < end; ++b) store(out + b * lanes, load(out + b * lanes) * by);
  }
}

/// The selectors of columns 8 word to 8 word + 7 of a block of one-bit exponents, of which two have a byte.
class exponent_selectors {
 public:
  explicit exponent_selectors(const block_shape& block) : levels_(exponent_levels(block)) {
    for (int level = 0; level < levels_; ++level) {
      alignas(64) std::uint8_t from[64];
      for (int i = 0; i < 64; ++i)  // four bits lower, so that the exponent becomes bit 4
        from[i] = static_cast<std::uint8_t>(exponent_bit(block, level, i % 4 * 2) - 4 + i / 4 % 2 * 32);
      from_[level] = load_as<u32>(from);
      shift_[level] = __builtin_ctz(static_cast<unsigned>(block.group[level]));
    }
  }
  UFP4_LANE u32 operator()(u32 bits, std::uint32_t word) const {
    u32 s = exponents(bits, word, 0);
    return levels_ == 1 ? s : s + exponents(bits, word, 1);
  }

 private:
  UFP4_LANE u32 exponents(u32 bits, std::uint32_t word, int level) const {
    u32 r;
    asm("vpmultishiftqb %2, %1, %0"
        : "=v"(r)
        : "v"(from_[level] + (8 * word >> shift_[level]) * 0x01010101u), "v"(bits));
    return r & 0x10101010u;
  }
  int levels_, shift_[2];
  u32 from_[2];
};

/// The integers of all grids, or of all sums of exponents, by code and selector; less the least if `from_zero`.
inline u8 selected_table(const format_spec& f, bool from_zero) {
  float unit = f.grid.unit;
  for (int g = 1; g <= f.choice.count; ++g) unit = nth_grid(f, g).unit < unit ? nth_grid(f, g).unit : unit;
  i32 integer[4], least{};
  for (int i = 0; i < 4; ++i) {
    const int grid = i < f.choice.count ? i : f.choice.count, levels = exponent_levels(f.block);
    integer[i] = __builtin_convertvector(load(nth_grid(f, grid).value) / broadcast(unit), i32)
                 << (i < levels ? i : levels);
    least = minimum(least, integer[i]);
  }
  int low = 0;
  for (std::size_t l = 0; from_zero && l < lanes; ++l) low = least[l] < low ? least[l] : low;
  alignas(64) std::uint8_t bytes[64];
  for (int i = 0; i < 4; ++i) store(bytes + 16 * i, low_bytes(reinterpret_cast<u32>(integer[i] - low)));
  return load_as<u8>(bytes);
}
/// The selectors of columns 8 word to 8 word + 7 of one block with these bits.
inline std::uint32_t selector_of(const format_spec& f, std::uint32_t bits, int word) {
  if (f.choice.count != 0) return static_cast<std::uint32_t>(grid_number(f, bits)) * 0x10101010u;
  std::uint32_t s = 0;
  for (int i = 0; i < 4; ++i)
    s |= static_cast<std::uint32_t>(exponent_of(f, bits, 8 * word + 2 * i)) << static_cast<unsigned>(8 * i + 4);
  return s;
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE::avx512
UFP4_END_TARGET

#endif
