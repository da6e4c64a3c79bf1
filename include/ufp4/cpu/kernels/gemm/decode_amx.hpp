// ufp4 - rows of codes to tile rows of bf16, for AMX kernels, and the tiles of C back to its rows.
// SPDX-License-Identifier: Apache-2.0
//
// A tile row of the right operand holds 32 k of one of its rows side by side, as the canonical layout has them, so
// nothing is transposed. Therefore tiles of C come out transposed: sixteen columns of C by sixteen of its rows. The
// left operand, packed once a call, is decoded by the same code and transposed afterwards.
//
// One tile row costs a broadcast of its 16 bytes, a shift of every nibble to a word of its own (VPMULTISHIFTQB) and a
// lookup of those words in a table of 32 bf16 (VPERMW) that contains the scale; its halves may belong to two blocks.
//
// | table of two blocks of 8-bit scales | two halves out of 256 tables, one for each scale code: exact products |
// | folded                              | sixteen products with each scale, rounded to bf16 (folded_bf16)       |
// | unscaled                            | the grid alone (exact_blocks)                                         |
// | byte elements                       | integers, converted; scaled ones rounded to bf16, where that is exact |
//
// The order of k within a tile row differs between these, but is the same for both operands.
#pragma once

#include <ufp4/cpu/kernels/gemm/gemm_f32_avx512.hpp>
#include <ufp4/cpu/simd/amx.hpp>

UFP4_BEGIN_REGION(amx, UFP4_AMX)

inline constexpr std::size_t tile_side = 16;     ///< rows of a tile; columns of a tile of C
inline constexpr std::size_t tile_bytes = 1024;  ///< 16 rows of 64 bytes
inline constexpr std::size_t tile_k = 32;        ///< bf16 in a row of a tile
inline constexpr std::size_t panel_k = 512;  ///< K decoded at a time, at most; a multiple of every block and transform

using namespace avx512;

/// Rows of bytes: row r at p + r * step.
struct byte_rows {
  const std::uint8_t* p;
  std::size_t step;
};

/// Transposes sixteen rows of sixteen dwords.
inline void transpose_dwords(const std::uint8_t* from, std::size_t from_step, std::uint8_t* to, std::size_t to_step) {
  f32 v[tile_side];
  load_transposed(reinterpret_cast<const float*>(from), from_step / 4, v);
#pragma GCC unroll 16
  for (std::size_t i = 0; i < tile_side; ++i) store(to + i * to_step, v[i]);
}

/// The codes of K [k, k + depth) of rows [row, row + 16), row by row: in place, or staged where they are interleaved.
template <features needs>
byte_rows code_rows_of(const quantized_source& q, std::size_t row, std::size_t k, std::size_t depth,
                       std::uint8_t (&staged)[tile_side * panel_k / 2]) {
  const std::uint8_t* p = q.codes + q.code_index(row, k);
  if (!has(needs, features::prepacked) || !q.interleaved) return {p, code_bytes(q.format, q.padded_cols)};
  constexpr std::size_t step = panel_k / 2;
  for (std::size_t at = 0; at < depth; at += 128) {
    std::uint8_t group[prepacked_layout::panel_bytes(128)] = {};
    const std::size_t left = depth - at, count = left < 128 ? left : 128;
    std::memcpy(group, p + at * 8, prepacked_layout::panel_bytes(count));
    transpose_dwords(group, 64, staged + at / 2, step);
  }
  return {staged, step};
}
/// The 8-bit scale codes of the first `live` of these rows.
inline byte_rows scale_rows_of(const quantized_source& q, std::size_t row, std::size_t live, std::size_t k,
                               std::size_t depth, std::uint8_t (&staged)[tile_side * panel_k / 16]) {
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  const auto* all = static_cast<const std::uint8_t*>(q.scales);
  if (!q.interleaved && q.format.block.rows == 1) return {all + q.scale_index(row, k / length), q.blocks()};
  constexpr std::size_t step = panel_k / 16;
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
    const auto size = static_cast<std::size_t>(scale_bytes(q.format.scale));
    if (q.interleaved || row_next + tile_side > q.rows) return;
    codes_ = {q.codes + q.code_index(row_next, k), code_bytes(q.format, q.padded_cols)};
    code_bytes_ = code_bytes(q.format, depth);
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
    for (std::size_t at = 0; at < depth; at += tile_k) store(out + at / tile_k * tile_bytes + r * 64, u32{});
}

