// ufp4 - packing for AMX GEMM kernels: rows of codes to rows of bf16, and the tiles of C back to its rows.
// SPDX-License-Identifier: Apache-2.0
//
// A tile row of the right operand holds 32 k of one of its rows side by side, which is how the canonical layout has
// them: 16 bytes of codes become 64 bytes of bf16 without a transposition. So tiles of C come out transposed, sixteen
// columns of C by sixteen of its rows. The left operand, packed once a call, is decoded by the same code and transposed
// afterwards.
//
// One tile row costs a broadcast of its 16 bytes, a shift of every nibble to a word of its own (VPMULTISHIFTQB) and a
// lookup of those words in a table of 32 bf16 (VPERMW), whose halves may belong to two blocks: the scale is in the
// table already.
//
// | table of two blocks of 8-bit scales | two halves out of the 256 tables that a scale code can mean: exact products |
// | folded                              | sixteen products with each scale, rounded to bf16 (folded_bf16)             |
// | unscaled                            | the grid alone (exact_blocks)                                               |
//
// The order of k within a tile row is the decoder's affair, the same on both sides.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ufp4/cpu/gemm_kernel.hpp>
#include <ufp4/cpu/kernels/gemm/pack_avx512.hpp>
#include <ufp4/cpu/simd/amx.hpp>

namespace ufp4::cpu::detail::inline UFP4_TYPES {

inline constexpr std::size_t tile_side = 16;     ///< rows of a tile; columns of a tile of C
inline constexpr std::size_t tile_bytes = 1024;  ///< 16 rows of 64 bytes
inline constexpr std::size_t tile_k = 32;        ///< bf16 in a row of a tile
inline constexpr std::size_t slice_k = 512;  ///< K decoded at a time, at most; a multiple of every block and transform

}  // namespace ufp4::cpu::detail::inline UFP4_TYPES

namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace amx {

constexpr std::size_t up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// Bits of the smallest and the largest magnitude of a grid beside 0.
struct value_range {
  std::uint32_t low, high;
};
inline value_range range_of(const grid4& grid) {
  value_range r{ufp4::detail::infinity_bits, 0};
  for (const float v : grid.value) {
    const std::uint32_t m = ufp4::detail::magnitude_bits(v);
    r.low = m != 0 && m < r.low ? m : r.low;
    r.high = m > r.high ? m : r.high;
  }
  return r;
}
/// Values no further than 2^40 from 1, of at most `bits` significant bits.
inline bool is_tame(const grid4& grid, int bits) {
  const value_range r = range_of(grid);
  std::uint32_t used = 0;
  for (const float v : grid.value) used |= ufp4::detail::to_bits(v);
  return r.low >= ufp4::detail::to_bits(0x1p-40f) && r.high <= ufp4::detail::to_bits(0x1p40f) &&
         (used & ((1u << (24 - bits)) - 1)) == 0;
}

/// Whether all products with scales of 8 bits are bf16 numbers, the ends of e8m0 aside: 4 significant bits by 4, or 8
/// by 1.
inline bool products_fit(const quantized_source& q) {
  const scale_kind kind = q.format.scale;
  if (ufp4::detail::scale_bytes(kind) != 1) return false;
  return is_tame(q.format.grid, kind == scale_kind::e8m0 ? 8 : 4);
}

/// Scales, as the bits of binary32 magnitudes, whose products with every value of a grid are normal and below 2^128.
/// Zero and NaN are no less welcome.
inline value_range welcome_scales(const quantized_source& q) {
  const value_range v = range_of(q.format.grid);
  const int low = ufp4::detail::floor_log2(ufp4::detail::to_float(v.low));
  const int high = ufp4::detail::floor_log2(ufp4::detail::to_float(v.high));
  return {ufp4::detail::to_bits(ufp4::detail::exp2i(-126 - (low < 0 ? low : 0))),
          ufp4::detail::to_bits(ufp4::detail::exp2i(127 - (high > 0 ? high : 0)))};
}
inline bool welcome(const value_range& scales, std::uint32_t magnitude) {
  return (magnitude >= scales.low && magnitude <= scales.high) || magnitude == 0 ||
         magnitude > ufp4::detail::infinity_bits;
}

/// Whether a block holds nothing but zeros. A quantizer gives such a block of an mx format the smallest scale.
inline bool is_zero_block(const quantized_source& q, std::size_t row, std::size_t k) {
  for (std::size_t e = 0; e < static_cast<std::size_t>(q.format.block.cols); e += 2) {
    const std::uint8_t pair = q.codes[q.code_index(row, k + e)];
    if (q.format.grid.value[pair & 15u] != 0.0f || q.format.grid.value[pair >> 4] != 0.0f) return false;
  }
  return true;
}
/// Whether no product of these rows is subnormal, too large, or rounded where it may not be: block by block.
inline bool blocks_fit(const quantized_source& q, std::size_t row, std::size_t live, std::size_t k, std::size_t depth) {
  const value_range scales = welcome_scales(q);
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  for (std::size_t r = row; r < row + live; ++r)
    for (std::size_t at = k; at < k + depth; at += length) {
      const std::uint32_t bits = load_scale(q.scales, q.format.scale, q.scale_index(r, at / length));
      const float scale = ufp4::detail::decode_scale(q.format.scale, bits);
      if (!welcome(scales, ufp4::detail::magnitude_bits(scale)) && !is_zero_block(q, r, at)) return false;
    }
  return true;
}

/// Rows of bytes: row r at p + r * step.
struct byte_rows {
  const std::uint8_t* p;
  std::size_t step;
};

}  // namespace amx
}  // namespace ufp4::cpu::detail::inline UFP4_CODE

