// ufp4 - trainer: a model, its optimizer, its text and its recipe; training steps, validation and checkpoints.
// SPDX-License-Identifier: Apache-2.0
/// The bits of a step depend on the settings and the step's number, not on threads, ranks, evaluations, probes or
/// interruptions.
#pragma once

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "capture.hpp"
#include "checkpoint.hpp"
#include "corpus.hpp"
#include "gemm_errors.hpp"
#include "gradient_errors.hpp"
#include "linear.hpp"
#include "model.hpp"
#include "optimizer.hpp"
#include "out_control.hpp"
#include "parallel.hpp"
#include "probes.hpp"
#include "ranks.hpp"
#include "run_folder.hpp"
#include "settings.hpp"

namespace train_lm {

/// The rows of a probe.
struct measured_rows {
  std::vector<probe_row> probes;
  std::vector<gradient_row> gradients;
};

/// Wall-clock seconds of the training steps.
struct spent {
  double all = 0, quantize = 0, gemm = 0;
};

class trainer {
 public:
  trainer(const settings& run, const corpus& text, const model_recipe& recipe, thread_pool& threads, ranks& all)
      : run_(run),
        text_(text),
        recipe_(recipe),
        threads_(threads),
        ranks_(all),
        share_(share_of(all, run.microbatches)),
        model_(run.model, run.seed),
        optimizer_(model_.parameters(), {}),
        average_(model_.parameters(), run.ema),
        osci_(run.osci, recipe, model_.linear_weights(), model_.parameters()),
        engine_(run.out_control, recipe, model_.linear_weights(), model_.parameters(), threads, all) {}

  std::uint64_t step() const { return step_; }  ///< updates made
  bool done() const { return step_ >= run_.steps; }
  index parameter_count() const { return model_.parameter_count(); }
  double tokens() const { return static_cast<double>(step_) * tokens_a_step(); }
  double tokens_a_step() const { return static_cast<double>(run_.batch * run_.model.sequence); }
  double flops() const { return tokens() * flops_per_token(run_.model); }

  spent seconds() const {
    const linear_seconds linear = engine_.seconds();
    return {before_.all + all_, before_.quantize + linear.quantize, before_.gemm + linear.gemm()};
  }

  /// One update, on all ranks. With `measured`, measures first and sets the rows.
  log_row advance(measured_rows* measured = nullptr) {
    const token_batch batch = batch_of(share_);
    if (measured != nullptr) measure(batch_of({0, run_.microbatches}), *measured);
    const auto begin = std::chrono::steady_clock::now();
    engine_.begin_step(step_);
    pass_statistics statistics;
    model_.forward_backward(batch, engine_, threads_, gradients_, statistics);
    statistics.loss = ranks_.gather(std::span<const double>(statistics.loss));
    const double loss = statistics.mean_loss();
    ranks_.sum(gradients_, sums_);
    const double norm = global_norm(sums_);
    const double rate = learning_rate{run_.lr, run_.warmup, run_.steps, run_.lr_floor}.at(step_);
    optimizer_.update(model_.parameters(), sums_, clip_factor(norm, 1.0), rate, threads_);
    ++step_;
    osci_.after_update(step_, model_.parameters(), threads_);
    average_.add(model_.parameters(), step_ - first_step_);
    all_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return {step_, tokens(), flops(), rate, loss, {}, norm, seconds().all};
  }

  /// X, W and dY of every linear layer in the next step's batch, under exact products. Of a dense model; changes no
  /// bit.
  std::vector<captured_linear> next_operands() {
    plain_engine<float> exact;
    capturing_engine engine(exact);
    pass_statistics ignored;
    model_.forward_backward(batch_of({0, run_.microbatches}), engine, threads_, gradients_, ignored);
    return layers_of(engine);
  }

  /// Mean cross entropy over the validation windows under the recipe. Not a collective.
  double validate() {
    out_control engine = engine_.alone();
    engine.begin_step(step_);
    double sum = 0, windows = 0;
    for (const token_batch& batch :
         validation_batches(text_, run_.model.sequence, run_.eval_windows, static_cast<std::size_t>(run_.batch))) {
      sum += model_.loss(batch, engine, threads_) * static_cast<double>(batch.sequences);
      windows += static_cast<double>(batch.sequences);
    }
    return sum / windows;
  }
  /// The same of the moving average of the weights; nothing without one.
  std::optional<double> validate_average() {
    if (average_.means.empty()) return {};
    average_.exchange(model_.parameters());
    const double loss = validate();
    average_.exchange(model_.parameters());
    return loss;
  }

  std::uint64_t osci_resets() const { return osci_.resets(); }  ///< weights reset since this process began

  std::string hash() { return data_hash(state()); }

  /// Writes the operands of every linear layer in the next step, of the whole batch, to the file `name` of the folder.
  /// Changes no bit and is not counted in the step's time. Not a collective.
  void capture(run_folder& folder, const std::string& name) {
    out_control inner = engine_.alone();
    inner.begin_step(step_);
    capturing_engine engine(inner);
    pass_statistics ignored;
    model_.forward_backward(batch_of({0, run_.microbatches}), engine, threads_, gradients_, ignored);
    folder.save(name, {{"made_by", "ufp4 train_lm 1"}, {"step", std::to_string(step_ + 1)}}, engine.operands());
  }

