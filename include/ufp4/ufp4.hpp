// ufp4 - 4-bit block-scaled numbers: everything a host program needs, in one include.
// SPDX-License-Identifier: Apache-2.0
//
//   #include <ufp4/ufp4.hpp>
//
//   auto qx = ufp4::quantize<ufp4::e1m2_f32>(x, ufp4::random_hadamard<16>{42});
//   auto qw = ufp4::quantize<ufp4::e1m2_f32>(w, ufp4::random_hadamard<16>{42});
//   ufp4::quantized_gemm(qx, qw, y);   // y = x * w^T
//
// Formats: block/presets.hpp; rounding: round/; transforms: hadamard/signs.hpp; scale rules: block/scale_rules.hpp; the
// other policies: matrix/policies.hpp; operations: the headers below; recipes: recipe/recipes.hpp.
// Not included: printing (format/io.hpp), and everything for GPUs. device.hpp is the part that is legal in a kernel.
#pragma once

#include <ufp4/analysis/measure.hpp>
#include <ufp4/batch.hpp>
#include <ufp4/cast.hpp>
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
#include <ufp4/quantize_ms_eden.hpp>
#include <ufp4/recipe/linear.hpp>
#include <ufp4/recipe/recipes.hpp>
