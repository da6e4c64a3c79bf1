// ufp4 - columns of a GEMM operand side by side, with NEON: what the aarch64 kernels pack their right operand with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__aarch64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/job.hpp>
#include <ufp4/cpu/kernels/dequantize_scalar.hpp>
#include <ufp4/cpu/simd/neon.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace neon {

using quarter_u8 = std::uint8_t __attribute__((vector_size(4)));  ///< four bytes

UFP4_LANE u32 low_pairs(u32 a, u32 b) {
  u32 r;
  asm("zip1 %0.4s, %1.4s, %2.4s" : "=w"(r) : "w"(a), "w"(b));
  return r;
}
UFP4_LANE u32 high_pairs(u32 a, u32 b) {
  u32 r;
  asm("zip2 %0.4s, %1.4s, %2.4s" : "=w"(r) : "w"(a), "w"(b));
  return r;
}
UFP4_LANE u32 low_quads(u32 a, u32 b) {
  u32 r;
  asm("zip1 %0.2d, %1.2d, %2.2d" : "=w"(r) : "w"(a), "w"(b));
  return r;
}
UFP4_LANE u32 high_quads(u32 a, u32 b) {
  u32 r;
  asm("zip2 %0.2d, %1.2d, %2.2d" : "=w"(r) : "w"(a), "w"(b));
  return r;
}

/// Four dwords of each of four rows, from byte `at` on: t[i] gets dword i of every row.
UFP4_LANE void load_dwords(const std::uint8_t* const (&row)[lanes], std::size_t at, u32 (&t)[4]) {
  const u32 a = load_as<u32>(row[0] + at), b = load_as<u32>(row[1] + at);
  const u32 c = load_as<u32>(row[2] + at), d = load_as<u32>(row[3] + at);
  const u32 ab_low = low_pairs(a, b), ab_high = high_pairs(a, b), cd_low = low_pairs(c, d), cd_high = high_pairs(c, d);
  t[0] = low_quads(ab_low, cd_low);
  t[1] = high_quads(ab_low, cd_low);
  t[2] = low_quads(ab_high, cd_high);
  t[3] = high_quads(ab_high, cd_high);
}

/// Kept where it stands among others of its kind: read early, broadcasts would take registers that sums need.
UFP4_LANE f32 load_broadcast(const void* p) {
  f32 r;
  asm volatile("ld1r {%0.4s}, [%1]" : "=w"(r) : "r"(p), "m"(*static_cast<const char(*)[4]>(p)));
  return r;
}

#include <ufp4/cpu/kernels/gemm_panel_lanes.inl>

}  // namespace neon
}  // namespace ufp4::cpu::detail::inline UFP4_CODE

#endif
