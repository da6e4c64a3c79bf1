// ufp4 - the comparison in a terminal: an aligned table, the reading.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "../common/terminal.hpp"
#include "metrics.hpp"
#include "reading.hpp"

namespace compare {

using common::left;
using common::right;
using common::wrapped;

/// Bold for best values only where a person looks at a terminal and did not ask for none (no-color.org).
inline bool stdout_wants_color() {
  const char* const rejected = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (rejected == nullptr || *rejected == '\0');
}

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

  std::string head = left("format", name_width) + right("RHT", rht_width);
  std::string units(name_width + rht_width, ' ');
  std::size_t total = head.size();
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    head += right(std::string(metrics[m].heading), width[m] + gap) + " ";
    units += right(std::string(metrics[m].unit), width[m] + gap) + " ";
    total += width[m] + gap + 1;
  }
  for (const std::string& line : {head, units}) out << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";

  std::string_view family;
  for (std::size_t i = 0; i < c.outcomes.size(); ++i) {
    const outcome& o = c.outcomes[i];
    if (o.format.scale != family) out << std::string(total, '-') << "\n";
    family = o.format.scale;
    out << left(std::string(o.format.name), name_width)
        << right(o.hadamard ? std::to_string(o.hadamard) : "-", rht_width);
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      const std::string text = right(metrics[m].text(c, o), width[m] + gap) + (best[m][i] ? "*" : " ");
      out << (best[m][i] && color ? "\x1b[1m" + text + "\x1b[0m" : text);
    }
    out << "\n";
  }
  out << std::string(total, '-') << "\n* best of its column (times are not marked: they vary from run to run)\n\n";
  for (const std::string& paragraph : reading_of(c)) out << wrapped(paragraph, total) << "\n";
}

}  // namespace compare