/// Stores a part of C from sums in tiles of 16 columns by 16 rows, the tiles of sixteen columns `down` tiles apart.
template <features needs>
void store_tiles(const gemm_job& job, const gemm_part& part, const float* acc, std::size_t down) {
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
      store_sums<needs>(job, {part.row + i, rows, part.col + j, cols}, line, width);
    }
}

/// Bit positions for VPMULTISHIFTQB: for each word of the result, the position of its nibble in the source quadword.
/// `mixed`: all quarters of the source hold the 16 bytes of a row; the quadwords of the result alternate between its
/// halves. `split`: the four lower quadwords of the source hold the first 8 bytes of a row, the upper the others.
inline constexpr struct nibble_places {
  alignas(64) std::uint64_t mixed[8] = {}, split[8] = {};

  constexpr nibble_places() {
    for (std::uint64_t i = 0; i < 8; ++i)
      for (std::uint64_t j = 0; j < 4; ++j) {
        mixed[i] |= (16 * (i / 2) + 4 * j) << (16 * j);
        split[i] |= (16 * (i % 4) + 4 * j) << (16 * j);
      }
  }
} places;
/// Which words of a mixed row belong to its second half.
inline constexpr std::uint64_t second_half[8] = {0, ~std::uint64_t{0}, 0, ~std::uint64_t{0},
                                                 0, ~std::uint64_t{0}, 0, ~std::uint64_t{0}};

/// 8 bytes in the lower four quadwords, the next 8 in the upper ones.
UFP4_LANE u32 broadcast_8_8(const std::uint8_t* p) {
  u32 r;
  asm("vpbroadcastq %1, %0" : "=v"(r) : "m"(*bytes_of<8>(p)));
  asm("vpbroadcastq %1, %0%{%2%}" : "+v"(r) : "m"(*bytes_of<8>(p + 8)), "Yk"(std::uint8_t{0xF0}));
  return r;
}
/// 32 bytes from each of two places.
UFP4_LANE u32 join(const std::uint16_t* low, const std::uint16_t* high) {
  u32 r;
  asm("vbroadcasti64x4 %1, %0" : "=v"(r) : "m"(*bytes_of<32>(low)));
  asm("vbroadcasti64x4 %1, %0%{%2%}" : "+v"(r) : "m"(*bytes_of<32>(high)), "Yk"(std::uint8_t{0xF0}));
  return r;
}
UFP4_LANE u32 join(const std::uint16_t* both) {
  u32 r;
  asm("vbroadcasti64x4 %1, %0" : "=v"(r) : "m"(*bytes_of<32>(both)));
  return r;
}
UFP4_BINARY("v", u32, shift_nibbles, u32, u32, "vpmultishiftqb %1, %2, %0")
/// (v & mask) | set
UFP4_LANE u32 pick(u32 v, u32 mask, u32 set) {
  asm("vpternlogd $0xEA, %2, %1, %0" : "+v"(v) : "v"(mask), "v"(set));
  return v;
}
/// x * *scale, sixteen times the same scale.
UFP4_LANE f32 times(f32 x, const float* scale) {
  f32 r;
  asm("vmulps %2%{1to16%}, %1, %0" : "=v"(r) : "v"(x), "m"(*scale));
  return r;
}
/// Both as bf16, to nearest even; neither may hold a subnormal.
UFP4_BINARY("v", u32, round_pair, f32, f32, "vcvtne2ps2bf16 %1, %2, %0")