  /// `name`: of the file in the folder.
  void save(run_folder& folder, const std::string& name) {
    const spent now = seconds();
    folder.save(name,
                {{"made_by", "ufp4 train_lm 1"},
                 {"settings", settings_text()},
                 {"step", std::to_string(step_)},
                 {"seconds", compare::shortest(now.all, "0")},
                 {"seconds_quantize", compare::shortest(now.quantize, "0")},
                 {"seconds_gemm", compare::shortest(now.gemm, "0")}},
                state());
  }

  /// Starts with the weights, moments and step of a checkpoint, made under any settings with a model of these shapes.
  /// Throws file_error for another model, if no step is left, or if OutControl would have begun.
  void start_from(const checkpoint& from) {
    reject_other_program(from);
    std::vector<named_matrix> all = state();
    all.resize(3 * model_.parameters().size());  // the average, OsciReset and OutControl begin with this run
    from.fill(all);
    set_step(from);
    if (done())
      from.fail("has step " + std::to_string(step_) + ", no step of " + std::to_string(run_.steps) + " is left");
    if (run_.out_control.ratio != 0 && step_ >= run_.out_control.start)
      from.fail("has step " + std::to_string(step_) + ", --out-start must be above it, got " +
                std::to_string(run_.out_control.start));
    first_step_ = step_;
    from_hash_ = data_hash(all);
  }
  std::uint64_t first_step() const { return first_step_; }  ///< updates made before this run

  /// Continues from a checkpoint. Throws file_error if it was made under other settings.
  void restore(const checkpoint& from) {
    reject_other_program(from);
    reject_other_settings(from);
    from.fill(state());
    set_step(from);
    before_ = {number(from, "seconds"), number(from, "seconds_quantize"), number(from, "seconds_gemm")};
  }

 private:
  token_batch batch_of(const microbatch_share& share) const {
    return training_batch(text_, run_.model.sequence, {run_.batch, run_.microbatches, share.first, share.each},
                          run_.data_seed, step_);
  }

  /// Parameters, then both moments, in the order of the model; then averages and what OsciReset and OutControl measure.
  std::vector<named_matrix> state() {
    std::vector<named_matrix> all;
    auto& parameters = model_.parameters();
    for (auto& p : parameters) all.push_back({p.name, &p.value});
    for (std::size_t p = 0; p < parameters.size(); ++p)
      all.push_back({"adamw.first." + parameters[p].name, &optimizer_.first_moments[p]});
    for (std::size_t p = 0; p < parameters.size(); ++p)
      all.push_back({"adamw.second." + parameters[p].name, &optimizer_.second_moments[p]});
    for (std::size_t p = 0; p < average_.means.size(); ++p)
      all.push_back({"average." + parameters[p].name, &average_.means[p]});
    for (named_matrix& kept : osci_.state()) all.push_back(std::move(kept));
    for (named_matrix& kept : engine_.state()) all.push_back(std::move(kept));
    return all;
  }

  /// Compares each setting. The paths of the text and of the first checkpoint may differ, their content may not.
  std::string settings_text() const {
    std::string lines;
    for (const auto& [name, value] : decisive(run_))
      if (name != "text" && name != "from") lines += name + " " + value + ";";
    return lines + "from_hash " + from_hash_ + ";text_hash " + text_.hash() + ";";
  }

  void reject_other_settings(const checkpoint& from) const {
    std::istringstream theirs(from.word("settings")), ours(settings_text());
    std::string before, now;
    while (std::getline(ours, now, ';')) {
      std::getline(theirs, before, ';');
      if (before == now) continue;
      if (now.starts_with("text_hash")) from.fail("text mismatch: the checkpoint was made with another text");
      from.fail("settings mismatch: the checkpoint has " + compare::printable(before) + ", this run has " + now);
    }
  }

  static void reject_other_program(const checkpoint& from) {
    if (from.word("made_by") != "ufp4 train_lm 1") from.fail("was made by " + from.word("made_by"));
  }
  void set_step(const checkpoint& from) {
    step_ = static_cast<std::uint64_t>(number(from, "step"));
    optimizer_.updates = step_;
  }

  static double number(const checkpoint& from, const std::string& key) {
    const std::string& text = from.word(key);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0)) from.fail("has no usable " + key);
    return value;
  }

  /// Measures the whole batch before the step's update. Changes no bit and is not counted in its time.
  void measure(const token_batch& batch, measured_rows& measured) {
    recipe_engine inner(recipe_, threads_);
    inner.begin_step(step_);
    probing_engine engine(inner, recipe_, threads_, step_);
    pass_statistics ignored;
    model_.forward_backward(batch, engine, threads_, gradients_, ignored);
    measured.probes = std::move(engine.rows);
    for (probe_row& row : probe_residual(model_, batch, recipe_, step_, threads_))
      measured.probes.push_back(std::move(row));
    for (probe_row& row : measured.probes) row.step = step_ + 1;
    if (run_.gradient_draws == 0) return;
    measured.gradients = measure_gradients(model_, batch, recipe_, step_, run_.gradient_draws, threads_);
    for (gradient_row& row : measured.gradients) row.step = step_ + 1;
  }

  settings run_;
  const corpus& text_;
  model_recipe recipe_;
  thread_pool& threads_;
  ranks& ranks_;
  microbatch_share share_;
  model<float> model_;
  adamw<float> optimizer_;
  parameter_average<float> average_;
  osci_reset osci_;
  out_control engine_;
  microbatch_gradients<float> gradients_;
  std::vector<matrix<float>> sums_;
  std::uint64_t step_ = 0, first_step_ = 0;
  std::string from_hash_ = "none";  ///< of the checkpoint with which training started
  double all_ = 0;
  spent before_;  ///< before the checkpoint
};

}  // namespace train_lm
