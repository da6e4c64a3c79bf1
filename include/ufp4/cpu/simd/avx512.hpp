// ufp4 - AVX-512 lanes: the vector types and instructions that kernels for the avx512 tier are written in.
// SPDX-License-Identifier: Apache-2.0
//
// Compiler vectors and one asm statement for an instruction, not <immintrin.h>: that header alone costs a third of the
// include budget (architecture decision 10), and compilers contract products of intrinsics into later adds (decision
// 11). +, -, *, /, comparisons, & | ^ ~ << >> and c ? a : b on these types are single instructions. avx2.hpp and
// neon.hpp have the same names, so that a kernel body is written once (an .inl file that each region includes).
#pragma once

#if defined(__x86_64__)

#include <ufp4/cpu/simd/target.hpp>
#include <ufp4/format/scales.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE::avx512 {

inline constexpr std::size_t lanes = 16;
inline constexpr bool cheap_lookup = true;        ///< sixteen floats in an instruction or two
inline constexpr std::size_t hadamard_regs = 16;  ///< of the 32 that exist: a run of 256 stays in registers

#include <ufp4/cpu/simd/x86_lanes.inl>

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
UFP4_LANE void store_pieces(f32 v, std::uint8_t* base, std::size_t step) {
  asm("vmovups %x1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base)) : "v"(v));
  asm("vextractf32x4 $1, %1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base + step)) : "v"(v));
  asm("vextractf32x4 $2, %1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base + 2 * step)) : "v"(v));
  asm("vextractf32x4 $3, %1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base + 3 * step)) : "v"(v));
}

#include <ufp4/cpu/simd/shared_lanes.inl>

}  // namespace ufp4::cpu::detail::inline UFP4_CODE::avx512
UFP4_END_TARGET

#endif
