// ufp4 - columns of a GEMM operand side by side, with AVX2: what the avx2 kernels pack their right operand with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/job.hpp>
#include <ufp4/cpu/kernels/dequantize_scalar.hpp>
#include <ufp4/cpu/simd/avx2.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx2 {

using quarter_u8 = std::uint8_t __attribute__((vector_size(8)));  ///< eight bytes

template <std::size_t n>
using bytes_of = const unsigned char (*)[n];  ///< so that an asm statement reads memory of any type

UFP4_LANE u32 load_halves(const void* low, const void* high) {
  u32 r;
  asm("vmovdqu %1, %x0\n\tvinserti128 $1, %2, %0, %0" : "=&x"(r) : "m"(*bytes_of<16>(low)), "m"(*bytes_of<16>(high)));
  return r;
}
UFP4_LANE u32 low_pairs(u32 a, u32 b) {
  u32 r;
  asm("vpunpckldq %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
  return r;
}
UFP4_LANE u32 high_pairs(u32 a, u32 b) {
  u32 r;
  asm("vpunpckhdq %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
  return r;
}
UFP4_LANE u32 low_quads(u32 a, u32 b) {
  u32 r;
  asm("vpunpcklqdq %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
  return r;
}
UFP4_LANE u32 high_quads(u32 a, u32 b) {
  u32 r;
  asm("vpunpckhqdq %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
  return r;
}

/// Four dwords of each of eight rows, from byte `at` on: t[i] gets dword i of every row. Rows j and j + 4 share a register,
/// so that no instruction crosses its halves.
UFP4_LANE void load_dwords(const std::uint8_t* const (&row)[lanes], std::size_t at, u32 (&t)[4]) {
  const u32 a = load_halves(row[0] + at, row[4] + at), b = load_halves(row[1] + at, row[5] + at);
  const u32 c = load_halves(row[2] + at, row[6] + at), d = load_halves(row[3] + at, row[7] + at);
  const u32 ab_low = low_pairs(a, b), ab_high = high_pairs(a, b), cd_low = low_pairs(c, d), cd_high = high_pairs(c, d);
  t[0] = low_quads(ab_low, cd_low);
  t[1] = high_quads(ab_low, cd_low);
  t[2] = low_quads(ab_high, cd_high);
  t[3] = high_quads(ab_high, cd_high);
}

UFP4_LANE f32 load_broadcast(const void* p) {
  f32 r;
  asm("vbroadcastss %1, %0" : "=x"(r) : "m"(*bytes_of<4>(p)));
  return r;
}

#include <ufp4/cpu/kernels/gemm_panel_lanes.inl>

}  // namespace avx2
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
