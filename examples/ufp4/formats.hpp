// ufp4 - `ufp4 formats`: the presets by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <ufp4/interop/text.hpp>
#include <utility>
#include <vector>

#include "../common/arguments.hpp"
#include "../common/output.hpp"
#include "../common/terminal.hpp"
#include "../compare/text.hpp"
#include "format_list.hpp"

namespace tool {

inline constexpr const char* formats_help =
    R"(ufp4 formats - the formats by name: values, blocks, scales, bits, names that others use.

usage: ufp4 formats [--json [FILE]]

  --json [FILE]   the same and the value of each code, as JSON; without FILE, or with -, on stdout.
                  FILE must not end in .safetensors, .npy or .gguf
  --help

examples
  ufp4 formats
  ufp4 formats --json | jq -r '.formats[] | select(.uniform) | .name'

exit status: 0 done; 1 an output cannot be written; 2 wrong usage
)";

/// The values of a grid that are not negative; of many the first ones and the last.
inline std::string values_text(const format_facts& f, int grid = 0) {
  std::string values;
  const std::vector<float> m = f.magnitudes(grid);
  for (std::size_t i = 0; i < m.size(); ++i) {
    if (m.size() > 16 && i == 3) values += "... ";
    const auto value = static_cast<double>(m[i]);
    if (m.size() <= 16 || i < 3 || i + 1 == m.size())
      values += compare::significant(value, value == std::floor(value) ? 6 : 4) + " ";
  }
  return values;
}

namespace detail {

/// The lines below a format's own: values without a negative, further grids, one-bit exponents.
inline std::vector<std::string> more_lines(const format_facts& f) {
  std::vector<std::string> lines;
  for (int grid = 0; grid < f.grids(); ++grid) {
    const float factor = ufp4::detail::factor_of(f.spec, grid);
    std::string text = grid == 0 ? "" : "or " + values_text(f, grid);
    for (const float v : f.unpaired(grid)) text += "and " + compare::significant(static_cast<double>(v), 4) + " ";
    if (factor != 1) text += "times " + compare::significant(static_cast<double>(factor), 4);
    if (!text.empty()) lines.push_back(text);
  }
  for (int level = 0; level < ufp4::detail::exponent_levels(f.spec.block); ++level)
    lines.push_back("times 1 or 2 for each " + std::to_string(f.spec.block.group[level]) + " columns");
  return lines;
}

}  // namespace detail

inline void print_formats(std::ostream& out) {
  using common::left;
  constexpr std::size_t name_width = 12;
  out << left("format", name_width) << left("values, and their negatives", 33) << left("block", 6) << left("scale", 6)
      << left("outer", 10) << left("bits", 6) << "uniform\n";
  for (const format_facts& f : all_formats()) {
    out << left(std::string(f.name), name_width) << left(values_text(f), 33) << left(f.block(), 6)
        << left(std::string(f.scale()), 6) << left(f.outer(), 10) << left(compare::fixed(f.bits_per_element, 2), 6)
        << (f.uniform() ? "yes" : "no") << "\n";
    for (const std::string& line : detail::more_lines(f))
      out << left("", name_width) << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
  }
  out << "\nblock: the elements that share a scale; outer: a second scale, of the whole\n"
         "matrix or of so many columns of a row; bits: of an element, with its part of\n"
         "the scales\n\nalso called\n";
  for (const format_facts& f : all_formats())
    if (!f.peers.empty()) out << "  " << left(std::string(f.name), name_width) << f.peers << "\n";
  out << "\ngroups of formats for --format\n";
  for (const std::string_view group : format_group_names) {
    std::string names;
    for (const std::string& name : detail::formats_of_group(group)) names += " " + name;
    std::istringstream lines(common::wrapped(names.substr(1), 66));
    std::string label(group);
    for (std::string line; std::getline(lines, line); label.clear())
      out << "  " << left(label, name_width) << line << "\n";
  }
}

namespace detail {

inline void write_numbers(std::ostream& out, const std::vector<float>& values) {
  const char* separator = "[";
  for (const float v : values)
    out << std::exchange(separator, ", ") << compare::shortest(static_cast<double>(v), "null");
  out << "]";
}

/// What only some formats have: outer scales that are not the tensor's, further grids, one-bit exponents.
inline void write_extension(std::ostream& out, const format_facts& f) {
  out << ", \"outer_scale\": " << (f.spec.two_level() ? ufp4::interop::json_text(f.outer()) : "null")
      << ", \"more_grids\": [";
  for (int grid = 1; grid < f.grids(); ++grid) {
    out << (grid == 1 ? "" : ", ")
        << "{\"factor\": " << compare::shortest(static_cast<double>(ufp4::detail::factor_of(f.spec, grid)), "null")
        << ", \"values\": ";
    write_numbers(out, f.values(grid));
    out << "}";
  }
  out << "], \"exponent_columns\": [";
  for (int level = 0; level < ufp4::detail::exponent_levels(f.spec.block); ++level)
    out << (level == 0 ? "" : ", ") << f.spec.block.group[level];
  out << "]";
}

}  // namespace detail

inline void write_formats_json(std::ostream& out) {
  using ufp4::interop::json_text;
  const char* separator = "{\"formats\": [\n";
  for (const format_facts& f : all_formats()) {
    out << std::exchange(separator, ",\n") << "  {\"name\": " << json_text(f.name)
        << ", \"element\": " << json_text(f.element) << ", \"values\": ";
    detail::write_numbers(out, f.values());
    out << ", \"block\": [" << f.spec.block.rows << ", " << f.spec.block.cols
        << "], \"scale\": " << json_text(f.scale())
        << ", \"tensor_scale\": " << (f.spec.has_tensor_scale() ? "\"float\"" : "null")
        << ", \"bits_per_element\": " << compare::shortest(f.bits_per_element, "null")
        << ", \"uniform\": " << (f.uniform() ? "true" : "false");
    detail::write_extension(out, f);
    out << ", \"group\": " << json_text(format_group_names[static_cast<std::size_t>(f.group)])
        << ", \"summary\": " << json_text(f.summary)
        << ", \"also_called\": " << (f.peers.empty() ? "null" : json_text(f.peers)) << "}";
  }
  out << "\n]}\n";
}

inline int formats(common::arguments& rest, std::ostream& out, std::ostream&) {
  std::string json;
  while (!rest.empty()) {
    const std::string flag = rest.next();
    if (flag != "--json") common::reject_argument(flag);
    json = common::report_name(rest, flag);
  }
  if (!json.empty()) common::check_writable(json);
  if (json != "-") print_formats(out);
  if (!json.empty()) common::write_to(json, out, write_formats_json);
  return 0;
}

}  // namespace tool
