// ufp4 - the output of `ufp4 inspect`: two lines per tensor, every format of one tensor, JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <ufp4/interop/stored_tensor.hpp>
#include <ufp4/interop/text.hpp>
#include <utility>
#include <vector>

#include "../common/terminal.hpp"
#include "../compare/text.hpp"
#include "inspect_measure.hpp"

namespace tool {

/// A tensor of the file, with its measurements.
struct inspected {
  file_entry entry;
  std::optional<measured_matrix> measured;
};

/// A file and all of its tensors that were chosen.
struct inspected_file {
  std::string path, kind;
  std::vector<inspected> tensors;
};

namespace detail {

using common::left, common::right, compare::fixed, compare::significant, ufp4::interop::printable;

inline std::string shape_or_dash(const std::vector<std::uint64_t>& shape) {
  return shape.empty() ? "-" : ufp4::interop::shape_text(shape);
}

inline std::string label(const format_outcome& o, std::string_view transform) {
  return std::string(o.format.name) + (o.hadamard == 1 ? "" : " " + std::string(transform));
}

inline std::string bits_text(double bits) { return significant(bits, 4) + (bits == 1 ? " bit" : " bits"); }

/// Sizes of the formats, in bits per element, ascending.
inline std::vector<double> sizes_of(const std::vector<std::string>& formats) {
  std::vector<double> sizes;
  sizes.reserve(formats.size());
  for (const std::string& name : formats) sizes.push_back(format_named(name).bits_per_element);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// The outcome with the highest SQNR among the formats of one size, the first among equals; nullptr if all are NaN.
inline const format_outcome* best_of_size(const measured_matrix& m, double bits) {
  const format_outcome* best = nullptr;
  for (const format_outcome& o : m.outcomes) {
    if (o.format.bits_per_element != bits || std::isnan(o.report.sqnr_db)) continue;
    if (best == nullptr || o.report.sqnr_db > best->report.sqnr_db) best = &o;
  }
  return best;
}

/// "1000 of 4096 rows" if not all were measured.
inline std::string sample_text(const measured_matrix& m) {
  return m.rows == m.of_rows ? "" : std::to_string(m.rows) + " of " + std::to_string(m.of_rows) + " rows";
}

inline std::string nonfinite_text(const measured_matrix& m) {
  const std::uint64_t n = m.values.nonfinite;
  return n == 0 ? "" : std::to_string(n) + (n == 1 ? " NaN or infinity" : " NaNs or infinities");
}

/// Name, type, shape and special properties; with `listed` also the size, and nothing about measurements.
inline std::string head_text(const file_entry& e, bool listed = false) {
  const bool plain = e.format.empty();
  std::string text =
      printable(e.name) + "  " + (plain ? printable(e.tensor.type_name) : e.format) + " " + shape_or_dash(e.shape);
  if (listed && e.bytes != 0) text += ", " + compare::byte_size(static_cast<double>(e.bytes));
  if (!plain) text += ", " + e.layout + " layout";
  if (e.hadamard != 1) text += ", after a Hadamard transform of " + std::to_string(e.hadamard);
  if (!plain || listed) return text;
  if (e.shape.size() > 1 && e.axis + 1 != e.shape.size() && e.not_measured.empty())
    text += ", along dimension " + std::to_string(e.axis);
  if (!e.not_measured.empty()) return text + ", not measured: " + e.not_measured;
  const std::string copied = why_copied(e);
  return copied.empty() ? text : text + ", quantize copies it: " + copied;
}

/// Of the first format, without a transform.
inline double plain_attenuation(const measured_matrix& m) { return m.outcomes.front().report.attenuation; }

}  // namespace detail

namespace detail {

/// The columns of print_line: one text and one number for each size, at most as many in a line as fit 80 characters.
class size_columns {
 public:
  size_columns(const std::vector<std::string>& formats, std::string first) : line_(std::move(first)) {
    constexpr std::size_t least = 11, number = 6, transform = 3;
    for (const std::string& name : formats) label_ = std::max({label_, least, name.size() + transform});
    in_a_line_ = std::max<std::size_t>(1, (80 - line_.size()) / (2 + label_ + number));
    indent_ = std::string(line_.size(), ' ');
  }