UFP4_BEGIN_TARGET(UFP4_AMX)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace amx {

using avx512::f32;
using avx512::half_u16;
using avx512::load_as;
using avx512::u32;

struct bytes8 {
  std::uint8_t b[8];
};
struct bytes16 {
  std::uint8_t b[16];
};
struct bytes32 {
  std::uint8_t b[32];
};

/// Where the nibble of each word stands in its quadword, for VPMULTISHIFTQB. `mixed`: a row's 16 bytes stand in all
/// four quarters, and the quadwords of the result belong to its two halves in turn. `split`: its first 8 bytes stand in
/// the four lower quadwords, the others in the upper ones.
struct nibble_places {
  alignas(64) std::uint64_t mixed[8], split[8];
};
constexpr nibble_places make_nibble_places() {
  nibble_places p{};
  for (std::uint64_t i = 0; i < 8; ++i)
    for (std::uint64_t j = 0; j < 4; ++j) {
      p.mixed[i] |= (16 * (i / 2) + 4 * j) << (16 * j);
      p.split[i] |= (16 * (i % 4) + 4 * j) << (16 * j);
    }
  return p;
}
inline constexpr nibble_places places = make_nibble_places();
/// Which words of a mixed row belong to its second half.
inline constexpr std::uint64_t second_half[8] = {0, ~std::uint64_t{0}, 0, ~std::uint64_t{0},
                                                 0, ~std::uint64_t{0}, 0, ~std::uint64_t{0}};

UFP4_LANE u32 broadcast_16(const std::uint8_t* p) {
  u32 r;
  asm("vbroadcasti32x4 %1, %0" : "=v"(r) : "m"(*reinterpret_cast<const bytes16*>(p)));
  return r;
}
/// 8 bytes in the lower four quadwords, the next 8 in the upper ones.
UFP4_LANE u32 broadcast_8_8(const std::uint8_t* p) {
  u32 r;
  asm("vpbroadcastq %1, %0" : "=v"(r) : "m"(*reinterpret_cast<const bytes8*>(p)));
  asm("vpbroadcastq %1, %0%{%2%}" : "+v"(r) : "m"(*reinterpret_cast<const bytes8*>(p + 8)), "Yk"(std::uint8_t{0xF0}));
  return r;
}
/// 32 bytes from each of two places.
UFP4_LANE u32 join(const std::uint16_t* low, const std::uint16_t* high) {
  u32 r;
  asm("vbroadcasti64x4 %1, %0" : "=v"(r) : "m"(*reinterpret_cast<const bytes32*>(low)));
  asm("vbroadcasti64x4 %1, %0%{%2%}"
      : "+v"(r)
      : "m"(*reinterpret_cast<const bytes32*>(high)), "Yk"(std::uint8_t{0xF0}));
  return r;
}
UFP4_LANE u32 join(const std::uint16_t* both) {
  u32 r;
  asm("vbroadcasti64x4 %1, %0" : "=v"(r) : "m"(*reinterpret_cast<const bytes32*>(both)));
  return r;
}
UFP4_LANE u32 shift_nibbles(u32 bytes, u32 place) {
  u32 r;
  asm("vpmultishiftqb %1, %2, %0" : "=v"(r) : "v"(bytes), "v"(place));
  return r;
}
/// (v & mask) | set
UFP4_LANE u32 pick(u32 v, u32 mask, u32 set) {
  asm("vpternlogd $0xEA, %2, %1, %0" : "+v"(v) : "v"(mask), "v"(set));
  return v;
}
/// The words of a table of 32 at the low five bits of each word.
UFP4_LANE u32 lookup_words(u32 table, u32 index) {
  u32 r;
  asm("vpermw %1, %2, %0" : "=v"(r) : "v"(table), "v"(index));
  return r;
}
/// x * *scale, sixteen times the same scale.
UFP4_LANE f32 times(f32 x, const float* scale) {
  f32 r;
  asm("vmulps %2%{1to16%}, %1, %0" : "=v"(r) : "v"(x), "m"(*scale));
  return r;
}
/// Both as bf16, to nearest even; neither may hold a subnormal.
UFP4_LANE u32 round_pair(f32 low, f32 high) {
  u32 r;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(r) : "v"(low), "v"(high));
  return r;
}

