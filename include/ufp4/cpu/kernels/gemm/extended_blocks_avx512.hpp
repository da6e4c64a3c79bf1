// ufp4 - blocks with outer scales, several grids or one-bit exponents, for AVX-512 GEMM kernels.
// SPDX-License-Identifier: Apache-2.0
//
// The values of a format are integers of one unit, so the byte of a decoded element is an entry of one table. Its index
// is the code in bits 0 to 3 and, in bits 4 and 5, its selector: the number of the block's grid or the sum of the
// element's exponents. Lanes of rows that the matrix does not have repeat its last row.
#pragma once

#include <ufp4/cpu/kernels/gemm/pack_avx512.hpp>
#include <ufp4/cpu/kernels/kernels_avx512.hpp>

UFP4_BEGIN_REGION(avx512, UFP4_AVX512)

/// Bytes that are stored for a block.
inline std::size_t stored_bytes(const format_spec& f) {
  return static_cast<std::size_t>(block_bytes(f.scale, f.choice.count, f.block));
}
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

/// For a dword of four or two blocks of each of sixteen rows, where its bytes are in 64 interleaved bytes.
inline constexpr struct interleaved_places {
  alignas(64) std::uint8_t of[2][64] = {};

  constexpr interleaved_places() {
    for (std::uint32_t i = 0; i < 64; ++i) {
      of[0][i] = static_cast<std::uint8_t>(i % 4 * 16 + i / 4);
      of[1][i] = static_cast<std::uint8_t>(i % 4 / 2 * 32 + i / 4 * 2 + i % 2);
    }
  }
} places_of_interleaved;

/// `size` bytes of sixteen rows as dwords of four, two or one blocks, a row a lane. Writes up to seven dwords more.
inline void transpose_stored(const stored_rows& rows, std::size_t size, u32* out) {
  for (std::size_t at = 0; at < size; at += 32, out += 8) {
    const octad part = transposed_32(rows.p + at, rows.step);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) out[i] = part.v[i];
  }
}
/// What is stored for blocks [block, block + count) of rows [row, row + live), as codes_of takes rows, in such dwords.
inline void stored_dwords_of(const quantized_source& q, std::size_t row, std::size_t live, std::size_t block,
                             std::size_t count, std::uint8_t* staged, u32* out) {
  const std::size_t bytes = stored_bytes(q.format), size = count * bytes;
  if (!q.interleaved) return transpose_stored(stored_rows_of(q, row, live, block, count, staged), size, out);
  const auto* p = static_cast<const std::uint8_t*>(q.scales) + q.scale_index(row, block) * bytes;
  const u32 places = load_as<u32>(places_of_interleaved.of[bytes == 2 ? 1 : 0]);
  for (std::size_t at = 0; at < lanes * size; at += 64) {
    const std::size_t left = (lanes * size - at) / 4;
    const u8 some = load_some<u8>(p + at, left < lanes ? left : lanes);
    *out++ = reinterpret_cast<u32>(bytes == 4 ? some : lookup_bytes(some, places));
  }
}

/// How the blocks of a format are decoded, `bytes` bytes each, a row a lane.
template <std::size_t bytes>
struct stored_decoder {
  static constexpr std::size_t each = 4 / bytes;  ///< blocks of a dword
  static constexpr std::uint32_t block_mask = ~0u >> (32 - 8 * bytes);
  dequantize_kernel::block_parts parts;
  bool has_table, has_grids;
  const scale_table& table;

  explicit stored_decoder(const format_spec& f)
      : parts(f),
        has_table(scale_bytes(f.scale) == 1),
        has_grids(f.choice.count != 0),
        table(scale_table_of(f.scale)) {}

  /// The scales of the blocks of a dword, with the factors of their grids.
  UFP4_LANE void scales(u32 stored, float* out) const {
    u32 low{}, high{};
    if (has_table) {
      const u32 codes = stored & (parts.scale_mask & 0xFFu) * (~0u / block_mask);
      const bool upper = any(codes & 0x80808080u);
      low = lookup_bytes(table.low, codes, upper), high = lookup_bytes(table.high, codes, upper);
    }
#pragma GCC unroll 4
    for (std::size_t b = 0; b < each; ++b) {
      const u32 bits = block(stored, b);
      f32 s;
      if (has_table)
        s = as_float(join_bytes(low, load_as<u32>(places_of_scales.of[b * bytes]), high));
      else  // bf16 in 2 bytes, binary32 in 4
        s = as_float((bits & parts.scale_mask) << (bytes == 2 ? 16 : 0));
      if (parts.has_factors) s = rounded(s * parts.factor(bits));
      store(out + b * lanes, s);
    }
  }
  /// Their selectors in each byte where a block has several grids, else their bits.
  UFP4_LANE void bits(u32 stored, std::uint32_t* out) const {
#pragma GCC unroll 4
    for (std::size_t b = 0; b < each; ++b) {
      const u32 bits = block(stored, b);
      store(out + b * lanes, has_grids ? parts.grid(bits) * 0x10101010u : bits);
    }
  }

