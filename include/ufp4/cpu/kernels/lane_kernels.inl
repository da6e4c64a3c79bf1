// ufp4 - the kernels that are written once for all instruction sets, but GEMM.
// SPDX-License-Identifier: Apache-2.0
//
// Included by kernels_avx2.hpp, kernels_avx512.hpp and kernels_neon.hpp inside their target regions and namespaces,
// after the functions of their own that dequantize_lanes.inl and quantize_lanes.inl name.

namespace transform_kernel {
#include <ufp4/cpu/kernels/hadamard/hadamard_lanes.inl>
}

namespace dequantize_kernel {
#include <ufp4/cpu/kernels/dequantize/dequantize_lanes.inl>
}

namespace quantize_kernel {

using transform_kernel::read_row;

#include <ufp4/cpu/kernels/quantize/rounder_lanes.inl>

#include <ufp4/cpu/kernels/quantize/block_scale_lanes.inl>
#include <ufp4/cpu/kernels/quantize/code_lanes.inl>
#include <ufp4/cpu/kernels/quantize/tile_lanes.inl>
#include <ufp4/cpu/kernels/quantize/wide_lanes.inl>

#include <ufp4/cpu/kernels/quantize/value_scale_lanes.inl>

#include <ufp4/cpu/kernels/quantize/trial_lanes.inl>

#include <ufp4/cpu/kernels/quantize/exponent_lanes.inl>
#include <ufp4/cpu/kernels/quantize/lane_grids.inl>

#include <ufp4/cpu/kernels/quantize/extended_lanes.inl>

#include <ufp4/cpu/kernels/quantize/ordered_chunk.inl>
#if defined(UFP4_ORDERED_LANES)
#include <ufp4/cpu/kernels/quantize/ordered_lanes.inl>
#endif

#include <ufp4/cpu/kernels/quantize/quantize_lanes.inl>

#include <ufp4/cpu/kernels/quantize/amax_lanes.inl>

}  // namespace quantize_kernel
