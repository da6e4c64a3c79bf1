// ufp4 - which files of a model are converted, so that an interrupted conversion continues.
// SPDX-License-Identifier: Apache-2.0
/// ufp4_conversion.json in the folder of the output:
///
///   {"settings": "quantize --format nvfp4 ...", "files": {"NAME": [size and time of the input, size of the output]}}
///
/// It is written when the conversion begins and again behind each file. A file of the output counts as complete if the
/// journal has it, its input has the same size and time, and it is a whole .safetensors file of the size given there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <ufp4/interop/safetensors_file.hpp>
#include <vector>

#include "model_files.hpp"

namespace tool {

/// The journal of a conversion of one folder into another.
class conversion_journal {
 public:
  static constexpr const char* name = "ufp4_conversion.json";

  /// Reads the journal of `output`, if there is one. file_error if `output` is no folder, has other files than those of
  /// a conversion, or belongs to a conversion with other settings.
  conversion_journal(const std::string& input, const std::string& output, std::string settings)
      : input_(input), output_(output), settings_(std::move(settings)) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (!fs::exists(output, error)) return;
    if (!fs::is_directory(output, error)) ufp4::interop::fail_file(output, "is a file, not a folder for a model");
    if (fs::exists(output_ / name, error)) {
      read();
      return;
    }
    if (!fs::is_empty(output, error) || error)
      ufp4::interop::fail_file(
          output, "is not empty, and not the output of an interrupted conversion: it has no " + std::string(name));
  }

  /// Whether the output has the complete conversion of that file.
  bool has(const std::string& file) const {
    const auto found = files_.find(file);
    if (found == files_.end() || found->second != facts_of(file)) return false;
    try {
      ufp4::interop::safetensors_reader whole((output_ / file).string());
    } catch (const ufp4::interop::file_error&) {
      return false;
    }
    return true;
  }

  /// Creates the folder if it is not there, and removes unfinished files of the given names.
  void begin(const std::vector<std::string>& names) {
    namespace fs = std::filesystem;
    std::error_code error;
    fs::create_directory(output_, error);
    if (error) ufp4::interop::fail_file(output_.string(), "cannot be created: " + error.message());
    for (const std::string& file : names) {
      fs::remove(output_ / (file + ".tmp"), error);
      for (int i = 1; fs::remove(output_ / (file + ".tmp-" + std::to_string(i)), error); ++i) continue;
    }
    write();
  }

  /// Notes that the output has the complete conversion of that file.
  void add(const std::string& file) {
    files_[file] = facts_of(file);
    write();
  }

 private:
  using facts = std::vector<std::uint64_t>;  // size and time of the input, size of the output; empty: not there

  facts facts_of(const std::string& file) const {
    namespace fs = std::filesystem;
    std::error_code first, second, third;
    const auto size = fs::file_size(input_ / file, first), written = fs::file_size(output_ / file, third);
    const auto time = fs::last_write_time(input_ / file, second).time_since_epoch().count();
    if (first || second || third) return {};
    return {size, static_cast<std::uint64_t>(time), written};
  }

  void read() {
    const std::string path = (output_ / name).string();
    std::string settings;
    for (const json_member& m : read_members(path)) {
      ufp4::interop::json_cursor json(m.value);
      const auto entry = [&](const std::string& file) {
        facts& numbers = files_[file];
        return json.array([&] { return json.unsigned_number(numbers.emplace_back()); }) && numbers.size() == 3;
      };
      if (m.key == "settings" ? !json.string(settings) : m.key == "files" && !json.object(entry))
        ufp4::interop::fail_file(path, "is not the journal of a conversion");
    }
    if (settings != settings_)
      ufp4::interop::fail_file(output_.string(),
                               "was begun with other settings: " + ufp4::interop::printable(settings) +
                                   ", and not: " + ufp4::interop::printable(settings_) + "; use another folder");
  }

  void write() const {
    std::vector<json_member> files;
    for (const auto& [file, numbers] : files_)
      if (numbers.size() == 3)
        files.push_back({file, "[" + std::to_string(numbers[0]) + ", " + std::to_string(numbers[1]) + ", " +
                                   std::to_string(numbers[2]) + "]"});
    write_members((output_ / name).string(),
                  {{"settings", ufp4::interop::json_text(settings_)}, {"files", object_text(files, 4)}});
  }

  std::filesystem::path input_, output_;
  std::string settings_;
  std::map<std::string, facts> files_;
};

}  // namespace tool
