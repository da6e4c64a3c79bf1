// ufp4 - quantize and amax with NEON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__aarch64__)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_neon.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_scalar.hpp>
#include <ufp4/cpu/simd/neon.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace neon::quantize_kernel {

using transform_kernel::read_row;

inline constexpr bool cheap_lookup = false;  ///< of sixteen floats

/// Four elements from p on.
UFP4_LANE f32 load_pieces(const float* p, std::size_t) { return load(p); }
UFP4_LANE void store_pieces(f32 v, std::uint8_t* base, std::size_t) { store(base, v); }

#include <ufp4/cpu/kernels/gemm/transpose_lanes.inl>

/// The smaller of |t| and a positive bound.
UFP4_LANE f32 magnitude_at_most(f32 t, f32 bound) { return at_most(as_float(as_bits(t) & 0x7FFFFFFFu), bound); }
/// low[0], high[0], low[1], high[1], ... : the first four and the last.
UFP4_LANE void interleave(u32& low, u32& high) {
  u32 a, b;
  asm("zip1 %0.4s, %1.4s, %2.4s" : "=w"(a) : "w"(low), "w"(high));
  asm("zip2 %0.4s, %1.4s, %2.4s" : "=w"(b) : "w"(low), "w"(high));
  low = a;
  high = b;
}
UFP4_LANE quarter_u8 low_bytes(u32 v) { return __builtin_convertvector(v, quarter_u8); }
/// One bit a lane of a mask whose lanes are all ones or all zeros.
UFP4_LANE std::uint32_t lane_bits(u32 mask) {
  const u32 weighted = mask & u32{1, 2, 4, 8};
  u32 sum;
  asm("addv %s0, %1.4s" : "=w"(sum) : "w"(weighted));
  return sum[0];
}
/// Code j of a word, its nibbles moving down as they come, from an index of three bits from `bit` on and the sign of t.
template <int bit>
UFP4_LANE u32 add_code(u32 word, int, u32 index, f32 t) {
  u32 nibble = (as_bits(t) & 0x80000000u) | index << (28 - bit);
  asm("sri %0.4s, %1.4s, #4" : "+w"(nibble) : "w"(word));
  return nibble;
}
template <int bit>
UFP4_LANE u32 finish_codes(u32 word) {
  return word;
}
using nibble_map = u8;
UFP4_LANE nibble_map load_nibble_map(const std::uint8_t* codes) { return load_as<u8>(codes); }
UFP4_LANE u32 map_nibbles(nibble_map map, u32 word) {
  const u8 bytes = reinterpret_cast<u8>(word);
  return reinterpret_cast<u32>(lookup_bytes(map, bytes & 15) | lookup_bytes(map, bytes >> 4) << 4);
}
/// Ten rounds of Philox4x32 on counters, a counter a lane; two keys a round.
UFP4_LANE void philox_rounds(u32 (&word)[4], const std::uint32_t* key) {
  const u32 m0 = broadcast(std::uint32_t{0xD2511F53}), m1 = broadcast(std::uint32_t{0xCD9E8D57});
  const auto multiply = [](u32 a, u32 b, u32& high, u32& low) {
    u32 first, last;
    asm("umull %0.2d, %1.2s, %2.2s" : "=w"(first) : "w"(a), "w"(b));
    asm("umull2 %0.2d, %1.4s, %2.4s" : "=w"(last) : "w"(a), "w"(b));
    asm("uzp1 %0.4s, %1.4s, %2.4s" : "=w"(low) : "w"(first), "w"(last));
    asm("uzp2 %0.4s, %1.4s, %2.4s" : "=w"(high) : "w"(first), "w"(last));
  };
#pragma GCC unroll 10
  for (int i = 0; i < 20; i += 2) {
    u32 high0, low0, high1, low1;
    multiply(word[0], m0, high0, low0);
    multiply(word[2], m1, high1, low1);
    word[0] = high1 ^ word[1] ^ key[i];
    word[1] = low1;
    word[2] = high0 ^ word[3] ^ key[i + 1];
    word[3] = low0;
  }
}
/// Sixteen floats; lanes of an index look them up as bytes.
struct table {
  u8 quarter[4];
};
UFP4_LANE table load_table(const void* values) {
  table t;
  for (int i = 0; i < 4; ++i) t.quarter[i] = load_as<u8>(static_cast<const std::uint32_t*>(values) + 4 * i);
  return t;
}
UFP4_LANE f32 lookup(const table& t, u32 index) {
  const u32 bytes = (index & 15u) * 0x04040404u + 0x03020100u;
  u32 r{};  // an index out of a table's reach is 0 there
  for (std::uint32_t i = 0; i < 4; ++i) {
    const u8 at = reinterpret_cast<u8>(bytes) - static_cast<std::uint8_t>(16 * i);
    r |= reinterpret_cast<u32>(lookup_bytes(t.quarter[i], at));
  }
  return as_float(r);
}

#include <ufp4/cpu/kernels/quantize/grid_lanes.inl>
#include <ufp4/cpu/kernels/quantize/quantize_lanes.inl>

}  // namespace neon::quantize_kernel
}  // namespace ufp4::cpu::detail::inline UFP4_CODE

#endif
