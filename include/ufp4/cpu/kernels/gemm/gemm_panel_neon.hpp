// ufp4 - columns of a GEMM operand side by side, with NEON: what the aarch64 kernels pack their right operand with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__aarch64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/dequantize/dequantize_scalar.hpp>
#include <ufp4/cpu/simd/neon.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace neon {

/// Four dwords of each of four rows, from byte `at` on: t[i] gets dword i of every row.
UFP4_LANE void load_dwords(const std::uint8_t* const (&row)[lanes], std::size_t at, u32 (&t)[4]) {
  for (std::size_t i = 0; i < 4; ++i) t[i] = load_as<u32>(row[i] + at);
  transpose4(t);
}

/// Volatile keeps loads in their order: earlier loads would take registers that sums need.
UFP4_LANE f32 load_broadcast(const void* p) {
  f32 r;
  asm volatile("ld1r {%0.4s}, [%1]" : "=w"(r) : "r"(p), "m"(*static_cast<const char(*)[4]>(p)));
  return r;
}

#include <ufp4/cpu/kernels/gemm/gemm_panel_lanes.inl>

using u64 = std::uint64_t __attribute__((vector_size(16)));

/// Two columns of two rows of C, as the matrix instructions add them up.
UFP4_LANE f32 load_pair(const float* at, std::size_t stride) {
  return reinterpret_cast<f32>(u64{load_as<std::uint64_t>(at), load_as<std::uint64_t>(at + stride)});
}
UFP4_LANE void store_pair(float* at, std::size_t stride, f32 v) {
  const auto halves = reinterpret_cast<u64>(v);
  store(at, std::uint64_t{halves[0]});
  store(at + stride, std::uint64_t{halves[1]});
}

}  // namespace neon
}  // namespace ufp4::cpu::detail::inline UFP4_CODE

#endif
