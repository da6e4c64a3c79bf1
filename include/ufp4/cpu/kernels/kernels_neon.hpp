// ufp4 - quantize, amax, dequantize, the Hadamard transform and the binary32 GEMM with NEON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__aarch64__)

#undef UFP4_LANES
#define UFP4_LANES neon
#include <ufp4/cpu/kernels/lane_kernels.hpp>

UFP4_BEGIN_LANES()

template <features needs = features::all>
inline constexpr gemm_kernel gemm_f32_kernel =
    wide_kernel_of<blocked_gemm<f32_gemm>, needs>(isa::neon, "gemm_f32_neon", 1, 132, 128);

UFP4_END_LANES

#endif
