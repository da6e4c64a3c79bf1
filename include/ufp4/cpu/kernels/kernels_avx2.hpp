// ufp4 - quantize, amax, dequantize, the Hadamard transform and the binary32 GEMM with AVX2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <ufp4/cpu/gemm_blocked.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_integers.hpp>
#include <ufp4/cpu/kernels/kernels_scalar.hpp>
#include <ufp4/cpu/kernels/quantize/read_ahead.hpp>
#include <ufp4/cpu/kernels/quantize/rounding_plan.hpp>
#include <ufp4/cpu/simd/avx2.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace ufp4::cpu::detail::inline UFP4_CODE::avx2 {

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

#include <ufp4/cpu/kernels/narrow_lanes.inl>

#include <ufp4/cpu/kernels/lane_kernels.inl>

#include <ufp4/cpu/kernels/gemm/gemm_f32_lanes.inl>

template <features needs = features::all>
inline constexpr gemm_kernel gemm_f32_kernel =
    wide_kernel_of<blocked_gemm<f32_gemm>, needs>(isa::avx2, "gemm_f32_avx2", 1, 132, 128);

}  // namespace ufp4::cpu::detail::inline UFP4_CODE::avx2
UFP4_END_TARGET

#endif
