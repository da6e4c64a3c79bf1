// ufp4 - the kernels that are written once for all instruction sets, but GEMM, for the lanes of UFP4_LANES.
// SPDX-License-Identifier: Apache-2.0

// Each lane header is read once for each instruction set: these are the guards of those that were read for another.
#undef UFP4_AMAX_LANES
#undef UFP4_BLOCK_SCALE_LANES
#undef UFP4_CODE_LANES
#undef UFP4_DECODE_EXTENDED_LANES
#undef UFP4_DEQUANTIZE_LANES
#undef UFP4_ERROR_LANES
#undef UFP4_EXTENDED_LANES
#undef UFP4_GEMM_F32_LANES
#undef UFP4_GRID_LANES
#undef UFP4_HADAMARD_LANES
#undef UFP4_OUTER_LANES
#undef UFP4_QUANTIZE_LANES
#undef UFP4_ROUNDER_LANES
#undef UFP4_STEP_LANES
#undef UFP4_TILE_LANES
#undef UFP4_VALUE_SCALE_LANES
#undef UFP4_BYTE_LANES

#include <ufp4/cpu/kernels/dequantize/dequantize_lanes.hpp>
#if UFP4_LANE_COUNT != 16
#include <ufp4/cpu/kernels/gemm/gemm_f32_lanes.hpp>
#endif
#include <ufp4/cpu/kernels/quantize/amax_lanes.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_lanes.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE::UFP4_LANES {

/// The rows of these kernels in the tables of cpu/kernels.hpp.
template <features needs>
inline constexpr quantize_row lane_quantize{
    isa::UFP4_LANES, UFP4_WITH_LANES("quantize_"),
    &quantize_kernel::takes_quantize<needs&(features::further_parts | features::corrected_scales)>,
    &quantize_kernel::quantize_lanes<needs & quantized_features>};
template <features needs>
inline constexpr kernel_row<amax_function> lane_amax{
    isa::UFP4_LANES, UFP4_WITH_LANES("amax_"),
    &quantize_kernel::amax_lanes<(needs & (features::transform | features::half_input))>};
template <features needs>
inline constexpr kernel_row<dequantize_function> lane_dequantize{
    isa::UFP4_LANES, UFP4_WITH_LANES("dequantize_"),
    &dequantize_kernel::dequantize_rows<false, needs & decoded_features>};
template <features>
inline constexpr kernel_row<hadamard_function> lane_hadamard{isa::UFP4_LANES, UFP4_WITH_LANES("hadamard_"),
                                                             &transform_kernel::hadamard_rows};

}  // namespace ufp4::cpu::detail::inline UFP4_CODE::UFP4_LANES
