// ufp4 - the columns of every report: heading, unit, digits, and which value is best.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "experiment.hpp"
#include "text.hpp"

namespace compare {

enum class better { higher, lower, near_one, unmarked };

struct metric {
  std::string_view key;  ///< in JSON and CSV
  std::string_view heading;
  std::string_view unit;
  int digits;
  better best;
  double scale;  ///< shown value = measured value * scale
  double (*value)(const comparison&, const outcome&);

  std::string text(const comparison& c, const outcome& o) const { return fixed(value(c, o) * scale, digits); }
};

inline constexpr std::array<metric, 9> metrics{{
    {"bits_per_element", "size", "bits", 2, better::lower, 1,
     [](const comparison&, const outcome& o) { return o.bits_per_element; }},
    {"bytes", "stored", "KiB", 1, better::lower, 1.0 / 1024,
     [](const comparison&, const outcome& o) { return static_cast<double>(o.bytes); }},
    {"sqnr_db", "SQNR", "dB", 2, better::higher, 1, [](const comparison&, const outcome& o) { return o.sqnr_db; }},
    {"attenuation", "atten.", "", 4, better::near_one, 1,
     [](const comparison&, const outcome& o) { return o.attenuation; }},
    {"bucket_utilization", "buckets", "used", 3, better::higher, 1,
     [](const comparison&, const outcome& o) { return o.utilization; }},
    {"product_error", "product", "error %", 2, better::lower, 100,
     [](const comparison&, const outcome& o) { return o.product_error; }},
    {"neighbours_kept", "nearest", "kept %", 1, better::higher, 100,
     [](const comparison& c, const outcome& o) { return c.kept_share(o); }},
    // Times are not marked: the order of similar times changes from run to run.
    {"quantize_ms", "quantize", "ms", 1, better::unmarked, 1,
     [](const comparison&, const outcome& o) { return o.quantize_ms; }},
    {"gemm_ms", "multiply", "ms", 1, better::unmarked, 1,
     [](const comparison&, const outcome& o) { return o.gemm_ms; }},
}};

/// For each outcome whether its text in a column is the best one. Equal texts are equally good; if all texts are equal,
/// none is best.
inline std::vector<bool> best_of(const comparison& c, const metric& m) {
  std::vector<bool> best(c.outcomes.size(), false);
  if (m.best == better::unmarked) return best;
  double least = std::numeric_limits<double>::infinity();
  std::string text;
  for (const outcome& o : c.outcomes) {
    const double value = m.value(c, o);
    const double badness = m.best == better::lower ? value : m.best == better::higher ? -value : std::abs(value - 1);
    if (!(badness < least)) continue;  // NaN and infinite errors are never best
    least = badness;
    text = m.text(c, o);
  }
  for (std::size_t i = 0; i < best.size(); ++i) best[i] = m.text(c, c.outcomes[i]) == text;
  if (std::find(best.begin(), best.end(), false) == best.end()) best.assign(best.size(), false);
  return best;
}

inline const metric& metric_named(std::string_view key) {
  return *std::find_if(metrics.begin(), metrics.end() - 1, [&](const metric& m) { return m.key == key; });
}

inline std::string label_of(const outcome& o) { return std::string(o.format.name) + (o.hadamard ? " + RHT" : ""); }

/// "a, b and c".
inline std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return out;
}

/// The formats that are best in a column, and their text there; no names if best_of marks none.
struct champions {
  std::vector<std::string> names;
  std::string value;
};

inline champions champions_of(const comparison& c, const metric& m) {
  champions found;
  const auto best = best_of(c, m);
  for (std::size_t i = 0; i < best.size(); ++i) {
    if (!best[i]) continue;
    found.names.push_back(label_of(c.outcomes[i]));
    found.value = m.text(c, c.outcomes[i]);
  }
  return found;
}

}  // namespace compare
