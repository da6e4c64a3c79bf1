// ufp4 - 4-bit block-scaled numbers: everything a host program needs, in one include.
// SPDX-License-Identifier: Apache-2.0
//
//   #include <ufp4/ufp4.hpp>
//
//   auto qx = ufp4::quantize<ufp4::e1m2_f32>(x, ufp4::random_hadamard<16>{42});
//   auto qw = ufp4::quantize<ufp4::e1m2_f32>(w, ufp4::random_hadamard<16>{42});
//   ufp4::quantized_gemm(qx, qw, y);   // y = x * w^T
//
// | values   | fp4<E2M1>, fp4<E1M2>, fp4<E3M0>, int4, nf4, any element_format; e4m3, ue5m3, e8m0, bf16, fp16    |
// | formats  | e1m2_f32, int4_f32, e2m1_f32, nvfp4, nv_e1m2, nvint4, mxfp4, mx_e1m2, mxint4, block_format<...>, |
// |          | compat::*                                                                                        |
// | policies | hadamard<n>, random_hadamard<n>, signed_hadamard<n>; nearest_even, nearest_away, toward_zero,    |
// |          | stochastic; scale_up, mx_floor, mx_even, mx_ceil, four_over_six, mse_search;                     |
// |          | tensor_amax, shard, count_into                                                                   |
// | operations | amax, quantize, quantize_into, fake_quantize, dequantize, hadamard_forward, hadamard_inverse,    |
// |          | quantized_gemm, quantized_gemm_grouped, prepack; cpu::explain: which kernel a call runs          |
// | recipes  | recipe::ufp4_recipe, e2m1_baseline_recipe, nvfp4_recipe, bf16_recipe, quantize_weight;           |
// |          | linear_forward, linear_backward_input, linear_backward_weight                                    |
// | analysis | analysis::measure, delta_sqnr, bin_bias                                                          |
//
// Not included: printing (format/io.hpp), and everything for GPUs.
// device.hpp is the part that is legal inside a kernel.
#pragma once

#include <ufp4/analysis/measure.hpp>
#include <ufp4/batch.hpp>
#include <ufp4/dequantize.hpp>
#include <ufp4/device.hpp>
#include <ufp4/explain.hpp>
#include <ufp4/format/hash.hpp>
#include <ufp4/format/numeric_limits.hpp>
#include <ufp4/gemm.hpp>
#include <ufp4/gemm_grouped.hpp>
#include <ufp4/gemm_zero_points.hpp>
#include <ufp4/hadamard.hpp>
#include <ufp4/matrix/preset_names.hpp>
#include <ufp4/quantize.hpp>
#include <ufp4/recipe/linear.hpp>
#include <ufp4/recipe/recipes.hpp>
