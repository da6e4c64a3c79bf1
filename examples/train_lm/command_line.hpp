// ufp4 - the command line of train_lm: its options and the text of --help.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../common/arguments.hpp"
#include "../compare/text.hpp"
#include "errors.hpp"
#include "ranks.hpp"
#include "settings.hpp"

namespace train_lm {

using common::arguments;

inline constexpr const char* help_text =
    R"(train_lm - trains a byte-level transformer whose linear layers run in 4 bits, under a recipe.

usage: train_lm [OPTION]...

model (default: --size nano)
  --size nano|micro|mini        takes seconds; a few minutes; an hour on a few cores
  --moe                         a mixture of experts: 8 experts with half the hidden units, 2 per token
  --layers N --width N --heads N --ffn N --sequence N --experts N --top-k N
                                (with --top-k 1 only the load-balancing loss trains the router)
  --tied                        the head uses the weights of the embedding

training (the defaults depend on the size)
  --batch N                     sequences per step
  --microbatches N              equal parts of a batch, whose gradients are added in order (default 4)
  --steps N --lr X --warmup N   AdamW, linear warmup (default a tenth of the steps), then a cosine
  --lr-floor X                  the rate at the end, as a share of --lr (default 0.1; 0 decays to zero)
  --ema X                       also validate the moving average of the weights with this decay (default 0: none)
  --from FILE                   start with the weights, moments and step of another run's checkpoint
  --seed N                      of the initial weights, random signs and stochastic rounding (default 1)
  --data-seed N                 of the order of the data (default 1); use the same one to compare recipes
  --text FILE...                files, or folders of them (default: the C++ standard library's headers)

recipe (default: --recipe ufp4); the other options change parts of the named recipe
  --recipe NAME                 a name that --list-recipes shows
  --format NAME                 format of all six operands
  --rht none|all|fprop+wgrad... GEMMs with a randomized Hadamard transform
  --rht-size N                  16, 32, 64, 128 or 256
  --sr none|dgrad|wgrad|dy|all  operands with stochastic rounding
  --clip 2|3|4                  E2M1 without its values above 2, 3 or 4
  --signs fixed|step            random signs stay the same, or change at each step
  --bf16-blocks none|nvfp4|F+L  the first F and the last L blocks are in bf16 (default none); nvfp4 has 2/62 and 8/62
                                of all blocks, as the NVFP4 paper
  --osci-reset N                every N updates, set weights that oscillate between two quantized values to the one
                                that they have (OsciReset of TetraJet-v2; default 0: never)
  --osci-window N               updates that it watches (default 50)
  --osci-threshold X            how far a quantized value must move, relative to its weight (default 16)
  --out-control X               share of the channels of each layer's input, those with the largest norms, that is in
                                MXFP8 in fprop and wgrad (OutControl of TetraJet-v2; default 0: none; dense models)
  --out-start N                 the first step that measures the norms (default 1)
  --out-window N                steps that it measures; those after them use the channels (default 10)

output
  --out FOLDER                  config.json, log.csv, probes.csv, gradients.csv, a checkpoint and, last, result.json
  --resume                      continue from the checkpoint in FOLDER, with the same options
  --checkpoint-every N          steps between checkpoints (default 0: at the end and on Ctrl-C)
  --keep-at N                   keep the checkpoint of step N as checkpoint-N.safetensors, for --from
  --capture-at N                write the operands of the linear layers in step N to operands-N.safetensors: X, W, dY
  --eval-every N                steps between validation losses (default 0: at the end)
  --eval-windows N              sequences for a validation loss
  --probe-every N               steps between measurements of every operand and of the residual stream (default 0: none)
  --gradient-draws N            probes also measure the errors of the gradients over N >= 2 draws of random bits
  --csv, --json                 print log.csv row by row, or result.json, instead of the summary
  --quiet                       no progress line, no summary
  --threads N                   0 is all cores (default 0); does not change the bits
  --ranks N                     N processes, started by mpirun, share the microbatches; does not change the bits
  --all-reduce microbatch|plain how ranks add gradients (default microbatch); plain is MPI's sum: fewer bytes, and
                                bits that depend on the number of ranks

  --list-recipes, --help, --version

examples
  train_lm --recipe ufp4
  train_lm --size micro --recipe e2m1-baseline --out runs/e2m1 --probe-every 50
  train_lm --size micro --recipe e2m1-baseline --out runs/e2m1 --probe-every 50 --resume
  train_lm --recipe ufp4 --rht fprop+wgrad --sr none --text ~/notes --csv
  train_lm --layers 3 --width 96 --heads 3 --ffn 288 --steps 300 --json | jq .valid_loss

exit status: 0 done; 1 a file cannot be read or written; 2 wrong usage; 3 the loss is no longer finite;
130 stopped by Ctrl-C, after a checkpoint
)";

struct options {
  settings run;
  bool show_help = false;
  bool show_version = false;
  bool list_recipes = false;
};

namespace detail {

/// Changes of numbers whose defaults depend on the size; applied when the size is known.
using changes = std::vector<std::function<void(settings&)>>;

using flag_reader = std::function<void(arguments&, const std::string& flag)>;

inline void add_model_flags(std::map<std::string, flag_reader>& flags, changes& then) {
  const auto extent = [&](const char* name, index model_config::* member, std::uint64_t least, std::uint64_t most) {
    flags[name] = [&then, member, least, most](arguments& rest, const std::string& flag) {
      const auto n = static_cast<index>(rest.number(flag, least, most));
      then.push_back([member, n](settings& s) { s.model.*member = n; });
    };
  };
  extent("--layers", &model_config::layers, 1, 1024);
  extent("--width", &model_config::width, 1, 65536);
  extent("--heads", &model_config::heads, 1, 1024);
  extent("--ffn", &model_config::ffn, 1, 262144);
  extent("--sequence", &model_config::sequence, 16, 65536);
  extent("--experts", &model_config::experts, 0, 1024);
  extent("--top-k", &model_config::top_k, 1, 1024);
  flags["--tied"] = [&then](arguments&, const std::string&) {
    then.push_back([](settings& s) { s.model.tied = true; });
  };
}

inline void add_training_flags(std::map<std::string, flag_reader>& flags, changes& then) {
  const auto count = [&](const char* name, auto settings::* member, std::uint64_t least, std::uint64_t most) {
    flags[name] = [&then, member, least, most](arguments& rest, const std::string& flag) {
      const std::uint64_t n = rest.number(flag, least, most);
      then.push_back(
          [member, n](settings& s) { s.*member = static_cast<std::remove_reference_t<decltype(s.*member)>>(n); });
    };
  };
  constexpr std::uint64_t many = 1'000'000'000;
  count("--batch", &settings::batch, 1, 1 << 20);
  count("--microbatches", &settings::microbatches, 1, 1 << 20);
  count("--steps", &settings::steps, 1, many);
  count("--warmup", &settings::warmup, 0, many);
  count("--seed", &settings::seed, 0, UINT64_MAX);
  count("--data-seed", &settings::data_seed, 0, UINT64_MAX);
  count("--eval-every", &settings::eval_every, 0, many);
  count("--eval-windows", &settings::eval_windows, 1, many);
  count("--probe-every", &settings::probe_every, 0, many);
  count("--gradient-draws", &settings::gradient_draws, 2, 1 << 20);
  count("--checkpoint-every", &settings::checkpoint_every, 0, many);
  count("--keep-at", &settings::keep_at, 1, many);
  count("--capture-at", &settings::capture_at, 1, many);
  count("--threads", &settings::threads, 0, 1024);
  flags["--lr"] = [&then](arguments& rest, const std::string& flag) {
    const double x = rest.positive(flag);
    then.push_back([x](settings& s) { s.lr = x; });
  };
  const auto share = [&](const char* name, double settings::* member) {
    flags[name] = [&then, member](arguments& rest, const std::string& flag) {
      const double x = rest.share(flag);
      then.push_back([member, x](settings& s) { s.*member = x; });
    };
  };
  share("--lr-floor", &settings::lr_floor);
  share("--ema", &settings::ema);
}

inline void add_word_flags(std::map<std::string, flag_reader>& flags, settings& s) {
  const auto word = [&](const char* name, std::string& to) {
    flags[name] = [&to](arguments& rest, const std::string& flag) { to = rest.value(flag); };
  };
  word("--recipe", s.recipe);
  word("--format", s.parts.format);
  word("--rht", s.parts.rht);
  word("--rht-size", s.parts.rht_size);
  word("--sr", s.parts.sr);
  word("--clip", s.parts.clip);
  word("--signs", s.parts.signs);
  word("--bf16-blocks", s.bf16_blocks);
  word("--out", s.out);
  word("--from", s.from);
  flags["--osci-reset"] = [&s](arguments& rest, const std::string& flag) {
    s.osci.period = rest.number(flag, 0, 1'000'000'000);
  };
  flags["--osci-window"] = [&s](arguments& rest, const std::string& flag) {
    s.osci.window = rest.number(flag, 1, 1'000'000'000);
  };
  flags["--osci-threshold"] = [&s](arguments& rest, const std::string& flag) {
    s.osci.threshold = rest.positive(flag);
  };
  flags["--out-control"] = [&s](arguments& rest, const std::string& flag) { s.out_control.ratio = rest.share(flag); };
  flags["--out-start"] = [&s](arguments& rest, const std::string& flag) {
    s.out_control.start = rest.number(flag, 1, 1'000'000'000);
  };
  flags["--out-window"] = [&s](arguments& rest, const std::string& flag) {
    s.out_control.window = rest.number(flag, 1, 1'000'000'000);
  };
  flags["--ranks"] = [&s](arguments& rest, const std::string& flag) {
    s.ranks = static_cast<int>(rest.number(flag, 1, 4096));
  };
  flags["--all-reduce"] = [&s](arguments& rest, const std::string& flag) {
    const std::string how = rest.value(flag);
    if (how != "microbatch" && how != "plain")
      throw usage_error(flag + " must be microbatch or plain, got " + compare::printable(how));
    s.plain_all_reduce = how == "plain";
  };
  flags["--text"] = [&s](arguments& rest, const std::string& flag) {
    s.text.push_back(rest.value(flag));
    while (auto more = rest.optional_value()) s.text.push_back(*more);
  };
  const auto yes = [&](const char* name, bool& to) {
    flags[name] = [&to](arguments&, const std::string&) { to = true; };
  };
  yes("--resume", s.resume);
  yes("--csv", s.csv);
  yes("--json", s.json);
  yes("--quiet", s.quiet);
}

inline void check_out_control(const settings& s) {
  const out_control_settings& o = s.out_control;
  if (o.ratio == 0) {
    if (o.start != out_control_settings{}.start || o.window != out_control_settings{}.window)
      throw usage_error("--out-start and --out-window need --out-control X");
    return;
  }
  if (s.model.is_mixture()) throw usage_error("--out-control is for dense models, not for a mixture of experts");
  if (s.probe_every != 0)
    throw usage_error("--out-control and --probe-every: probes measure all of X in the recipe's format; give one");
  for (const index inputs : {s.model.width, s.model.ffn})
    if (const index channels = o.channels_of(inputs); channels < 1 || channels >= inputs)
      throw usage_error(
          "--out-control must choose at least one channel and leave one: " + compare::shortest(o.ratio, "null") +
          " of " + std::to_string(inputs) + " channels are " + std::to_string(channels));
  if (o.start + o.window > s.steps)
    throw usage_error("--out-start plus --out-window must be at most --steps, " + std::to_string(s.steps) + ", got " +
                      std::to_string(o.start + o.window));
}

/// Checks of options against each other.
inline void check(const settings& s) {
  if (s.csv && s.json) throw usage_error("--csv and --json: both write to stdout; give one of them");
  if (s.resume && s.out.empty()) throw usage_error("--resume needs --out FOLDER, which has the checkpoint");
  if (s.checkpoint_every != 0 && s.out.empty()) throw usage_error("--checkpoint-every needs --out FOLDER");
  if (s.keep_at != 0 && s.out.empty()) throw usage_error("--keep-at needs --out FOLDER");
  if (s.capture_at != 0 && s.out.empty()) throw usage_error("--capture-at needs --out FOLDER");
  for (const auto& [flag, step] : {std::pair{"--keep-at", s.keep_at}, {"--capture-at", s.capture_at}})
    if (step > s.steps)
      throw usage_error(flag + (" must be at most --steps, " + std::to_string(s.steps)) + ", got " +
                        std::to_string(step));
  if (s.probe_every != 0 && s.out.empty()) throw usage_error("--probe-every needs --out FOLDER, for probes.csv");
  if (s.gradient_draws != 0 && s.probe_every == 0) throw usage_error("--gradient-draws needs --probe-every N");
  if (s.warmup > s.steps)
    throw usage_error("--warmup must be at most --steps, " + std::to_string(s.steps) + ", got " +
                      std::to_string(s.warmup));
  if (s.batch % s.microbatches != 0)
    throw usage_error("--batch must be a multiple of --microbatches, " + std::to_string(s.microbatches) + ", got " +
                      std::to_string(s.batch));
  const osci_reset_settings defaults;
  if (s.osci.period == 0 && (s.osci.window != defaults.window || s.osci.threshold != defaults.threshold))
    throw usage_error("--osci-window and --osci-threshold need --osci-reset N");
  if (s.osci.period != 0 && s.osci.window >= s.osci.period)
    throw usage_error("--osci-reset must be above --osci-window, " + std::to_string(s.osci.window) + ", got " +
                      std::to_string(s.osci.period));
  if (s.ranks > 0) check_ranks(s.ranks, s.microbatches);
  if (s.model.experts > 0 && s.model.top_k > s.model.experts)
    throw usage_error("--top-k must be at most --experts, " + std::to_string(s.model.experts) + ", got " +
                      std::to_string(s.model.top_k));
  try {
    s.model.check();
  } catch (const std::invalid_argument& e) {
    throw usage_error(e.what());
  }
  check_out_control(s);
}

}  // namespace detail

inline options parse_options(int count, const char* const* values) {
  options o;
  std::string size = "nano";
  bool experts = false, has_warmup = false;
  detail::changes then;
  std::map<std::string, detail::flag_reader> flags;
  detail::add_model_flags(flags, then);
  detail::add_training_flags(flags, then);
  detail::add_word_flags(flags, o.run);
  flags["--size"] = [&](arguments& rest, const std::string& flag) { size = rest.value(flag); };
  const auto yes = [&](const char* name, bool& to) {
    flags[name] = [&to](arguments&, const std::string&) { to = true; };
  };
  yes("--moe", experts);
  yes("--help", o.show_help);
  yes("-h", o.show_help);
  yes("--version", o.show_version);
  yes("--list-recipes", o.list_recipes);

  for (arguments rest(count, values, "--"); !rest.empty();) {
    const std::string flag = rest.next();
    const auto found = flags.find(flag);
    if (found == flags.end()) throw usage_error("unknown option: " + compare::printable(flag));
    found->second(rest, flag);
    has_warmup = has_warmup || flag == "--warmup";
  }
  if (o.show_help || o.show_version || o.list_recipes) return o;
  choose_size(o.run, size, experts);
  for (const auto& change : then) change(o.run);
  if (!has_warmup) o.run.warmup = o.run.steps / 10;
  detail::check(o.run);
  return o;
}

}  // namespace train_lm
