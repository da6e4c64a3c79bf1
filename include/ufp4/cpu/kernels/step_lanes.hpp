// ufp4 - steps of the kernels that AVX-512 (steps_avx512.hpp) has shorter ways for: for AVX2 and NEON.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cpu/simd/target.hpp>
#if UFP4_LANE_COUNT == 16
#include <ufp4/cpu/kernels/steps_avx512.hpp>
#elif !defined(UFP4_STEP_LANES)
#define UFP4_STEP_LANES
#include <ufp4/cpu/simd/lanes.hpp>

UFP4_BEGIN_LANES()

/// Sixteen elements of `lanes` runs, `step` apart: v[k] holds element k of every run.
UFP4_LANE void load_transposed(const float* p, std::size_t step, f32 (&v)[16]) {
#pragma GCC unroll 4
  for (std::size_t c = 0; c < 16; c += 4) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) v[c + i] = load_parts(p + i * step + c, p + (i + 4) % lanes * step + c);
    transpose4(v + c);
  }
}
/// Sixteen 16-bit elements of `lanes` runs: v[k] holds elements 2 k and 2 k + 1 of every run.
UFP4_LANE void load_transposed_pairs(const std::uint16_t* p, std::size_t step, u32 (&v)[8]) {
#pragma GCC unroll 2
  for (std::size_t c = 0; c < 8; c += 4) {
    f32 four[4];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) four[i] = load_parts(p + i * step + 2 * c, p + (i + 4) % lanes * step + 2 * c);
    transpose4(four);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) v[c + i] = as_bits(four[i]);
  }
}
inline constexpr bool loads_fp16 = false;  ///< load_transposed_fp16 exists
/// The smaller of |t| and a positive bound.
UFP4_LANE f32 magnitude_at_most(f32 t, f32 bound) { return at_most(as_float(as_bits(t) & 0x7FFFFFFFu), bound); }
/// The larger.
UFP4_LANE f32 magnitude_at_least(f32 t, f32 bound) { return at_least(as_float(as_bits(t) & 0x7FFFFFFFu), bound); }
/// Code j of a word from an index of three bits from `bit` on and the sign of t: put at the top, the others moved down.
template <int bit>
UFP4_LANE u32 add_code(u32 word, int, u32 index, f32 t) {
  return below_nibble((as_bits(t) & 0x80000000u) | index << (28 - bit), word);
}
/// The same where `index` has the sign in its highest bit.
template <int bit>
UFP4_LANE u32 add_signed_code(u32 word, int j, u32 index) {
  return add_code<bit>(word, j, index, as_float(index));
}
/// The larger of |t| and a positive bound, with the sign of t.
UFP4_LANE f32 signed_at_least(f32 t, f32 bound) {
  return as_float(as_bits(magnitude_at_least(t, bound)) | (as_bits(t) & 0x80000000u));
}
template <int bit>
UFP4_LANE u32 finish_codes(u32 word) {
  return word;
}
/// In the lanes where u < width: d becomes a - b, and the highest bit of code j of the word `marks` is set.
template <bool marks_too>
UFP4_LANE void take_difference(std::size_t j, u32 u, u32 width, f32 a, f32 b, f32& d, u32& marks) {
  const u32 below = reinterpret_cast<u32>(u < width);
  d = below != 0u ? a - b : d;
  if constexpr (marks_too) marks |= below & static_cast<std::uint32_t>(std::uint64_t{8} << (4 * j));
}

/// t[i]: dword i, from byte `at` on, of each of `lanes` rows. No instruction crosses the 16 bytes of rows j to j + 3.
UFP4_LANE void load_dwords(const std::uint8_t* const (&row)[lanes], std::size_t at, u32 (&t)[4]) {
  for (std::size_t i = 0; i < 4; ++i) t[i] = as_bits(load_parts(row[i] + at, row[(i + 4) % lanes] + at));
  transpose4(t);
}
UFP4_END_LANES
#endif