/// Sixteen rows of 64 bytes, rows and dwords exchanged.
inline void exchange(const std::uint8_t* from, std::size_t from_step, std::uint8_t* to, std::size_t to_step) {
  for (std::size_t i = 0; i < 4; ++i) {
    const avx512::quad q = avx512::transposed(from + 16 * i, from_step);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) avx512::store(to + (4 * i + j) * to_step, q.v[j]);
  }
}

/// K [k, k + depth) of rows [row, row + 16): in place, or, of an interleaved operand, out of its groups of sixteen.
inline byte_rows code_rows_of(const quantized_source& q, std::size_t row, std::size_t k, std::size_t depth,
                              std::uint8_t (&staged)[tile_side * slice_k / 2]) {
  const std::uint8_t* p = q.codes + q.code_index(row, k);
  if (!q.interleaved) return {p, q.padded_cols / 2};
  constexpr std::size_t step = slice_k / 2;
  for (std::size_t at = 0; at < depth; at += 128) {
    std::uint8_t group[1024] = {};
    const std::size_t left = depth - at, some = left < 128 ? left : 128;
    std::memcpy(group, p + at * 8, (some + 7) / 8 * 64);
    exchange(group, 64, staged + at / 2, step);
  }
  return {staged, step};
}
/// The 8-bit scale codes of the same; `live` rows of them.
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

/// The sixteen values of a grid as bf16; of one that they fit.
struct value_table {
  alignas(32) std::uint16_t word[16];
};
inline value_table values_of(const grid4& grid) {
  value_table t;
  for (std::size_t c = 0; c < 16; ++c)
    t.word[c] = static_cast<std::uint16_t>(ufp4::detail::to_bits(grid.value[c]) >> 16);
  return t;
}

/// value * scale for every code of an element and of an 8-bit scale, as bf16. What does not fit is never looked up, or
/// is a zero's.
struct product_table {
  alignas(64) std::uint16_t word[256][16];
};
inline void make_products(const quantized_source& q, product_table& t) {
  const f32 values = avx512::load(q.format.grid.value);
  for (std::uint32_t first = 0; first < 256; first += 16) {
    float scale[16];
    const u32 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    avx512::store(scale, avx512::decode_scale_bits(q.format.scale, lane + first));
    for (std::size_t i = 0; i < 16; ++i)
      avx512::store(t.word[first + i],
                    __builtin_convertvector(avx512::as_bits(times(values, scale + i)) >> 16, half_u16));
  }
}

