// ufp4 - every compat preset and training recipe, those that GPUs reject apart; presets_test.cpp compares the lists.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/device.hpp"

#include <iterator>
#include <tuple>
#include <ufp4/ufp4.hpp>

#include "support/formats.hpp"

namespace support {

using compat_presets = std::tuple<ufp4::compat::te_nvfp4, ufp4::compat::torchao_nvfp4, ufp4::compat::torchao_mx_floor,
                                  ufp4::compat::torchao_mx_even, ufp4::compat::torchao_mx_ceil,
                                  ufp4::compat::torchao_mx_rceil, ufp4::compat::ggml_mxfp4, ufp4::compat::ggml_nvfp4>;
inline constexpr const char* compat_preset_names[] = {"te_nvfp4",        "torchao_nvfp4",   "torchao_mx_floor",
                                                      "torchao_mx_even", "torchao_mx_ceil", "torchao_mx_rceil",
                                                      "ggml_mxfp4",      "ggml_nvfp4"};

struct named_recipe {
  const char* name;
  ufp4::recipe::training_recipe what;
};
inline const named_recipe training_recipes[] = {{"ufp4_recipe", ufp4::recipe::ufp4_recipe(1)},
                                                {"e2m1_baseline_recipe", ufp4::recipe::e2m1_baseline_recipe(4)},
                                                {"nvfp4_recipe", ufp4::recipe::nvfp4_recipe(5)},
                                                {"te_four_over_six_recipe", ufp4::recipe::te_four_over_six_recipe(7)},
                                                {"bf16_recipe", ufp4::recipe::bf16_recipe(6)},
                                                {"tetrajet2_recipe", ufp4::recipe::tetrajet2_recipe(8)},
                                                {"if4_recipe", ufp4::recipe::if4_recipe(9)},
                                                {"hif4_recipe", ufp4::recipe::hif4_recipe(10)}};
/// The recipes that GPUs reject.
inline const named_recipe recipes_of_cpus[] = {{"quartet2_recipe", ufp4::recipe::quartet2_recipe(11)}};

static_assert(std::size(compat_preset_names) == std::tuple_size_v<compat_presets>);

}  // namespace support
