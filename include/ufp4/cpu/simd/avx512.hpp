// ufp4 - AVX-512 lanes: the vector types and instructions that kernels for the avx512 tier are written in.
// SPDX-License-Identifier: Apache-2.0
//
// Compiler vectors and one asm statement an instruction, not <immintrin.h>: that header alone costs a third of the include
// budget (architecture decision 10), and a product inside asm cannot be contracted into a later add (decision 11). +, -, *, /,
// comparisons, & | ^ ~ << >> and c ? a : b on these types are single instructions. avx2.hpp and neon.hpp have the
// same names, so that a kernel body can be written once (quantize_lanes.inl).
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/simd/target.hpp>

#define UFP4_AVX512 "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni"

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx512 {

inline constexpr std::size_t lanes = 16;
using f32 = float __attribute__((vector_size(64)));
using i32 = std::int32_t __attribute__((vector_size(64)));
using u32 = std::uint32_t __attribute__((vector_size(64)));
using u8 = std::uint8_t __attribute__((vector_size(64)));
using half_u16 = std::uint16_t __attribute__((vector_size(32)));  ///< sixteen 16-bit elements

template <class V>
UFP4_LANE V load_as(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
UFP4_LANE void store(void* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}
UFP4_LANE f32 load(const float* p) { return load_as<f32>(p); }
UFP4_LANE f32 as_float(u32 v) { return reinterpret_cast<f32>(v); }
UFP4_LANE u32 as_bits(f32 v) { return reinterpret_cast<u32>(v); }
UFP4_LANE u32 broadcast(std::uint32_t x) { return u32{} + x; }
UFP4_LANE f32 broadcast(float x) { return as_float(broadcast(__builtin_bit_cast(std::uint32_t, x))); }
UFP4_LANE f32 to_float(i32 v) { return __builtin_convertvector(v, f32); }

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
UFP4_LANE u32 lookup(u32 table, u32 index) { return as_bits(lookup(as_float(table), index)); }
UFP4_LANE u32 max(u32 a, u32 b) {
  asm("vpmaxud %1, %0, %0" : "+v"(a) : "v"(b));
  return a;
}
UFP4_LANE u32 min(u32 a, u32 b) {
  asm("vpminud %1, %0, %0" : "+v"(a) : "v"(b));
  return a;
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

/// v rounded to bf16 (RNE; overflow is infinity, a NaN a NaN) in the upper half of each lane; the lower is anything.
UFP4_LANE u32 round_bf16(f32 v) {
  const u32 bits = as_bits(v);
  return v == v ? bits + 0x7FFF + (bits >> 16 & 1) : broadcast(0x7FC00000u);
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

}  // namespace avx512
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
