// ufp4 - NEON lanes: the vector types and instructions that kernels for aarch64 are written in.
// SPDX-License-Identifier: Apache-2.0
//
// The names of avx512.hpp, four lanes wide; see there why they are not intrinsics. Every aarch64 machine has these,
// so there is no target region.
#pragma once

#if defined(__aarch64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/simd/target.hpp>
#include <ufp4/format/scales.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace neon {

inline constexpr std::size_t lanes = 4;

#include <ufp4/cpu/simd/lanes.inl>

/// Neighbouring elements of a and b side by side, from the lower or the upper half: pairs of dwords, quads of them.
template <class V>
UFP4_LANE V low_pairs(V a, V b) {
  V r;
  asm("zip1 %0.4s, %1.4s, %2.4s" : "=w"(r) : "w"(a), "w"(b));
  return r;
}
template <class V>
UFP4_LANE V high_pairs(V a, V b) {
  V r;
  asm("zip2 %0.4s, %1.4s, %2.4s" : "=w"(r) : "w"(a), "w"(b));
  return r;
}
template <class V>
UFP4_LANE V low_quads(V a, V b) {
  V r;
  asm("zip1 %0.2d, %1.2d, %2.2d" : "=w"(r) : "w"(a), "w"(b));
  return r;
}
template <class V>
UFP4_LANE V high_quads(V a, V b) {
  V r;
  asm("zip2 %0.2d, %1.2d, %2.2d" : "=w"(r) : "w"(a), "w"(b));
  return r;
}

/// v, rounded here: a product is not contracted into a later add.
UFP4_LANE f32 rounded(f32 v) {
  asm("" : "+w"(v));
  return v;
}
/// a * b + c with one rounding.
UFP4_LANE f32 fma(f32 a, f32 b, f32 c) {
  asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(a), "w"(b));
  return c;
}
UFP4_LANE u32 maximum(u32 a, u32 b) {
  asm("umax %0.4s, %0.4s, %1.4s" : "+w"(a) : "w"(b));
  return a;
}
UFP4_LANE u32 minimum(u32 a, u32 b) {
  asm("umin %0.4s, %0.4s, %1.4s" : "+w"(a) : "w"(b));
  return a;
}
/// table[index], byte by byte; 0 where an index is above 15.
UFP4_LANE u8 lookup_bytes(u8 table, u8 index) {
  u8 r;
  asm("tbl %0.16b, {%1.16b}, %2.16b" : "=w"(r) : "w"(table), "w"(index));
  return r;
}
/// The smaller and the larger number, neither a NaN.
UFP4_LANE f32 at_most(f32 a, f32 b) {
  asm("fmin %0.4s, %0.4s, %1.4s" : "+w"(a) : "w"(b));
  return a;
}
UFP4_LANE f32 at_least(f32 a, f32 b) {
  asm("fmax %0.4s, %0.4s, %1.4s" : "+w"(a) : "w"(b));
  return a;
}

/// Four bytes as numbers.
UFP4_LANE u32 widen_bytes(const void* p) {
  const auto* byte = static_cast<const std::uint8_t*>(p);
  return u32{byte[0], byte[1], byte[2], byte[3]};
}
/// Four bf16 elements as binary32.
UFP4_LANE f32 widen_bf16(half_u16 v) {
  u32 wide;
  asm("ushll %0.4s, %1.4h, #0" : "=w"(wide) : "w"(v));
  return as_float(wide << 16);
}
/// Four binary16 elements as binary32.
UFP4_LANE f32 widen_fp16(half_u16 v) {
  f32 r;
  asm("fcvtl %0.4s, %1.4h" : "=w"(r) : "w"(v));
  return r;
}

/// The upper half of each lane.
UFP4_LANE half_u16 upper_halves(u32 v) {
  half_u16 r;
  asm("shrn %0.4h, %1.4s, #16" : "=w"(r) : "w"(v));
  return r;
}
/// Four binary32 numbers as bf16.
UFP4_LANE half_u16 narrow_bf16(f32 v) { return upper_halves(round_bf16(v)); }
/// Four binary32 numbers as binary16, to nearest even.
UFP4_LANE half_u16 narrow_fp16(f32 v) {
  half_u16 r;
  asm("fcvtn %0.4h, %1.4s" : "=w"(r) : "w"(v));
  return r;
}

// For philox_lanes.inl: the words of all lanes are multiplied together.
using philox_word = u32;
inline constexpr int philox_parts = 1;
UFP4_LANE philox_word part_of(u32 v, int) { return v; }
UFP4_LANE u32 join_parts(philox_word all, philox_word) { return all; }
UFP4_LANE philox_word xor_all(philox_word a, philox_word b, philox_word c) { return a ^ b ^ c; }
/// Both halves of the 64-bit products.
UFP4_LANE void multiply(philox_word a, u32 b, philox_word& high, philox_word& low) {
  u32 first, last;
  asm("umull %0.2d, %1.2s, %2.2s" : "=w"(first) : "w"(a), "w"(b));
  asm("umull2 %0.2d, %1.4s, %2.4s" : "=w"(last) : "w"(a), "w"(b));
  asm("uzp1 %0.4s, %1.4s, %2.4s" : "=w"(low) : "w"(first), "w"(last));
  asm("uzp2 %0.4s, %1.4s, %2.4s" : "=w"(high) : "w"(first), "w"(last));
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

#include <ufp4/cpu/simd/butterfly_lanes.inl>
#include <ufp4/cpu/simd/philox_lanes.inl>
#include <ufp4/cpu/simd/scale_lanes.inl>
#include <ufp4/cpu/simd/transpose_lanes.inl>

}  // namespace neon
}  // namespace ufp4::cpu::detail::inline UFP4_CODE

#endif
