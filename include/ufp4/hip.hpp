// ufp4 - the verbs on AMD GPUs: for files that hipcc compiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/verbs.hpp>
#include <ufp4/hip/gemm_kernels.hpp>

namespace ufp4 {
/// hip::context, hip::quantize, ...: the verbs of gpu/, which CUDA and HIP share.
namespace hip = gpu;
}  // namespace ufp4
