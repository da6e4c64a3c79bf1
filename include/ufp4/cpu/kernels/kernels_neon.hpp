// ufp4 - quantize, amax, dequantize, the Hadamard transform and the binary32 GEMM with NEON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#undef UFP4_LANES
#define UFP4_LANES neon
#include <ufp4/cpu/kernels/lane_kernels.hpp>
