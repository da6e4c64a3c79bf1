// ufp4 - what the lanes of every instruction set have in common: types, memory, bits.
// SPDX-License-Identifier: Apache-2.0

#include <ufp4/cpu/simd/target.hpp>
#include <ufp4/format/scales.hpp>

UFP4_BEGIN_LANES()

inline constexpr std::size_t lanes = UFP4_LANE_COUNT;

using f32 = float __attribute__((vector_size(4 * lanes)));
using i32 = std::int32_t __attribute__((vector_size(4 * lanes)));
using u32 = std::uint32_t __attribute__((vector_size(4 * lanes)));
using u8 = std::uint8_t __attribute__((vector_size(4 * lanes)));
using half_u16 = std::uint16_t __attribute__((vector_size(2 * lanes)));  ///< a 16-bit element a lane
using quarter_u8 = std::uint8_t __attribute__((vector_size(lanes)));     ///< a byte a lane

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

/// The same as round_bf16 for all v but NaNs; the quiet NaN gives a NaN.
UFP4_LANE u32 round_bf16_numbers(f32 v) {
  const u32 bits = as_bits(v);
  return bits + 0x7FFF + (bits >> 16 & 1);
}
/// v rounded to bf16 (RNE; overflow is infinity, a NaN a NaN) in the upper half of each lane; the lower is arbitrary.
UFP4_LANE u32 round_bf16(f32 v) { return v == v ? round_bf16_numbers(v) : broadcast(0x7FC00000u); }
UFP4_END_LANES
