// ufp4 - columns of a GEMM operand side by side, with AVX2: what the avx2 kernels pack their right operand with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/dequantize/dequantize_scalar.hpp>
#include <ufp4/cpu/simd/avx2.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx2 {

template <std::size_t n>
using bytes_of = const unsigned char (*)[n];  ///< so that an asm statement reads memory of any type

UFP4_LANE u32 load_halves(const void* low, const void* high) {
  u32 r;
  asm("vmovdqu %1, %x0\n\tvinserti128 $1, %2, %0, %0" : "=&x"(r) : "m"(*bytes_of<16>(low)), "m"(*bytes_of<16>(high)));
  return r;
}
/// Four dwords of each of eight rows, from byte `at` on: t[i] gets dword i of every row. Rows j and j + 4 share a
/// register, so that no instruction crosses its halves.
UFP4_LANE void load_dwords(const std::uint8_t* const (&row)[lanes], std::size_t at, u32 (&t)[4]) {
  for (std::size_t i = 0; i < 4; ++i) t[i] = load_halves(row[i] + at, row[i + 4] + at);
  transpose4(t);
}

UFP4_LANE f32 load_broadcast(const void* p) {
  f32 r;
  asm("vbroadcastss %1, %0" : "=x"(r) : "m"(*bytes_of<4>(p)));
  return r;
}

#include <ufp4/cpu/kernels/gemm/gemm_panel_lanes.inl>

}  // namespace avx2
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
