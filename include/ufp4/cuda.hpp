// ufp4 - the operations on NVIDIA GPUs, for files that nvcc compiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/vendor.hpp>
#if !defined(UFP4_GPU) || (defined(__HIPCC__) && !defined(UFP4_SIMT_HEADER))
#error "ufp4: cuda.hpp needs nvcc, or clang -x cuda: include <ufp4/ufp4.hpp> in files that an ordinary compiler builds."
#else
#include <ufp4/cuda/gemm_kernels.hpp>

namespace ufp4::gpu::inline UFP4_GPU {
template <class Product>
std::span<const gemm_kernel* const> gemm_kernels() {
  return cuda_gemm_kernels<Product>;
}
UFP4_GPU_FUNCTION(std::span<const gemm_kernel* const> gemm_kernels<any_product>())
}  // namespace ufp4::gpu::inline UFP4_GPU

#include <ufp4/gpu/operations.hpp>

namespace ufp4 {
/// cuda::context, cuda::quantize, ... are the operations in gpu/, which CUDA and HIP share.
namespace cuda = gpu;
}  // namespace ufp4
#endif
