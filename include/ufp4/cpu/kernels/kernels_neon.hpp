// ufp4 - quantize, amax, dequantize, the Hadamard transform and the binary32 GEMM with NEON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__aarch64__)

#include <ufp4/cpu/gemm_blocked.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_integers.hpp>
#include <ufp4/cpu/kernels/kernels_scalar.hpp>
#include <ufp4/cpu/kernels/quantize/read_ahead.hpp>
#include <ufp4/cpu/kernels/quantize/rounding_plan.hpp>
#include <ufp4/cpu/simd/neon.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE::neon {

/// Byte b of every value, for lookups of single bytes.
struct grid_table {
  u8 byte[4];
};
inline grid_table load_grid(const float* values) {
  grid_table table;
  for (std::size_t c = 0; c < 16; ++c)
    for (std::size_t b = 0; b < 4; ++b) table.byte[b][c] = static_cast<std::uint8_t>(to_bits(values[c]) >> 8 * b);
  return table;
}
UFP4_LANE void decode16(const grid_table& table, const void* codes, f32 (&v)[4]) {
  u8 pairs{};
  __builtin_memcpy(&pairs, codes, 8);
  const u8 code = zip_low_bytes(pairs & 15, pairs >> 4);
  u8 byte[4];
#pragma GCC unroll 4
  for (std::size_t b = 0; b < 4; ++b) byte[b] = lookup_bytes(table.byte[b], code);
  const u8 low[2] = {zip_low_bytes(byte[0], byte[1]), zip_high_bytes(byte[0], byte[1])};
  const u8 high[2] = {zip_low_bytes(byte[2], byte[3]), zip_high_bytes(byte[2], byte[3])};
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 2; ++i) {
    v[2 * i] = zip_low_words(low[i], high[i]);
    v[2 * i + 1] = zip_high_words(low[i], high[i]);
  }
}
template <bool by_unit, std::size_t n>
UFP4_LANE void store_bf16(std::uint16_t* p, const f32 (&v)[n]) {
  static_assert(!by_unit, "the bf16 instructions are not used: not every aarch64 machine has them");
#pragma GCC unroll 8
  for (std::size_t r = 0; r < n; ++r) store(p + r * lanes, upper_halves(round_bf16_numbers(v[r])));
}

/// `word` moved down by a nibble, below a nibble at the top; its other bits are arbitrary.
UFP4_LANE u32 below_nibble(u32 nibble, u32 word) {
  asm("sri %0.4s, %1.4s, #4" : "+w"(nibble) : "w"(word));
  return nibble;
}

#include <ufp4/cpu/kernels/narrow_lanes.inl>

#include <ufp4/cpu/kernels/lane_kernels.inl>

#include <ufp4/cpu/kernels/gemm/gemm_f32_lanes.inl>

template <features needs = features::all>
inline constexpr gemm_kernel gemm_f32_kernel =
    wide_kernel_of<blocked_gemm<f32_gemm>, needs>(isa::neon, "gemm_f32_neon", 1, 132, 128);

}  // namespace ufp4::cpu::detail::inline UFP4_CODE::neon

#endif
