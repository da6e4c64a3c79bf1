// ufp4 - quantized_gemm in binary32 with NEON: what the integer kernels do not take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__aarch64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/gemm_blocked.hpp>
#include <ufp4/cpu/kernels/dequantize/dequantize_scalar.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_integers.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_panel_neon.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_scalar.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace neon {

/// Sixteen binary32 numbers, looked up as 64 bytes.
struct table16 {
  u32 quarter[4];
};
UFP4_LANE table16 table_of(const float (&value)[16]) {
  return {{load_as<u32>(value), load_as<u32>(value + 4), load_as<u32>(value + 8), load_as<u32>(value + 12)}};
}
/// table[index], lane by lane; index < 16.
UFP4_LANE f32 lookup(const table16& table, u32 index) {
  register u32 a asm("v16") = table.quarter[0];  // TBL takes consecutive registers
  register u32 b asm("v17") = table.quarter[1];
  register u32 c asm("v18") = table.quarter[2];
  register u32 d asm("v19") = table.quarter[3];
  const u32 bytes = index * 0x04040404u + 0x03020100u;
  f32 r;
  asm("tbl %0.16b, {%1.16b - %4.16b}, %5.16b" : "=w"(r) : "w"(a), "w"(b), "w"(c), "w"(d), "w"(bytes));
  return r;
}

#include <ufp4/cpu/kernels/gemm/gemm_f32_lanes.inl>

inline constexpr gemm_kernel gemm_f32_kernel = blocked_gemm<f32_gemm>::row(isa::neon, "gemm_f32_neon", 1, 132, 128);

}  // namespace neon
}  // namespace ufp4::cpu::detail::inline UFP4_CODE

#endif
