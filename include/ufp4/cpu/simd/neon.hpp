// ufp4 - NEON lanes: the vector types and instructions that kernels for aarch64 are written in.
// SPDX-License-Identifier: Apache-2.0
//
// The names of avx512.hpp, four lanes wide; see there for why they are not intrinsics. Every aarch64 machine has these, so
// there is no target region.
#pragma once

#if defined(__aarch64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/simd/target.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace neon {

inline constexpr std::size_t lanes = 4;
using f32 = float __attribute__((vector_size(16)));
using i32 = std::int32_t __attribute__((vector_size(16)));
using u32 = std::uint32_t __attribute__((vector_size(16)));
using u8 = std::uint8_t __attribute__((vector_size(16)));
using half_u16 = std::uint16_t __attribute__((vector_size(8)));  ///< four 16-bit elements

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
UFP4_LANE f32 broadcast(float x) { return f32{x, x, x, x}; }
UFP4_LANE u32 broadcast(std::uint32_t x) { return u32{x, x, x, x}; }
UFP4_LANE f32 as_float(u32 v) { return reinterpret_cast<f32>(v); }
UFP4_LANE u32 as_bits(f32 v) { return reinterpret_cast<u32>(v); }
UFP4_LANE f32 to_float(i32 v) { return __builtin_convertvector(v, f32); }

/// What was computed is rounded here: not contracted into a later add.
UFP4_LANE f32 rounded(f32 v) {
  asm("" : "+w"(v));
  return v;
}
/// a * b + c with one rounding.
UFP4_LANE f32 fma(f32 a, f32 b, f32 c) {
  asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(a), "w"(b));
  return c;
}
UFP4_LANE u32 max(u32 a, u32 b) {
  asm("umax %0.4s, %0.4s, %1.4s" : "+w"(a) : "w"(b));
  return a;
}
UFP4_LANE u32 min(u32 a, u32 b) {
  asm("umin %0.4s, %0.4s, %1.4s" : "+w"(a) : "w"(b));
  return a;
}
/// table[index], byte by byte; 0 where an index is above 15.
UFP4_LANE u8 lookup_bytes(u8 table, u8 index) {
  u8 r;
  asm("tbl %0.16b, {%1.16b}, %2.16b" : "=w"(r) : "w"(table), "w"(index));
  return r;
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

/// v rounded to bf16 (RNE; overflow is infinity, a NaN a NaN) in the upper half of each lane; the lower is anything.
UFP4_LANE u32 round_bf16(f32 v) {
  const u32 bits = as_bits(v);
  return v == v ? bits + 0x7FFF + (bits >> 16 & 1) : broadcast(0x7FC00000u);
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

}  // namespace neon
}  // namespace ufp4::cpu::detail::inline UFP4_CODE

#endif
