// ufp4 - every file of a model's folder through quantize or dequantize, continued where an earlier run ended.
// SPDX-License-Identifier: Apache-2.0
/// Files are converted in their order, each completely or not at all; the journal has what is complete. The index and
/// config.json are written last, so that no program takes an unfinished folder for a model.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <system_error>
#include <ufp4/interop/text.hpp>
#include <utility>
#include <vector>

#include "../common/interrupt.hpp"
#include "../common/output.hpp"
#include "../common/terminal.hpp"
#include "../compare/text.hpp"
#include "conversion_journal.hpp"
#include "conversion_report.hpp"
#include "conversion_run.hpp"
#include "model_files.hpp"
#include "tensor_input.hpp"

namespace tool {

/// What quantize and dequantize do differently.
template <class Request>
struct model_method {
  /// Converts one file, or only reports its sizes (dry_run).
  std::function<conversion(tensor_input&, const Request&)> convert;
  /// Checks the request for all files and completes it; returns notes.
  std::function<std::vector<std::string>(const model_files&, Request&)> prepare;
  /// The options on which bits depend, as a command line.
  std::function<std::string(const Request&)> settings;
  /// The new quantization_config; empty for none. Throws if a model that has the old one cannot be converted.
  std::function<std::string(const Request&, const std::vector<conversion>&)> config;
  bool from_plain = false;  ///< a model with a quantization_config is rejected
};

/// "1:02:03" or "2:03".
inline std::string clock_text(double seconds) {
  const auto all = static_cast<std::uint64_t>(std::max(0.0, seconds) + 0.5);
  const auto two = [](std::uint64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  const std::string minutes =
      all < 3600 ? std::to_string(all / 60) : std::to_string(all / 3600) + ":" + two(all / 60 % 60);
  return minutes + ":" + two(all % 60);
}

/// Bytes done of those that this run has to do, their rate, and the time that is left.
class work_clock {
 public:
  explicit work_clock(std::uint64_t to_do) : to_do_(static_cast<double>(to_do)) {}

  void finished(std::uint64_t bytes) { done_ += static_cast<double>(bytes); }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  /// The part that is done, with `more` bytes of the current file.
  double part(double more = 0) const { return to_do_ == 0 ? 1 : std::min(1.0, (done_ + more) / to_do_); }
  /// "212.0 MiB/s, 1:23 left"; without the rate in the first half second.
  std::string text(double more = 0) const {
    const double time = seconds(), done = done_ + more;
    if (time < 0.5 || done == 0) return "";
    const std::string rate = compare::byte_size(done / time) + "/s";
    return done >= to_do_ ? rate : rate + ", " + clock_text((to_do_ - done) * time / done) + " left";
  }

 private:
  double to_do_, done_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// One conversion of a folder.
template <class Request>
class model_conversion {
 public:
  model_conversion(conversion_command<Request>& c, const model_method<Request>& method, std::ostream& out,
                   std::ostream& err)
      : command_(c), request_(c.request), method_(method), out_(out), err_(err), model_(read_model(c.input)) {}

  /// Returns the exit status.
  int run() {
    request_.part_of_model = true;
    if (command_.json) common::check_writable(*command_.json);
    check_config();
    for (const std::vector<std::string>& notes : {model_.notes, method_.prepare(model_, request_)})
      for (const std::string& note : notes) err_ << "ufp4: note: " << note << "\n";
    preview();
    conversion_journal journal(model_.folder, request_.output, method_.settings(request_));
    for (const std::string& name : model_.shards) complete_.push_back(journal.has(name));
    check_space();
    if (!request_.dry_run) {
      journal.begin(model_.shards);
      if (!convert_all(journal)) return interrupted_status;
      finish();
    } else {
      for (std::size_t i = 0; i < files_.size(); ++i) print_file(i, complete_[i] ? "complete" : "");
    }
    print_end();
    return 0;
  }

 private:
  static std::uint64_t sum(const conversion& c, std::uint64_t converted_tensor::* member) {
    std::uint64_t bytes = 0;
    for (const converted_tensor& t : c.tensors) bytes += t.*member;
    return bytes;
  }
  std::uint64_t before(std::size_t i) const { return sum(files_[i], &converted_tensor::bytes_before); }
  std::uint64_t after(std::size_t i) const { return sum(files_[i], &converted_tensor::bytes_after); }
  static std::size_t converted(const conversion& c) {
    return static_cast<std::size_t>(
        std::count_if(c.tensors.begin(), c.tensors.end(), [](const auto& t) { return t.kept.empty(); }));
  }
  std::string output(const std::string& name) const { return (std::filesystem::path(request_.output) / name).string(); }

  void check_config() {
    if (!model_.has_config) {
      err_ << "ufp4: note: " << ufp4::interop::printable(model_.folder) << " has no config.json\n";
      return;
    }
    config_ = read_members(model_.path("config.json"));
    const auto old = std::find_if(config_.begin(), config_.end(),
                                  [](const json_member& m) { return m.key == "quantization_config"; });
    if (old == config_.end()) return;
    if (method_.from_plain && old->value != "null")
      ufp4::interop::fail_file(model_.path("config.json"),
                               "has a quantization_config: the model is quantized already; `ufp4 dequantize` makes a "
                               "plain one");
    config_.erase(old);
  }

  /// What each file becomes, from its header.
  void preview() {
    Request request = request_;
    request.dry_run = true;
    request.progress = {};
    for (const std::string& name : model_.shards) {
      tensor_input in(model_.path(name));
      request.output = output(name);
      files_.push_back(method_.convert(in, request));
      files_.back().dry_run = request_.dry_run;
    }
    if (std::none_of(files_.begin(), files_.end(), [](const conversion& c) { return converted(c) != 0; }))
      ufp4::interop::fail_file(model_.folder, "has no tensor to convert");
  }

  void check_space() const {
    std::uint64_t needed = 0;
    for (std::size_t i = 0; i < files_.size(); ++i) needed += complete_[i] ? 0 : after(i);
    std::error_code error;
    const std::filesystem::path folder(request_.output), parent = std::filesystem::absolute(folder).parent_path();
    const auto space = std::filesystem::space(std::filesystem::exists(folder, error) ? folder : parent, error);
    if (error || needed <= space.available) return;
    ufp4::interop::fail_file(request_.output, "too little space: " + detail::size_text(needed) + " are needed, " +
                                                  detail::size_text(space.available) + " are free");
  }

  bool convert_all(conversion_journal& journal) {
    std::uint64_t to_do = 0;
    for (std::size_t i = 0; i < files_.size(); ++i) to_do += complete_[i] ? 0 : before(i);
    work_clock clock(to_do);
    const common::interrupt stop;
    std::size_t tensors = 0;
    for (std::size_t i = 0; i < files_.size(); tensors += files_[i++].tensors.size()) {
      if (complete_[i]) {
        print_file(i, "complete before");
        continue;
      }
      try {
        convert(i, tensors, clock, stop);
      } catch (const detail::interrupted&) {
        line_.clear();
        err_ << "ufp4: interrupted; " << std::count(complete_.begin(), complete_.end(), true) << " of " << files_.size()
             << " files are complete; the same command continues\n";
        return false;
      }
      journal.add(model_.shards[i]);
      complete_[i] = true;
    }
    return true;
  }

  /// File i, whose first tensor is number `tensors` of the model.
  void convert(std::size_t i, std::size_t tensors, work_clock& clock, const common::interrupt& stop) {
    const double bytes = static_cast<double>(before(i)), begin = clock.seconds();
    Request request = request_;
    request.output = output(model_.shards[i]);
    if constexpr (requires { request.first_stream; }) request.first_stream = tensors;
    request.progress = [&](std::size_t at, std::size_t of, const std::string& what, double part) {
      if (stop.seen()) throw detail::interrupted();
      const double more = bytes * (static_cast<double>(at - 1) + part) / static_cast<double>(of);
      show(i, clock.part(more), clock.text(more), what);
    };
    tensor_input in(model_.path(model_.shards[i]));
    files_[i] = method_.convert(in, request);
    clock.finished(before(i));
    line_.clear();
    const std::string rate = clock.text();
    print_file(i, clock_text(clock.seconds() - begin) + (rate.empty() ? "" : ", " + rate));
    for (const converted_tensor& t : files_[i].tensors)
      if (const std::string lost = detail::blocks_text(t, false); !lost.empty())  // "; 3 blocks ..."
        err_ << "ufp4: note: " << ufp4::interop::printable(t.name) << ": " << lost.substr(2) << "\n";
  }

  void show(std::size_t i, double part, const std::string& rate, const std::string& what) const {
    constexpr std::size_t width = 16;
    const auto done = static_cast<std::size_t>(part * width);
    line_.show("[" + std::string(done, '#') + std::string(width - done, '.') + "] " + compare::fixed(100 * part, 0) +
               " %  file " + std::to_string(i + 1) + "/" + std::to_string(files_.size()) +
               (rate.empty() ? "" : "  " + rate) + "  " + what);
  }

  /// A line about file i: sizes, tensors, the lowest SQNR, `what`.
  void print_file(std::size_t i, const std::string& what) {
    if (command_.json == "-") return;
    const conversion& c = files_[i];
    std::size_t width = 0;
    for (const std::string& name : model_.shards) width = std::max(width, ufp4::interop::printable(name).size());
    if (!std::exchange(has_head_, true))
      out_ << common::left("file", width) << common::right("before", 11) << common::right("after", 11) << "\n";
    const converted_tensor* lowest = nullptr;
    for (const converted_tensor& t : c.tensors)
      if (t.has_error && (lowest == nullptr || t.sqnr_db < lowest->sqnr_db)) lowest = &t;
    out_ << common::left(ufp4::interop::printable(model_.shards[i]), width)
         << common::right(detail::size_text(before(i)), 11) << common::right(detail::size_text(after(i)), 11) << "  "
         << converted(c) << " of " << c.tensors.size() << " tensors"
         << (lowest == nullptr ? "" : ", lowest SQNR " + compare::fixed(lowest->sqnr_db, 1) + " dB")
         << (what.empty() ? "" : "; ") << what << std::endl;
  }

  /// The index, other files and, last, config.json.
  void finish() {
    for (const std::string& name : model_.copied) copy(name);
    if (!model_.index.empty() || model_.shards.size() > 1) write_index();
    if (!model_.has_config) return;
    const std::string config = method_.config(request_, files_);
    if (!config.empty()) config_.push_back({"quantization_config", config});
    write_members(output("config.json"), config_);
  }

  void copy(const std::string& name) const {
    std::error_code error;
    if (std::filesystem::file_size(model_.path(name), error) == 0 && !error)
      return write_text(output(name), "");  // input_file rejects an empty file
    ufp4::interop::input_file from(model_.path(name));
    ufp4::interop::output_file to(output(name));
    std::vector<char> piece(static_cast<std::size_t>(std::min<std::uint64_t>(from.size(), 1 << 20)));
    for (std::uint64_t at = 0; at < from.size(); at += piece.size()) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), from.size() - at));
      from.read(at, piece.data(), count);
      to.write(piece.data(), count);
    }
    to.finish();
  }

  void write_index() const {
    std::vector<json_member> map, metadata = model_.kept;
    std::uint64_t total = 0;
    for (const std::string& name : model_.shards) {
      ufp4::interop::safetensors_reader file(output(name));
      for (const ufp4::interop::stored_tensor& t : file.tensors()) {
        map.push_back({t.name, ufp4::interop::json_text(name)});
        total += t.bytes;
      }
    }
    metadata.push_back({"total_size", std::to_string(total)});
    write_members(output(model_.index.empty() ? "model.safetensors.index.json" : model_.index),
                  {{"metadata", object_text(metadata, 4)}, {"weight_map", object_text(map, 4)}});
  }

  void print_end() {
    std::uint64_t all_before = 0, all_after = 0;
    std::size_t tensors = 0, changed = 0;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      all_before += before(i);
      all_after += after(i);
      tensors += files_[i].tensors.size();
      changed += converted(files_[i]);
    }
    if (command_.json != "-") {
      out_ << "\n" << ufp4::interop::printable(request_.output) << ":";
      for (const conversion_setting& s : files_.front().settings) out_ << " " << s.key << " " << s.value << ";";
      out_ << " " << changed << " of " << tensors << " tensors, " << detail::size_text(all_before) << " to "
           << detail::size_text(all_after) << (request_.dry_run ? "; nothing was written" : "") << "\n";
    }
    if (!command_.json) return;
    common::write_to(*command_.json, out_, [&](std::ostream& to) {
      to << "{\n\"bytes_before\": " << all_before << ",\n\"bytes_after\": " << all_after << ",\n\"files\": [\n";
      for (std::size_t i = 0; i < files_.size(); ++i) {
        if (i != 0) to << ",\n";
        print_json(to, files_[i]);
      }
      to << "]\n}\n";
    });
  }

  conversion_command<Request>& command_;
  Request& request_;
  const model_method<Request>& method_;
  std::ostream &out_, &err_;
  model_files model_;
  std::vector<json_member> config_;  // of config.json, without a quantization_config
  std::vector<conversion> files_;    // of each file, from its header until it is converted
  std::vector<bool> complete_;
  common::progress_line line_;
  bool has_head_ = false;
};

