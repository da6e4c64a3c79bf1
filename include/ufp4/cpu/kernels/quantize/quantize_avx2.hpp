// ufp4 - quantize and amax with AVX2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_avx2.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_scalar.hpp>
#include <ufp4/cpu/simd/avx2.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx2::quantize_kernel {

using transform_kernel::read_row;

inline constexpr bool cheap_lookup = true;
using piece = std::uint8_t __attribute__((vector_size(16), aligned(1), may_alias));  ///< four lanes in memory

/// Four elements from p and p + step on.
UFP4_LANE f32 load_pieces(const float* p, std::size_t step) {
  f32 v;
  asm("vmovups %1, %x0" : "=x"(v) : "m"(*reinterpret_cast<const piece*>(p)));
  asm("vinsertf128 $1, %1, %0, %0" : "+x"(v) : "m"(*reinterpret_cast<const piece*>(p + step)));
  return v;
}
/// The two halves of a vector to base and base + step.
UFP4_LANE void store_pieces(f32 v, std::uint8_t* base, std::size_t step) {
  asm("vmovups %x1, %0" : "=m"(*reinterpret_cast<piece*>(base)) : "x"(v));
  asm("vextractf128 $1, %1, %0" : "=m"(*reinterpret_cast<piece*>(base + step)) : "x"(v));
}

#include <ufp4/cpu/kernels/gemm/transpose_lanes.inl>

/// The smaller of |t| and a positive bound.
UFP4_LANE f32 magnitude_at_most(f32 t, f32 bound) { return at_most(as_float(as_bits(t) & 0x7FFFFFFFu), bound); }
/// low[0], high[0], low[1], high[1], ... : the first eight and the last.
UFP4_LANE void interleave(u32& low, u32& high) {
  u32 a, b;
  asm("vpunpckldq %2, %1, %0" : "=x"(a) : "x"(low), "x"(high));
  asm("vpunpckhdq %2, %1, %0" : "=x"(b) : "x"(low), "x"(high));
  asm("vperm2i128 $0x20, %2, %1, %0" : "=x"(low) : "x"(a), "x"(b));
  asm("vperm2i128 $0x31, %2, %1, %0" : "=x"(high) : "x"(a), "x"(b));
}
UFP4_LANE quarter_u8 low_bytes(u32 v) { return __builtin_convertvector(v, quarter_u8); }
/// One bit a lane of a mask whose lanes are all ones or all zeros.
UFP4_LANE std::uint32_t lane_bits(u32 mask) {
  std::uint32_t bits;
  asm("vmovmskps %1, %0" : "=r"(bits) : "x"(mask));
  return bits;
}
/// Code j of a word, its nibbles moving down as they come, from an index of three bits from `bit` on and the sign of t.
template <int bit>
UFP4_LANE u32 add_code(u32 word, int, u32 index, f32 t) {
  return word >> 4 | (((as_bits(t) & 0x80000000u) | index << (28 - bit)) & 0xF0000000u);
}
template <int bit>
UFP4_LANE u32 finish_codes(u32 word) {
  return word;
}
using nibble_map = u8;
UFP4_LANE nibble_map load_nibble_map(const std::uint8_t* codes) {
  u8 map;
  asm("vbroadcasti128 %1, %0" : "=x"(map) : "m"(*reinterpret_cast<const piece*>(codes)));
  return map;
}
UFP4_LANE u32 map_nibbles(nibble_map map, u32 word) {
  u32 low, high;
  asm("vpshufb %2, %1, %0" : "=x"(low) : "x"(map), "x"(word & 0x0F0F0F0Fu));
  asm("vpshufb %2, %1, %0" : "=x"(high) : "x"(map), "x"(word >> 4 & 0x0F0F0F0Fu));
  return low | high << 4;
}
/// Ten rounds of Philox4x32 on counters, a counter a lane; two keys a round. Even and odd lanes apart, so that a
/// product is one instruction; what is left above its low half is never looked at.
UFP4_LANE void philox_rounds(u32 (&word)[4], const std::uint32_t* key) {
  using u64 = std::uint64_t __attribute__((vector_size(sizeof(u32))));
  const u32 m0 = broadcast(std::uint32_t{0xD2511F53}), m1 = broadcast(std::uint32_t{0xCD9E8D57});
  u64 even[4], odd[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) even[i] = reinterpret_cast<u64>(word[i]), odd[i] = even[i] >> 32;
  const auto round = [&](u64(&c)[4], u64 k0, u64 k1) {
    u64 p0, p1;
    asm("vpmuludq %2, %1, %0" : "=x"(p0) : "x"(c[0]), "x"(m0));
    asm("vpmuludq %2, %1, %0" : "=x"(p1) : "x"(c[2]), "x"(m1));
    c[0] = p1 >> 32 ^ c[1] ^ k0;
    c[1] = p1;
    c[2] = p0 >> 32 ^ c[3] ^ k1;
    c[3] = p0;
  };
#pragma GCC unroll 10
  for (int i = 0; i < 20; i += 2) {
    const u64 k0 = reinterpret_cast<u64>(broadcast(key[i])), k1 = reinterpret_cast<u64>(broadcast(key[i + 1]));
    round(even, k0, k1);
    round(odd, k0, k1);
  }
  const u64 low = u64{} + 0xFFFFFFFFu;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) word[i] = reinterpret_cast<u32>((even[i] & low) | odd[i] << 32);
}
using table = table16;
UFP4_LANE table load_table(const void* values) {
  const auto* p = static_cast<const float*>(values);
  return {load(p), load(p + 8)};
}

#include <ufp4/cpu/kernels/quantize/grid_lanes.inl>
#include <ufp4/cpu/kernels/quantize/quantize_lanes.inl>

}  // namespace avx2::quantize_kernel
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
