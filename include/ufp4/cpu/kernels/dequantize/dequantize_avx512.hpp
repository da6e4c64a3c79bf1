// ufp4 - dequantize with AVX-512.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/dequantize/dequantize_scalar.hpp>
#include <ufp4/cpu/simd/avx512.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx512::dequantize_kernel {

using grid_table = f32;
UFP4_LANE grid_table load_grid(const float* values) { return load(values); }

/// Lane l has nibble l of the eight bytes in its low bits; what is above does not matter to a lookup.
UFP4_LANE void decode16(const grid_table& table, const std::uint8_t* codes, f32 (&v)[1]) {
  const u32 from = {0,  4,  8,  12, 16, 20, 24, 28,
                    32, 36, 40, 44, 48, 52, 56, 60};  // the bit where a lane's nibble begins
  u32 nibbles;
  asm("vpmultishiftqb %2%{1to8%}, %1, %0" : "=v"(nibbles) : "v"(from), "m"(*reinterpret_cast<const char(*)[8]>(codes)));
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

#include <ufp4/cpu/kernels/dequantize/dequantize_lanes.inl>

}  // namespace avx512::dequantize_kernel
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
