// ufp4 - model_recipe: the recipe of every linear layer of a model, some of whose blocks are in bf16.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <ufp4/ufp4.hpp>

#include "../compare/text.hpp"
#include "errors.hpp"
#include "matrix.hpp"

namespace train_lm {

using ufp4::recipe::bf16_blocks, ufp4::recipe::training_recipe;

/// A recipe for the linear layers of a model, except those of its first and last blocks, which run in bf16.
struct model_recipe {
  training_recipe quantized;
  bf16_blocks in_bf16{};
  std::size_t blocks = 0;  ///< of the model; needed where in_bf16 has last blocks

  /// One recipe for all layers.
  model_recipe(const training_recipe& all) : quantized(all) {}
  model_recipe(const training_recipe& others, const bf16_blocks& kept, std::size_t of_blocks)
      : quantized(others), in_bf16(kept), blocks(of_blocks) {}

  /// The recipe of a linear layer (linear_number in model_config.hpp) at a training step.
  ufp4::recipe::bound_recipe at(std::uint64_t step, std::uint32_t linear) const {
    if (!in_bf16.contain(linear / 4, blocks)) return quantized.at(step, linear);
    training_recipe kept = ufp4::recipe::bf16_recipe(quantized.seed);
    kept.accumulate = quantized.accumulate;
    return kept.at(step, linear);
  }
};

/// The value of --bf16-blocks for a model: none, nvfp4 (the blocks of the NVFP4 paper), or F+L, as 1+2.
inline bf16_blocks bf16_blocks_of(const std::string& word, std::size_t blocks) {
  if (word == "none") return {};
  if (word == "nvfp4") return ufp4::recipe::bf16_blocks_of_nvfp4(blocks);
  bf16_blocks kept;
  const char* const end = word.data() + word.size();
  const auto [plus, first_error] = std::from_chars(word.data(), end, kept.first);
  const bool has_plus = first_error == std::errc{} && plus != end && *plus == '+';
  const auto [rest, last_error] =
      has_plus ? std::from_chars(plus + 1, end, kept.last) : std::from_chars(end, end, kept.last);
  if (!has_plus || last_error != std::errc{} || rest != end)
    throw usage_error("--bf16-blocks must be none, nvfp4 or two numbers joined by +, as 1+2, got " +
                      compare::printable(word));
  return kept;
}

/// A recipe with the blocks of --bf16-blocks in bf16. The option must leave a quantized layer as it is and change one.
inline model_recipe with_bf16_blocks(const training_recipe& others, const std::string& word, std::size_t blocks) {
  const bf16_blocks kept = bf16_blocks_of(word, blocks);
  if (kept == bf16_blocks{}) return {others};
  if (kept.first >= blocks || kept.last >= blocks - kept.first)
    throw usage_error("--bf16-blocks: " + std::to_string(kept.first) + " first and " + std::to_string(kept.last) +
                      " last blocks are all of the model's " + std::to_string(blocks) + "; use --recipe bf16");
  if (!others.operand(0).quantized && !others.operand(2).quantized && !others.operand(4).quantized)
    throw usage_error("--bf16-blocks: the recipe quantizes nothing; add --format");
  return {others, kept, blocks};
}

}  // namespace train_lm
