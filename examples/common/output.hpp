// ufp4 - writing the reports of examples: to a file, or to standard output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <ufp4/interop/output_file.hpp>
#include <ufp4/interop/text.hpp>

#include "arguments.hpp"

namespace common {

namespace detail {

/// Pipes, terminals, /dev/null: what cannot be replaced by another file.
inline bool is_written_in_place(const std::string& path) {
  std::error_code none;
  const std::filesystem::file_status status = std::filesystem::status(path, none);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

}  // namespace detail

/// Whether two paths name one file, also through links and of files that do not exist yet.
inline bool is_same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (a == b || fs::equivalent(a, b, error)) return true;
  const auto whole = [&error](const std::string& path) {  // weakly_canonical does not follow dangling links
    return fs::weakly_canonical(fs::absolute(ufp4::interop::end_of_links(path), error), error);
  };
  const fs::path first = whole(a);
  return !error && first == whole(b) && !error;
}

/// std::runtime_error, with the reason if errno has one, unless everything was written.
inline void check_written(std::ostream& out, const std::string& name) {
  if (out.flush()) return;
  throw std::runtime_error(name + ": could not be written to its end" + ufp4::interop::cause_text(errno));
}

/// usage_error if a report's name ends like a file of tensors: the name is optional, so in `--json FILE` FILE was
/// probably meant as the input, which the report would replace. `instead` ends the message.
inline void check_report_name(const std::string& flag, const std::string& name,
                              const std::string& instead = "name the report otherwise") {
  for (const std::string_view ending : {".safetensors", ".npy", ".gguf"})
    if (name.ends_with(ending))
      throw usage_error(flag + " " + ufp4::interop::printable(name) +
                        " would be the report's name, and it ends like a file of tensors; " + instead);
}

/// The optional value of a flag that writes a report: a file, or "-", standard output, which is the default.
inline std::string report_name(arguments& rest, const std::string& flag) {
  const std::string name = rest.optional_value().value_or("-");
  check_report_name(flag, name);
  return name;
}

/// Writes text to `path`; "-" is `standard`. An existing file is replaced when the new one is complete.
/// std::runtime_error names what cannot be written, for example because the disk is full.
inline void write_to(const std::string& path, std::ostream& standard, const std::function<void(std::ostream&)>& write) {
  if (path != "-" && !detail::is_written_in_place(path)) {
    std::ostringstream text;
    write(text);
    ufp4::interop::output_file file(path);
    file.write(text.str());
    file.finish();
    return;
  }
  const std::string name = path == "-" ? "standard output" : ufp4::interop::printable(path);
  std::ofstream file;
  errno = 0;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) throw std::runtime_error(name + ": cannot be opened for writing" + ufp4::interop::cause_text(errno));
  }
  std::ostream& out = path == "-" ? standard : file;
  write(out);
  check_written(out, name);
}

/// For use before long work: std::runtime_error if `path` cannot be written. Creates and changes nothing.
inline void check_writable(const std::string& path) {
  if (path == "-") return;
  std::error_code none;
  const std::filesystem::path place = std::filesystem::weakly_canonical(path, none);  // where links lead
  const std::filesystem::path folder = place.parent_path();
  const bool directory = std::filesystem::is_directory(place, none), there = std::filesystem::exists(place, none);
  const bool replaced = !detail::is_written_in_place(path);
  if (directory || (there && access(place.c_str(), W_OK) != 0) ||
      (replaced && access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0))
    throw std::runtime_error(ufp4::interop::printable(path) +
                             (directory ? ": is a directory, not a file" : ": cannot be opened for writing"));
}

}  // namespace common
