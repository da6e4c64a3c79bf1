// ufp4 - the GEMM kernels of AMD GPUs, the best first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/kernels/gemm_simt.hpp>
#include <ufp4/hip/gemm_blocks.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

inline constexpr const gemm_kernel* hip_gemm_kernels[] = {
    &kernels::gemm_blocks_gfx90a,
    &kernels::gemm_blocks_gfx11,
    &kernels::gemm_blocks_gfx12,
    &kernels::gemm_simt,
};

inline std::span<const gemm_kernel* const> gemm_kernels() { return hip_gemm_kernels; }

}  // namespace ufp4::gpu::inline UFP4_GPU
