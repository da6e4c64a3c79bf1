// ufp4 - the verbs on AMD GPUs: for files that hipcc compiles.
// SPDX-License-Identifier: Apache-2.0
//
// In the making: the Hadamard verb and quantized_gemm (exact_blocks on matrix cores, gemm_simt for the rest) compile for gfx90a and
// have run in the executor; the quantizers take hipcc 5.2 minutes to compile. No AMD GPU has run any of it.
#pragma once

#include <ufp4/gpu/verbs.hpp>
#include <ufp4/hip/gemm_kernels.hpp>

namespace ufp4 {
/// hip::context, hip::quantize, ...: the verbs of gpu/, which CUDA and HIP share.
namespace hip = gpu;
}  // namespace ufp4
