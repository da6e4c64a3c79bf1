// ufp4 - the preset recipes of numerics 7, and their names: those of the UFP4 paper, and published ones as data.
// SPDX-License-Identifier: Apache-2.0
//
// GPUs reject the MS-EDEN of quartet2_recipe. docs/recipes.md says where each differs from its source.
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
  if (scale == scale_kind::f32) return ufp4::detail::default_scale{};
  return scale_up{};
}

/// The recipe of the UFP4 paper (arXiv 2606.20381): uniform grids, random_hadamard<16> on both operands of all three
/// GEMMs, stochastic rounding of the gradients, whose scales are not clipped. The paper's format is e1m2_f32; int4_f32,
/// nv_e1m2, nvint4, mx_e1m2 and mxint4 are the other uniform grids.
template <ufp4::detail::any_block_format Format = e1m2_f32>
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

/// W and W^T in 16 x 16 blocks, which have the same codes in both.
constexpr void put_weights_in_squares(training_recipe& r) {
  r.fprop.right.format.block = r.dgrad.right.format.block = square(16);
}

/// nvfp4_recipe in any format with blocks of 16.
constexpr training_recipe transformer_engine_recipe(std::uint64_t seed, const format_spec& format) {
  training_recipe r = uniform_recipe(seed, {.format = format});
  put_weights_in_squares(r);
  r.wgrad.left.transform = r.wgrad.right.transform =
      signed_hadamard<16>(ufp4::compat::transformer_engine_signs).to_bf16();
  round_gradients_stochastically(r);
  return r;
}

/// NVFP4 training as in Transformer Engine (arXiv 2509.25149): W in 16 x 16 blocks, Transformer Engine's sign vector
/// and a rounding to bf16 in wgrad's transform, stochastic rounding of the gradients. The paper also keeps the linear
/// layers of some blocks in bf16: bf16_blocks_of_nvfp4.
constexpr training_recipe nvfp4_recipe(std::uint64_t seed) { return transformer_engine_recipe(seed, spec_of<nvfp4>); }

/// How many of a model's first and last blocks have their linear layers in bf16.
struct bf16_blocks {
  std::size_t first = 0;  ///< blocks at the model's input
  std::size_t last = 0;   ///< blocks at its output
  friend constexpr bool operator==(const bf16_blocks&, const bf16_blocks&) = default;
  /// Whether block `block` of `blocks` is one of them.
  constexpr bool contain(std::size_t block, std::size_t blocks) const {
    return block < first || (block < blocks && blocks - block <= last);
  }
};

/// The blocks that the NVFP4 paper keeps in bf16, for a model of `blocks` blocks: the first 2 and the last 8 of the 62
/// of its largest model. Here 2/62 of the blocks rounded to nearest, and 8/62 rounded up.
constexpr bf16_blocks bf16_blocks_of_nvfp4(std::size_t blocks) {
  return {(4 * blocks + 62) / 124, (8 * blocks + 61) / 62};
}

/// Transformer Engine's Four Over Six for all tensors (`nvfp4_4over6='all'`) by absolute errors, with the largest scale
/// 256: W in 16 x 16 blocks, no transform and no stochastic rounding, which that project does not combine with it.
constexpr training_recipe te_four_over_six_recipe(std::uint64_t seed) {
  training_recipe r = uniform_recipe(seed, {.format = spec_of<nvfp4>, .rule = four_over_six{search_error::absolute}});
  put_weights_in_squares(r);
  return r;
}

/// Quartet II (arXiv 2601.22813): fprop in nvfp4 under four_over_six; in dgrad and wgrad, random_hadamard<128> and
/// MS-EDEN on both operands. Signs are drawn at each step.
constexpr training_recipe quartet2_recipe(std::uint64_t seed) {
  training_recipe r = uniform_recipe(seed, {.format = spec_of<nvfp4>, .rule = four_over_six{}});
  const operand_policy backward{.format = spec_of<nvfp4>, .transform = random_hadamard<128>{}, .ms_eden = true};
  r.dgrad = r.wgrad = {backward, backward};
  r.redraw_signs_each_step = true;
  return r;
}

/// TetraJet-v2 (arXiv 2510.27527): scales of 1 x 128 above those of 1 x 16, fprop to nearest; in dgrad and wgrad,
/// random_hadamard<16> and stochastic rounding of both operands. Signs are drawn at each step.
constexpr training_recipe tetrajet2_recipe(std::uint64_t seed) {
  training_recipe r = uniform_recipe(seed, {.format = spec_of<tetrajet2>});
  const operand_policy backward{
      .format = spec_of<tetrajet2>, .rounding = stochastic{}, .transform = random_hadamard<16>{}};
  r.dgrad = r.wgrad = {backward, backward};
  r.redraw_signs_each_step = true;
  return r;
}

/// nvfp4_recipe on blocks that are E2M1 or a 4-bit integer: IF4 (arXiv 2603.28765), as its authors' linear layer.
constexpr training_recipe if4_recipe(std::uint64_t seed) { return transformer_engine_recipe(seed, spec_of<if4>); }

/// HiF4 in pre-training (arXiv 2604.08826): random_hadamard<64>, one run a block, and rounding to nearest everywhere.
constexpr training_recipe hif4_recipe(std::uint64_t seed) {
  return uniform_recipe(seed, {.format = spec_of<hif4>, .transform = random_hadamard<64>{}});
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
    {"te-four-over-six", te_four_over_six_recipe},
    {"quartet2", quartet2_recipe},
    {"tetrajet2", tetrajet2_recipe},
    {"if4", if4_recipe},
    {"hif4", hif4_recipe},
};

}  // namespace ufp4::recipe::inline UFP4_TYPES
