// ufp4 - recipes by name and by part: from words of a command line to the library's training_recipe.
// SPDX-License-Identifier: Apache-2.0
/// A name is a preset of the library, or a preset with one part changed, as in the ablation of the UFP4 paper (arXiv
/// 2606.20381). A part changes the recipe that was named.
///
/// | part     | words                                                | changes                                      |
/// |----------|------------------------------------------------------|----------------------------------------------|
/// | format   | a name of `formats()`                                | all six operands, in blocks of one row       |
/// | rht      | none, all, or fprop, dgrad, wgrad joined by +        | both operands of those GEMMs; no other GEMM  |
/// | rht_size | 16, 32, 64, 128, 256                                 | every transform with random signs            |
/// | sr       | none, dgrad (dY), wgrad (dY^T), dy (both), all (six) | stochastic there, nearest elsewhere          |
/// | clip     | 2, 3, 4                                              | E2M1 without its values above that           |
/// | signs    | fixed, step                                          | new signs never, or at each step             |
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <ufp4/ufp4.hpp>
#include <vector>

#include "../compare/text.hpp"
#include "errors.hpp"

namespace train_lm {

using ufp4::recipe::training_recipe;

/// E2M1 whose largest code is `top`: code 4 is the value 2, code 5 is 3, code 6 is 4. A block's amax is mapped to that
/// value, so the grid loses its wide steps and, with them, range: 2 / 0.5 instead of 6 / 0.5.
template <std::uint32_t top>
struct E2M1_up_to {
  static constexpr ufp4::detail::minifloat layout() { return {2, 1, 1, true, top, top}; }
};
using e2m1_to_2_f32 = ufp4::block_format<ufp4::fp4<E2M1_up_to<4>>, float, 16>;
using e2m1_to_3_f32 = ufp4::block_format<ufp4::fp4<E2M1_up_to<5>>, float, 16>;
using e2m1_to_4_f32 = ufp4::block_format<ufp4::fp4<E2M1_up_to<6>>, float, 16>;

/// A format with its name on the command line.
struct named_format {
  std::string name;
  ufp4::format_spec spec;
};

/// The formats of --format: the presets of the library with 4 bits an element.
inline const std::vector<named_format>& formats() {
  static const std::vector<named_format> all = [] {
    std::vector<named_format> found;
    const auto add = [&](auto row) { found.push_back({row.name, row.spec}); };
    ufp4::detail::for_each_row(ufp4::detail::presets{}, add);
    ufp4::detail::for_each_row(ufp4::detail::extended_presets{}, add);
    return found;
  }();
  return all;
}

namespace detail {

inline std::array<ufp4::recipe::operand_policy*, 6> operands_of(training_recipe& r) {
  return {&r.fprop.left, &r.fprop.right, &r.dgrad.left, &r.dgrad.right, &r.wgrad.left, &r.wgrad.right};
}

/// Clipping an operand's largest values would bias stochastic rounding, so it gets a rule that does not clip.
inline void choose_rule(ufp4::recipe::operand_policy& o) {
  const bool stochastic = o.rounding.what == ufp4::rounding_spec::kind::stochastic;
  o.rule = stochastic ? ufp4::recipe::unclipped(o.format.scale) : ufp4::recipe::rule_choice{};
}

inline void set_format(training_recipe& r, const std::string& name) {
  const auto found = std::ranges::find(formats(), name, &named_format::name);
  if (found == formats().end())
    throw usage_error("--format: unknown format: " + compare::printable(name) + "; --list-recipes shows the formats");
  for (auto* o : operands_of(r)) {
    o->format = found->spec, o->quantized = true;
    choose_rule(*o);
  }
}

/// Which of fprop, dgrad, wgrad a word like "fprop+wgrad" names.
inline std::array<bool, 3> gemms_named(const std::string& word) {
  if (word == "none") return {false, false, false};
  if (word == "all") return {true, true, true};
  std::array<bool, 3> named{};
  for (std::size_t begin = 0; begin <= word.size();) {
    const std::size_t end = std::min(word.find('+', begin), word.size());
    const std::string part = word.substr(begin, end - begin);
    const std::size_t which = part == "fprop" ? 0 : part == "dgrad" ? 1 : part == "wgrad" ? 2 : 3;
    if (which == 3)
      throw usage_error("--rht must be none, all, or fprop, dgrad and wgrad joined by +, got " +
                        compare::printable(word));
    named[which] = true;
    begin = end + 1;
  }
  return named;
}

inline void set_transforms(training_recipe& r, const std::array<bool, 3>& gemms) {
  ufp4::recipe::gemm_policy* const all[3] = {&r.fprop, &r.dgrad, &r.wgrad};
  for (std::size_t g = 0; g < 3; ++g)
    for (auto* o : {&all[g]->left, &all[g]->right})
      o->transform =
          gemms[g] ? ufp4::recipe::transform_choice(ufp4::random_hadamard<16>{}) : ufp4::recipe::transform_choice{};
}

inline ufp4::recipe::transform_choice random_transform(const std::string& size) {
  if (size == "16") return ufp4::random_hadamard<16>{};
  if (size == "32") return ufp4::random_hadamard<32>{};
  if (size == "64") return ufp4::random_hadamard<64>{};
  if (size == "128") return ufp4::random_hadamard<128>{};
  if (size == "256") return ufp4::random_hadamard<256>{};
  throw usage_error("--rht-size must be 16, 32, 64, 128 or 256, got " + compare::printable(size));
}

inline void need_random_signs(training_recipe& r, const char* option) {
  const auto has_signs = [](const auto* o) {
    return o->transform.what == ufp4::recipe::transform_choice::kind::random;
  };
  if (std::ranges::none_of(operands_of(r), has_signs))
    throw usage_error(std::string(option) + ": the recipe has no transform with random signs; add --rht all");
}

inline void set_transform_size(training_recipe& r, const std::string& size) {
  const auto transform = random_transform(size);
  need_random_signs(r, "--rht-size");
  for (auto* o : operands_of(r))
    if (o->transform.what == ufp4::recipe::transform_choice::kind::random) o->transform = transform;
}

/// An operand whose rounding does not change keeps the scale rule of its preset.
inline void set_stochastic(training_recipe& r, const std::string& word) {
  const bool dgrad = word == "dgrad" || word == "dy", wgrad = word == "wgrad" || word == "dy", all = word == "all";
  if (!dgrad && !wgrad && !all && word != "none")
    throw usage_error("--sr must be none, dgrad, wgrad, dy or all, got " + compare::printable(word));
  const auto operands = operands_of(r);
  if (std::ranges::none_of(operands, [](const auto* o) { return o->quantized; }))
    throw usage_error("--sr: the recipe quantizes nothing; add --format");
  for (std::size_t i = 0; i < 6; ++i) {
    const bool stochastic = all || (i == 2 && dgrad) || (i == 4 && wgrad);
    const ufp4::recipe::rounding_choice rounding =
        stochastic ? ufp4::recipe::rounding_choice(ufp4::stochastic{}) : ufp4::recipe::rounding_choice{};
    if (operands[i]->rounding == rounding) continue;
    operands[i]->rounding = rounding;
    choose_rule(*operands[i]);
  }
}

inline void set_clip(training_recipe& r, const std::string& value) {
  const auto format = value == "2"   ? ufp4::spec_of<e2m1_to_2_f32>
                      : value == "3" ? ufp4::spec_of<e2m1_to_3_f32>
                      : value == "4" ? ufp4::spec_of<e2m1_to_4_f32>
                                     : ufp4::format_spec{};
  if (format.grid.levels == 0) throw usage_error("--clip must be 2, 3 or 4, got " + compare::printable(value));
  for (auto* o : operands_of(r)) {
    if (!(o->format == ufp4::spec_of<ufp4::e2m1_f32>))
      throw usage_error("--clip: the recipe has another format than e2m1_f32; use --recipe e2m1-baseline");
    o->format = format;
  }
}

inline void set_signs(training_recipe& r, const std::string& word) {
  if (word != "fixed" && word != "step")
    throw usage_error("--signs must be fixed or step, got " + compare::printable(word));
  need_random_signs(r, "--signs");
  r.redraw_signs_each_step = word == "step";
}

}  // namespace detail

/// The parts that the command line changes; an empty one leaves the named recipe as it is.
struct recipe_parts {
  std::string format = "", rht = "", rht_size = "", sr = "", clip = "", signs = "";
};

/// A part may depend on those before it: the transform size on the transforms, the rounding on the format.
inline void change_parts(training_recipe& r, const recipe_parts& parts) {
  if (!parts.format.empty()) detail::set_format(r, parts.format);
  if (!parts.rht.empty()) detail::set_transforms(r, detail::gemms_named(parts.rht));
  if (!parts.rht_size.empty()) detail::set_transform_size(r, parts.rht_size);
  if (!parts.sr.empty()) detail::set_stochastic(r, parts.sr);
  if (!parts.clip.empty()) detail::set_clip(r, parts.clip);
  if (!parts.signs.empty()) detail::set_signs(r, parts.signs);
}

struct named_recipe {
  const char* name;
  training_recipe (*preset)(std::uint64_t seed);
  recipe_parts parts;
  const char* about;
};

inline std::span<const named_recipe> recipes() {
  using namespace ufp4::recipe;
  static const named_recipe all[] = {
      {"bf16", bf16_recipe, {}, "operands rounded to bf16: the reference"},
      {"ufp4", ufp4_recipe<ufp4::e1m2_f32>, {}, "E1M2, float scales; RHT on all three GEMMs, SR on dY"},
      {"ufp4-int4", ufp4_recipe<ufp4::int4_f32>, {}, "ufp4 on int4, whose values are those of E1M2 times four"},
      {"nv-uniform", ufp4_recipe<ufp4::nv_e1m2>, {}, "ufp4 with the scales of NVFP4: E4M3 and a tensor scale"},
      {"e2m1-baseline", e2m1_baseline_recipe, {}, "E2M1, float scales; RHT on wgrad, SR on dY"},
      {"nvfp4", nvfp4_recipe, {}, "as in Transformer Engine: W in 16 x 16 blocks, RHT on wgrad, SR on dY"},
      {"te-four-over-six", te_four_over_six_recipe, {}, "Transformer Engine's Four Over Six: nearest, no RHT"},
      {"quartet2",
       quartet2_recipe,
       {},
       "Quartet II: Four Over Six in fprop; RHT of 128 and MS-EDEN on dgrad and wgrad"},
      {"tetrajet2", tetrajet2_recipe, {}, "TetraJet-v2: scales of 1 x 128 over 1 x 16; RHT and SR on dgrad and wgrad"},
      {"if4", if4_recipe, {}, "nvfp4 with blocks of E2M1 or of a 4-bit integer"},
      {"hif4", hif4_recipe, {}, "HiF4: blocks of 64 with one-bit exponents; RHT of 64 on all three GEMMs, no SR"},
      {"mxfp4",
       e2m1_baseline_recipe,
       {.format = "mxfp4"},
       "e2m1-baseline in OCP MXFP4: 1 x 32 blocks, power-of-two scales"},
      {"ufp4-rht-none", ufp4_recipe<ufp4::e1m2_f32>, {.rht = "none"}, "ufp4 without a transform"},
      {"ufp4-rht-wgrad", ufp4_recipe<ufp4::e1m2_f32>, {.rht = "wgrad"}, "ufp4, RHT on wgrad alone"},
      {"ufp4-rht-fprop+wgrad", ufp4_recipe<ufp4::e1m2_f32>, {.rht = "fprop+wgrad"}, "ufp4, RHT not on dgrad"},
      {"ufp4-rht-dgrad+wgrad", ufp4_recipe<ufp4::e1m2_f32>, {.rht = "dgrad+wgrad"}, "ufp4, RHT not on fprop"},
      {"ufp4-rht-64", ufp4_recipe<ufp4::e1m2_f32>, {.rht_size = "64"}, "ufp4, transforms of 64"},
      {"ufp4-signs-step", ufp4_recipe<ufp4::e1m2_f32>, {.signs = "step"}, "ufp4, new signs at each step"},
      {"ufp4-no-sr", ufp4_recipe<ufp4::e1m2_f32>, {.sr = "none"}, "ufp4, rounding to nearest everywhere"},
      {"ufp4-sr-dgrad", ufp4_recipe<ufp4::e1m2_f32>, {.sr = "dgrad"}, "ufp4, SR on dY of dgrad alone"},
      {"ufp4-sr-wgrad", ufp4_recipe<ufp4::e1m2_f32>, {.sr = "wgrad"}, "ufp4, SR on dY^T of wgrad alone"},
      {"ufp4-sr-all", ufp4_recipe<ufp4::e1m2_f32>, {.sr = "all"}, "ufp4, SR on all six operands"},
      {"e2m1-rht-none", e2m1_baseline_recipe, {.rht = "none"}, "e2m1-baseline without a transform"},
      {"e2m1-rht-all", e2m1_baseline_recipe, {.rht = "all"}, "e2m1-baseline with ufp4's transforms: ufp4 on E2M1"},
      {"e2m1-no-sr", e2m1_baseline_recipe, {.sr = "none"}, "e2m1-baseline, rounding to nearest everywhere"},
      {"e2m1-clip-2", e2m1_baseline_recipe, {.clip = "2"}, "e2m1-baseline without the values 3, 4 and 6"},
      {"e2m1-clip-3", e2m1_baseline_recipe, {.clip = "3"}, "e2m1-baseline without the values 4 and 6"},
      {"e2m1-clip-4", e2m1_baseline_recipe, {.clip = "4"}, "e2m1-baseline without the value 6"},
  };
  return all;
}

/// The recipe of a name with parts of it changed.
inline training_recipe make_recipe(const std::string& name, const recipe_parts& parts, std::uint64_t seed) {
  for (const named_recipe& candidate : recipes()) {
    if (candidate.name != name) continue;
    training_recipe r = candidate.preset(seed);
    change_parts(r, candidate.parts);
    change_parts(r, parts);
    return r;
  }
  throw usage_error("--recipe: unknown recipe: " + compare::printable(name) + "; --list-recipes shows the recipes");
}

}  // namespace train_lm
