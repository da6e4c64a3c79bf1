// ufp4 - what the lanes of avx2.hpp and avx512.hpp have in common: one instruction a function, of either width.
// SPDX-License-Identifier: Apache-2.0

#include <ufp4/cpu/simd/lane_types.hpp>

UFP4_BEGIN_LANES()

/// Neighbouring dwords, or pairs of them, of a and b side by side, from the lower or upper half of each 16 bytes.
template <class V>
UFP4_BINARY("v", V, low_pairs, V, V, "vpunpckldq %2, %1, %0")
template <class V>
UFP4_BINARY("v", V, high_pairs, V, V, "vpunpckhdq %2, %1, %0")
template <class V>
UFP4_BINARY("v", V, low_quads, V, V, "vpunpcklqdq %2, %1, %0")
template <class V>
UFP4_BINARY("v", V, high_quads, V, V, "vpunpckhqdq %2, %1, %0")

/// Stores past the caches to p, aligned to a vector, without reading the line first. Until end_stream, other threads
/// may see the old bytes.
UFP4_LANE void stream(float* p, f32 v) {
  asm("vmovntps %1, %0" : "=m"(*reinterpret_cast<unsigned char(*)[sizeof(f32)]>(p)) : "v"(v));
}
UFP4_LANE void end_stream() { asm volatile("sfence" : : : "memory"); }

/// v, rounded here: a product is not contracted into a later add.
UFP4_LANE f32 rounded(f32 v) {
  asm("" : "+v"(v));
  return v;
}
/// a * b + c with one rounding.
UFP4_LANE f32 fma(f32 a, f32 b, f32 c) {
  asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  return c;
}
UFP4_BINARY("v", u32, maximum, u32, u32, "vpmaxud %2, %1, %0")
UFP4_BINARY("v", u32, minimum, u32, u32, "vpminud %2, %1, %0")
UFP4_BINARY("v", i32, maximum, i32, i32, "vpmaxsd %2, %1, %0")
UFP4_BINARY("v", i32, minimum, i32, i32, "vpminsd %2, %1, %0")
/// The smaller and the larger number, neither a NaN.
UFP4_BINARY("v", f32, at_most, f32, f32, "vminps %2, %1, %0")
UFP4_BINARY("v", f32, at_least, f32, f32, "vmaxps %2, %1, %0")

/// Lane l of the result is lane l ^ stride of v.
template <std::size_t stride>
UFP4_LANE f32 exchange(f32 v) {
  f32 r;
  if constexpr (stride == 1) asm("vpermilps $0xB1, %1, %0" : "=v"(r) : "v"(v));
  if constexpr (stride == 2) asm("vpermilps $0x4E, %1, %0" : "=v"(r) : "v"(v));
  if constexpr (stride == 4 && lanes == 8) asm("vperm2f128 $1, %1, %1, %0" : "=x"(r) : "x"(v));
  if constexpr (stride == 4 && lanes == 16) asm("vshuff32x4 $0xB1, %1, %1, %0" : "=v"(r) : "v"(v));
  if constexpr (stride == 8) asm("vshuff32x4 $0x4E, %1, %1, %0" : "=v"(r) : "v"(v));
  return r;
}

template <std::size_t n>
using bytes_of = const unsigned char (*)[n];  ///< so that an asm statement reads memory of any type
/// Four lanes in memory, as an operand of an instruction.
using four_lanes = std::uint8_t __attribute__((vector_size(16), aligned(1), may_alias));

/// One byte a lane as numbers. Some compilers convert such a vector byte by byte.
UFP4_LANE u32 widen_bytes(const void* p) {
  u32 r;
  asm("vpmovzxbd %1, %0" : "=v"(r) : "m"(*bytes_of<lanes>(p)));
  return r;
}
UFP4_LANE f32 load_broadcast(const void* p) {
  f32 r;
  asm("vbroadcastss %1, %0" : "=v"(r) : "m"(*bytes_of<4>(p)));
  return r;
}
/// One bf16 or binary16 element a lane as binary32, and back to binary16, to nearest even.
UFP4_UNARY("v", u32, widen_words, half_u16, "vpmovzxwd %1, %0")
UFP4_LANE f32 widen_bf16(half_u16 v) { return as_float(widen_words(v) << 16); }
UFP4_UNARY("v", f32, widen_fp16, half_u16, "vcvtph2ps %1, %0")
UFP4_UNARY("v", half_u16, narrow_fp16, f32, "vcvtps2ph $0, %1, %0")

UFP4_BINARY("v", u32, shuffle_bytes, u8, u32, "vpshufb %2, %1, %0")
/// map[nibble] for every nibble of a word; each 16 bytes of `map` hold the same sixteen entries.
UFP4_LANE u32 map_nibbles(u8 map, u32 word) {
  return shuffle_bytes(map, word & 0x0F0F0F0Fu) | shuffle_bytes(map, word >> 4 & 0x0F0F0F0Fu) << 4;
}

// For shared_lanes.hpp: the numbers of even lanes and those of odd lanes, each in the lower half of 64 bits, so that a
// product is one instruction. Nothing reads the upper halves.
using u64 = std::uint64_t __attribute__((vector_size(4 * lanes)));
using philox_word = u64;
inline constexpr int philox_parts = 2;
UFP4_LANE philox_word part_of(u32 v, int part) {
  return part == 0 ? reinterpret_cast<u64>(v) : reinterpret_cast<u64>(v) >> 32;
}
UFP4_LANE u32 join_parts(philox_word even, philox_word odd) {
  return reinterpret_cast<u32>((even & 0xFFFFFFFFu) | odd << 32);
}
UFP4_BINARY("v", u64, product_of_halves, u64, u32, "vpmuludq %2, %1, %0")
UFP4_UNARY("v", u64, upper_in_lower, u64, "vmovshdup %1, %0")
/// Both halves of the 64-bit products. A shuffle, since shifts take the pipes of products on some processors.
UFP4_LANE void multiply(philox_word a, u32 b, philox_word& high, philox_word& low) {
  low = product_of_halves(a, b);
  high = upper_in_lower(low);
}
UFP4_END_LANES
