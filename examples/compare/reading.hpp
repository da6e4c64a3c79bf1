// ufp4 - the results of the comparison as sentences.
// SPDX-License-Identifier: Apache-2.0
/// Built from the figures of the run: ranges, no causes, and no general statement where the families disagree.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiment.hpp"
#include "metrics.hpp"
#include "text.hpp"

namespace compare {

namespace detail {

/// The lowest and the highest of some numbers as text: "0.4 to 1.9", or one number if both have the same text.
class span_of_values {
 public:
  void add(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
    finite_ = finite_ && std::isfinite(value);
  }
  bool finite() const { return finite_ && low_ <= high_; }

  std::string text(int digits) const {
    const std::string low = fixed(low_, digits), high = fixed(high_, digits);
    return low == high ? low : low + " to " + high;
  }

 private:
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
  bool finite_ = true;
};

inline std::string with_sign(double value) {
  const std::string text = fixed(value, 2);
  return value > 0 && text != "0.00" ? "+" + text : text;
}

/// A scale family's four outcomes that the text compares, if both grids were run. The uniform grid stands for E1M2.
struct family {
  std::string_view scale;
  const outcome* e2m1 = nullptr;
  const outcome* e2m1_transformed = nullptr;
  const outcome* uniform = nullptr;
  const outcome* uniform_transformed = nullptr;
};

inline std::vector<family> families_of(const comparison& c) {
  std::vector<family> families;
  for (const outcome& o : c.outcomes) {
    if (o.format.element != "E2M1" && o.format.element != "E1M2") continue;
    auto found =
        std::find_if(families.begin(), families.end(), [&](const family& f) { return f.scale == o.format.scale; });
    if (found == families.end()) found = families.insert(found, {.scale = o.format.scale});
    family& f = *found;
    (o.format.uniform ? (o.hadamard ? f.uniform_transformed : f.uniform) : (o.hadamard ? f.e2m1_transformed : f.e2m1)) =
        &o;
  }
  std::erase_if(families, [](const family& f) { return f.e2m1 == nullptr || f.uniform == nullptr; });
  return families;
}

/// Which grid has the higher SQNR, with which kinds of scales and by how much.
inline std::string lead_text(const std::vector<family>& families, const outcome* family::* e2m1,
                             const outcome* family::* uniform) {
  struct group {
    std::string subject;
    std::vector<std::string> scales;
    span_of_values lead;
  };
  std::array<group, 3> groups{{{"E2M1 has the higher SQNR", {}, {}},
                               {"the uniform grid has the higher SQNR", {}, {}},
                               {"both have the same SQNR", {}, {}}}};
  for (const family& f : families) {
    const double lead = (f.*e2m1)->sqnr_db - (f.*uniform)->sqnr_db;
    group& p = groups[lead >= 0.005 ? 0 : lead <= -0.005 ? 1 : 2];  // what two digits can show
    p.scales.emplace_back(f.scale);
    p.lead.add(std::abs(lead));
  }
  std::string text;
  for (const group& p : groups) {
    if (p.scales.empty()) continue;
    text += (text.empty() ? "" : ", ") + p.subject;
    text += p.scales.size() == families.size() ? " with every kind of scale" : " with " + listed(p.scales) + " scales";
    if (&p != &groups[2]) text += " by " + p.lead.text(2) + " dB";
  }
  return text;
}

/// The best and the worst of a column; both without names if all are equal or one is not a number.
inline std::pair<champions, champions> extremes_of(const comparison& c, const metric& m) {
  std::pair<champions, champions> found{champions_of(c, m), {}};
  const outcome* worst = &c.outcomes.front();
  for (const outcome& o : c.outcomes) {
    const double value = m.value(c, o), so_far = m.value(c, *worst);
    if (!std::isfinite(value)) return {};
    if (m.best == better::lower ? value > so_far : value < so_far) worst = &o;
  }
  found.second.value = m.text(c, *worst);
  for (const outcome& o : c.outcomes)
    if (m.text(c, o) == found.second.value) found.second.names.push_back(label_of(o));
  return found;
}

/// A few names, or how many there are.
inline std::string some(const champions& best, const comparison& c) {
  if (best.names.size() <= 4) return listed(best.names);
  return std::to_string(best.names.size()) + " of " + std::to_string(c.outcomes.size()) + " runs";
}

/// Whether int4 has the figures of E1M2 in every family, except times.
inline bool int4_equals_e1m2(const comparison& c) {
  bool any = false;
  for (const outcome& a : c.outcomes) {
    if (a.format.element != "int4") continue;
    for (const outcome& b : c.outcomes) {
      if (b.format.element != "E1M2" || b.format.scale != a.format.scale || b.hadamard != a.hadamard) continue;
      any = true;
      if (a.sqnr_db != b.sqnr_db || a.attenuation != b.attenuation || a.product_error != b.product_error ||
          a.neighbours_kept != b.neighbours_kept)
        return false;
    }
  }
  return any;
}

}  // namespace detail

/// One paragraph a string.
inline std::vector<std::string> reading_of(const comparison& c) {
  std::vector<std::string> paragraphs;
  const auto families = detail::families_of(c);
  detail::span_of_values sqnr, e2m1_atten, uniform_atten;
  std::string scales, e2m1_change, uniform_change;
  for (const auto& f : families) {
    const char* const separator = &f == &families.front() ? "" : &f == &families.back() ? " and " : ", ";
    scales += separator + std::string(f.scale);
    e2m1_change += separator + detail::with_sign(f.e2m1_transformed->sqnr_db - f.e2m1->sqnr_db);
    uniform_change += separator + detail::with_sign(f.uniform_transformed->sqnr_db - f.uniform->sqnr_db);
    for (const outcome* o : {f.e2m1, f.e2m1_transformed, f.uniform, f.uniform_transformed}) {
      sqnr.add(o->sqnr_db);
      (o->format.uniform ? uniform_atten : e2m1_atten).add(o->attenuation);
    }
  }
  if (sqnr.finite()) {
    paragraphs.push_back(
        "Without a transform, " + detail::lead_text(families, &detail::family::e2m1, &detail::family::uniform) +
        ". A Hadamard transform of every block changes E2M1 by " + e2m1_change + " dB and the uniform grid by " +
        uniform_change + " dB (" + scales + " scales, in this order); after it, " +
        detail::lead_text(families, &detail::family::e2m1_transformed, &detail::family::uniform_transformed) + ".");
  }
  if (e2m1_atten.finite() && uniform_atten.finite()) {
    paragraphs.push_back("The attenuation (1: values keep their size on average; below 1: they shrink) is " +
                         e2m1_atten.text(4) + " for E2M1 and " + uniform_atten.text(4) + " for the uniform grid.");
  }

  std::string use;
  const metric &error = metric_named("product_error"), &kept = metric_named("neighbours_kept");
  const auto [closest, farthest] = detail::extremes_of(c, error);
  if (!closest.names.empty())
    use = "The product of the matrix with itself is closest to the binary32 one with " + detail::some(closest, c) +
          " (" + closest.value + " % error) and farthest from it with " + detail::some(farthest, c) + " (" +
          farthest.value + " % error).";
  const auto [most, fewest] = detail::extremes_of(c, kept);
  if (!most.names.empty())
    use += (use.empty() ? "Of " : " Of ") + grouped(c.neighbours) + " rows, " + most.value +
           " % keep their nearest neighbour with " + detail::some(most, c) + ", the most, and " + fewest.value +
           " % with " + detail::some(fewest, c) + ", the fewest.";
  else if (c.neighbours > 0)
    use += (use.empty() ? "Of " : " Of ") + grouped(c.neighbours) + " rows, " + kept.text(c, c.outcomes.front()) +
           " % keep their nearest neighbour with every format.";
  if (!use.empty()) paragraphs.push_back(use);
  std::string last;
  if (detail::int4_equals_e1m2(c)) last += "E1M2 and int4 have the same figures: one grid is four times the other. ";
  last += "These are results of one matrix and one choice of signs; other data may rank the formats differently.";
  paragraphs.push_back(last);
  return paragraphs;
}

}  // namespace compare
