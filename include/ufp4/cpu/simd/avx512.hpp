// ufp4 - AVX-512 lanes: the vector types and instructions that kernels for the avx512 tier are written in.
// SPDX-License-Identifier: Apache-2.0
//
// Compiler vectors and one asm statement for an instruction, not <immintrin.h>: that header alone costs a third of the
// include budget (architecture decision 10), and compilers contract products of intrinsics into later adds (decision
// 11). +, -, *, /, comparisons, & | ^ ~ << >> and c ? a : b on these types are single instructions. avx2.hpp and
// neon.hpp have the same names, so that a kernel body is written once, in a lane header.
#pragma once

#undef UFP4_LANES
#define UFP4_LANES avx512
#include <ufp4/cpu/simd/x86_lanes.hpp>

UFP4_BEGIN_LANES()

inline constexpr bool cheap_lookup = true;        ///< sixteen floats in an instruction or two
inline constexpr std::size_t hadamard_regs = 16;  ///< of the 32 that exist: a run of 256 stays in registers

/// Whether any lane has bits set.
UFP4_LANE bool any(u32 v) {
  std::uint16_t mask;
  asm("vptestmd %1, %1, %0" : "=Yk"(mask) : "v"(v));
  return mask != 0;
}
/// Two of a's quarters and then two of b's, two bits of `which` each.
template <int which, class V>
UFP4_LANE V quarters(V a, V b) {
  V r;
  asm("vshufi32x4 %3, %2, %1, %0" : "=v"(r) : "v"(a), "v"(b), "i"(which));
  return r;
}

/// In each 16 bytes two of a's dwords and then two of b's, two bits of `dwords` each.
template <int dwords>
UFP4_LANE u32 pick_dwords(u32 a, u32 b) {
  u32 r;
  asm("vshufps %3, %2, %1, %0" : "=v"(r) : "v"(a), "v"(b), "i"(dwords));
  return r;
}

/// Sixteen floats; lookup ignores all but the low four bits of an index.
using table16 = f32;
UFP4_LANE table16 load_table(const void* values) { return load_as<f32>(values); }
UFP4_BINARY("v", f32, lookup, f32, u32, "vpermps %1, %2, %0")
/// One of 32 floats, by the low five bits of an index.
UFP4_LANE f32 lookup(table16 low, table16 high, u32 index) {
  asm("vpermi2ps %2, %1, %0" : "+v"(index) : "v"(low), "v"(high));
  return as_float(index);
}
/// Bytes out of 64, by the low six bits of each index; words out of 32, by the low five.
UFP4_BINARY("v", u8, lookup_bytes, u8, u32, "vpermb %1, %2, %0")
UFP4_BINARY("v", u32, lookup_words, u32, u32, "vpermw %1, %2, %0")
UFP4_UNARY("v", half_u16, narrow_words, u32, "vpmovdw %1, %0")
/// The upper half of each lane.
UFP4_LANE half_u16 upper_halves(u32 v) { return narrow_words(v >> 16); }

UFP4_LANE philox_word xor_all(philox_word a, philox_word b, philox_word c) {
  asm("vpternlogd $0x96, %2, %1, %0" : "+v"(a) : "v"(b), "v"(c));
  return a;
}
/// The lowest byte of each lane; compilers convert such a vector byte by byte.
UFP4_UNARY("v", quarter_u8, low_bytes, u32, "vpmovdb %1, %0")
/// One bit a lane of a mask whose lanes are all ones or all zeros.
UFP4_LANE std::uint32_t lane_bits(u32 mask) {
  std::uint32_t bits;
  asm("vpmovd2m %1, %%k1\n\tkmovw %%k1, %0" : "=r"(bits) : "v"(mask) : "k1");
  return bits;
}
/// low[0], high[0], low[1], high[1], ... : the first half of them and the second.
UFP4_LANE void interleave(u32& low, u32& high) {
  const u32 first = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  u32 a = low, b = low;
  asm("vpermt2d %2, %1, %0" : "+v"(a) : "v"(first), "v"(high));
  asm("vpermt2d %2, %1, %0" : "+v"(b) : "v"(first + 8u), "v"(high));
  low = a;
  high = b;
}
/// Sixteen bytes four times: also the entries of a map of nibbles, for map_nibbles.
UFP4_LANE u32 broadcast_16(const void* p) {
  u32 r;
  asm("vbroadcasti32x4 %1, %0" : "=v"(r) : "m"(*bytes_of<16>(p)));
  return r;
}
UFP4_LANE u8 load_nibble_map(const std::uint8_t* codes) { return reinterpret_cast<u8>(broadcast_16(codes)); }
/// The four quarters of a vector to base, base + step, ...
UFP4_LANE void store_parts(f32 v, std::uint8_t* base, std::size_t step) {
  asm("vmovups %x1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base)) : "v"(v));
  asm("vextractf32x4 $1, %1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base + step)) : "v"(v));
  asm("vextractf32x4 $2, %1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base + 2 * step)) : "v"(v));
  asm("vextractf32x4 $3, %1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base + 3 * step)) : "v"(v));
}

using grid_table = table16;
UFP4_LANE grid_table load_grid(const float* values) { return load_table(values); }

/// Lane l has nibble l of the eight bytes in its low bits; what is above does not matter to a lookup.
UFP4_LANE void decode16(const grid_table& table, const std::uint8_t* codes, f32 (&v)[1]) {
  const u32 from = {0,  4,  8,  12, 16, 20, 24, 28,
                    32, 36, 40, 44, 48, 52, 56, 60};  // the bit where a lane's nibble begins
  u32 nibbles;
  asm("vpmultishiftqb %2%{1to8%}, %1, %0" : "=v"(nibbles) : "v"(from), "m"(*bytes_of<8>(codes)));
  v[0] = lookup(table, nibbles);
}

template <bool by_unit>
UFP4_LANE void store_bf16(std::uint16_t* p, const f32 (&v)[1]) {
  half_u16 r;
  if constexpr (by_unit)
    asm("vcvtneps2bf16 %1, %0" : "=v"(r) : "v"(v[0]));
  else
    r = upper_halves(round_bf16_numbers(v[0]));
  store(p, r);
}

/// Not by_unit: the upper halves of all elements in one register, the lower halves in another. An upper half is
/// incremented where its lower half, whose last bit is set if the upper half is odd, exceeds 0x8000: ties to even.
template <bool by_unit>
UFP4_LANE void store_bf16(std::uint16_t* p, const f32 (&v)[2]) {
  using words = std::uint16_t __attribute__((vector_size(64)));
  words upper;
  if constexpr (by_unit) {
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(upper) : "v"(v[0]), "v"(v[1]));
  } else {
    const words even = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                        32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    words lower = reinterpret_cast<words>(v[0]);
    upper = lower;
    asm("vpermt2w %2, %1, %0" : "+v"(lower) : "v"(even), "v"(v[1]));
    asm("vpermt2w %2, %1, %0" : "+v"(upper) : "v"(even + 1), "v"(v[1]));
    asm("vpternlogd $0xF8, %2, %1, %0" : "+v"(lower) : "v"(upper), "v"(words{} + 1));  // lower | (upper & 1)
    std::uint32_t rises;
    asm("vpcmpuw $6, %3, %2, %1\n\tvpaddw %4, %0, %0%{%1%}"
        : "+v"(upper), "=&Yk"(rises)
        : "v"(lower), "v"(words{} + 0x8000), "v"(words{} + 1));
  }
  store(p, upper);
}
UFP4_END_LANES

#include <ufp4/cpu/simd/shared_lanes.hpp>
#undef UFP4_SHARED_LANES
