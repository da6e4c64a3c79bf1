// ufp4 - the settings of a run, their presets by size, and their listing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../compare/text.hpp"
#include "errors.hpp"
#include "model.hpp"
#include "osci_reset.hpp"
#include "out_control.hpp"
#include "recipes.hpp"

namespace train_lm {

struct settings {
  // Settings that determine the bits. A run resumes from a checkpoint only under the same ones.
  std::string size = "nano";
  model_config model;
  index batch = 16;        ///< sequences per step
  index microbatches = 4;  ///< equal parts of a batch, whose gradients are summed in their order
  std::uint64_t steps = 100, warmup = 10;
  double lr = 1e-3;
  double lr_floor = 0.1;  ///< the rate at the end, as a share of lr
  double ema = 0;         ///< decay of the moving average of the weights; 0: none
  std::string from;       ///< checkpoint with which training starts; empty: initial weights
  std::string recipe = "ufp4";
  recipe_parts parts;
  std::string bf16_blocks = "none";  ///< as bf16_blocks_of takes it
  osci_reset_settings osci;
  out_control_settings out_control;
  std::uint64_t seed = 1;         ///< of the initial weights, and of the recipe
  std::uint64_t data_seed = 1;    ///< of the offsets of the training windows
  std::vector<std::string> text;  ///< empty: the standard headers
  std::uint64_t eval_every = 0;   ///< steps; 0: at the end
  std::size_t eval_windows = 64;
  std::uint64_t probe_every = 0;     ///< steps; 0: never
  std::uint64_t gradient_draws = 0;  ///< draws of the gradients that each probe measures; 0: none
  bool plain_all_reduce = false;     ///< gradients are added in an order that depends on the number of ranks

  // Settings that do not change a bit.
  int threads = 0;  ///< 0: all cores, or a rank's share of them
  int ranks = 0;    ///< 0: as many as mpirun started, else one
  std::string out;  ///< empty: no files are written
  bool resume = false;
  std::uint64_t checkpoint_every = 0;  ///< steps; 0: at the end and on Ctrl-C
  std::uint64_t keep_at = 0;           ///< the step whose checkpoint is kept for `from`; 0: none
  std::uint64_t capture_at = 0;        ///< the step whose operands are written; 0: none
  bool csv = false, json = false, quiet = false;
};

/// The presets. A learning rate is the best of three, each twice the one before, for bf16 on the standard headers: of
/// nano in whole runs, of micro in runs of 200 steps (docs/study.md has the commands). That of mini was not measured:
/// it is half of micro's.
inline void choose_size(settings& s, const std::string& size, bool experts) {
  s.size = size;
  model_config& m = s.model;
  if (size == "nano") {
    m = {.layers = 2, .width = 64, .heads = 2, .ffn = 192, .sequence = 64};
    s.batch = 16, s.steps = 150, s.lr = 3e-3, s.eval_windows = 256;
  } else if (size == "micro") {
    m = {.layers = 4, .width = 128, .heads = 4, .ffn = 384, .sequence = 128};
    s.batch = 16, s.steps = 600, s.lr = 4e-3, s.eval_windows = 1024;
  } else if (size == "mini") {
    m = {.layers = 6, .width = 256, .heads = 8, .ffn = 768, .sequence = 256};
    s.batch = 32, s.steps = 1500, s.lr = 2e-3, s.eval_windows = 1024;
  } else {
    throw usage_error("--size must be nano, micro or mini, got " + compare::printable(size));
  }
  if (experts) m.experts = 8, m.top_k = 2, m.ffn /= 2;
}

/// Parameters used per token, without the embedding, norms and, in a mixture, the experts that were not chosen.
inline double active_parameters(const model_config& m) {
  const auto width = static_cast<double>(m.width), ffn = static_cast<double>(m.ffn);
  const double used = m.experts > 0 ? static_cast<double>(m.top_k) : 1.0;
  const double block = 4 * width * width + used * 3 * width * ffn + static_cast<double>(m.experts) * width;
  return static_cast<double>(m.layers) * block + width * static_cast<double>(vocabulary);
}

/// Floating-point operations of training per token: a multiply-add counts two, backward is twice forward, and a token
/// attends to (S + 1) / 2 tokens on average.
inline double flops_per_token(const model_config& m) {
  const double seen = (static_cast<double>(m.sequence) + 1) / 2;
  const double attention = static_cast<double>(m.layers) * 2 * static_cast<double>(m.width) * seen;
  return 3 * 2 * (active_parameters(m) + attention);
}

/// Names and JSON values.
using listing = std::vector<std::pair<std::string, std::string>>;

/// The settings that determine the bits of a run, under their names on the command line.
inline listing decisive(const settings& s) {
  const auto number = [](auto n) { return std::to_string(n); };
  const auto text = [](const std::string& t) { return compare::json_text(compare::printable(t)); };
  const model_config& m = s.model;
  std::string places;
  for (const std::string& place : s.text) places += (places.empty() ? "" : ", ") + text(place);
  return {{"size", text(s.size)},
          {"moe", m.experts > 0 ? "true" : "false"},
          {"layers", number(m.layers)},
          {"width", number(m.width)},
          {"heads", number(m.heads)},
          {"ffn", number(m.ffn)},
          {"sequence", number(m.sequence)},
          {"experts", number(m.experts)},
          {"top_k", number(m.top_k)},
          {"tied", m.tied ? "true" : "false"},
          {"batch", number(s.batch)},
          {"microbatches", number(s.microbatches)},
          {"steps", number(s.steps)},
          {"lr", compare::shortest(s.lr, "null")},
          {"lr_floor", compare::shortest(s.lr_floor, "null")},
          {"warmup", number(s.warmup)},
          {"ema", compare::shortest(s.ema, "null")},
          {"from", text(s.from)},
          {"recipe", text(s.recipe)},
          {"format", text(s.parts.format)},
          {"rht", text(s.parts.rht)},
          {"rht_size", text(s.parts.rht_size)},
          {"sr", text(s.parts.sr)},
          {"clip", text(s.parts.clip)},
          {"signs", text(s.parts.signs)},
          {"bf16_blocks", text(s.bf16_blocks)},
          {"osci_reset", number(s.osci.period)},
          {"osci_window", number(s.osci.window)},
          {"osci_threshold", compare::shortest(s.osci.threshold, "null")},
          {"out_control", compare::shortest(s.out_control.ratio, "null")},
          {"out_start", number(s.out_control.start)},
          {"out_window", number(s.out_control.window)},
          {"seed", number(s.seed)},
          {"data_seed", number(s.data_seed)},
          {"text", "[" + places + "]"},
          {"eval_every", number(s.eval_every)},
          {"eval_windows", number(s.eval_windows)},
          {"probe_every", number(s.probe_every)},
          {"gradient_draws", number(s.gradient_draws)},
          {"all_reduce", text(s.plain_all_reduce ? "plain" : "microbatch")}};
}

}  // namespace train_lm
