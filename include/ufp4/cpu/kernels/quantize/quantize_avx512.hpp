// ufp4 - quantize and amax with AVX-512.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_avx512.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_scalar.hpp>
#include <ufp4/cpu/kernels/quantize/rounding_plan.hpp>
#include <ufp4/cpu/simd/avx512.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx512::quantize_kernel {

using transform_kernel::read_row;

inline constexpr bool cheap_lookup = true;

/// The four quarters of a vector to base, base + step, ...
UFP4_LANE void store_pieces(f32 v, std::uint8_t* base, std::size_t step) {
  asm("vmovups %x1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base)) : "v"(v));
  asm("vextractf32x4 $1, %1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base + step)) : "v"(v));
  asm("vextractf32x4 $2, %1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base + 2 * step)) : "v"(v));
  asm("vextractf32x4 $3, %1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base + 3 * step)) : "v"(v));
}
/// Sixteen elements of `lanes` runs, `step` apart: v[k] holds element k of every run.
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
/// Code j of a word from an index of three bits from `bit` on and the sign of t. One rotation by 4 j moves both;
/// finish_codes moves the eight indices next to their signs.
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
using table = f32;
UFP4_LANE table load_table(const void* values) { return load_as<f32>(values); }

#include <ufp4/cpu/kernels/quantize/rounder_lanes.inl>

#include <ufp4/cpu/kernels/quantize/block_scale_lanes.inl>
#include <ufp4/cpu/kernels/quantize/code_lanes.inl>
#include <ufp4/cpu/kernels/quantize/store_lanes.inl>
#include <ufp4/cpu/kernels/quantize/tile_lanes.inl>

#include <ufp4/cpu/kernels/quantize/quantize_lanes.inl>

#include <ufp4/cpu/kernels/quantize/amax_lanes.inl>

}  // namespace avx512::quantize_kernel
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