 private:
  UFP4_LANE static u32 block(u32 stored, std::size_t b) {
    return stored >> static_cast<std::uint32_t>(8 * bytes * b) & block_mask;
  }
};
/// The scales of `count` blocks, as scales_of gives them, without outer scales; unless `bits` is null, also what
/// selects. Writes whole dwords of blocks.
template <std::size_t bytes>
void decode_stored(const format_spec& f, const u32* stored, std::size_t count, float* scale, std::uint32_t* bits) {
  const stored_decoder<bytes> decode(f);
  constexpr std::size_t each = stored_decoder<bytes>::each;
  for (std::size_t b = 0; b < count; b += each, ++stored) {
    decode.scales(*stored, scale + b * lanes);
    if (bits != nullptr) decode.bits(*stored, bits + b * lanes);
  }
}
[[gnu::noinline]] inline void decode_stored(const format_spec& f, const u32* stored, std::size_t count, float* scale,
                                            std::uint32_t* bits) {
  switch (stored_bytes(f)) {
    case 1: return decode_stored<1>(f, stored, count, scale, bits);
    case 2: return decode_stored<2>(f, stored, count, scale, bits);
    default: return decode_stored<4>(f, stored, count, scale, bits);
  }
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
    u32 bits{};
    if (kind_ == scale_kind::f32)
#pragma GCC unroll 16
      for (std::size_t r = 0; r < lanes; ++r) bits[r] = load_as<std::uint32_t>(row_[r] + i * 4);
    else
#pragma GCC unroll 16
      for (std::size_t r = 0; r < lanes; ++r) bits[r] = load_as<std::uint16_t>(row_[r] + i * 2);
    return decode_scale_bits(kind_, bits);
  }

 private:
  scale_kind kind_;
  const std::uint8_t* row_[lanes];
};

/// Multiplies the scales of blocks by their outer scales, if there are any for rows or segments.
inline void multiply_by_outer(const quantized_source& q, std::size_t row, std::size_t live, std::size_t block,
                              std::size_t count, float* scale) {
  if (!q.format.has_outer_array()) return;
  const outer_rows outer(q, row, live);
  const std::size_t covered = outer_columns(q.format, q.padded_cols) / static_cast<std::size_t>(q.format.block.cols);
  std::size_t segment = block / covered;
  for (std::size_t b = 0; b < count; ++segment) {
    const std::size_t end = (segment + 1) * covered - block;
    const f32 by = outer(segment);
    for (; b < count && b < end; ++b) store(scale + b * lanes, load(scale + b * lanes) * by);
  }
}

/// The selectors of columns 8 word to 8 word + 7 of a block of one-bit exponents, of which two have a byte.
class exponent_selectors {
 public:
  explicit exponent_selectors(const block_shape& block) : levels_(exponent_levels(block)) {
    for (int level = 0; level < levels_; ++level) {
      const std::uint32_t first = exponent_bit(block, level, 0) - 4;  // so that the exponent becomes bit 4
      shift_[level] = __builtin_ctz(static_cast<unsigned>(block.group[level]));
      std::uint32_t from = 0;
      for (std::uint32_t i = 0; i < 4; ++i) from |= (first + (2 * i >> shift_[level])) << 8 * i;
      from_[level] = u32{} + from + u32{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1} * 0x20202020u;
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
/// The entries for the low four bits of each byte.
UFP4_LANE u8 selected(u8 table, u32 codes, u32 selectors) { return low(table, (codes & 0x0F0F0F0Fu) | selectors); }
/// The selectors of columns 8 word to 8 word + 7 of one block with these bits.
inline std::uint32_t selector_of(const format_spec& f, std::uint32_t bits, int word) {
  if (f.choice.count != 0) return static_cast<std::uint32_t>(grid_number(f, bits)) * 0x10101010u;
  std::uint32_t s = 0;
  for (int i = 0; i < 4; ++i)
    s |= static_cast<std::uint32_t>(exponent_of(f, bits, 8 * word + 2 * i)) << static_cast<unsigned>(8 * i + 4);
  return s;
}
UFP4_END_REGION
