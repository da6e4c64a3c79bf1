// ufp4 - quantize, amax, dequantize and the Hadamard transform with AVX-512.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#undef UFP4_LANES
#define UFP4_LANES avx512
#include <ufp4/cpu/kernels/lane_kernels.hpp>
