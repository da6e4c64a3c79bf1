// ufp4 - what the lanes of avx2.hpp and avx512.hpp have in common: one instruction a function, of either width.
// SPDX-License-Identifier: Apache-2.0
//
// Included by both, inside their target regions and namespaces, after lanes.inl.

/// Neighbouring elements of a and b side by side, from the lower or the upper half of each 16 bytes:
/// pairs of dwords, quads of them.
template <class V>
UFP4_LANE V low_pairs(V a, V b) {
  V r;
  asm("vpunpckldq %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
  return r;
}
template <class V>
UFP4_LANE V high_pairs(V a, V b) {
  V r;
  asm("vpunpckhdq %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
  return r;
}
template <class V>
UFP4_LANE V low_quads(V a, V b) {
  V r;
  asm("vpunpcklqdq %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
  return r;
}
template <class V>
UFP4_LANE V high_quads(V a, V b) {
  V r;
  asm("vpunpckhqdq %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
  return r;
}

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
UFP4_LANE u32 maximum(u32 a, u32 b) {
  asm("vpmaxud %1, %0, %0" : "+v"(a) : "v"(b));
  return a;
}
UFP4_LANE u32 minimum(u32 a, u32 b) {
  asm("vpminud %1, %0, %0" : "+v"(a) : "v"(b));
  return a;
}
/// The smaller and the larger number, neither a NaN.
UFP4_LANE f32 at_most(f32 a, f32 b) {
  asm("vminps %1, %0, %0" : "+v"(a) : "v"(b));
  return a;
}
UFP4_LANE f32 at_least(f32 a, f32 b) {
  asm("vmaxps %1, %0, %0" : "+v"(a) : "v"(b));
  return a;
}

/// One byte a lane as numbers. Some compilers convert such a vector byte by byte.
UFP4_LANE u32 widen_bytes(const void* p) {
  u32 r;
  asm("vpmovzxbd %1, %0" : "=v"(r) : "m"(*static_cast<const char(*)[lanes]>(p)));
  return r;
}
/// One bf16 element a lane as binary32.
UFP4_LANE f32 widen_bf16(half_u16 v) {
  u32 wide;
  asm("vpmovzxwd %1, %0" : "=v"(wide) : "v"(v));
  return as_float(wide << 16);
}
/// One binary16 element a lane as binary32.
UFP4_LANE f32 widen_fp16(half_u16 v) {
  f32 r;
  asm("vcvtph2ps %1, %0" : "=v"(r) : "v"(v));
  return r;
}
/// Binary32 numbers as binary16, to nearest even.
UFP4_LANE half_u16 narrow_fp16(f32 v) {
  half_u16 r;
  asm("vcvtps2ph $0, %1, %0" : "=v"(r) : "v"(v));
  return r;
}

/// Four lanes in memory, as an operand of an instruction.
using four_lanes = std::uint8_t __attribute__((vector_size(16), aligned(1), may_alias));
/// map[nibble] for every nibble of a word; each 16 bytes of `map` hold the same sixteen entries.
UFP4_LANE u32 map_nibbles(u8 map, u32 word) {
  u32 low, high;
  asm("vpshufb %2, %1, %0" : "=v"(low) : "v"(map), "v"(word & 0x0F0F0F0Fu));
  asm("vpshufb %2, %1, %0" : "=v"(high) : "v"(map), "v"(word >> 4 & 0x0F0F0F0Fu));
  return low | high << 4;
}

// For philox_lanes.inl: the numbers of even lanes and those of odd lanes, each in the lower half of 64 bits, so that a
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
/// Both halves of the 64-bit products.
UFP4_LANE void multiply(philox_word a, u32 b, philox_word& high, philox_word& low) {
  asm("vpmuludq %2, %1, %0" : "=v"(low) : "v"(a), "v"(b));
  high = low >> 32;
}