/// value * scale for all codes of elements and 8-bit scales, as bf16; what does not fit is used for blocks of 0 only.
struct product_table {
  alignas(64) std::uint16_t word[256][16];
};
inline void make_products(const quantized_source& q, product_table& t) {
  const f32 values = load(q.format.grid.value);
  for (std::uint32_t first = 0; first < 256; first += 16) {
    float scale[16];
    const u32 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    store(scale, decode_scale_bits(q.format.scale, lane + first));
    for (std::size_t i = 0; i < 16; ++i) store(t.word[first + i], upper_halves(as_bits(times(values, scale + i))));
  }
}

/// How the rows of one operand become bf16.
struct decoder {
  const quantized_source* q;
  product_table* products;  ///< made by begin() where the products fit
  bool folds;               ///< products are computed and rounded
  magnitude_range scales;   ///< whose products are known to fit

  static decoder begin(const quantized_source& q, product_table& products) {
    const decoder d{&q, &products, q.format.has_bytes() || !products_fit(q), scales_in_range(q)};
    if (!d.folds) make_products(q, products);
    return d;
  }
  std::size_t block() const { return static_cast<std::size_t>(q->format.block.cols); }
};

/// Whether all products of values and scales are bf16 numbers, as the formats tell.
template <features needs>
inline constexpr bool products_always_fit =
    !has(needs, features::other_grid | element_features | features::f32_scale | features::bf16_scale |
                    features::e8m0_scale | features::mixed_input);

/// The words of the first half of a mixed row; zeros in the others.
UFP4_LANE u32 first_half(u32 v) { return v & ~load_as<u32>(second_half); }

/// Stores decode(p, s, true) for every step s of 32 k, 16 bytes at p; for a last one of 16 k decode(copy, s, false).
template <class F>
UFP4_LANE void each_step(const std::uint8_t* codes, std::size_t depth, std::uint8_t* out, const F& decode) {
  const std::size_t steps = depth / tile_k;
  for (std::size_t s = 0; s < steps; ++s) store(out + s * tile_bytes, decode(codes + s * 16, s, true));
  if (depth % tile_k == 0) return;
  std::uint8_t last[16] = {};
  std::memcpy(last, codes + steps * 16, 8);
  store(out + steps * tile_bytes, first_half(decode(last, steps, false)));
}

