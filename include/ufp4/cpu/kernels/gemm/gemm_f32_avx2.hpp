// ufp4 - quantized_gemm in binary32 with AVX2 and FMA: what the integer kernel does not take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/gemm_blocked.hpp>
#include <ufp4/cpu/kernels/dequantize/dequantize_scalar.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_integers.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_panel_avx2.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_scalar.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx2 {

UFP4_LANE table16 table_of(const float (&value)[16]) { return {load(value), load(value + 8)}; }

#include <ufp4/cpu/kernels/gemm/gemm_f32_lanes.inl>

inline constexpr gemm_kernel gemm_f32_kernel = blocked_gemm<f32_gemm>::row(isa::avx2, "gemm_f32_avx2", 1, 132, 128);

}  // namespace avx2
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
