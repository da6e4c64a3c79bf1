// ufp4 - NEON lanes: the vector types and instructions that kernels for aarch64 are written in.
// SPDX-License-Identifier: Apache-2.0
//
// The names of avx512.hpp, four lanes wide; see there why they are not intrinsics. Every aarch64 machine has these.
#pragma once

#undef UFP4_LANES
#define UFP4_LANES neon
#include <ufp4/cpu/simd/lane_types.hpp>

UFP4_BEGIN_LANES()

inline constexpr bool cheap_lookup = false;       ///< of sixteen floats
inline constexpr std::size_t hadamard_regs = 16;  ///< of the 32 that exist

using u64 = std::uint64_t __attribute__((vector_size(16)));

/// Neighbouring elements of a and b side by side, from the lower or upper half: dwords, pairs of dwords, bytes, words.
template <class V>
UFP4_BINARY("w", V, low_pairs, V, V, "zip1 %0.4s, %1.4s, %2.4s")
template <class V>
UFP4_BINARY("w", V, high_pairs, V, V, "zip2 %0.4s, %1.4s, %2.4s")
template <class V>
UFP4_BINARY("w", V, low_quads, V, V, "zip1 %0.2d, %1.2d, %2.2d")
template <class V>
UFP4_BINARY("w", V, high_quads, V, V, "zip2 %0.2d, %1.2d, %2.2d")
UFP4_BINARY("w", u8, zip_low_bytes, u8, u8, "zip1 %0.16b, %1.16b, %2.16b")
    UFP4_BINARY("w", u8, zip_high_bytes, u8, u8, "zip2 %0.16b, %1.16b, %2.16b")
        UFP4_BINARY("w", f32, zip_low_words, u8, u8, "zip1 %0.8h, %1.8h, %2.8h")
            UFP4_BINARY("w", f32, zip_high_words, u8, u8, "zip2 %0.8h, %1.8h, %2.8h")

    /// v, rounded here: a product is not contracted into a later add.
    UFP4_LANE f32 rounded(f32 v) {
  asm("" : "+w"(v));
  return v;
}
/// A plain store, where x86 has one past the caches.
UFP4_LANE void stream(float* p, f32 v) { store(p, v); }
UFP4_LANE void end_stream() {}
/// a * b + c with one rounding.
UFP4_LANE f32 fma(f32 a, f32 b, f32 c) {
  asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(a), "w"(b));
  return c;
}
UFP4_BINARY("w", u32, maximum, u32, u32, "umax %0.4s, %1.4s, %2.4s")
UFP4_BINARY("w", u32, minimum, u32, u32, "umin %0.4s, %1.4s, %2.4s")
/// The smaller and the larger number, neither a NaN.
UFP4_BINARY("w", f32, at_most, f32, f32, "fmin %0.4s, %1.4s, %2.4s")
UFP4_BINARY("w", f32, at_least, f32, f32, "fmax %0.4s, %1.4s, %2.4s")
/// table[index], byte by byte; 0 where an index is above 15.
UFP4_BINARY("w", u8, lookup_bytes, u8, u8, "tbl %0.16b, {%1.16b}, %2.16b")

/// Sixteen floats, looked up as 64 bytes; lookup ignores all but the low four bits of an index.
struct table16 {
  u32 quarter[4];
};
UFP4_LANE table16 load_table(const void* values) {
  table16 t;
  for (int i = 0; i < 4; ++i) t.quarter[i] = load_as<u32>(static_cast<const float*>(values) + 4 * i);
  return t;
}
UFP4_LANE f32 lookup(const table16& table, u32 index) {
  register u32 a asm("v16") = table.quarter[0];  // TBL takes consecutive registers
  register u32 b asm("v17") = table.quarter[1];
  register u32 c asm("v18") = table.quarter[2];
  register u32 d asm("v19") = table.quarter[3];
  const u32 bytes = (index & 15u) * 0x04040404u + 0x03020100u;
  f32 r;
  asm("tbl %0.16b, {%1.16b - %4.16b}, %5.16b" : "=w"(r) : "w"(a), "w"(b), "w"(c), "w"(d), "w"(bytes));
  return r;
}

/// Four bytes as numbers.
UFP4_LANE u32 widen_bytes(const void* p) {
  const auto* byte = static_cast<const std::uint8_t*>(p);
  return u32{byte[0], byte[1], byte[2], byte[3]};
}
/// Four bf16 or binary16 elements as binary32, and back to binary16, to nearest even.
UFP4_UNARY("w", u32, widen_words, half_u16, "ushll %0.4s, %1.4h, #0")
UFP4_LANE f32 widen_bf16(half_u16 v) { return as_float(widen_words(v) << 16); }
UFP4_UNARY("w", f32, widen_fp16, half_u16, "fcvtl %0.4s, %1.4h")
UFP4_UNARY("w", half_u16, narrow_fp16, f32, "fcvtn %0.4h, %1.4s")
/// The upper half of each lane.
UFP4_UNARY("w", half_u16, upper_halves, u32, "shrn %0.4h, %1.4s, #16")
/// Volatile keeps loads in their order: earlier loads would take registers that sums need.
UFP4_LANE f32 load_broadcast(const void* p) {
  f32 r;
  asm volatile("ld1r {%0.4s}, [%1]" : "=w"(r) : "r"(p), "m"(*static_cast<const char(*)[4]>(p)));
  return r;
}