/// Blocks of 16 k, two a tile row.
UFP4_LANE void product_row_16(const product_table& t, const std::uint8_t* codes, const std::uint8_t* scales,
                              std::size_t depth, std::uint8_t* out) {
  const u32 place = load_as<u32>(places.mixed), mask = broadcast(0x000F000Fu);
  const u32 second = load_as<u32>(second_half) & broadcast(0x00100010u);
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

/// Products rounded to bf16. Scales are binary32, sixteen a block, that of this row at `scales`; blocks of 16 << shift.
UFP4_LANE void folded_row(f32 values, const std::uint8_t* codes, const float* scales, int shift, std::size_t depth,
                          std::uint8_t* out) {
  const u32 place = load_as<u32>(places.mixed), mask = broadcast(0x000F000Fu);
  const u32 second = load_as<u32>(second_half) & broadcast(0x00100010u);
  each_step(codes, depth, out, [&](const std::uint8_t* p, std::size_t s, bool two) __attribute__((always_inline)) {
    const f32 low = times(values, scales + (2 * s >> shift) * 16);
    const f32 high = times(values, scales + ((2 * s + two) >> shift) * 16);
    return lookup_words(round_pair(low, high), pick(shift_nibbles(broadcast_16(p), place), mask, second));
  });
}

/// For each word of a mixed row, its k.
inline constexpr struct mixed_words {
  alignas(64) std::uint16_t k[tile_k] = {};

  constexpr mixed_words() {
    for (std::uint16_t i = 0; i < tile_k; ++i) k[i] = static_cast<std::uint16_t>(i / 4 % 2 * 16 + i / 8 * 4 + i % 4);
  }
} mixed_order;

/// The values of up to 32 byte elements, the others 0.
struct byte_values {
  f32 low, high;
};
UFP4_LANE byte_values byte_values_at(const std::uint8_t* codes, std::size_t count, f32 unit) {
  std::uint8_t bytes[tile_k] = {};
  std::memcpy(bytes, codes, count < tile_k ? count : tile_k);
  return {numbers_of_bytes(bytes) * unit, numbers_of_bytes(bytes + lanes) * unit};
}
/// folded_row of byte elements.
inline void folded_byte_row(f32 unit, const std::uint8_t* codes, const float* scales, int shift, std::size_t depth,
                            std::uint8_t* out) {
  const u32 order = load_as<u32>(mixed_order.k);
  for (std::size_t s = 0; s * tile_k < depth; ++s) {
    const bool two = depth - s * tile_k > lanes;
    const byte_values v = byte_values_at(codes + s * tile_k, depth - s * tile_k, unit);
    const u32 words =
        round_pair(times(v.low, scales + (2 * s >> shift) * 16), times(v.high, scales + ((2 * s + two) >> shift) * 16));
    store(out + s * tile_bytes, lookup_words(words, order));
  }
}

/// Whether the rows have a scale code other than 255 outside [low, high].
inline bool any_code_outside(const byte_rows& scales, std::size_t live, std::size_t count, std::uint8_t low,
                             std::uint8_t high) {
  using u8x16 = std::uint8_t __attribute__((vector_size(16)));
  const u8x16 nan = u8x16{} + std::uint8_t{255}, span = u8x16{} + static_cast<std::uint8_t>(high - low);
  u8x16 found{};
  for (std::size_t b = 0; b < count; b += 16) {
    const auto present = static_cast<std::uint16_t>(count - b < 16 ? (1u << (count - b)) - 1 : 0xFFFFu);
    for (std::size_t r = 0; r < live; ++r) {
      u8x16 v = nan;
      asm("vmovdqu8 %1, %0%{%2%}" : "+v"(v) : "m"(*bytes_of<16>(scales.p + r * scales.step + b)), "Yk"(present));
      found |= reinterpret_cast<u8x16>((v != nan) & (v - low > span));
    }
  }
  std::uint64_t word[2];
  std::memcpy(word, &found, 16);
  return (word[0] | word[1]) != 0;
}

/// Decodes K [k, k + depth) of rows [row, row + live), 0 < live <= 16, into tiles; rows beyond live are zero. False if
/// some product is not a normal bf16 number; the tiles are undefined then.
template <features needs = features::all>
bool decode_products(const decoder& d, std::size_t row, std::size_t live, std::size_t k, std::size_t depth,
                     std::uint8_t* out) {
  const quantized_source& q = *d.q;
  std::uint8_t code_stage[tile_side * panel_k / 2], scale_stage[tile_side * panel_k / 16];
  alignas(64) float scale[panel_k / 16 * 16];
  const byte_rows codes = code_rows_of < needs & features::prepacked > (q, row, k, depth, code_stage);
  byte_rows scales{};
  bool outside = false;
  const bool folds = !products_always_fit<needs> && d.folds;
  if (folds) {
    scales_of<(needs & (scale_features | features::prepacked))>(q, row, live, k / d.block(), depth / d.block(), scale);
    outside = any_scale_outside(d.scales, scale, depth / d.block());
  } else {
    scales = scale_rows_of(q, row, live, k, depth, scale_stage);
    outside = scale_in<needs>(q.format) == scale_kind::e8m0 &&
              any_code_outside(scales, live, depth / d.block(), static_cast<std::uint8_t>(d.scales.low >> 23),
                               static_cast<std::uint8_t>(d.scales.high >> 23));
  }
  if (!products_always_fit<needs> && outside && !blocks_fit(q, row, live, k, depth)) return false;
  const row_prefetch next(q, row, k, depth);
  const f32 values = load(q.format.grid.value);
  int shift = 0;  // blocks of 16 << shift
  while (std::size_t{16} << shift < d.block()) ++shift;
  for (std::size_t r = 0; r < live; ++r) {
    const std::uint8_t* line = codes.p + r * codes.step;
    next.fetch(r);
    if (has_bytes_in<needs>(q.format))
      folded_byte_row(broadcast(q.format.grid.unit), line, scale + r, shift, depth, out + r * 64);
    else if (folds)
      folded_row(values, line, scale + r, shift, depth, out + r * 64);
    else if (shift == 0)
      product_row_16(*d.products, line, scales.p + r * scales.step, depth, out + r * 64);
    else
      product_row(*d.products, line, scales.p + r * scales.step, shift - 1, depth, out + r * 64);
  }
  clear_rows(live, depth, out);
  return true;
}

/// The same without scales. Of two blocks of 16, the first is in the first 32 bytes of a tile row.
template <features needs = features::all>
void decode_values(const quantized_source& q, std::size_t row, std::size_t live, std::size_t k, std::size_t depth,
                   std::uint8_t* out) {
  std::uint8_t code_stage[tile_side * panel_k / 2];
  const byte_rows codes = code_rows_of < needs & features::prepacked > (q, row, k, depth, code_stage);
  const row_prefetch next(q, row, k, depth);
  std::uint16_t values[16];  // bf16 holds them
  store(values, upper_halves(load_as<u32>(q.format.grid.value)));
  const u32 table = join(values), place = load_as<u32>(places.split);
  for (std::size_t r = 0; r < live; ++r) {
    const std::uint8_t* line = codes.p + r * codes.step;
    next.fetch(r);
    for (std::size_t at = 0; has_bytes_in<needs>(q.format) && at < depth; at += tile_k) {
      const byte_values v = byte_values_at(line + at, depth - at, broadcast(q.format.grid.unit));
      std::uint8_t* to = out + at / tile_k * tile_bytes + r * 64;
      store(to, upper_halves(as_bits(v.low))), store(to + 32, upper_halves(as_bits(v.high)));
    }
    for (std::size_t at = 0; !has_bytes_in<needs>(q.format) && at < depth; at += tile_k) {
      std::uint8_t last[16] = {};
      const bool whole = depth - at >= tile_k;
      if (!whole) std::memcpy(last, line + at / 2, 8);
      const u32 bytes = broadcast_8_8(whole ? line + at / 2 : last);
      store(out + at / tile_k * tile_bytes + r * 64, lookup_words(table, shift_nibbles(bytes, place)));
    }
  }
  clear_rows(live, depth, out);
}

/// The same of an unquantized operand of bf16, in the order of product rows. False if an element is subnormal.
inline bool unquantized_tiles(const quantize_job& unquantized, std::size_t row, std::size_t live, std::size_t k,
                              std::size_t depth, std::uint8_t* out) {
  alignas(64) float value[panel_k + tile_k] = {};
  const u32 order = load_as<u32>(mixed_order.k);
  u32 subnormal{};
  for (std::size_t r = 0; r < live; ++r) {
    unquantized_row(unquantized, row + r, k, depth, value);
    for (std::size_t at = 0; at < depth; at += tile_k) {
      alignas(64) std::uint16_t words[tile_k];
      for (std::size_t i = 0; i < tile_k; i += lanes) {
        const u32 bits = at + i < depth ? load_as<u32>(value + at + i) : u32{};
        subnormal |= reinterpret_cast<u32>((bits & magnitude_mask) - 1u < min_normal_bits - 1u);
        store(words + i, upper_halves(bits));
      }
      store(out + at / tile_k * tile_bytes + r * 64, lookup_words(load_as<u32>(words), order));
    }
  }
  clear_rows(live, depth, out);
  return !any(subnormal);
}

/// Sixteen rows of a left operand of `width` columns as tiles with k in pairs. False where decode(k, depth, tiles) is.
template <class Decode>
bool pack_rows(std::size_t width, std::uint8_t* out, const Decode& decode) {
  alignas(64) std::uint8_t tiles[panel_k / tile_k * tile_bytes];
  for (std::size_t k = 0; k < width; k += panel_k) {
    const std::size_t depth = width - k < panel_k ? width - k : panel_k;
    if (!decode(k, depth, tiles)) return false;
    for (std::size_t at = 0; at < up(depth, tile_k) / tile_k; ++at, out += tile_bytes)
      transpose_dwords(tiles + at * tile_bytes, 64, out, 64);
  }
  return true;
}
UFP4_END_REGION
