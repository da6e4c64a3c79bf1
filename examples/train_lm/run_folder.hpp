// ufp4 - the folder of a run: config.json, log.csv, probes.csv, gradients.csv, a checkpoint and, last, result.json.
// SPDX-License-Identifier: Apache-2.0
/// | log.csv      | one row per step, written when the step ends; on the disk before a checkpoint of it       |
/// | probes.csv,  | the rows of a measured step together; also on the disk before a checkpoint                |
/// | gradients.csv|                                                                                           |
/// | after a kill | --resume removes rows beyond the checkpoint and repeats their steps                       |
/// | result.json  | exists only where the run is complete; a new run removes an older one                     |
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "../compare/text.hpp"
#include "checkpoint.hpp"
#include "errors.hpp"
#include "settings.hpp"

namespace train_lm {

/// {"key": value, ...}, one member per line, indented by `depth` levels.
inline std::string json_object(const listing& members, int depth = 0) {
  const std::string inner(static_cast<std::size_t>(2 * depth + 2), ' ');
  std::string text = "{";
  for (std::size_t i = 0; i < members.size(); ++i)
    text += (i ? ",\n" : "\n") + inner + compare::json_text(members[i].first) + ": " + members[i].second;
  return text + "\n" + std::string(static_cast<std::size_t>(2 * depth), ' ') + "}";
}

/// The log of one training step.
struct log_row {
  std::uint64_t step = 0;  ///< 1 is the first
  double tokens = 0, flops = 0, lr = 0, train_loss = 0;
  std::optional<double> valid_loss;
  double grad_norm = 0, seconds = 0;  ///< of all training steps so far, without evaluations, probes and saving

  static constexpr const char* header = "step,tokens,flops,lr,train_loss,valid_loss,grad_norm,seconds";
  std::string text() const {
    const auto number = [](double x) { return compare::shortest(x, "nan"); };
    return std::to_string(step) + "," + number(tokens) + "," + number(flops) + "," + number(lr) + "," +
           number(train_loss) + "," + (valid_loss ? number(*valid_loss) : "") + "," + number(grad_norm) + "," +
           number(seconds);
  }
};

/// The quantization error of one operand of a linear layer, or of the residual stream.
struct probe_row {
  std::uint64_t step = 0;
  std::uint32_t layer = 0;
  std::string linear, operand;
  double attenuation = 0, sqnr_db = 0;

  static constexpr const char* header = "step,layer,linear,operand,attenuation,sqnr_db";
  std::string text() const {
    return std::to_string(step) + "," + std::to_string(layer) + "," + linear + "," + operand + "," +
           compare::shortest(attenuation, "") + "," + compare::shortest(sqnr_db, "");
  }
};

/// The error of one parameter's gradient with some GEMMs under the recipe (gradient_errors.hpp).
struct gradient_row {
  std::uint64_t step = 0, draws = 0;
  std::string gemm, parameter;
  double gain = 0, bias = 0, variance = 0, cosine = 0;
  double batch_variance = 0;  ///< not finite for a batch of one microbatch; its cell is empty then

  static constexpr const char* header = "step,gemm,parameter,draws,gain,bias,variance,cosine,batch_variance";
  std::string text() const {
    std::string line = std::to_string(step) + "," + gemm + "," + parameter + "," + std::to_string(draws);
    for (const double x : {gain, bias, variance, cosine, batch_variance}) line += "," + compare::shortest(x, "");
    return line;
  }
};

namespace detail {

/// A table that rows are appended to. A row is passed to the system at once, so that it survives the program.
class growing_table {
 public:
  /// Keeps and returns the rows of an older table whose step, the first number, is at most `last_step`.
  std::vector<std::string> open(const std::string& path, const std::string& header, std::uint64_t last_step) {
    std::vector<std::string> kept;
    std::string text = header + "\n";
    std::ifstream old(path, std::ios::binary);
    std::string line;
    for (std::getline(old, line); last_step > 0 && std::getline(old, line) && !old.eof();) {
      if (std::strtoull(line.c_str(), nullptr, 10) > last_step) break;
      text += line + "\n";
      kept.push_back(line);
    }
    old.close();
    write_atomically(path, text);
    file_ = std::make_unique<output_file>(path, O_WRONLY | O_APPEND);
    return kept;
  }
  void add(const std::string& rows) { file_->write(rows.data(), rows.size()); }
  void sync() {
    if (file_) file_->sync();
  }

 private:
  std::unique_ptr<output_file> file_;
};

}  // namespace detail

class run_folder {
 public:
  explicit run_folder(const std::string& path) : path_(path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (!std::filesystem::is_directory(path, error))
      throw file_error(compare::printable(path) + ": is not a folder and cannot be created");
  }

  static constexpr const char* checkpoint_name = "checkpoint.safetensors";
  std::string checkpoint_path() const { return at(checkpoint_name); }
  bool has_checkpoint() const {
    std::error_code ignored;
    return std::filesystem::exists(checkpoint_path(), ignored);
  }

  /// Keeps the rows up to `last_step` of a run whose first row is `first_step` + 1; returns their training losses.
  std::vector<double> open_tables(std::uint64_t first_step, std::uint64_t last_step, bool with_probes,
                                  bool with_gradients) {
    std::vector<double> losses;
    if (last_step == first_step) remove_older(), last_step = first_step = 0;
    for (const std::string& line : log_.open(at("log.csv"), log_row::header, last_step))
      losses.push_back(loss_of(line));
    if (losses.size() != last_step - first_step)
      throw file_error(compare::printable(at("log.csv")) + ": row count mismatch: " + std::to_string(losses.size()) +
                       " rows, the checkpoint has step " + std::to_string(last_step));
    if (with_probes) probes_.open(at("probes.csv"), probe_row::header, last_step);
    if (with_gradients) gradients_.open(at("gradients.csv"), gradient_row::header, last_step);
    return losses;
  }

  void add(const log_row& row) { log_.add(row.text() + "\n"); }
  void add(const std::vector<probe_row>& rows) { probes_.add(lines_of(rows)); }
  void add(const std::vector<gradient_row>& rows) { gradients_.add(lines_of(rows)); }
  void save(const std::string& name, const word_map& metadata, const std::vector<named_matrix>& matrices) {
    log_.sync();
    probes_.sync();
    gradients_.sync();
    write_checkpoint(at(name), metadata, matrices);
  }
  void write_config(const listing& config) const { write_atomically(at("config.json"), json_object(config) + "\n"); }
  void write_result(const std::string& text) const { write_atomically(at("result.json"), text); }

 private:
  template <class Row>
  static std::string lines_of(const std::vector<Row>& rows) {
    std::string text;
    for (const Row& row : rows) text += row.text() + "\n";
    return text;
  }

  std::string at(const std::string& name) const { return (std::filesystem::path(path_) / name).string(); }

  /// Removes the files of an older run that has no checkpoint.
  void remove_older() const {
    for (const char* name : {"result.json", "probes.csv", "gradients.csv"}) {
      std::error_code error;
      std::filesystem::remove(at(name), error);
      if (error) throw file_error(compare::printable(at(name)) + ": cannot be removed: " + error.message());
    }
  }

  /// The fifth number of a row.
  static double loss_of(const std::string& line) {
    std::istringstream cells(line);
    std::string cell;
    for (int i = 0; i < 5; ++i) std::getline(cells, cell, ',');
    double loss = std::numeric_limits<double>::quiet_NaN();
    std::from_chars(cell.data(), cell.data() + cell.size(), loss);
    return loss;
  }

  std::string path_;
  detail::growing_table log_, probes_, gradients_;
};

}  // namespace train_lm
