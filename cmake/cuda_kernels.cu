// ufp4 - the target ufp4::cuda_kernels: the kernels of every program that is compiled with UFP4_EXTERNAL_GPU_KERNELS.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cuda.hpp>
