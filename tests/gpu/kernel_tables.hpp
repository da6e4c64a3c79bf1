// ufp4 - the GEMM kernels of a program in the CPU simulator: NVIDIA's or AMD's, those of the simulated device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define UFP4_SIMT_HEADER "gpu/simt.hpp"
#include <ufp4/cuda/gemm_kernels.hpp>
#include <ufp4/hip/gemm_kernels.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

template <class Product>
std::span<const gemm_kernel* const> gemm_kernels() {
  if (simt::is_amd(simt::device())) return hip_gemm_kernels<Product>;
  return cuda_gemm_kernels<Product>;
}
UFP4_GPU_FUNCTION(std::span<const gemm_kernel* const> gemm_kernels<any_product>())

}  // namespace ufp4::gpu::inline UFP4_GPU
