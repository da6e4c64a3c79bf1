// ufp4 - AVX-512 lanes: the vector types and instructions that kernels for the avx512 tier are written in.
// SPDX-License-Identifier: Apache-2.0
//
// Compiler vectors and one asm statement an instruction, not <immintrin.h>: that header alone costs a third of the
// include budget (architecture decision 10), and a product inside asm cannot be contracted into a later add (decision
// 11). +, -, *, /, comparisons, & | ^ ~ << >> and c ? a : b on these types are single instructions. avx2.hpp and
// neon.hpp have the same names, so that a kernel body can be written once (quantize_lanes.inl).
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/simd/target.hpp>
#include <ufp4/format/scales.hpp>

#define UFP4_AVX512 "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni"

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx512 {

inline constexpr std::size_t lanes = 16;

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

#include <ufp4/cpu/simd/lanes.inl>

/// Two of a's quarters and then two of b's, two bits of `which` each.
template <int which, class V>
UFP4_LANE V quarters(V a, V b) {
  V r;
  asm("vshufi32x4 %3, %2, %1, %0" : "=v"(r) : "v"(a), "v"(b), "i"(which));
  return r;
}

/// What was computed is rounded here: not contracted into a later add.
UFP4_LANE f32 rounded(f32 v) {
  asm("" : "+v"(v));
  return v;
}
/// a * b + c with one rounding.
UFP4_LANE f32 fma(f32 a, f32 b, f32 c) {
  asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  return c;
}
/// table[index & 15], lane by lane.
UFP4_LANE f32 lookup(f32 table, u32 index) {
  f32 r;
  asm("vpermps %1, %2, %0" : "=v"(r) : "v"(table), "v"(index));
  return r;
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

/// Sixteen bytes as numbers; some compilers convert such a vector byte by byte.
UFP4_LANE u32 widen_bytes(const void* p) {
  u32 r;
  asm("vpmovzxbd %1, %0" : "=v"(r) : "m"(*static_cast<const char(*)[lanes]>(p)));
  return r;
}
/// Sixteen bf16 elements as binary32.
UFP4_LANE f32 widen_bf16(half_u16 v) {
  u32 wide;
  asm("vpmovzxwd %1, %0" : "=v"(wide) : "v"(v));
  return as_float(wide << 16);
}
/// Sixteen binary16 elements as binary32.
UFP4_LANE f32 widen_fp16(half_u16 v) {
  f32 r;
  asm("vcvtph2ps %1, %0" : "=v"(r) : "v"(v));
  return r;
}

/// The upper half of each lane.
UFP4_LANE half_u16 upper_halves(u32 v) {
  half_u16 r;
  asm("vpmovdw %1, %0" : "=v"(r) : "v"(v >> 16));
  return r;
}
/// Sixteen binary32 numbers as bf16.
UFP4_LANE half_u16 narrow_bf16(f32 v) { return upper_halves(round_bf16(v)); }
/// Sixteen binary32 numbers as binary16, to nearest even.
UFP4_LANE half_u16 narrow_fp16(f32 v) {
  half_u16 r;
  asm("vcvtps2ph $0, %1, %0" : "=v"(r) : "v"(v));
  return r;
}

#include <ufp4/cpu/simd/scale_lanes.inl>

}  // namespace avx512
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
