// ufp4 - the recipes of numerics 7: ufp4, e2m1_baseline, nvfp4, bf16.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/block/presets.hpp>
#include <ufp4/recipe/recipe.hpp>

namespace ufp4::recipe::inline UFP4_TYPES {

/// The same policy for all six operands.
constexpr training_recipe uniform_recipe(std::uint64_t seed, const operand_policy& each) {
  training_recipe r;
  r.fprop = r.dgrad = r.wgrad = {each, each};
  r.seed = seed;
  return r;
}

/// Stochastic rounding on dY in dgrad and dY^T in wgrad.
constexpr void round_gradients_stochastically(training_recipe& r) {
  r.dgrad.left.rounding = r.wgrad.left.rounding = rounding_spec::kind::stochastic;
}

/// The rule that never clips a maximum, which stochastic rounding wants: exact for float scales as they are.
constexpr scale_rule_spec unclipped(scale_kind scale) {
  return scale == scale_kind::e8m0  ? mx_ceil{}.spec()
         : scale == scale_kind::f32 ? scale_rule_spec{}
                                    : scale_up{}.spec();
}

/// UFP4 (arXiv 2606.20381): a uniform grid, random_hadamard<16> on both operands of all three GEMMs, stochastic
/// rounding on dY. Format: e1m2_f32 as in the paper; int4_f32, nv_e1m2, nvint4, mx_e1m2 or mxint4 by template argument.
template <any_block_format Format = e1m2_f32>
constexpr training_recipe ufp4(std::uint64_t seed) {
  training_recipe r = uniform_recipe(seed, {.format = spec_of<Format>, .transform = random_hadamard<16>{}});
  round_gradients_stochastically(r);
  r.dgrad.left.rule = r.wgrad.left.rule = unclipped(spec_of<Format>.scale);
  return r;
}

/// The paper's baseline: E2M1 with float scales, RHT on wgrad alone, stochastic rounding on dY.
constexpr training_recipe e2m1_baseline(std::uint64_t seed) {
  training_recipe r = uniform_recipe(seed, {.format = spec_of<e2m1_f32>});
  r.wgrad.left.transform = r.wgrad.right.transform = random_hadamard<16>{};
  round_gradients_stochastically(r);
  return r;
}

/// NVFP4 as Transformer Engine trains with it (arXiv 2509.25149): 16x16 blocks for W, its sign vector and a bf16
/// rounding in wgrad's transform, stochastic rounding on dY.
constexpr training_recipe nvfp4(std::uint64_t seed) {
  training_recipe r = uniform_recipe(seed, {.format = spec_of<ufp4::nvfp4>});
  r.fprop.right.format.block = r.dgrad.right.format.block = square(16);
  r.wgrad.left.transform = r.wgrad.right.transform = signed_hadamard<16>(transformer_engine_signs).to_bf16();
  round_gradients_stochastically(r);
  return r;
}

/// Operands rounded to bf16, exact products, binary32 accumulation: the reference. The seed is not used.
constexpr training_recipe bf16(std::uint64_t seed) { return uniform_recipe(seed, {.quantized = false}); }

}  // namespace ufp4::recipe::inline UFP4_TYPES
