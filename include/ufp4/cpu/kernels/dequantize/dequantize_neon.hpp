// ufp4 - dequantize with NEON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__aarch64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/dequantize/dequantize_scalar.hpp>
#include <ufp4/cpu/simd/neon.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace neon::dequantize_kernel {

/// Byte b of every value, for lookups of single bytes.
struct grid_table {
  u8 byte[4];
};
inline grid_table load_grid(const float* values) {
  grid_table table;
  for (std::size_t c = 0; c < 16; ++c)
    for (std::size_t b = 0; b < 4; ++b)
      table.byte[b][c] = static_cast<std::uint8_t>(ufp4::detail::to_bits(values[c]) >> 8 * b);
  return table;
}

/// Alternating elements of a and b, from their lower or upper halves.
struct zipped {
  u8 low, high;
};
UFP4_LANE zipped zip_bytes(u8 a, u8 b) {
  zipped r;
  asm("zip1 %0.16b, %1.16b, %2.16b" : "=w"(r.low) : "w"(a), "w"(b));
  asm("zip2 %0.16b, %1.16b, %2.16b" : "=w"(r.high) : "w"(a), "w"(b));
  return r;
}
UFP4_LANE zipped zip_halves(u8 a, u8 b) {
  zipped r;
  asm("zip1 %0.8h, %1.8h, %2.8h" : "=w"(r.low) : "w"(a), "w"(b));
  asm("zip2 %0.8h, %1.8h, %2.8h" : "=w"(r.high) : "w"(a), "w"(b));
  return r;
}

UFP4_LANE void decode16(const grid_table& table, const std::uint8_t* codes, f32 (&v)[4]) {
  using eight = std::uint8_t __attribute__((vector_size(8)));
  u8 pairs{};
  __builtin_memcpy(&pairs, codes, sizeof(eight));
  const u8 code = zip_bytes(pairs & 15, pairs >> 4).low;
  u8 byte[4];
  for (std::size_t b = 0; b < 4; ++b) byte[b] = lookup_bytes(table.byte[b], code);
  const zipped low = zip_bytes(byte[0], byte[1]), high = zip_bytes(byte[2], byte[3]);
  const zipped first = zip_halves(low.low, high.low), second = zip_halves(low.high, high.high);
  v[0] = reinterpret_cast<f32>(first.low);
  v[1] = reinterpret_cast<f32>(first.high);
  v[2] = reinterpret_cast<f32>(second.low);
  v[3] = reinterpret_cast<f32>(second.high);
}

template <bool by_unit, std::size_t n>
UFP4_LANE void store_bf16(std::uint16_t* p, const f32 (&v)[n]) {
  static_assert(!by_unit, "the bf16 instructions are not used: not every aarch64 machine has them");
#pragma GCC unroll 8
  for (std::size_t r = 0; r < n; ++r) store(p + r * lanes, upper_halves(round_bf16_numbers(v[r])));
}

#include <ufp4/cpu/kernels/dequantize/dequantize_lanes.inl>

}  // namespace neon::dequantize_kernel
}  // namespace ufp4::cpu::detail::inline UFP4_CODE

#endif
