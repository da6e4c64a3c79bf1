// ufp4 - the block formats by their field's names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/block/block_format.hpp>
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/int4.hpp>

namespace ufp4::inline UFP4_TYPES {

// One level, binary32 scales: the UFP4 paper (arXiv 2606.20381), its integer twin and its baseline.
using e1m2_f32 = block_format<fp4<E1M2>, float, 16>;
using int4_f32 = block_format<int4, float, 16>;
using e2m1_f32 = block_format<fp4<E2M1>, float, 16>;

// Two levels, E4M3 scales: NVFP4 (arXiv 2509.25149), and the uniform grid with the same scales.
using nvfp4 = block_format<fp4<E2M1>, e4m3, 16, float>;
using nv_e1m2 = block_format<fp4<E1M2>, e4m3, 16, float>;
using nvint4 = block_format<int4, e4m3, 16, float>;

// Power-of-two scales: OCP MXFP4, and the uniform grid with the same scales.
using mxfp4 = block_format<fp4<E2M1>, e8m0, 32>;
using mx_e1m2 = block_format<fp4<E1M2>, e8m0, 32>;
using mxint4 = block_format<int4, e8m0, 32>;

}  // namespace ufp4::inline UFP4_TYPES
