// ufp4 - AVX2 lanes: the vector types and instructions that kernels for the avx2 tier (AVX2, FMA, F16C) are written in.
// SPDX-License-Identifier: Apache-2.0
//
// The names of avx512.hpp, eight lanes wide; see there for why they are not intrinsics.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/simd/target.hpp>
#include <ufp4/format/scales.hpp>

#define UFP4_AVX2 "avx2,fma,f16c"

UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx2 {

inline constexpr std::size_t lanes = 8;

/// Neighbouring elements of a and b side by side, from the lower or the upper half of each 16 bytes:
/// pairs of dwords, quads of them.
template <class V>
UFP4_LANE V low_pairs(V a, V b) {
  V r;
  asm("vpunpckldq %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
  return r;
}
template <class V>
UFP4_LANE V high_pairs(V a, V b) {
  V r;
  asm("vpunpckhdq %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
  return r;
}
template <class V>
UFP4_LANE V low_quads(V a, V b) {
  V r;
  asm("vpunpcklqdq %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
  return r;
}
template <class V>
UFP4_LANE V high_quads(V a, V b) {
  V r;
  asm("vpunpckhqdq %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
  return r;
}

#include <ufp4/cpu/simd/lanes.inl>

/// What was computed is rounded here: not contracted into a later add.
UFP4_LANE f32 rounded(f32 v) {
  asm("" : "+x"(v));
  return v;
}
/// a * b + c with one rounding.
UFP4_LANE f32 fma(f32 a, f32 b, f32 c) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
  return c;
}
/// table[index & 15], lane by lane; the table in two halves.
struct table16 {
  f32 low, high;
};
UFP4_LANE f32 lookup8(f32 table, u32 index) {
  f32 r;
  asm("vpermps %1, %2, %0" : "=x"(r) : "x"(table), "x"(index));
  return r;
}
UFP4_LANE f32 lookup(const table16& t, u32 index) {
  const f32 low = lookup8(t.low, index), high = lookup8(t.high, index);
  f32 r;  // the sign bit of the mask chooses
  asm("vblendvps %3, %2, %1, %0" : "=x"(r) : "x"(low), "x"(high), "x"(index << 28));
  return r;
}
UFP4_LANE u32 maximum(u32 a, u32 b) {
  asm("vpmaxud %1, %0, %0" : "+x"(a) : "x"(b));
  return a;
}
UFP4_LANE u32 minimum(u32 a, u32 b) {
  asm("vpminud %1, %0, %0" : "+x"(a) : "x"(b));
  return a;
}
/// The smaller and the larger number, neither a NaN.
UFP4_LANE f32 at_most(f32 a, f32 b) {
  asm("vminps %1, %0, %0" : "+x"(a) : "x"(b));
  return a;
}
UFP4_LANE f32 at_least(f32 a, f32 b) {
  asm("vmaxps %1, %0, %0" : "+x"(a) : "x"(b));
  return a;
}

/// Eight bytes as numbers; some compilers convert such a vector byte by byte.
UFP4_LANE u32 widen_bytes(const void* p) {
  u32 r;
  asm("vpmovzxbd %1, %0" : "=x"(r) : "m"(*static_cast<const char(*)[lanes]>(p)));
  return r;
}
/// Eight bf16 elements as binary32.
UFP4_LANE f32 widen_bf16(half_u16 v) {
  u32 wide;
  asm("vpmovzxwd %1, %0" : "=x"(wide) : "x"(v));
  return as_float(wide << 16);
}
/// Eight binary16 elements as binary32.
UFP4_LANE f32 widen_fp16(half_u16 v) {
  f32 r;
  asm("vcvtph2ps %1, %0" : "=x"(r) : "x"(v));
  return r;
}

/// The upper half of each lane.
UFP4_LANE half_u16 upper_halves(u32 v) {
  u32 r;  // words 0..3 and 8..11, then their two quarters side by side
  asm("vpackusdw %1, %1, %0\n\tvpermpd $8, %0, %0" : "=x"(r) : "x"(v >> 16));
  half_u16 low;
  __builtin_memcpy(&low, &r, sizeof low);
  return low;
}
/// Eight binary32 numbers as bf16.
UFP4_LANE half_u16 narrow_bf16(f32 v) { return upper_halves(round_bf16(v)); }
/// Eight binary32 numbers as binary16, to nearest even.
UFP4_LANE half_u16 narrow_fp16(f32 v) {
  half_u16 r;
  asm("vcvtps2ph $0, %1, %0" : "=x"(r) : "x"(v));
  return r;
}

#include <ufp4/cpu/simd/scale_lanes.inl>

}  // namespace avx2
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
