// ufp4 - the table of GEMM kernels for NVIDIA GPUs, the fastest first.
// SPDX-License-Identifier: Apache-2.0
//
// To add a kernel, add its file, one include and one line above the kernels that it is faster than.
#pragma once

#include <ufp4/cuda/gemm_bf16_sm80.hpp>
#include <ufp4/cuda/gemm_block_mma_sm120.hpp>
#include <ufp4/cuda/gemm_blocks_sm80.hpp>
#include <ufp4/cuda/gemm_blocks_sm90.hpp>
#include <ufp4/cuda/gemm_tcgen05_sm100.hpp>
#include <ufp4/cuda/gemm_wgmma_sm90.hpp>
#include <ufp4/cuda/gemv_dots_sm80.hpp>
#include <ufp4/cuda/gemv_f16_sm80.hpp>
#include <ufp4/cuda/gemv_mixed_sm80.hpp>
#include <ufp4/cuda/gemv_sm80.hpp>
#include <ufp4/cuda/library_gemm.hpp>
#include <ufp4/gpu/kernels/gemm_simt.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

template <class Product = any_product>
inline constexpr const gemm_kernel* cuda_gemm_kernels[] = {
    &detail::gemm_library_blocks,
    &kernels::gemv_f16_sm80<Product>,
    &kernels::gemv_dots_sm80<Product>,
    &kernels::gemv_mixed_sm80<Product>,
    &kernels::gemv_blocks_sm80<Product>,
    &kernels::gemm_nvfp4_sm120<Product>,
    &kernels::gemm_mxfp4_sm120<Product>,
    &kernels::gemm_mx_containers_sm120<Product>,
    &kernels::gemm_nvfp4_tcgen05<Product>,
    &kernels::gemm_mxfp4_tcgen05<Product>,
    &kernels::gemm_wgmma_sm90<Product>,
    &kernels::gemm_few_f16_sm80<Product>,
    &detail::gemm_library_bf16,
    &kernels::gemm_wgmma_rounded_sm90<Product>,
    &kernels::gemm_blocks_sm90<Product>,
    &kernels::gemm_bf16_sm80<Product>,
    &kernels::gemm_blocks_sm80<Product>,
    &kernels::gemm_blocks_small_sm80<Product>,
    &kernels::gemm_simt<Product>,
};

}  // namespace ufp4::gpu::inline UFP4_GPU
