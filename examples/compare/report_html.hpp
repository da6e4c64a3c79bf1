// ufp4 - the comparison as one HTML page without scripts and without external fonts or images.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "charts.hpp"
#include "metrics.hpp"
#include "reading.hpp"
#include "report_style.hpp"

namespace compare {

namespace detail {

/// HTML of a sentence; "+ RHT" stays on the line of its format.
inline std::string html_sentence(std::string_view text) {
  constexpr std::string_view loose = " + RHT";
  std::string out;
  for (std::size_t at = text.find(loose); at != std::string_view::npos; at = text.find(loose)) {
    out += html_text(text.substr(0, at)) + "&nbsp;+&nbsp;RHT";
    text.remove_prefix(at + loose.size());
  }
  return out + html_text(text);
}

inline void write_tile(std::ostream& out, std::string_view what, std::string_view unit, const champions& best) {
  if (best.names.empty()) return;
  auto names = best.names;
  if (names.size() > 3) {
    const std::string more = std::to_string(names.size() - 2) + " more";
    names.resize(2);
    names.push_back(more);
  }
  out << "<div class=\"tile\"><div class=\"what\">" << what << "</div><div class=\"number\">" << best.value
      << " <span class=\"unit\">" << unit << "</span></div>";
  for (const std::string& name : names) out << "<div class=\"who mono\">" << name << "</div>";
  out << "</div>\n";
}

inline void write_full_table(std::ostream& out, const comparison& c) {
  std::array<std::vector<bool>, metrics.size()> best;
  for (std::size_t m = 0; m < metrics.size(); ++m) best[m] = best_of(c, metrics[m]);
  out << "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">format</th><th "
         "scope=\"col\">RHT</th>";
  for (const metric& m : metrics)
    out << "<th scope=\"col\">" << m.heading << "<small>" << (m.unit.empty() ? "&nbsp;" : m.unit) << "</small></th>";
  out << "</tr></thead>\n<tbody>\n";
  std::string_view family;
  for (std::size_t i = 0; i < c.outcomes.size(); ++i) {
    const outcome& o = c.outcomes[i];
    out << (o.format.scale != family ? "<tr class=\"first\">" : "<tr>") << "<td class=\"mono\">" << o.format.name
        << "</td><td>" << (o.hadamard ? std::to_string(o.hadamard) : "-") << "</td>";
    family = o.format.scale;
    for (std::size_t m = 0; m < metrics.size(); ++m)
      out << (best[m][i] ? "<td class=\"best\">" : "<td>") << metrics[m].text(c, o) << "</td>";
    out << "</tr>\n";
  }
  out << "</tbody></table></div>\n";
}

inline void write_head(std::ostream& out, const comparison& c, const std::string& version) {
  const std::string source = html_text(c.source);
  out << R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
)"
      << "<title>ufp4 compare: " << source << "</title>\n<style>" << report_style
      << "</style>\n</head>\n<body>\n<main>\n<header>\n"
      << "<p class=\"over\">ufp4 " << version << " &middot; compare</p>\n<h1>This matrix in 4 bits</h1>\n"
      << "<p class=\"source\">" << source << ". " << grouped(c.rows) << " rows of " << grouped(c.cols) << " values, "
      << byte_size(static_cast<double>(c.binary32_bytes)) << " in binary32; root mean square " << significant(c.rms, 4)
      << ", amax " << significant(c.amax, 4) << ", " << fixed(100 * c.zeros, 1) << " % zeros.</p>\n</header>\n";
}

inline void write_opening(std::ostream& out, const comparison& c) {
  out << "<section class=\"opening\">\n<div class=\"reading\">\n<h2>Summary</h2>\n";
  for (const std::string& paragraph : reading_of(c)) out << "<p>" << html_sentence(paragraph) << "</p>\n";
  out << "</div>\n<div class=\"tiles\">\n";
  write_tile(out, "highest SQNR", "dB", champions_of(c, metric_named("sqnr_db")));
  write_tile(out, "smallest error of the product", "%", champions_of(c, metric_named("product_error")));
  write_tile(out, "most nearest neighbours kept", "%", champions_of(c, metric_named("neighbours_kept")));
  write_tile(out, "smallest in memory", "bits a value", champions_of(c, metric_named("bits_per_element")));
  out << "</div>\n</section>\n";
}

inline void open_section(std::ostream& out, std::string_view title, std::string_view note) {
  out << "<section>\n<h2>" << title << "</h2>\n<p class=\"note\">" << note << "</p>\n";
}

inline void close_section(std::ostream& out) { out << "</section>\n"; }

inline void write_glossary(std::ostream& out) {
  out << R"(<dl>
<dt>RHT</dt><dd>length of the randomized Hadamard transform, one block; - is none</dd>
<dt>size, stored</dt><dd>bits for each value of the matrix, and KiB in all: codes, block scales, tensor scale</dd>
<dt>SQNR</dt><dd>10 log10 of the energy of the matrix over that of the error, after the transform if there is one</dd>
<dt>atten.</dt><dd>attenuation, the sum of x q over the sum of x x; below 1 the quantized values are too small</dd>
<dt>buckets</dt><dd>2 to the entropy of the values used, over the number of values there are</dd>
<dt>product</dt><dd>Frobenius norm of the error of X X<sup>T</sup> over that of X X<sup>T</sup>; the reference is the
binary32 matrix, summed in binary64</dd>
<dt>nearest</dt><dd>rows whose most similar other row is still a most similar one</dd>
<dt>quantize, multiply</dt><dd>wall time on the machine that wrote this page</dd>
</dl>
)";
}

}  // namespace detail

