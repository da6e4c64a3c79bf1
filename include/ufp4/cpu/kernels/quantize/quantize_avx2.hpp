// ufp4 - quantize and amax with AVX2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_avx2.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_scalar.hpp>
#include <ufp4/cpu/kernels/quantize/rounding_plan.hpp>
#include <ufp4/cpu/simd/avx2.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx2::quantize_kernel {

using transform_kernel::read_row;

inline constexpr bool cheap_lookup = true;

/// Four elements from p on and four from p + step on.
UFP4_LANE f32 load_pieces(const float* p, std::size_t step) {
  f32 v;
  asm("vmovups %1, %x0" : "=x"(v) : "m"(*reinterpret_cast<const four_lanes*>(p)));
  asm("vinsertf128 $1, %1, %0, %0" : "+x"(v) : "m"(*reinterpret_cast<const four_lanes*>(p + step)));
  return v;
}
/// The two halves of a vector to base and base + step.
UFP4_LANE void store_pieces(f32 v, std::uint8_t* base, std::size_t step) {
  asm("vmovups %x1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base)) : "x"(v));
  asm("vextractf128 $1, %1, %0" : "=m"(*reinterpret_cast<four_lanes*>(base + step)) : "x"(v));
}

#include <ufp4/cpu/kernels/quantize/load_transposed.inl>

/// The smaller of |t| and a positive bound.
UFP4_LANE f32 magnitude_at_most(f32 t, f32 bound) { return at_most(as_float(as_bits(t) & 0x7FFFFFFFu), bound); }
/// Code j of a word from an index of three bits from `bit` on and the sign of t. It enters at the top, and the codes
/// before it move down by a nibble.
template <int bit>
UFP4_LANE u32 add_code(u32 word, int, u32 index, f32 t) {
  return word >> 4 | (((as_bits(t) & 0x80000000u) | index << (28 - bit)) & 0xF0000000u);
}
template <int bit>
UFP4_LANE u32 finish_codes(u32 word) {
  return word;
}
using table = table16;
UFP4_LANE table load_table(const void* values) {
  const auto* p = static_cast<const float*>(values);
  return {load(p), load(p + 8)};
}

#include <ufp4/cpu/kernels/quantize/rounder_lanes.inl>

#include <ufp4/cpu/kernels/quantize/block_scale_lanes.inl>
#include <ufp4/cpu/kernels/quantize/code_lanes.inl>
#include <ufp4/cpu/kernels/quantize/store_lanes.inl>
#include <ufp4/cpu/kernels/quantize/tile_lanes.inl>

#include <ufp4/cpu/kernels/quantize/quantize_lanes.inl>

#include <ufp4/cpu/kernels/quantize/amax_lanes.inl>

}  // namespace avx2::quantize_kernel
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
