// ufp4 - the kernels of every test in the CPU simulator, compiled once.
// SPDX-License-Identifier: Apache-2.0
#define UFP4_COMPILE_GPU_KERNELS
#include "gpu/kernel_tables.hpp"

#include <ufp4/gpu/operations.hpp>
