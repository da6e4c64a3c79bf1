// ufp4 - quantize, amax, dequantize, the Hadamard transform and the binary32 GEMM with AVX2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#undef UFP4_LANES
#define UFP4_LANES avx2
#include <ufp4/cpu/kernels/lane_kernels.hpp>

UFP4_BEGIN_LANES()

template <features needs = features::all>
inline constexpr gemm_kernel gemm_f32_kernel =
    wide_kernel_of<blocked_gemm<f32_gemm>, needs>(isa::avx2, "gemm_f32_avx2", 1, 132, 128);

UFP4_END_LANES

#endif
