// ufp4 - output of examples in a terminal: a progress line, columns, wrapped text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace common {

/// A line on stderr that each step overwrites and the destructor removes. Prints nothing unless stderr is a terminal.
class progress_line {
 public:
  progress_line() : shown_(isatty(STDERR_FILENO) != 0) {}
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  ~progress_line() { clear(); }

  /// Cut to 79 bytes, so that it fits one line of a terminal: only one line can be overwritten.
  void show(const std::string& text) const {
    if (!shown_) return;
    std::size_t length = std::min<std::size_t>(text.size(), 79);
    while (length < text.size() && length > 0 && (text[length] & 0xC0) == 0x80) --length;  // not inside a character
    std::fprintf(stderr, "\r\x1b[K%s", text.substr(0, length).c_str());
    std::fflush(stderr);
  }

  /// Step `at` of `of`, as a bar.
  void step(std::size_t at, std::size_t of, const std::string& what) const {
    constexpr std::size_t width = 24;
    const std::size_t done = width * (at - 1) / of;
    show("[" + std::string(done, '#') + std::string(width - done, '.') + "] " + std::to_string(at) + "/" +
         std::to_string(of) + "  " + what);
  }

  /// Before something else is written to the same terminal.
  void clear() const { show(""); }

 private:
  bool shown_;
};

/// Aligned to the right in `width` bytes.
inline std::string right(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

/// Aligned to the left in `width` bytes.
inline std::string left(const std::string& text, std::size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

/// `text` in lines of at most `width` bytes, broken at blanks.
inline std::string wrapped(std::string_view text, std::size_t width) {
  std::string out;
  while (text.size() > width) {
    std::size_t cut = text.rfind(' ', width);
    if (cut == std::string_view::npos || cut == 0) cut = std::min(text.find(' '), text.size());
    out += std::string(text.substr(0, cut)) + "\n";
    text.remove_prefix(std::min(cut + 1, text.size()));
  }
  return out + std::string(text) + "\n";
}

}  // namespace common