/// Whether the input of a command is a model's folder.
inline bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

/// usage_error if OUT, which will be a folder, ends like a file of tensors.
inline void check_folder_name(const std::string& output) {
  for (const std::string_view ending : {".safetensors", ".gguf", ".npy"})
    if (output.ends_with(ending))
      throw common::usage_error("-o " + ufp4::interop::printable(output) +
                                " ends like a file, but FILE is a folder, and so is OUT");
}

/// Notes about patterns of --skip that match no name, and usage_error for one of `needed`: pairs of a flag and its
/// patterns.
inline std::vector<std::string> check_patterns(
    const std::string& folder, const std::vector<std::string>& names,
    const std::vector<std::pair<std::string, std::vector<std::string>>>& needed,
    const std::vector<std::string>& skipped) {
  const auto message = [&](const std::string& flag, const std::string& pattern) {
    return ufp4::interop::printable(folder) + " has no tensor that " + flag + " " + ufp4::interop::printable(pattern) +
           " matches, in none of its files";
  };
  for (const auto& [flag, patterns] : needed)
    for (const std::string& pattern : unmatched(patterns, names)) throw common::usage_error(message(flag, pattern));
  std::vector<std::string> notes;
  for (const std::string& pattern : unmatched(skipped, names)) notes.push_back(message("--skip", pattern));
  return notes;
}

/// Converts a folder; returns the exit status.
template <class Request>
int run_model(conversion_command<Request>& c, const model_method<Request>& method, std::ostream& out,
              std::ostream& err) {
  check_folder_name(c.request.output);
  return model_conversion<Request>(c, method, out, err).run();
}

}  // namespace tool
