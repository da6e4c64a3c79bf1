// ufp4 - train_lm as a function of its arguments, which writes a run folder and returns the exit status.
// SPDX-License-Identifier: Apache-2.0
/// | 0   | done                                                                                       |
/// | 1   | a file cannot be read or written; one line on `err`                                        |
/// | 2   | wrong usage; one line on `err`                                                             |
/// | 3   | the loss or its gradient is no longer finite; result.json has null for losses              |
/// | 130 | stopped by Ctrl-C after a checkpoint                                                       |
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <ufp4/ufp4.hpp>
#include <ufp4/version.hpp>
#include <utility>
#include <vector>

#include "../common/interrupt.hpp"
#include "command_line.hpp"
#include "corpus.hpp"
#include "launch.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "recipes.hpp"
#include "run_folder.hpp"
#include "trainer.hpp"

namespace train_lm {

namespace detail {

inline void list_recipes(std::ostream& out) {
  out << "recipes (--recipe)\n";
  for (const named_recipe& r : recipes()) {
    const std::string name = r.name;
    out << "  " << name << std::string(name.size() < 22 ? 22 - name.size() : 1, ' ') << r.about << "\n";
  }
  out << "\nformats (--format)\n ";
  for (const named_format& f : formats()) out << " " << f.name;
  out << "\n";
}

/// Tries the recipe on small matrices, so that a wrong one is rejected before any file is read.
inline model_recipe checked_recipe(const settings& run) {
  const training_recipe recipe = make_recipe(run.recipe, run.parts, run.seed);
  matrix<float> x = matrix<float>::Zero(32, 32), w = x, y = x;
  try {
    ufp4::cpu::context here{.threads = 1};
    const auto now = recipe.at(0, 0);
    ufp4::recipe::linear_forward(now, view_of(std::as_const(x)), view_of(std::as_const(w)), view_of(y), {}, here);
    ufp4::recipe::linear_backward_input(now, view_of(std::as_const(x)), view_of(std::as_const(w)), view_of(y), {},
                                        here);
    ufp4::recipe::linear_backward_weight(now, view_of(std::as_const(x)), view_of(std::as_const(w)), view_of(y), {},
                                         here);
  } catch (const std::invalid_argument& e) {
    throw usage_error(std::string("--recipe: invalid combination: ") + e.what());
  }
  if (run.osci.period != 0 && !recipe.operand(1).quantized)
    throw usage_error("--osci-reset: the recipe does not quantize the weights of fprop; add --format");
  if (run.out_control.ratio != 0 && !(recipe.operand(0).quantized && recipe.operand(5).quantized))
    throw usage_error("--out-control: the recipe does not quantize X in fprop and in wgrad; add --format");
  return with_bf16_blocks(recipe, run.bf16_blocks, static_cast<std::size_t>(run.model.layers));
}

/// The kernels that run fprop of a layer under a recipe, as text.
inline std::string kernels_of(const training_recipe& recipe, const settings& run, thread_pool& threads) {
  const auto ctx = threads.context();
  std::string words = std::string("cpu: ") + ufp4::cpu::name(ufp4::cpu::resolve(ctx));
  const auto left = recipe.at(0, 0).operand(0), right = recipe.at(0, 0).operand(1);
  if (!left.policy.quantized || !right.policy.quantized) return words;
  matrix<float> x = matrix<float>::Zero(run.batch * run.model.sequence, run.model.width), y(x.rows(), x.cols());
  const matrix<float> w = matrix<float>::Zero(run.model.width, run.model.width);
  const auto tokens = view_of(std::as_const(x));
  const auto qx = ufp4::quantize(left.policy.format, tokens, left.transform, ctx);
  const auto qw = ufp4::quantize(right.policy.format, view_of(w), right.transform, ctx);
  words += "; " + ufp4::cpu::explain(left.policy.format, tokens, left.transform, ctx).text() + "; " +
           ufp4::cpu::explain(qx, qw, view_of(y), ctx).text();
  return words;
}

inline listing configuration(const settings& run, int ranks, const corpus& text) {
  listing all = decisive(run);
  all.insert(all.end(), {{"text_hash", compare::json_text(text.hash())},
                         {"text_source", compare::json_text(text.source)},
                         {"train_bytes", std::to_string(text.train.size())},
                         {"validation_bytes", std::to_string(text.validation.size())},
                         {"threads", std::to_string(run.threads)},
                         {"ranks", std::to_string(ranks)},
                         {"version", compare::json_text(ufp4::version_string)}});
  return all;
}

/// Mean over the last tenth, at least one step.
inline double mean_of_last_tenth(const std::vector<double>& losses) {
  const std::size_t count = std::max<std::size_t>(1, losses.size() / 10);
  return std::accumulate(losses.end() - static_cast<std::ptrdiff_t>(count), losses.end(), 0.0) /
         static_cast<double>(count);
}

/// Only rank 0 prints, validates, measures and writes files.
inline settings settings_of(settings run, const ranks& all) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (run.threads == 0 && all.count() > 1) run.threads = std::max(1, cores / all.count());
  if (all.rank() == 0) return run;
  run.csv = run.json = false;
  run.quiet = true;
  return run;
}

/// A run from its first step, or from its checkpoint, to its last step.
class training_run {
 public:
  training_run(const settings& run, const model_recipe& recipe, ranks& all, std::ostream& out, std::ostream& err)
      : run_(settings_of(run, all)),
        ranks_(all),
        recipe_(recipe),
        out_(out),
        err_(err),
        text_(read(run)),
        threads_(run_.threads),
        trainer_(run_, text_, recipe, threads_, all),
        line_(!run_.quiet) {}

