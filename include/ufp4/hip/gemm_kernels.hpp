// ufp4 - the GEMM kernels of AMD GPUs, the best first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/kernels/gemm_simt.hpp>
#include <ufp4/hip/gemm_bf16.hpp>
#include <ufp4/hip/gemm_blocks.hpp>
#include <ufp4/hip/gemm_iu4.hpp>
#include <ufp4/hip/gemm_scaled_gfx950.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

template <class Product = any_product>
inline constexpr const gemm_kernel* hip_gemm_kernels[] = {
    &kernels::gemm_mxfp4_gfx950<Product>, &kernels::gemm_mx_containers_gfx950<Product>,
    &kernels::gemm_bf16_gfx950<Product>,  &kernels::gemm_bf16_gfx90a<Product>,
    &kernels::gemm_bf16_gfx11<Product>,   &kernels::gemm_bf16_gfx12<Product>,
    &kernels::gemm_iu4_gfx12<Product>,    &kernels::gemm_iu4_k16_gfx12<Product>,
    &kernels::gemm_iu4_gfx11<Product>,    &kernels::gemm_blocks_gfx90a<Product>,
    &kernels::gemm_blocks_gfx11<Product>, &kernels::gemm_blocks_gfx12<Product>,
    &kernels::gemm_simt<Product>,
};

}  // namespace ufp4::gpu::inline UFP4_GPU
