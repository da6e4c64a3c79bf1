// ufp4 - dequantize with AVX2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/dequantize/dequantize_scalar.hpp>
#include <ufp4/cpu/simd/avx2.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx2::dequantize_kernel {

using grid_table = table16;
UFP4_LANE grid_table load_grid(const float* values) { return {load(values), load(values + 8)}; }

/// Lane l has nibble l of four bytes in its low bits; what is above does not matter to a lookup.
UFP4_LANE void decode16(const grid_table& table, const std::uint8_t* codes, f32 (&v)[2]) {
  const u32 to_nibble{0, 4, 8, 12, 16, 20, 24, 28};
#pragma GCC unroll 2
  for (std::size_t r = 0; r < 2; ++r) {
    std::uint32_t word;
    __builtin_memcpy(&word, codes + 4 * r, sizeof word);
    v[r] = lookup(table, broadcast(word) >> to_nibble);
  }
}

template <bool by_unit, std::size_t n>
UFP4_LANE void store_bf16(std::uint16_t* p, const f32 (&v)[n]) {
  static_assert(!by_unit, "AVX2 has no instruction that rounds to bf16");
#pragma GCC unroll 2
  for (std::size_t r = 0; r < n; r += 2) {
    u32 both;  // the quarters come out in the order 0, 2, 1, 3
    asm("vpackusdw %2, %1, %0\n\tvpermq $0xD8, %0, %0"
        : "=x"(both)
        : "x"(round_bf16_numbers(v[r]) >> 16), "x"(round_bf16_numbers(v[r + 1]) >> 16));
    store(p + 2 * lanes * (r / 2), both);
  }
}

#include <ufp4/cpu/kernels/dequantize/dequantize_lanes.inl>

}  // namespace avx2::dequantize_kernel
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