  int go(const std::string& command) {
    begin();
    const common::interrupt ctrl_c;
    while (!trainer_.done()) {
      if (ranks_.any(ctrl_c.seen())) return stop(command);
      const log_row row = one_step();
      if (!std::isfinite(row.train_loss) || !std::isfinite(row.grad_norm)) return diverged(row);
    }
    save();
    finish();
    return 0;
  }

 private:
  static corpus read(const settings& run) {
    const auto sequence = static_cast<std::size_t>(run.model.sequence);
    return run.text.empty() ? read_standard_headers(sequence) : read_corpus(run.text, sequence);
  }

  void begin() {
    if (run_.csv) out_ << log_row::header << "\n";
    ranks_.check_equal("the text", text_.hash());
    if (!run_.from.empty()) trainer_.start_from(checkpoint(run_.from));
    if (run_.out.empty()) return;
    folder_.emplace(run_.out);
    if (folder_->has_checkpoint() && !run_.resume)
      throw usage_error("--out: " + compare::printable(run_.out) + " already has a run; --resume continues it");
    if (folder_->has_checkpoint()) trainer_.restore(checkpoint(folder_->checkpoint_path()));
    if (ranks_.count() > 1) ranks_.check_equal("the checkpoint", trainer_.hash());
    if (!writes()) return folder_.reset();
    losses_ =
        folder_->open_tables(trainer_.first_step(), trainer_.step(), run_.probe_every != 0, run_.gradient_draws != 0);
    folder_->write_config(configuration(run_, ranks_.count(), text_));
  }

  log_row one_step() {
    const std::uint64_t next = trainer_.step() + 1;
    measured_rows measured;
    const bool probed =
        writes() && run_.probe_every != 0 && (next == trainer_.first_step() + 1 || next % run_.probe_every == 0);
    if (folder_ && next == run_.capture_at)
      trainer_.capture(*folder_, "operands-" + std::to_string(next) + ".safetensors");
    log_row row = trainer_.advance(probed ? &measured : nullptr);
    if (writes() && (trainer_.done() || (run_.eval_every != 0 && next % run_.eval_every == 0)))
      row.valid_loss = valid_ = trainer_.validate();
    else
      valid_.reset();
    losses_.push_back(row.train_loss);
    if (run_.csv) out_ << row.text() << std::endl;  // flushed, so that a reader of a pipe gets each row at once
    if (folder_) {
      if (probed) folder_->add(measured.probes);
      if (!measured.gradients.empty()) folder_->add(measured.gradients);
      folder_->add(row);
    }
    if (folder_ && next == run_.keep_at) trainer_.save(*folder_, "checkpoint-" + std::to_string(next) + ".safetensors");
    if (run_.checkpoint_every != 0 && next % run_.checkpoint_every == 0 && !trainer_.done()) save();
    const double rate = row.tokens / row.seconds;
    line_.step(row.step, run_.steps, row.train_loss, rate,
               static_cast<double>(run_.steps - row.step) * trainer_.tokens_a_step() / rate);
    return row;
  }

  bool writes() const { return ranks_.rank() == 0; }

  void save() {
    if (ranks_.count() > 1) ranks_.check_equal("the trained model", trainer_.hash());
    if (folder_) trainer_.save(*folder_, run_folder::checkpoint_name);
  }

  int stop(const std::string& command) {
    save();
    line_.show("");
    if (!writes()) return 130;
    err_ << "train_lm: stopped after step " << trainer_.step() << " of " << run_.steps << "; ";
    if (folder_)
      err_ << "to continue: " << command << (run_.resume ? "" : " --resume") << "\n";
    else
      err_ << "no checkpoint was written (it needs --out FOLDER)\n";
    return 130;
  }

  int diverged(const log_row& row) {
    line_.show("");
    if (!writes()) return 3;
    write_result({}, {}, {});
    err_ << "train_lm: diverged: step " << row.step << ", loss " << compare::shortest(row.train_loss, "not a number")
         << ", gradient norm " << compare::shortest(row.grad_norm, "not a number") << "; try a smaller --lr than "
         << compare::shortest(run_.lr, "") << "\n";
    return 3;
  }

