// ufp4 - the plots of the HTML report, as inline SVG.
// SPDX-License-Identifier: Apache-2.0
/// Positions along x are percentages, everything else is in pixels: a plot is as wide as its column, and text and dots
/// keep their size. report_style.hpp defines the classes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "metrics.hpp"
#include "text.hpp"

namespace compare {

namespace detail {

/// A linear axis with round ticks that cover all values, as percentages of the plot's width.
class axis {
 public:
  axis(double low, double high) {
    if (!(high > low)) high = low + 1;
    const double raw = (high - low) / 5, power = std::pow(10.0, std::floor(std::log10(raw)));
    const double lead = raw / power;
    step_ = power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
    low_ = std::floor(low / step_ + 1e-9) * step_;
    count_ = static_cast<int>(std::ceil((high - low_) / step_ - 1e-9));
  }

  int ticks() const { return count_ + 1; }
  double tick(int i) const { return low_ + i * step_; }
  std::string tick_text(int i) const { return fixed(tick(i), step_ < 0.095 ? 2 : step_ < 0.95 ? 1 : 0); }
  std::string at(double value) const { return fixed(100 * (value - low_) / (count_ * step_), 2) + "%"; }

 private:
  double low_ = 0, step_ = 1;
  int count_ = 1;
};

/// "uniform" or "e2m1"; "plain" for what is neither.
inline std::string hue_class(const preset& format) {
  return format.uniform ? "uniform" : format.element == "E2M1" ? "e2m1" : "plain";
}

inline void gridlines(std::ostream& out, const axis& x) {
  for (int i = 0; i < x.ticks(); ++i) {
    const std::string at = x.at(x.tick(i));
    out << "<line class=\"gridline\" x1=\"" << at << "\" x2=\"" << at << "\" y1=\"0\" y2=\"100%\"/>";
  }
}

}  // namespace detail

inline void write_legend(std::ostream& out, const comparison& c) {
  const bool others = std::any_of(c.outcomes.begin(), c.outcomes.end(),
                                  [](const outcome& o) { return detail::hue_class(o.format) == "plain"; });
  out << R"(<ul class="legend">
<li class="e2m1"><svg aria-hidden="true"><rect class="solid" width="14" height="14" rx="3"/></svg>E2M1</li>
<li class="uniform"><svg aria-hidden="true"><rect class="solid" width="14" height="14" rx="3"/></svg>uniform: E1M2,
int4</li>
)";
  if (others)
    out << R"(<li class="plain"><svg aria-hidden="true"><rect class="solid" width="14" height="14" rx="3"/></svg>other
grids</li>
)";
  out << R"(<li class="plain"><svg aria-hidden="true"><circle class="hollow" cx="7" cy="7" r="5"/></svg>without a
transform</li>
<li class="plain"><svg aria-hidden="true"><circle class="solid" cx="7" cy="7" r="6"/></svg>after a Hadamard transform of
each block</li>
</ul>
)";
}

enum class marks { dots, bars };  ///< bars start at zero, dots where the data do

namespace detail {

/// An axis for all values of a column that are numbers.
inline axis axis_of(const comparison& c, const metric& m, marks drawn) {
  double low = INFINITY, high = -INFINITY;
  for (const outcome& o : c.outcomes) {
    const double value = m.value(c, o) * m.scale;
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return low > high ? axis(0, 1) : axis(drawn == marks::bars ? 0 : low, high);
}

/// Hollow or pale at `from`, solid at `to`.
inline void write_marks(std::ostream& out, const std::string& from, const std::string& to, marks drawn) {
  if (drawn == marks::bars) {
    out << R"(<rect class="pale" x="0" y="4" height="8" rx="1.5" width=")" << from
        << R"("/><rect class="solid" x="0" y="14" height="8" rx="1.5" width=")" << to << "\"/>";
  } else {
    out << R"(<line class="link" y1="13" y2="13" x1=")" << from << "\" x2=\"" << to
        << R"("/><circle class="hollow" r="5" cy="13" cx=")" << from << R"("/><circle class="solid" r="6" cy="13" cx=")"
        << to << "\"/>";
  }
}

}  // namespace detail