/// What lies 32 rows further on is read next but one; hardware that sees 16 short runs in 16 pages does not foresee it.
/// One row's codes and scales are asked for while one is decoded: more at a time would wait for one another.
class look_ahead {
 public:
  look_ahead(const quantized_source& q, std::size_t row, std::size_t k, std::size_t depth) {
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

/// One side of a call: how its rows become bf16.
struct decoder {
  const quantized_source* q;
  product_table* products;  ///< made by begin(), of a side whose products fit
  bool folds;
  value_range scales;  ///< that need no second look

  static decoder begin(const quantized_source& q, product_table& products) {
    const decoder d{&q, &products, !products_fit(q), welcome_scales(q)};
    if (!d.folds) make_products(q, products);
    return d;
  }
  std::size_t block() const { return static_cast<std::size_t>(q->format.block.cols); }
};

/// The last 16 k of a row whose number of k is no multiple of 32: other words are cleared.
UFP4_LANE u32 first_half(u32 v) { return v & ~load_as<u32>(second_half); }

/// Stores decode(p, s, true) for the 16 bytes at p of every step s of 32 k; where 16 k are left, decode(p, s, false)
/// for their copy.
template <class F>
UFP4_LANE void each_step(const std::uint8_t* codes, std::size_t depth, std::uint8_t* out, const F& decode) {
  const std::size_t steps = depth / tile_k;
  for (std::size_t s = 0; s < steps; ++s) avx512::store(out + s * tile_bytes, decode(codes + s * 16, s, true));
  if (depth % tile_k == 0) return;
  std::uint8_t last[16] = {};
  std::memcpy(last, codes + steps * 16, 8);
  avx512::store(out + steps * tile_bytes, first_half(decode(last, steps, false)));
}

/// Blocks of 16 k, two a tile row.
UFP4_LANE void product_row_16(const product_table& t, const std::uint8_t* codes, const std::uint8_t* scales,
                              std::size_t depth, std::uint8_t* out) {
  const u32 place = load_as<u32>(places.mixed), mask = avx512::broadcast(0x000F000Fu);
  const u32 second = load_as<u32>(second_half) & avx512::broadcast(0x00100010u);
  each_step(codes, depth, out, [&](const std::uint8_t* p, std::size_t s, bool two) __attribute__((always_inline)) {
    const u32 table = join(t.word[scales[2 * s]], t.word[scales[2 * s + two]]);
    return lookup_words(table, pick(shift_nibbles(broadcast_16(p), place), mask, second));
  });
}
/// Longer blocks, 1 << shift tile rows each.
UFP4_LANE void product_row(const product_table& t, const std::uint8_t* codes, const std::uint8_t* scales, int shift,
                           std::size_t depth, std::uint8_t* out) {
  const u32 place = load_as<u32>(places.mixed);
  each_step(codes, depth, out, [&](const std::uint8_t* p, std::size_t s, bool) __attribute__((always_inline)) {
    return lookup_words(join(t.word[scales[s >> shift]]), shift_nibbles(broadcast_16(p), place));
  });
}

/// Scales as binary32, sixteen floats a block, those of this row at `scales`; blocks of 16 << shift.
UFP4_LANE void folded_row(f32 values, const std::uint8_t* codes, const float* scales, int shift, std::size_t depth,
                          std::uint8_t* out) {
  const u32 place = load_as<u32>(places.mixed), mask = avx512::broadcast(0x000F000Fu);
  const u32 second = load_as<u32>(second_half) & avx512::broadcast(0x00100010u);
  each_step(codes, depth, out, [&](const std::uint8_t* p, std::size_t s, bool two) __attribute__((always_inline)) {
    const f32 low = times(values, scales + (2 * s >> shift) * 16);
    const f32 high = times(values, scales + ((2 * s + two) >> shift) * 16);
    return lookup_words(round_pair(low, high), pick(shift_nibbles(broadcast_16(p), place), mask, second));
  });
}

/// Whether some scale code of the rows is none of [low, high] or 255.
inline bool codes_stand_out(const byte_rows& scales, std::size_t live, std::size_t count, std::uint8_t low,
                            std::uint8_t high) {
  using u8x16 = std::uint8_t __attribute__((vector_size(16)));
  const u8x16 nan = u8x16{} + std::uint8_t{255}, span = u8x16{} + static_cast<std::uint8_t>(high - low);
  u8x16 found{};
  for (std::size_t b = 0; b < count; b += 16) {
    const auto there = static_cast<std::uint16_t>(count - b < 16 ? (1u << (count - b)) - 1 : 0xFFFFu);
    for (std::size_t r = 0; r < live; ++r) {
      u8x16 v = nan;
      asm("vmovdqu8 %1, %0%{%2%}"
          : "+v"(v)
          : "m"(*reinterpret_cast<const bytes16*>(scales.p + r * scales.step + b)), "Yk"(there));
      found |= reinterpret_cast<u8x16>((v != nan) & (v - low > span));
    }
  }
  std::uint64_t word[2];
  std::memcpy(word, &found, 16);
  return (word[0] | word[1]) != 0;
}
inline bool scales_stand_out(const value_range& welcome, const float* scales, std::size_t count) {
  u32 found{};
  for (std::size_t b = 0; b < count; ++b) {
    const u32 m = load_as<u32>(scales + 16 * b) & 0x7FFFFFFFu;
    found |=
        reinterpret_cast<u32>((m < welcome.low || m > welcome.high) && m != 0u && m <= ufp4::detail::infinity_bits);
  }
  std::uint32_t any = 0;
  for (std::size_t i = 0; i < 16; ++i) any |= found[i];
  return any != 0;
}

/// Zeros in the rows of the tiles of a stretch of K from `first` on.
inline void clear_rows(std::size_t first, std::size_t depth, std::uint8_t* out) {
  for (std::size_t r = first; r < tile_side; ++r)
    for (std::size_t at = 0; at < depth; at += tile_k) avx512::store(out + at / tile_k * tile_bytes + r * 64, u32{});
}

/// Decodes K [k, k + depth) of rows [row, row + live), 0 < live <= 16, into tiles; rows beyond live are zero. False:
/// some product is no normal bf16, and what was written is worth nothing.
inline bool decode_products(const decoder& d, std::size_t row, std::size_t live, std::size_t k, std::size_t depth,
                            std::uint8_t* out) {
  const quantized_source& q = *d.q;
  std::uint8_t code_stage[tile_side * slice_k / 2], scale_stage[tile_side * slice_k / 16];
  alignas(64) float scale[slice_k / 16 * 16];
  const byte_rows codes = code_rows_of(q, row, k, depth, code_stage);
  byte_rows scales{};
  bool odd = false;
  if (d.folds) {
    avx512::scales_of(q, row, live, k / d.block(), depth / d.block(), scale);
    odd = scales_stand_out(d.scales, scale, depth / d.block());
  } else {
    scales = scale_rows_of(q, row, live, k, depth, scale_stage);
    odd = q.format.scale == scale_kind::e8m0 &&
          codes_stand_out(scales, live, depth / d.block(), static_cast<std::uint8_t>(d.scales.low >> 23),
                          static_cast<std::uint8_t>(d.scales.high >> 23));
  }
  if (odd && !blocks_fit(q, row, live, k, depth)) return false;
  const look_ahead next(q, row, k, depth);
  const f32 values = avx512::load(q.format.grid.value);
  int shift = 0;  // blocks of 16 << shift
  while (std::size_t{16} << shift < d.block()) ++shift;
  for (std::size_t r = 0; r < live; ++r) {
    const std::uint8_t* line = codes.p + r * codes.step;
    next.fetch(r);
    if (d.folds)
      folded_row(values, line, scale + r, shift, depth, out + r * 64);
    else if (shift == 0)
      product_row_16(*d.products, line, scales.p + r * scales.step, depth, out + r * 64);
    else
      product_row(*d.products, line, scales.p + r * scales.step, shift - 1, depth, out + r * 64);
  }
  clear_rows(live, depth, out);
  return true;
}

/// The same without scales. Of blocks of 16 the first of two lies in the first 32 bytes of a tile row.
inline void decode_values(const quantized_source& q, std::size_t row, std::size_t live, std::size_t k,
                          std::size_t depth, std::uint8_t* out) {
  std::uint8_t code_stage[tile_side * slice_k / 2];
  const byte_rows codes = code_rows_of(q, row, k, depth, code_stage);
  const look_ahead next(q, row, k, depth);
  const value_table values = values_of(q.format.grid);
  const u32 table = join(values.word), place = load_as<u32>(places.split);
  for (std::size_t r = 0; r < live; ++r) {
    const std::uint8_t* line = codes.p + r * codes.step;
    next.fetch(r);
    for (std::size_t at = 0; at < depth; at += tile_k) {
      std::uint8_t last[16] = {};
      const bool whole = depth - at >= tile_k;
      if (!whole) std::memcpy(last, line + at / 2, 8);
      const u32 bytes = broadcast_8_8(whole ? line + at / 2 : last);
      avx512::store(out + at / tile_k * tile_bytes + r * 64, lookup_words(table, shift_nibbles(bytes, place)));
    }
  }
  clear_rows(live, depth, out);
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
        exchange(reinterpret_cast<const std::uint8_t*>(acc + ((j + t) / tile_side * down + i / tile_side) * area), 64,
                 reinterpret_cast<std::uint8_t*>(line + t), width * sizeof(float));
      avx512::store_sums(job, {part.row + i, rows, part.col + j, cols}, line, width);
    }
}

}  // namespace amx
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
