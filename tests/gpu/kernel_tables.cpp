// ufp4 - the kernels of every test in the CPU simulator, compiled once; products run those of the simulated device.
// SPDX-License-Identifier: Apache-2.0
#define UFP4_COMPILE_GPU_KERNELS
#define UFP4_SIMT_HEADER "gpu/simt.hpp"
#include <ufp4/cuda/gemm_kernels.hpp>
#include <ufp4/hip/gemm_kernels.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

template <class Product>
std::span<const gemm_kernel* const> gemm_kernels() {
  if (simt::is_amd(simt::device())) return hip_gemm_kernels<Product>;
  return cuda_gemm_kernels<Product>;
}

}  // namespace ufp4::gpu::inline UFP4_GPU

#include <ufp4/gpu/operations.hpp>