/// One row a preset: the value without and with the transform, on one axis.
inline void write_paired_chart(std::ostream& out, const comparison& c, const metric& m, marks drawn) {
  const detail::axis x = detail::axis_of(c, m, drawn);
  out << "<div class=\"chart\" role=\"img\" aria-label=\"" << m.heading << " of each format\">\n";
  std::string_view family;
  for (std::size_t i = 0; i + 1 < c.outcomes.size(); i += 2) {
    const outcome &before = c.outcomes[i], &after = c.outcomes[i + 1];
    const preset& format = before.format;
    if (format.scale != family)
      out << "<div class=\"family\">" << format.scale << " scales, blocks of " << format.block << "</div>\n";
    family = format.scale;
    out << "<div class=\"mono\">" << format.name << "</div><svg class=\"" << detail::hue_class(format)
        << "\" height=\"26\">";
    detail::gridlines(out, x);
    const double from = m.value(c, before) * m.scale, to = m.value(c, after) * m.scale;
    if (std::isfinite(from) && std::isfinite(to)) {
      out << "<g><title>" << format.name << ": " << m.text(c, before) << " without a transform, " << m.text(c, after)
          << " transformed</title>";
      detail::write_marks(out, x.at(from), x.at(to), drawn);
      out << "</g>";
    }
    out << "</svg><div class=\"value\"><span class=\"before\">" << m.text(c, before) << " &rarr;</span> "
        << m.text(c, after) << "</div>\n";
  }
  out << "<div></div><svg height=\"22\" aria-hidden=\"true\">";
  for (int i = 0; i < x.ticks(); ++i)
    out << R"(<text y="15" text-anchor="middle" x=")" << x.at(x.tick(i)) << "\">" << x.tick_text(i) << "</text>";
  out << "</svg><div class=\"value before\">" << (m.unit == "dB" ? "dB" : "%") << "</div>\n</div>\n";
}

/// The positive half of a grid: each bin, the value it is rounded to, its middle, and the difference of the two.
template <class Element>
void write_bin_plot(std::ostream& out, std::string_view name, std::string_view hue) {
  std::array<double, 8> value{}, edge{};  // edge[i]: where bin i begins
  for (unsigned i = 0; i < 8; ++i)
    value[i] = static_cast<double>(static_cast<float>(Element::from_bits(static_cast<std::uint8_t>(i))));
  for (std::size_t i = 1; i < 8; ++i) edge[i] = (value[i - 1] + value[i]) / 2;
  const auto at = [&](double v) { return fixed(2 + 96 * v / value[7], 2) + "%"; };
  const auto width = [&](double v) { return fixed(96 * v / value[7], 2) + "%"; };
  constexpr double zero = 96, pixels_per_unit = 150;  // of the bias below the bins

  out << "<figure style=\"margin:0\"><div class=\"head\"><h3 class=\"mono\">" << name << "</h3></div><svg class=\""
      << hue << "\" height=\"166\" role=\"img\" aria-label=\"bias of each bin of " << name << "\">";
  for (std::size_t i = 0; i < 8; ++i) {
    const double end = i == 7 ? value[7] : edge[i + 1];
    out << "<rect class=\"bin" << (i % 2 ? " alternate" : "") << "\" y=\"8\" height=\"36\" x=\"" << at(edge[i])
        << "\" width=\"" << width(end - edge[i]) << "\"/>";
  }
  out << "<line class=\"axis\" x1=\"2%\" x2=\"98%\" y1=\"" << zero << "\" y2=\"" << zero << "\"/>";
  for (int code = 0; code < 8; ++code) {
    const auto i = static_cast<std::size_t>(code);
    const std::string x = at(value[i]);
    out << "<line class=\"tick\" y1=\"6\" y2=\"46\" x1=\"" << x << "\" x2=\"" << x
        << "\"/><text text-anchor=\"middle\" y=\"62\" x=\"" << x << "\">" << shortest(value[i], "-") << "</text>";
    if (code == 0 || code == 7) continue;  // the first and the last bin have one side only
    const double bias = ufp4::analysis::bin_bias<Element>(static_cast<std::uint8_t>(code));
    out << "<circle class=\"hollow\" r=\"4.5\" cy=\"26\" cx=\"" << at((edge[i] + edge[i + 1]) / 2) << "\"/>";
    const std::string end = fixed(zero - pixels_per_unit * bias, 1);
    if (bias != 0)
      out << "<line class=\"stem\" y1=\"" << zero << "\" y2=\"" << end << "\" x1=\"" << x << "\" x2=\"" << x
          << "\"/><text class=\"number\" text-anchor=\"middle\" x=\"" << x << "\" y=\""
          << fixed(zero - pixels_per_unit * bias + (bias < 0 ? 20 : -10), 1) << "\">" << shortest(bias, "-")
          << "</text>";
    out << "<circle class=\"solid\" r=\"4.5\" cy=\"" << end << "\" cx=\"" << x << "\"/>";
  }
  out << "<text x=\"2%\" y=\"" << zero - 8 << "\">bias</text></svg></figure>\n";
}

