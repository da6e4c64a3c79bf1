// ufp4 - the names that a public header declares, for tests that must cover every one of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace support {

/// The sorted names between `before`, on the same line, and `after` in include/ufp4/<header>.
inline std::vector<std::string> declared(const std::string& header, const std::string& before,
                                         const std::string& after) {
  std::ifstream file(UFP4_SOURCE_DIR "/include/ufp4/" + header);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> names;
  for (std::size_t end = text.find(after); end != std::string::npos; end = text.find(after, end + 1)) {
    const std::size_t first = text.rfind(before, end);
    if (first == std::string::npos || text.substr(first, end - first).find('\n') != std::string::npos) continue;
    names.push_back(text.substr(first + before.size(), end - first - before.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace support