// For shared_lanes.hpp: the words of all lanes are multiplied together.
using philox_word = u32;
inline constexpr int philox_parts = 1;
UFP4_LANE philox_word part_of(u32 v, int) { return v; }
UFP4_LANE u32 join_parts(philox_word all, philox_word) { return all; }
UFP4_LANE philox_word xor_all(philox_word a, philox_word b, philox_word c) { return a ^ b ^ c; }
UFP4_BINARY("w", u32, low_products, u32, u32, "umull %0.2d, %1.2s, %2.2s")
UFP4_BINARY("w", u32, high_products, u32, u32, "umull2 %0.2d, %1.4s, %2.4s")
UFP4_BINARY("w", u32, even_lanes, u32, u32, "uzp1 %0.4s, %1.4s, %2.4s")
UFP4_BINARY("w", u32, odd_lanes, u32, u32, "uzp2 %0.4s, %1.4s, %2.4s")
/// Both halves of the 64-bit products.
UFP4_LANE void multiply(philox_word a, u32 b, philox_word& high, philox_word& low) {
  const u32 first = low_products(a, b), last = high_products(a, b);
  low = even_lanes(first, last);
  high = odd_lanes(first, last);
}
UFP4_LANE quarter_u8 low_bytes(u32 v) { return __builtin_convertvector(v, quarter_u8); }
/// One bit a lane of a mask whose lanes are all ones or all zeros.
UFP4_LANE std::uint32_t lane_bits(u32 mask) {
  const u32 weighted = mask & u32{1, 2, 4, 8};
  u32 sum;
  asm("addv %s0, %1.4s" : "=w"(sum) : "w"(weighted));
  return sum[0];
}
/// low[0], high[0], low[1], high[1], ... : the first half of them and the second.
UFP4_LANE void interleave(u32& low, u32& high) {
  const u32 first = low_pairs(low, high);
  high = high_pairs(low, high);
  low = first;
}
UFP4_LANE u32 shuffle_bytes(u8 table, u32 index) {
  return reinterpret_cast<u32>(lookup_bytes(table, reinterpret_cast<u8>(index)));
}
/// The sixteen entries of a map of nibbles, and map[nibble] for every nibble of a word.
UFP4_LANE u8 load_nibble_map(const std::uint8_t* codes) { return load_as<u8>(codes); }
UFP4_LANE u32 map_nibbles(u8 map, u32 word) {
  const u8 bytes = reinterpret_cast<u8>(word);
  return reinterpret_cast<u32>(lookup_bytes(map, bytes & 15) | lookup_bytes(map, bytes >> 4) << 4);
}
/// Lane l of the result is lane l ^ stride of v.
template <std::size_t stride>
UFP4_LANE f32 exchange(f32 v) {
  f32 r;
  if constexpr (stride == 1) asm("rev64 %0.4s, %1.4s" : "=w"(r) : "w"(v));
  if constexpr (stride == 2) asm("ext %0.16b, %1.16b, %1.16b, #8" : "=w"(r) : "w"(v));
  return r;
}

/// Four elements from p on: a vector has one part.
UFP4_LANE f32 load_parts(const void* p, const void*) { return load_as<f32>(p); }
UFP4_LANE void store_parts(f32 v, std::uint8_t* base, std::size_t) { store(base, v); }

/// Byte b of every value, for lookups of single bytes.
struct grid_table {
  u8 byte[4];
};
inline grid_table load_grid(const float* values) {
  grid_table table;
  for (std::size_t c = 0; c < 16; ++c)
    for (std::size_t b = 0; b < 4; ++b)
      table.byte[b][c] = static_cast<std::uint8_t>(ufp4::detail::to_bits(values[c]) >> 8 * b);
  return table;
}
UFP4_LANE void decode16(const grid_table& table, const void* codes, f32 (&v)[4]) {
  u8 pairs{};
  __builtin_memcpy(&pairs, codes, 8);
  const u8 code = zip_low_bytes(pairs & 15, pairs >> 4);
  u8 byte[4];
#pragma GCC unroll 4
  for (std::size_t b = 0; b < 4; ++b) byte[b] = lookup_bytes(table.byte[b], code);
  const u8 low[2] = {zip_low_bytes(byte[0], byte[1]), zip_high_bytes(byte[0], byte[1])};
  const u8 high[2] = {zip_low_bytes(byte[2], byte[3]), zip_high_bytes(byte[2], byte[3])};
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 2; ++i) {
    v[2 * i] = zip_low_words(low[i], high[i]);
    v[2 * i + 1] = zip_high_words(low[i], high[i]);
  }
}
template <bool by_unit, std::size_t n>
UFP4_LANE void store_bf16(std::uint16_t* p, const f32 (&v)[n]) {
  static_assert(!by_unit, "the bf16 instructions are not used: not every aarch64 machine has them");
#pragma GCC unroll 8
  for (std::size_t r = 0; r < n; ++r) store(p + r * lanes, upper_halves(round_bf16_numbers(v[r])));
}

/// `word` moved down by a nibble, below a nibble at the top; its other bits are arbitrary.
UFP4_LANE u32 below_nibble(u32 nibble, u32 word) {
  asm("sri %0.4s, %1.4s, #4" : "+w"(nibble) : "w"(word));
  return nibble;
}
UFP4_END_LANES

#include <ufp4/cpu/simd/shared_lanes.hpp>
#undef UFP4_SHARED_LANES
