// ufp4 - quantize and amax with AVX-512.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_avx512.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_scalar.hpp>
#include <ufp4/cpu/simd/avx512.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx512::quantize_kernel {

using transform_kernel::read_row;

inline constexpr bool cheap_lookup = true;
using piece = std::uint8_t __attribute__((vector_size(16), aligned(1), may_alias));  ///< four lanes in memory

/// The four quarters of a vector to base, base + step, ...
UFP4_LANE void store_pieces(f32 v, std::uint8_t* base, std::size_t step) {
  asm("vmovups %x1, %0" : "=m"(*reinterpret_cast<piece*>(base)) : "v"(v));
  asm("vextractf32x4 $1, %1, %0" : "=m"(*reinterpret_cast<piece*>(base + step)) : "v"(v));
  asm("vextractf32x4 $2, %1, %0" : "=m"(*reinterpret_cast<piece*>(base + 2 * step)) : "v"(v));
  asm("vextractf32x4 $3, %1, %0" : "=m"(*reinterpret_cast<piece*>(base + 3 * step)) : "v"(v));
}
/// Sixteen elements of sixteen runs, `step` apart, element by element.
UFP4_LANE void load_transposed(const float* p, std::size_t step, f32 (&v)[16]) {
  const float *p4 = p + 4 * step, *p8 = p4 + 4 * step, *p12 = p8 + 4 * step;
  const std::size_t step3 = 3 * step;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t at = i < 3 ? i * step : step3;  // addresses an instruction can form
    const f32 r0 = load(p + at), r1 = load(p4 + at), r2 = load(p8 + at), r3 = load(p12 + at);
    const f32 a = quarters<0x44>(r0, r1), b = quarters<0xEE>(r0, r1), c = quarters<0x44>(r2, r3),
              d = quarters<0xEE>(r2, r3);
    v[i] = quarters<0x88>(a, c);
    v[4 + i] = quarters<0xDD>(a, c);
    v[8 + i] = quarters<0x88>(b, d);
    v[12 + i] = quarters<0xDD>(b, d);
  }
#pragma GCC unroll 4
  for (std::size_t c = 0; c < 16; c += 4) transpose4(v + c);
}
/// The smaller of |t| and a positive bound.
UFP4_LANE f32 magnitude_at_most(f32 t, f32 bound) {
  f32 r;
  asm("vrangeps $10, %2, %1, %0" : "=v"(r) : "v"(t), "v"(bound));
  return r;
}
/// low[0], high[0], low[1], high[1], ... : the first sixteen and the last.
UFP4_LANE void interleave(u32& low, u32& high) {
  const u32 first = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  u32 a = low, b = low;
  asm("vpermt2d %2, %1, %0" : "+v"(a) : "v"(first), "v"(high));
  asm("vpermt2d %2, %1, %0" : "+v"(b) : "v"(first + 8u), "v"(high));
  low = a;
  high = b;
}
/// The lowest byte of each lane, which a conversion of vectors makes one by one.
UFP4_LANE quarter_u8 low_bytes(u32 v) {
  quarter_u8 r;
  asm("vpmovdb %1, %0" : "=v"(r) : "v"(v));
  return r;
}
/// One bit a lane of a mask whose lanes are all ones or all zeros.
UFP4_LANE std::uint32_t lane_bits(u32 mask) {
  std::uint32_t bits;
  asm("vpmovd2m %1, %%k1\n\tkmovw %%k1, %0" : "=r"(bits) : "v"(mask) : "k1");
  return bits;
}
/// Code j of a word from an index of three bits from `bit` on and the sign of t. Both are turned by 4 j together:
/// finish_codes brings them together once a word.
template <int bit>
UFP4_LANE u32 add_code(u32 word, int j, u32 index, f32 t) {
  constexpr std::uint32_t sign = 0x80000000, here = (std::uint32_t{7} << bit) | sign;
  asm("vpternlogd $0xD8, %2, %1, %0" : "+v"(index) : "v"(t), "v"(broadcast(sign)));
  if (j == 0) return index;
  index = index << (4 * j) | index >> (32 - 4 * j);
  asm("vpternlogd $0xD8, %2, %1, %0" : "+v"(word) : "v"(index), "v"(broadcast(here << (4 * j) | here >> (32 - 4 * j))));
  return word;
}
template <int bit>
UFP4_LANE u32 finish_codes(u32 word) {
  u32 indices = bit == 0 ? word : word >> bit | word << ((32 - bit) % 32);
  asm("vpternlogd $0xD8, %2, %1, %0"
      : "+v"(indices)
      : "v"(word << 4 | word >> 28), "v"(broadcast(std::uint32_t{0x88888888})));
  return indices;
}
using nibble_map = u8;
UFP4_LANE nibble_map load_nibble_map(const std::uint8_t* codes) {
  u8 map;
  asm("vbroadcasti32x4 %1, %0" : "=v"(map) : "m"(*reinterpret_cast<const piece*>(codes)));
  return map;
}
UFP4_LANE u32 map_nibbles(nibble_map map, u32 word) {
  u32 low, high;
  asm("vpshufb %2, %1, %0" : "=v"(low) : "v"(map), "v"(word & 0x0F0F0F0Fu));
  asm("vpshufb %2, %1, %0" : "=v"(high) : "v"(map), "v"(word >> 4 & 0x0F0F0F0Fu));
  return low | high << 4;
}
/// Ten rounds of Philox4x32 on counters, a counter a lane; two keys a round. Even and odd lanes apart, so that a
/// product is one instruction; what is left above its low half is never looked at.
UFP4_LANE void philox_rounds(u32 (&word)[4], const std::uint32_t* key) {
  using u64 = std::uint64_t __attribute__((vector_size(64)));
  const u32 m0 = broadcast(std::uint32_t{0xD2511F53}), m1 = broadcast(std::uint32_t{0xCD9E8D57});
  u64 c[2][4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) c[0][i] = reinterpret_cast<u64>(word[i]), c[1][i] = c[0][i] >> 32;
#pragma GCC unroll 10
  for (int i = 0; i < 20; i += 2) {
    const u32 k0 = broadcast(key[i]), k1 = broadcast(key[i + 1]);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      u64* h = c[half];
      u64 p0, p1;
      asm("vpmuludq %2, %1, %0" : "=v"(p0) : "v"(h[0]), "v"(m0));
      asm("vpmuludq %2, %1, %0" : "=v"(p1) : "v"(h[2]), "v"(m1));
      h[0] = p1 >> 32;
      asm("vpternlogd $0x96, %2, %1, %0" : "+v"(h[0]) : "v"(h[1]), "v"(k0));  // the sum of all three
      h[1] = p1;
      h[2] = p0 >> 32;
      asm("vpternlogd $0x96, %2, %1, %0" : "+v"(h[2]) : "v"(h[3]), "v"(k1));
      h[3] = p0;
    }
  }
  const u64 low = u64{} + 0xFFFFFFFFu;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) word[i] = reinterpret_cast<u32>((c[0][i] & low) | c[1][i] << 32);
}
using table = f32;
UFP4_LANE table load_table(const void* values) { return load_as<f32>(values); }

#include <ufp4/cpu/kernels/quantize/grid_lanes.inl>
#include <ufp4/cpu/kernels/quantize/quantize_lanes.inl>

}  // namespace avx512::quantize_kernel
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
