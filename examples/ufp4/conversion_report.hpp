// ufp4 - the report of a conversion: every tensor of a file, as a table and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <ufp4/interop/text.hpp>
#include <utility>
#include <vector>

#include "../common/terminal.hpp"
#include "../compare/text.hpp"

namespace tool {

/// One tensor of the input.
struct converted_tensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::string type;    ///< as the file spells it; of a quantized weight, of its codes
  std::string format;  ///< of a quantized weight
  std::string after;   ///< its new type or format; empty where it was copied
  std::string kept;    ///< why it was copied; empty where it was converted
  std::uint64_t bytes_before = 0, bytes_after = 0;
  bool has_error = false;
  double sqnr_db = 0;
  std::uint64_t blocks = 0, nonfinite_blocks = 0, underflowed_blocks = 0;
  std::optional<std::uint64_t> inexact_blocks{};  ///< of a cast: those with a value that differs
};

/// A setting of the whole conversion.
struct conversion_setting {
  std::string key, value;
  bool is_number = false;
};

struct conversion {
  std::string input, output;
  std::vector<conversion_setting> settings;
  std::vector<converted_tensor> tensors;
  std::vector<std::string> notes;  ///< possible mistakes that are no errors, a message each
  bool dry_run = false;            ///< nothing was written
};

namespace detail {

/// A column that is empty under its heading is left out.
inline void print_columns(std::ostream& out, const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> width(lines.front().size());
  for (std::size_t c = 0; c < width.size(); ++c) {
    for (std::size_t i = 1; i < lines.size(); ++i) width[c] = std::max(width[c], lines[i][c].size());
    if (width[c] != 0) width[c] = std::max(width[c], lines.front()[c].size());
  }
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t c = 0; c < width.size(); ++c) {
      if (width[c] == 0) continue;
      const bool number = c >= 2 && c < 5;  // the SQNR and the sizes
      text += (c == 0 ? "" : "  ") + (number ? common::right(line[c], width[c]) : common::left(line[c], width[c]));
    }
    out << text.substr(0, text.find_last_not_of(' ') + 1) << "\n";
  }
}

/// Blocks whose values were lost. The SQNR does not show them: if most blocks became zero, it is that of the others.
inline std::string blocks_text(const converted_tensor& t, bool to_gguf) {
  std::string text;
  if (t.nonfinite_blocks != 0)
    text += "; " + std::to_string(t.nonfinite_blocks) + " blocks hold NaN or infinities" +
            (to_gguf ? ", and ggml reads them as 0" : "");
  if (t.underflowed_blocks != 0)
    text += "; " + std::to_string(t.underflowed_blocks) + " of " + std::to_string(t.blocks) + " blocks rounded to zero";
  if (t.inexact_blocks)
    text += *t.inexact_blocks == 0
                ? ", exact"
                : "; " + std::to_string(*t.inexact_blocks) + " of " + std::to_string(t.blocks) + " blocks differ";
  return text;
}

inline std::string size_text(std::uint64_t bytes) { return compare::byte_size(static_cast<double>(bytes)); }

}  // namespace detail

/// For people.
inline void print_table(std::ostream& out, const conversion& c) {
  std::vector<std::vector<std::string>> lines{{"tensor", "shape", "SQNR", "before", "after", ""}};
  std::uint64_t before = 0, after = 0;
  for (const converted_tensor& t : c.tensors) {
    std::string became = "copied: " + t.kept;
    if (t.kept.empty()) became = (t.format.empty() ? ufp4::interop::printable(t.type) : t.format) + " to " + t.after;
    became += detail::blocks_text(t, c.output.ends_with(".gguf"));
    std::string shape;
    for (const std::uint64_t extent : t.shape) shape += (shape.empty() ? "" : " x ") + std::to_string(extent);
    lines.push_back({ufp4::interop::printable(t.name), shape, t.has_error ? compare::fixed(t.sqnr_db, 1) + " dB" : "",
                     detail::size_text(t.bytes_before), detail::size_text(t.bytes_after), std::move(became)});
    before += t.bytes_before;
    after += t.bytes_after;
  }
  lines.push_back({"all", "", "", detail::size_text(before), detail::size_text(after), ""});
  detail::print_columns(out, lines);
  out << "\n" << ufp4::interop::printable(c.output) << ":";
  for (const conversion_setting& s : c.settings) out << " " << s.key << " " << s.value << ";";
  const auto converted =
      std::count_if(c.tensors.begin(), c.tensors.end(), [](const auto& t) { return t.kept.empty(); });
  out << " " << converted << " of " << c.tensors.size()
      << (c.dry_run ? " tensors would be converted; nothing was written\n" : " tensors converted\n");
}

namespace detail {

/// A name from a file, complete if it is UTF-8.
inline std::string whole_text(const std::string& name) {
  return ufp4::interop::json_text(ufp4::interop::is_utf8(name) ? name : ufp4::interop::printable(name));
}

}  // namespace detail

/// For programs: all numbers, unrounded.
inline void print_json(std::ostream& out, const conversion& c) {
  using detail::whole_text, ufp4::interop::json_text;
  out << "{\n  \"input\": " << whole_text(c.input) << ",\n  \"output\": " << whole_text(c.output);
  for (const conversion_setting& s : c.settings)
    out << ",\n  " << json_text(s.key) << ": " << (s.is_number ? s.value : json_text(s.value));
  if (c.dry_run) out << ",\n  \"dry_run\": true";
  out << ",\n  \"tensors\": [";
  const char* separator = "\n";
  for (const converted_tensor& t : c.tensors) {
    std::string shape;
    for (const std::uint64_t extent : t.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
    out << std::exchange(separator, ",\n") << "    {\"name\": " << whole_text(t.name) << ", \"shape\": [" << shape
        << "], \"type\": " << whole_text(t.type);
    if (!t.format.empty()) out << ", \"format\": " << json_text(t.format);
    if (t.kept.empty())
      out << ", \"to\": " << json_text(t.after);
    else
      out << ", \"copied\": " << json_text(t.kept);
    out << ", \"bytes_before\": " << t.bytes_before << ", \"bytes_after\": " << t.bytes_after;
    if (t.inexact_blocks)
      out << ", \"sqnr_db\": " << compare::decibels_json(t.sqnr_db) << ", \"inexact_blocks\": " << *t.inexact_blocks
          << ", \"blocks\": " << t.blocks;
    else if (t.has_error)
      out << ", \"sqnr_db\": " << compare::decibels_json(t.sqnr_db) << ", \"nonfinite_blocks\": " << t.nonfinite_blocks
          << ", \"underflowed_blocks\": " << t.underflowed_blocks << ", \"blocks\": " << t.blocks;
    out << "}";
  }
  out << "\n  ]\n}\n";
}

}  // namespace tool
