// ufp4 - quantize and amax with NEON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__aarch64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_neon.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_scalar.hpp>
#include <ufp4/cpu/kernels/quantize/rounding_plan.hpp>
#include <ufp4/cpu/simd/neon.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace neon::quantize_kernel {

using transform_kernel::read_row;

inline constexpr bool cheap_lookup = false;  ///< of sixteen floats

/// Four elements from p on.
UFP4_LANE f32 load_pieces(const float* p, std::size_t) { return load(p); }
UFP4_LANE void store_pieces(f32 v, std::uint8_t* base, std::size_t) { store(base, v); }

#include <ufp4/cpu/kernels/quantize/load_transposed.inl>

/// The smaller of |t| and a positive bound.
UFP4_LANE f32 magnitude_at_most(f32 t, f32 bound) { return at_most(as_float(as_bits(t) & 0x7FFFFFFFu), bound); }
/// Code j of a word from an index of three bits from `bit` on and the sign of t. It enters at the top, and the codes
/// before it move down by a nibble.
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
/// Sixteen floats, which lookup reads byte by byte.
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
  u32 r{};  // tbl gives 0 for an index outside its sixteen bytes
  for (std::uint32_t i = 0; i < 4; ++i) {
    const u8 at = reinterpret_cast<u8>(bytes) - static_cast<std::uint8_t>(16 * i);
    r |= reinterpret_cast<u32>(lookup_bytes(t.quarter[i], at));
  }
  return as_float(r);
}

#include <ufp4/cpu/kernels/quantize/rounder_lanes.inl>

#include <ufp4/cpu/kernels/quantize/block_scale_lanes.inl>
#include <ufp4/cpu/kernels/quantize/code_lanes.inl>
#include <ufp4/cpu/kernels/quantize/store_lanes.inl>
#include <ufp4/cpu/kernels/quantize/tile_lanes.inl>

#include <ufp4/cpu/kernels/quantize/quantize_lanes.inl>

#include <ufp4/cpu/kernels/quantize/amax_lanes.inl>

}  // namespace neon::quantize_kernel
}  // namespace ufp4::cpu::detail::inline UFP4_CODE

#endif