  void finish() {
    if (!writes()) return;
    const double train = mean_of_last_tenth(losses_), valid = valid_ ? *valid_ : trainer_.validate();
    const std::optional<double> average = trainer_.validate_average();
    write_result(train, valid, average);
    if (run_.quiet || run_.csv || run_.json) return;
    const spent s = trainer_.seconds();
    line_.show("");
    out_ << run_.recipe << ": " << trainer_.step() << " steps, "
         << compare::grouped(static_cast<std::uint64_t>(trainer_.tokens())) << " tokens of " << text_.source << ", in "
         << duration_text(s.all) << " (" << rate_text(trainer_.tokens() / s.all) << " tokens/s; "
         << compare::fixed(100 * s.quantize / s.all, 0) << " % quantizing, " << compare::fixed(100 * s.gemm / s.all, 0)
         << " % multiplying)\n"
         << "loss " << compare::fixed(train, 4) << " in training (last tenth), " << compare::fixed(valid, 4)
         << " in validation, nats per byte\n";
    if (average) out_ << "loss " << compare::fixed(*average, 4) << " in validation of the averaged weights\n";
    if (folder_) out_ << "run folder: " << compare::printable(run_.out) << "\n";
  }

  void write_result(std::optional<double> train, std::optional<double> valid, std::optional<double> average) {
    const auto number = [](double x) { return compare::shortest(x, "null"); };
    const auto loss = [&](std::optional<double> x) { return x ? number(*x) : std::string("null"); };
    const spent s = trainer_.seconds();
    const std::string text =
        json_object({{"config", json_object(configuration(run_, ranks_.count(), text_), 1)},
                     {"final_train_loss", loss(train)},
                     {"valid_loss", loss(valid)},
                     {"average_valid_loss", loss(average)},
                     {"steps", std::to_string(trainer_.step())},
                     {"tokens", number(trainer_.tokens())},
                     {"flops", number(trainer_.flops())},
                     {"parameters", std::to_string(trainer_.parameter_count())},
                     {"seconds", number(s.all)},
                     {"share_quantize", number(s.quantize / s.all)},
                     {"share_gemm", number(s.gemm / s.all)},
                     {"osci_resets", std::to_string(trainer_.osci_resets())},
                     {"kernels", compare::json_text(kernels_of(recipe_.quantized, run_, threads_))},
                     {"eigen", compare::json_text(Eigen::SimdInstructionSetsInUse())},
                     {"checkpoint_hash", compare::json_text(trainer_.hash())}}) +
        "\n";
    if (run_.json) out_ << text;
    if (folder_) folder_->write_result(text);
  }

  settings run_;
  ranks& ranks_;
  model_recipe recipe_;
  std::ostream& out_;
  std::ostream& err_;
  corpus text_;
  thread_pool threads_;
  trainer trainer_;
  std::optional<run_folder> folder_;
  std::vector<double> losses_;
  std::optional<double> valid_;  ///< after the last step
  progress_line line_;
};

/// The command line, quoted for a shell.
inline std::string quoted(int count, const char* const* values) {
  std::string line;
  for (int i = 0; i < count; ++i) {
    const std::string word = values[i];
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789-_./+=:,") == std::string::npos;
    line += i ? " " : "";
    if (plain) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

/// Runs the command. `all` is set to the ranks, which the caller needs after an exception.
inline int run_asked(int count, const char* const* values, std::ostream& out, std::ostream& err,
                     std::unique_ptr<ranks>& all) {
  const options o = parse_options(count, values);
  if (o.show_help || o.show_version || o.list_recipes) {
    if (o.show_help)
      out << help_text;
    else if (o.show_version)
      out << "train_lm, ufp4 " << ufp4::version_string << "\n";
    else
      list_recipes(out);
    return 0;
  }
  const model_recipe recipe = checked_recipe(o.run);
  all = start_ranks(o.run.ranks, o.run.plain_all_reduce, count, values);
  return training_run(o.run, recipe, *all, out, err).go(quoted(count, values));
}

}  // namespace detail

inline int run_program(int count, const char* const* values, std::ostream& out, std::ostream& err) {
  auto all = std::make_unique<ranks>();
  const auto complain = [&](int status, const std::string& message) {
    // An error that all ranks have is reported by rank 0, which then ends the others.
    if (all->rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(10));
    const std::string name = all->rank() > 0 ? "train_lm, rank " + std::to_string(all->rank()) : "train_lm";
    if (all->count() > 1 || rank_of_mpirun() == 0) err << name << ": " << message << std::endl;
    all->give_up(status);
    return status;
  };
  try {
    const int status = detail::run_asked(count, values, out, err, all);
    return all->rank() == 0 ? status : 0;  // mpirun reports every status but 0 at length
  } catch (const usage_error& e) {
    return complain(2, std::string(e.what()) + "; train_lm --help lists the options");
  } catch (const file_error& e) {
    return complain(1, e.what());
  } catch (const std::bad_alloc&) {
    return complain(1, "out of memory for a model and a batch of this size");
  } catch (const std::exception& e) {
    return complain(1, e.what());
  }
}

}  // namespace train_lm