inline void write_html(std::ostream& out, const comparison& c, const std::string& version) {
  using namespace detail;
  write_head(out, c, version);
  write_opening(out, c);

  open_section(out, "Signal to quantization noise, without and with the transform", "Further right is better.");
  write_legend(out, c);
  write_paired_chart(out, c, metric_named("sqnr_db"), marks::dots);
  close_section(out);

  out << "<div class=\"pair\">\n";
  open_section(
      out, "Error of the product",
      R"(How far X X<sup>T</sup> of the quantized matrix is from that of binary32, as a share of its Frobenius norm.
Shorter is better; pale is without the transform, solid is with it.)");
  write_paired_chart(out, c, metric_named("product_error"), marks::bars);
  close_section(out);
  open_section(out, "Nearest neighbours kept",
               R"(Rows whose most similar other row, by cosine, is still the one that binary32 finds. Further right is
better.)");
  write_paired_chart(out, c, metric_named("neighbours_kept"), marks::dots);
  close_section(out);
  out << "</div>\n";

  open_section(
      out, "Bias of each bin",
      R"(Everything inside a shaded bin is rounded to the value marked by its line; the ring is the middle of the
bin. The bias is the position of the line minus that of the ring: what rounding adds, on average, to magnitudes that are
uniformly distributed over the bin; if it is negative, values shrink. int4 is E1M2 times four.)");
  out << "<div class=\"grids\">\n";
  write_bin_plot<ufp4::fp4<ufp4::E2M1>>(out, "E2M1", "e2m1");
  write_bin_plot<ufp4::fp4<ufp4::E1M2>>(out, "E1M2, uniform", "uniform");
  out << "</div>\n";
  close_section(out);

  open_section(
      out, "Which values are used",
      R"(Share of the elements that got each value of the grid, for formats with one grid of 16 values, all plots on one
scale; from the most negative value to the most positive. Wide and pale is without the transform, narrow and solid is
with it. &ldquo;Buckets used&rdquo; is 1 if all values are used equally often.)");
  write_histograms(out, c);
  close_section(out);

  open_section(out, "All numbers", "The best of each column is marked, except times: their order varies between runs.");
  write_full_table(out, c);
  write_glossary(out);
  out << "<p class=\"note\">Seed of the transform's signs: " << c.with.seed
      << ". The same input gives the same numbers, except times.</p>\n";
  close_section(out);
  out << "</main>\n</body>\n</html>\n";
}

}  // namespace compare
