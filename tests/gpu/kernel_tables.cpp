// ufp4 - the GEMM kernels of every test in the CPU simulator: those of the simulated device.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.hpp"

#include <ufp4/cuda/gemm_kernels.hpp>
#include <ufp4/hip/gemm_kernels.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

std::span<const gemm_kernel* const> gemm_kernels() {
  if (simt::is_amd(simt::device())) return hip_gemm_kernels;
  return cuda_gemm_kernels;
}

}  // namespace ufp4::gpu::inline UFP4_GPU
