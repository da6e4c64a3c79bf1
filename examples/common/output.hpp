// ufp4 - where examples write reports: a file, or standard output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <ufp4/interop/text.hpp>

namespace common {

/// "-" is `standard`. std::runtime_error names what cannot be written: a full disk is noticed here and not by the reader
/// of half a file.
inline void write_to(const std::string& path, std::ostream& standard, const std::function<void(std::ostream&)>& write) {
  const std::string name = path == "-" ? "standard output" : ufp4::interop::printable(path);
  std::ofstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) throw std::runtime_error(name + ": cannot be opened for writing");
  }
  std::ostream& out = path == "-" ? standard : file;
  write(out);
  out.flush();
  if (!out) throw std::runtime_error(name + ": could not be written to its end");
}

/// Before long work: std::runtime_error where `path` cannot be opened. What it holds stays; a new file is empty.
inline void check_writable(const std::string& path) {
  if (path != "-" && !std::ofstream(path, std::ios::binary | std::ios::app))
    throw std::runtime_error(ufp4::interop::printable(path) + ": cannot be opened for writing");
}

}  // namespace common
