// ufp4 - the preset recipes of numerics 7: ufp4_recipe, e2m1_baseline_recipe, nvfp4_recipe, bf16_recipe; their names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// Stochastic rounding of the gradients: dY in dgrad and dY^T in wgrad.
constexpr void round_gradients_stochastically(training_recipe& r) {
  r.dgrad.left.rounding = r.wgrad.left.rounding = stochastic{};
}

/// The scale rule under which no value of a block is clipped, so that stochastic rounding has no bias: mx_ceil for e8m0
/// scales, scale_up for e4m3, ue5m3 and bf16; a float scale is exact, so the default rule clips nothing.
constexpr rule_choice unclipped(scale_kind scale) {
  if (scale == scale_kind::e8m0) return mx_ceil{};
  if (scale == scale_kind::f32) return default_scale{};
  return scale_up{};
}

/// The recipe of the UFP4 paper (arXiv 2606.20381): uniform grids, random_hadamard<16> on both operands of all three
/// GEMMs, stochastic rounding of the gradients, whose scales are not clipped. The paper's format is e1m2_f32; int4_f32,
/// nv_e1m2, nvint4, mx_e1m2 and mxint4 are the other uniform grids.
template <any_block_format Format = e1m2_f32>
constexpr training_recipe ufp4_recipe(std::uint64_t seed) {
  training_recipe r = uniform_recipe(seed, {.format = spec_of<Format>, .transform = random_hadamard<16>{}});
  round_gradients_stochastically(r);
  r.dgrad.left.rule = r.wgrad.left.rule = unclipped(spec_of<Format>.scale);
  return r;
}

/// The baseline of the UFP4 paper: e2m1_f32, random_hadamard<16> in wgrad alone, stochastic rounding of the gradients.
constexpr training_recipe e2m1_baseline_recipe(std::uint64_t seed) {
  training_recipe r = uniform_recipe(seed, {.format = spec_of<e2m1_f32>});
  r.wgrad.left.transform = r.wgrad.right.transform = random_hadamard<16>{};
  round_gradients_stochastically(r);
  return r;
}

/// NVFP4 training as in Transformer Engine (arXiv 2509.25149): W in 16 x 16 blocks, Transformer Engine's sign vector
/// and a rounding to bf16 in wgrad's transform, stochastic rounding of the gradients.
constexpr training_recipe nvfp4_recipe(std::uint64_t seed) {
  training_recipe r = uniform_recipe(seed, {.format = spec_of<nvfp4>});
  r.fprop.right.format.block = r.dgrad.right.format.block = square(16);
  r.wgrad.left.transform = r.wgrad.right.transform = signed_hadamard<16>(transformer_engine_signs).to_bf16();
  round_gradients_stochastically(r);
  return r;
}

/// The reference: operands rounded to bf16, exact products, binary32 accumulation. It draws no random bits as it is.
constexpr training_recipe bf16_recipe(std::uint64_t seed) { return uniform_recipe(seed, {.quantized = false}); }

/// A recipe with its name on command lines and in other languages.
struct named_recipe {
  const char* name;                             ///< as "ufp4"
  training_recipe (*make)(std::uint64_t seed);  ///< the recipe of a seed
};
/// The recipes that programs choose by name; edit what `make` returns for others.
inline constexpr named_recipe named_recipes[] = {
    {"bf16", bf16_recipe},
    {"ufp4", ufp4_recipe<e1m2_f32>},
    {"ufp4-int4", ufp4_recipe<int4_f32>},
    {"nv-uniform", ufp4_recipe<nv_e1m2>},
    {"e2m1-baseline", e2m1_baseline_recipe},
    {"nvfp4", nvfp4_recipe},
};

}  // namespace ufp4::recipe::inline UFP4_TYPES
