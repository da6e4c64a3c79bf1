// ufp4 - text files for examples: those below a folder, and the headers of the C++ standard library.
// SPDX-License-Identifier: Apache-2.0
/// The headers are text that exists on every machine that builds an example.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace common {

namespace fs = std::filesystem;

/// At most the first `most` bytes of a file (a MiB unless told); empty if it cannot be read.
inline std::string read_text(const fs::path& path, std::size_t most = std::size_t{1} << 20) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  std::ifstream stream(path, std::ios::binary);
  if (error || !stream) return {};
  std::string text(static_cast<std::size_t>(std::min<std::uintmax_t>(size, most)), '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(stream.bad() ? 0 : static_cast<std::size_t>(std::max<std::streamsize>(0, stream.gcount())));
  return text;
}

/// Every regular file under `root` (or `root` itself), sorted by the path below it.
inline std::vector<fs::path> files_under(const fs::path& root) {
  std::error_code error;
  if (fs::is_regular_file(root, error)) return {root};
  std::vector<fs::path> files;
  fs::recursive_directory_iterator at(root, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && at != end; at.increment(error)) {
    std::error_code unreadable;
    if (at->is_regular_file(unreadable)) files.push_back(at->path());
  }
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.generic_string() < b.generic_string(); });
  return files;
}

/// The directories that hold the C++ standard library, which is where <vector> is: those the compiler named when this
/// was built, else the usual places.
inline std::vector<std::string> standard_header_directories() {
  std::vector<std::string> candidates;
#ifdef UFP4_EXAMPLE_HEADER_DIRS
  const std::string_view named = UFP4_EXAMPLE_HEADER_DIRS;
  for (std::size_t begin = 0; begin < named.size();) {
    const std::size_t end = std::min(named.find_first_of(";:", begin), named.size());
    candidates.emplace_back(named.substr(begin, end - begin));
    begin = end + 1;
  }
#endif
  const auto add_children = [&](const fs::path& parent, const fs::path& below) {
    std::error_code error;
    std::vector<std::string> found;
    for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
      found.push_back((at->path() / below).string());
    }
    std::sort(found.rbegin(), found.rend());
    candidates.insert(candidates.end(), found.begin(), found.end());
  };
  add_children("/usr/include/c++", "");
  add_children("/usr/local/include/c++", "");
  add_children("/usr/lib", "include/c++/v1");
  add_children("/usr/lib/gcc", "include/c++");
  candidates.emplace_back("/Library/Developer/CommandLineTools/SDKs/MacOSX.sdk/usr/include/c++/v1");

  for (const std::string& directory : candidates) {
    std::error_code error;
    if (directory.empty() || !fs::is_regular_file(fs::path(directory) / "vector", error)) continue;
    const fs::path whole = fs::weakly_canonical(directory, error);
    return {error ? directory : whole.string()};  // one library: a second version of it would only repeat the first
  }
  return {};
}

}  // namespace common
