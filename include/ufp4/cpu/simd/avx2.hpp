// ufp4 - AVX2 lanes: the vector types and instructions that kernels for the avx2 tier (AVX2, FMA, F16C) are written in.
// SPDX-License-Identifier: Apache-2.0
//
// The names of avx512.hpp, eight lanes wide; see there why they are not intrinsics. "x" where an instruction has no
// form for the registers that AVX-512 adds, which "v" also means in a file compiled for it.
#pragma once

#undef UFP4_LANES
#define UFP4_LANES avx2
#include <ufp4/cpu/simd/x86_lanes.hpp>

UFP4_BEGIN_LANES()

inline constexpr bool cheap_lookup = true;       ///< sixteen floats in an instruction or two
inline constexpr std::size_t hadamard_regs = 8;  ///< of the 16 that exist

/// Sixteen floats in two halves; lookup ignores all but the low four bits of an index.
struct table16 {
  f32 low, high;
};
UFP4_LANE table16 load_table(const void* values) {
  const auto* p = static_cast<const float*>(values);
  return {load(p), load(p + 8)};
}
UFP4_BINARY("x", f32, lookup8, f32, u32, "vpermps %1, %2, %0")
UFP4_LANE f32 lookup(const table16& t, u32 index) {
  const f32 low = lookup8(t.low, index), high = lookup8(t.high, index);
  f32 r;  // the sign bit of the mask chooses
  asm("vblendvps %3, %2, %1, %0" : "=x"(r) : "x"(low), "x"(high), "x"(index << 28));
  return r;
}
/// The upper half of each lane: words 0..3 and 8..11, then their two quarters side by side.
UFP4_UNARY("x", u32, pack_words, u32, "vpackusdw %1, %1, %0\n\tvpermpd $8, %0, %0")
UFP4_LANE half_u16 upper_halves(u32 v) {
  const u32 packed = pack_words(v >> 16);
  half_u16 low;
  __builtin_memcpy(&low, &packed, sizeof low);
  return low;
}

UFP4_LANE philox_word xor_all(philox_word a, philox_word b, philox_word c) { return a ^ b ^ c; }
UFP4_LANE quarter_u8 low_bytes(u32 v) { return __builtin_convertvector(v, quarter_u8); }
/// One bit a lane of a mask whose lanes are all ones or all zeros.
UFP4_LANE std::uint32_t lane_bits(u32 mask) {
  std::uint32_t bits;
  asm("vmovmskps %1, %0" : "=r"(bits) : "x"(mask));
  return bits;
}
UFP4_BINARY("x", u32, lower_halves_of, u32, u32, "vperm2i128 $0x20, %2, %1, %0")
UFP4_BINARY("x", u32, upper_halves_of, u32, u32, "vperm2i128 $0x31, %2, %1, %0")
/// low[0], high[0], low[1], high[1], ... : the first half of them and the second.
UFP4_LANE void interleave(u32& low, u32& high) {
  const u32 a = low_pairs(low, high), b = high_pairs(low, high);
  low = lower_halves_of(a, b);
  high = upper_halves_of(a, b);
}
/// The sixteen entries of a map of nibbles, for map_nibbles.
UFP4_LANE u8 load_nibble_map(const std::uint8_t* codes) {
  u8 map;
  asm("vbroadcasti128 %1, %0" : "=x"(map) : "m"(*reinterpret_cast<const four_lanes*>(codes)));
  return map;
}
/// Four elements from p on and four from p + step on, and back.
UFP4_LANE f32 load_parts(const void* p, const void* other) {
  f32 v;
  asm("vmovups %1, %x0\n\tvinsertf128 $1, %2, %0, %0" : "=&x"(v) : "m"(*bytes_of<16>(p)), "m"(*bytes_of<16>(other)));
  return v;
}
UFP4_LANE void store_parts(f32 v, std::uint8_t* base, std::size_t step) {
  asm("vmovups %x1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base)) : "x"(v));
  asm("vextractf128 $1, %1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base + step)) : "x"(v));
}

using grid_table = table16;
UFP4_LANE grid_table load_grid(const float* values) { return load_table(values); }

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
/// The low words of a and b; the quarters come out in the order 0, 2, 1, 3.
UFP4_BINARY("x", u32, pack_all_words, u32, u32, "vpackusdw %2, %1, %0\n\tvpermq $0xD8, %0, %0")
template <bool by_unit, std::size_t n>
UFP4_LANE void store_bf16(std::uint16_t* p, const f32 (&v)[n]) {
  static_assert(!by_unit, "AVX2 has no instruction that rounds to bf16");
#pragma GCC unroll 2
  for (std::size_t r = 0; r < n; r += 2)
    store(p + r * lanes, pack_all_words(round_bf16_numbers(v[r]) >> 16, round_bf16_numbers(v[r + 1]) >> 16));
}

/// `word` moved down by a nibble, below a nibble at the top; its other bits are arbitrary.
UFP4_LANE u32 below_nibble(u32 nibble, u32 word) { return word >> 4 | (nibble & 0xF0000000u); }
UFP4_END_LANES

#include <ufp4/cpu/simd/shared_lanes.hpp>
#undef UFP4_SHARED_LANES