namespace detail {

/// Shares of the distinct values of a grid, ascending; both zeros are one value, values that quantization never gives
/// are left out.
struct bar {
  double value = 0;
  double before = 0;
  double after = 0;
};

inline std::vector<bar> bars_of(const outcome& before, const outcome& after) {
  const auto total = [](const outcome& o) {
    double sum = 0;
    for (const std::uint64_t count : o.histogram) sum += static_cast<double>(count);
    return std::max(sum, 1.0);
  };
  const double all_before = total(before), all_after = total(after);
  const float most = *std::max_element(before.format.values.begin(), before.format.values.end());
  std::vector<bar> bars;
  for (std::size_t code = 0; code < 16; ++code) {
    const float value = before.format.values[code];
    if (value < -most) continue;  // int4's -8, which quantization never gives
    auto same =
        std::find_if(bars.begin(), bars.end(), [&](const bar& b) { return b.value == static_cast<double>(value); });
    if (same == bars.end()) same = bars.insert(bars.end(), bar{static_cast<double>(value), 0, 0});
    same->before += static_cast<double>(before.histogram[code]) / all_before;
    same->after += static_cast<double>(after.histogram[code]) / all_after;
  }
  std::sort(bars.begin(), bars.end(), [](const bar& a, const bar& b) { return a.value < b.value; });
  return bars;
}

}  // namespace detail

/// How often each value of the grid is used, one plot for each preset with one grid; all share one vertical scale.
inline void write_histograms(std::ostream& out, const comparison& c) {
  double tallest = 0;
  for (std::size_t i = 0; i + 1 < c.outcomes.size(); i += 2)
    if (c.outcomes[i].format.has_one_grid)
      for (const auto& b : detail::bars_of(c.outcomes[i], c.outcomes[i + 1]))
        tallest = std::max({tallest, b.before, b.after});
  constexpr double base = 100;
  const auto height = [&](double share) { return tallest == 0 ? 0 : 92 * share / tallest; };

  out << "<div class=\"histograms\">\n";
  for (std::size_t i = 0; i + 1 < c.outcomes.size(); i += 2) {
    const outcome &before = c.outcomes[i], &after = c.outcomes[i + 1];
    if (!before.format.has_one_grid) continue;
    const auto bars = detail::bars_of(before, after);
    const double slot = 100.0 / static_cast<double>(bars.size());
    out << "<figure style=\"margin:0\"><div class=\"head\"><h3 class=\"mono\">" << before.format.name
        << "</h3><span>buckets used " << fixed(before.utilization, 2) << " &rarr; " << fixed(after.utilization, 2)
        << "</span></div><svg class=\"" << detail::hue_class(before.format)
        << "\" height=\"120\" role=\"img\" aria-label=\"code histogram of " << before.format.name << "\">";
    for (std::size_t k = 0; k < bars.size(); ++k) {
      const auto column = [&](const char* look, double share, double inset) {
        out << "<rect class=\"" << look << "\" x=\"" << fixed(slot * (static_cast<double>(k) + inset), 2)
            << "%\" width=\"" << fixed(slot * (1 - 2 * inset), 2) << "%\" y=\"" << fixed(base - height(share), 2)
            << "\" height=\"" << fixed(height(share), 2) << "\"/>";
      };
      out << "<g><title>" << shortest(bars[k].value, "-") << ": " << fixed(100 * bars[k].before, 2)
          << " % without a transform, " << fixed(100 * bars[k].after, 2) << " % transformed</title>";
      column("pale", bars[k].before, 0.06);
      column("solid", bars[k].after, 0.28);
      out << "</g>";
      if (k == 0 || k + 1 == bars.size() || bars[k].value == 0)
        out << "<text y=\"115\" text-anchor=\"middle\" x=\"" << fixed(slot * (static_cast<double>(k) + 0.5), 2)
            << "%\">" << shortest(bars[k].value, "-") << "</text>";
    }
    out << "<line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"" << base << "\" y2=\"" << base << "\"/></svg></figure>\n";
  }
  out << "</div>\n";
}

}  // namespace compare