  void add(const std::string& label, const std::string& number) {
    if (count_ != 0 && count_ % in_a_line_ == 0) line_ += "\n" + indent_;
    ++count_;
    line_ += "  " + left(label, label_) + right(number, 6);
  }
  const std::string& text() const { return line_; }

 private:
  std::string line_, indent_;
  std::size_t label_ = 0, in_a_line_ = 1, count_ = 0;
};

}  // namespace detail

/// The head of print_line's columns.
inline void print_line_head(std::ostream& out, const std::vector<std::string>& formats) {
  detail::size_columns columns(formats,
                               detail::right("amax", 9) + detail::right("crest", 7) + detail::right("atten.", 7));
  for (const double bits : detail::sizes_of(formats)) columns.add(detail::bits_text(bits), "dB");
  out << columns.text() << "\n";
}

/// The tensor in one line; if it was measured, a second line with statistics and the best format of each size.
inline void print_line(std::ostream& out, const inspected& t, const std::vector<std::string>& formats, bool listed) {
  using namespace detail;
  out << head_text(t.entry, listed);
  if (t.measured)
    for (const std::string& note : {sample_text(*t.measured), nonfinite_text(*t.measured)})
      if (!note.empty()) out << ", " << note;
  out << "\n";
  if (!t.measured) return;
  const measured_matrix& m = *t.measured;
  size_columns columns(formats, right(significant(m.values.amax, 4), 9) + right(fixed(m.values.crest(), 1), 7) +
                                    right(fixed(plain_attenuation(m), 3), 7));
  for (const double bits : sizes_of(formats)) {
    const format_outcome* const best = best_of_size(m, bits);
    columns.add(best == nullptr ? "-" : label(*best, "+H"), best == nullptr ? "-" : fixed(best->report.sqnr_db, 2));
  }
  out << columns.text() << "\n";
}

namespace detail {

/// The best format of a size, if `quantize` would convert the tensor to it.
inline const format_outcome* counted(const inspected& t, double bits) {
  const format_outcome* const best = t.measured ? best_of_size(*t.measured, bits) : nullptr;
  return best == nullptr || !why_copied(best->format, t.entry).empty() ? nullptr : best;
}

}  // namespace detail

/// How often each format is the best of its size.
inline void print_tally(std::ostream& out, const std::vector<const inspected*>& measured,
                        const std::vector<double>& sizes) {
  if (std::none_of(measured.begin(), measured.end(), [](const auto* t) { return why_copied(t->entry).empty(); }))
    return;
  out << "\nHighest SQNR of its size, by number of tensors (+H: after the transform)\n";
  for (const double bits : sizes) {
    std::vector<std::pair<std::string, std::size_t>> times;
    for (const inspected* const t : measured) {
      const format_outcome* const best = detail::counted(*t, bits);
      if (best == nullptr) continue;
      const std::string name = detail::label(*best, "+H");
      const auto at = std::find_if(times.begin(), times.end(), [&](const auto& p) { return p.first == name; });
      if (at == times.end())
        times.emplace_back(name, 1);
      else
        ++at->second;
    }
    std::sort(times.begin(), times.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    std::string text;
    for (const auto& [name, n] : times) text += (text.empty() ? "" : ", ") + name + " " + std::to_string(n);
    out << "  " << detail::left(detail::bits_text(bits), 11) << (text.empty() ? "-" : text) << "\n";
  }
}

namespace detail {

inline void print_values(std::ostream& out, const inspected& t) {
  const value_statistics& v = t.measured->values;
  std::string text = compare::byte_size(static_cast<double>(t.entry.bytes)) + "; amax " + significant(v.amax, 4) +
                     ", rms " + significant(v.rms(), 4) + ", crest " + fixed(v.crest(), 1) + ", kurtosis " +
                     fixed(v.kurtosis(), 1) + ", zeros " +
                     fixed(100 * static_cast<double>(v.zeros) / static_cast<double>(v.elements), 1) + " %";
  out << common::wrapped(text, 79);
  for (const std::string& note : {sample_text(*t.measured), nonfinite_text(*t.measured)})
    if (!note.empty()) out << note << "\n";
}

/// "SQNR, attenuation, buckets" of one outcome, 26 columns.
inline std::string outcome_text(const format_outcome& o, bool best) {
  return right(fixed(o.report.sqnr_db, 2), 8) + (best ? "*" : " ") + right(fixed(o.report.attenuation, 4), 8) +
         right(fixed(o.report.bucket_utilization, 3), 9);
}

}  // namespace detail

/// Every format of one tensor, with a star at the best of each size.
inline void print_detail(std::ostream& out, const inspected& t, const std::vector<double>& sizes) {
  using namespace detail;
  out << head_text(t.entry) << "\n";
  if (!t.measured) return;
  const measured_matrix& m = *t.measured;
  print_values(out, t);
  const bool transformed =
      std::any_of(m.outcomes.begin(), m.outcomes.end(), [](const auto& o) { return o.hadamard != 1; });
  constexpr std::size_t longest = 8;  // of a base format
  std::size_t name_width = longest + 2;
  for (const format_outcome& o : m.outcomes) name_width = std::max(name_width, o.format.name.size() + 2);
  const std::string three = right("SQNR dB", 8) + " " + right("atten.", 8) + right("buckets", 9);
  out << "\n"
      << left("", name_width + 6) << (transformed ? left("   without a transform", 26) : "   without a transform")
      << (transformed ? "      after the Hadamard transform" : "") << "\n";
  out << left("format", name_width) << left("bits", 6) << three << (transformed ? "   " + three + "   of" : "") << "\n";
  std::string best_formats;
  for (std::size_t i = 0; i < m.outcomes.size(); i += transformed ? 2 : 1) {
    const format_outcome& plain = m.outcomes[i];
    const format_outcome* const best = best_of_size(m, plain.format.bits_per_element);
    out << left(std::string(plain.format.name), name_width) << left(fixed(plain.format.bits_per_element, 2), 6)
        << outcome_text(plain, best == &plain);
    if (transformed) {
      const format_outcome& after = m.outcomes[i + 1];
      out << "   " << outcome_text(after, best == &after) << right(std::to_string(after.hadamard), 5);
    }
    out << "\n";
  }
  for (const double bits : sizes) {
    const format_outcome* const best = best_of_size(m, bits);
    if (best == nullptr) continue;
    best_formats += (best_formats.empty() ? "" : "; ") + bits_text(bits) + ": " + label(*best, "after the transform") +
                    " (" + fixed(best->report.sqnr_db, 2) + " dB)";
  }
  out << "\n"
      << common::wrapped(
             best_formats.empty() ? "No format has an SQNR." : "* the highest SQNR of its size. " + best_formats + ".",
             79);
}

namespace detail {

/// A name from a file, complete if it is UTF-8.
inline std::string name_json(const std::string& name) {
  return ufp4::interop::json_text(ufp4::interop::is_utf8(name) ? name : printable(name));
}

inline std::string number(double value) { return compare::shortest(value, "null"); }

inline std::uint32_t rht_of(std::uint32_t length) { return length == 1 ? 0 : length; }

inline void write_outcome(std::ostream& out, const format_outcome& o) {
  const ufp4::analysis::report& r = o.report;
  out << "{\"format\": \"" << o.format.name << "\", \"bits_per_element\": " << number(o.format.bits_per_element)
      << ", \"rht\": " << rht_of(o.hadamard) << ", \"sqnr_db\": " << compare::decibels_json(r.sqnr_db)
      << ", \"attenuation\": " << number(r.attenuation) << ", \"bucket_utilization\": " << number(r.bucket_utilization)
      << ", \"scale_underflow_rate\": " << number(r.scale_underflow_rate)
      << ", \"saturation_rate\": " << number(r.saturation_rate) << ", \"nonfinite_blocks\": " << r.nonfinite_blocks
      << "}";
}

inline void write_measured(std::ostream& out, const measured_matrix& m, const std::vector<double>& sizes) {
  const value_statistics& v = m.values;
  out << ",\n     \"rows\": " << m.rows << ", \"of_rows\": " << m.of_rows << ", \"columns\": " << m.cols
      << ", \"amax\": " << number(v.amax) << ", \"rms\": " << number(v.rms()) << ", \"crest\": " << number(v.crest())
      << ", \"kurtosis\": " << number(v.kurtosis()) << ", \"zeros\": " << v.zeros << ", \"nonfinite\": " << v.nonfinite
      << ",\n     \"formats\": [";
  const char* separator = "\n";
  for (const format_outcome& o : m.outcomes) {
    out << std::exchange(separator, ",\n") << "       ";
    write_outcome(out, o);
  }
  out << "],\n     \"highest_sqnr\": [";
  separator = "";
  for (const double bits : sizes) {
    const format_outcome* const best = best_of_size(m, bits);
    if (best == nullptr) continue;
    out << std::exchange(separator, ", ") << "{\"bits_per_element\": " << number(bits) << ", \"format\": \""
        << best->format.name << "\", \"rht\": " << rht_of(best->hadamard) << "}";
  }
  out << "]";
}

}  // namespace detail

/// The report of one file as a JSON object, without the end of its last line.
inline void write_inspection(std::ostream& out, const inspected_file& file, const measure_plan& plan) {
  const std::vector<double> sizes = detail::sizes_of(plan.formats);
  out << "{\"input\": " << detail::name_json(file.path) << ", \"kind\": \"" << file.kind
      << "\", \"seed\": " << plan.seed
      << ", \"rule\": " << (plan.scales.name.empty() ? "null" : "\"" + plan.scales.name + "\"")
      << ", \"search\": " << (plan.scales.search.empty() ? "null" : "\"" + plan.scales.search + "\"")
      << ",\n \"tensors\": [";
  const char* separator = "\n";
  for (const inspected& t : file.tensors) {
    const file_entry& e = t.entry;
    std::string shape;
    for (const std::uint64_t extent : e.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
    out << std::exchange(separator, ",\n") << "    {\"name\": " << detail::name_json(e.name)
        << ", \"type\": " << detail::name_json(e.tensor.type_name) << ", \"shape\": [" << shape
        << "], \"bytes\": " << e.bytes << ", \"quantized\": ";
    if (e.format.empty())
      out << "null";
    else
      out << "{\"format\": \"" << e.format << "\", \"layout\": \"" << e.layout
          << "\", \"rht\": " << detail::rht_of(e.hadamard) << "}";
    const auto why = [](const std::string& text) { return text.empty() ? "null" : ufp4::interop::json_text(text); };
    out << ", \"not_measured\": " << why(e.not_measured) << ", \"copied\": " << why(why_copied(e));
    if (t.measured) detail::write_measured(out, *t.measured, sizes);
    out << "}";
  }
  out << "\n ]}";
}

inline void write_inspection_json(std::ostream& out, const inspected_file& file, const measure_plan& plan) {
  write_inspection(out, file, plan);
  out << "\n";
}
/// The reports of the files of a model.
inline void write_inspection_json(std::ostream& out, const std::string& folder,
                                  const std::vector<inspected_file>& files, const measure_plan& plan) {
  out << "{\"input\": " << detail::name_json(folder) << ", \"kind\": \"model\", \"files\": [";
  const char* separator = "\n";
  for (const inspected_file& file : files) write_inspection(out << std::exchange(separator, ",\n"), file, plan);
  out << "\n]}\n";
}

}  // namespace tool
