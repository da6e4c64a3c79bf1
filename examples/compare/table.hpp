// ufp4 - the comparison in a terminal: a progress line while it runs, an aligned table, the reading.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "metrics.hpp"
#include "reading.hpp"

namespace compare {

/// A line on stderr that each step overwrites and the destructor removes; silent where stderr is not a terminal.
class progress_line {
 public:
  progress_line() : shown_(isatty(STDERR_FILENO) != 0) {}
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  ~progress_line() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }

  void show(const std::string& text) const {
    if (!shown_) return;
    std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
    std::fflush(stderr);
  }

  void step(std::size_t at, std::size_t of, const std::string& what) const {
    constexpr std::size_t width = 24;
    const std::size_t done = width * (at - 1) / of;
    show("[" + std::string(done, '#') + std::string(width - done, '.') + "] " + std::to_string(at) + "/" +
         std::to_string(of) + "  " + what);
  }

 private:
  bool shown_;
};

/// Bold for best values only where a person looks at a terminal and did not ask for none (no-color.org).
inline bool stdout_wants_color() {
  const char* const refused = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (refused == nullptr || *refused == '\0');
}

namespace detail {

inline std::string right(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

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

}  // namespace detail

/// Best values carry a star, and are bold where `color` is set.
inline void print_table(std::ostream& out, const comparison& c, bool color) {
  constexpr std::size_t name_width = 10, rht_width = 5, gap = 2;
  std::array<std::size_t, metrics.size()> width{};
  std::array<std::vector<bool>, metrics.size()> best;
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    width[m] = std::max(metrics[m].heading.size(), metrics[m].unit.size());
    for (const outcome& o : c.outcomes) width[m] = std::max(width[m], metrics[m].text(c, o).size());
    best[m] = best_of(c, metrics[m]);
  }
  out << c.source << "\n"
      << shape_text(c.rows, c.cols) << ", " << byte_size(static_cast<double>(c.binary32_bytes)) << " in binary32; rms "
      << significant(c.rms, 4) << ", largest " << significant(c.largest, 4) << ", zeros " << fixed(100 * c.zeros, 1)
      << " %\n\n";

  std::string head = detail::left("format", name_width) + detail::right("RHT", rht_width);
  std::string units(name_width + rht_width, ' ');
  std::size_t total = head.size();
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    head += detail::right(std::string(metrics[m].heading), width[m] + gap) + " ";
    units += detail::right(std::string(metrics[m].unit), width[m] + gap) + " ";
    total += width[m] + gap + 1;
  }
  for (const std::string& line : {head, units}) out << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";

  std::string_view family;
  for (std::size_t i = 0; i < c.outcomes.size(); ++i) {
    const outcome& o = c.outcomes[i];
    if (o.format.scale != family) out << std::string(total, '-') << "\n";
    family = o.format.scale;
    out << detail::left(std::string(o.format.name), name_width)
        << detail::right(o.hadamard ? std::to_string(o.hadamard) : "-", rht_width);
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      const std::string text = detail::right(metrics[m].text(c, o), width[m] + gap) + (best[m][i] ? "*" : " ");
      out << (best[m][i] && color ? "\x1b[1m" + text + "\x1b[0m" : text);
    }
    out << "\n";
  }
  out << std::string(total, '-') << "\n* best of its column (times are not marked: they vary from run to run)\n\n";
  for (const std::string& paragraph : reading_of(c)) out << detail::wrapped(paragraph, total) << "\n";
}

}  // namespace compare
