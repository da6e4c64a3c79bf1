// ufp4 - quantize, amax, dequantize and the Hadamard transform with AVX-512.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <ufp4/cpu/kernel_tables.hpp>
#include <ufp4/cpu/kernels/kernels_scalar.hpp>
#include <ufp4/cpu/kernels/quantize/rounding_plan.hpp>
#include <ufp4/cpu/simd/avx512.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE::avx512 {

using grid_table = table16;
UFP4_LANE grid_table load_grid(const float* values) { return load_table(values); }

/// Lane l has nibble l of the eight bytes in its low bits; what is above does not matter to a lookup.
UFP4_LANE void decode16(const grid_table& table, const std::uint8_t* codes, f32 (&v)[1]) {
  const u32 from = {0,  4,  8,  12, 16, 20, 24, 28,
                    32, 36, 40, 44, 48, 52, 56, 60};  // the bit where a lane's nibble begins
  u32 nibbles;
  asm("vpmultishiftqb %2%{1to8%}, %1, %0" : "=v"(nibbles) : "v"(from), "m"(*bytes_of<8>(codes)));
  v[0] = lookup(table, nibbles);
}

template <bool by_unit>
UFP4_LANE void store_bf16(std::uint16_t* p, const f32 (&v)[1]) {
  half_u16 r;
  if constexpr (by_unit)
    asm("vcvtneps2bf16 %1, %0" : "=v"(r) : "v"(v[0]));
  else
    r = upper_halves(round_bf16_numbers(v[0]));
  store(p, r);
}

/// Not by_unit: the upper halves of all elements in one register, the lower halves in another. An upper half is
/// incremented where its lower half, whose last bit is set if the upper half is odd, exceeds 0x8000: ties to even.
template <bool by_unit>
UFP4_LANE void store_bf16(std::uint16_t* p, const f32 (&v)[2]) {
  using words = std::uint16_t __attribute__((vector_size(64)));
  words upper;
  if constexpr (by_unit) {
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(upper) : "v"(v[0]), "v"(v[1]));
  } else {
    const words even = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                        32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    words lower = reinterpret_cast<words>(v[0]);
    upper = lower;
    asm("vpermt2w %2, %1, %0" : "+v"(lower) : "v"(even), "v"(v[1]));
    asm("vpermt2w %2, %1, %0" : "+v"(upper) : "v"(even + 1), "v"(v[1]));
    asm("vpternlogd $0xF8, %2, %1, %0" : "+v"(lower) : "v"(upper), "v"(words{} + 1));  // lower | (upper & 1)
    std::uint32_t rises;
    asm("vpcmpuw $6, %3, %2, %1\n\tvpaddw %4, %0, %0%{%1%}"
        : "+v"(upper), "=&Yk"(rises)
        : "v"(lower), "v"(words{} + 0x8000), "v"(words{} + 1));
  }
  store(p, upper);
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
UFP4_BINARY("v", f32, magnitude_at_most, f32, f32, "vrangeps $10, %2, %1, %0")
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

#include <ufp4/cpu/kernels/lane_kernels.inl>

}  // namespace ufp4::cpu::detail::inline UFP4_CODE::avx512
UFP4_END_TARGET

#endif
