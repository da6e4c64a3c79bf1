// ufp4 - the verbs on NVIDIA GPUs: for files that nvcc compiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/cuda/gemm_kernels.hpp>
#include <ufp4/gpu/verbs.hpp>

namespace ufp4 {
/// cuda::context, cuda::quantize, ...: the verbs of gpu/, which CUDA and HIP share.
namespace cuda = gpu;
}  // namespace ufp4
