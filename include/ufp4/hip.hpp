// ufp4 - the operations on AMD GPUs, for files that hipcc compiles.
// SPDX-License-Identifier: Apache-2.0
//
// No AMD GPU has run the kernels yet: tests run their sources in the CPU simulator of tests/gpu, and compile them.
#pragma once

#include <ufp4/gpu/vendor.hpp>
#if !defined(UFP4_GPU) || !(defined(__HIPCC__) || defined(UFP4_SIMT_HEADER))
#error "ufp4: hip.hpp needs hipcc, or clang -x hip: include <ufp4/ufp4.hpp> in files that an ordinary compiler builds."
#else
#include <ufp4/hip/gemm_kernels.hpp>

namespace ufp4::gpu::inline UFP4_GPU {
template <class Product>
std::span<const gemm_kernel* const> gemm_kernels() {
  return hip_gemm_kernels<Product>;
}
UFP4_GPU_FUNCTION(std::span<const gemm_kernel* const> gemm_kernels<any_product>())
}  // namespace ufp4::gpu::inline UFP4_GPU

#include <ufp4/gpu/operations.hpp>

namespace ufp4 {
/// hip::context, hip::quantize, ... are the operations in gpu/, which CUDA and HIP share.
namespace hip = gpu;
}  // namespace ufp4
#endif
