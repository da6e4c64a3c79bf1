// ufp4 - `ufp4 formats`: the presets by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <ufp4/interop/text.hpp>

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

/// All presets, those of one byte last.
inline std::vector<format_facts> listed_formats() {
  std::vector<format_facts> all = all_formats();
  all.insert(all.end(), wide_formats().begin(), wide_formats().end());
  return all;
}

/// The values that are not negative; of many the first ones and the last.
inline std::string values_text(const format_facts& f) {
  std::string values;
  const std::vector<float> m = f.magnitudes();
  for (std::size_t i = 0; i < m.size(); ++i) {
    if (m.size() > 16 && i == 3) values += "... ";
    if (m.size() <= 16 || i < 3 || i + 1 == m.size())
      values += compare::significant(static_cast<double>(m[i]), 4) + " ";
  }
  return values;
}

inline void print_formats(std::ostream& out) {
  using common::left;
  out << left("format", 10) << left("values, and their negatives", 33) << left("block", 7) << left("scale", 7)
      << left("tensor", 8) << left("bits", 6) << "uniform\n";
  const std::vector<format_facts> all = listed_formats();
  for (const format_facts& f : all) {
    out << left(std::string(f.name), 10) << left(values_text(f), 33) << left(f.block(), 7)
        << left(std::string(f.scale()), 7) << left(f.spec.has_tensor_scale() ? "float" : "-", 8)
        << left(compare::fixed(f.bits_per_element, 2), 6) << (f.uniform() ? "yes" : "no") << "\n";
  }
  out << "\nblock: the elements that share a scale; tensor: a second scale, of the whole\n"
         "matrix; bits: of an element, with its part of the block's scale\n\nalso called\n";
  for (const format_facts& f : all)
    if (!f.peers.empty()) out << "  " << left(std::string(f.name), 10) << f.peers << "\n";
  out << "\nin programs only (CPUs, C++ and C): bits\n";
  const auto add = [&](auto row) {
    out << "  " << left(row.name, 12) << compare::fixed(decltype(row)::format::bits_per_element, 2) << "\n";
  };
  ufp4::for_each_extended_preset(add);
  ufp4::for_each_reference_preset(add);
}

inline void write_formats_json(std::ostream& out) {
  using ufp4::interop::json_text;
  const char* separator = "{\"formats\": [\n";
  for (const format_facts& f : listed_formats()) {
    out << separator << "  {\"name\": " << json_text(f.name) << ", \"element\": " << json_text(f.element)
        << ", \"values\": [";
    const std::vector<float> values = f.values();
    for (std::size_t code = 0; code < values.size(); ++code)
      out << (code == 0 ? "" : ", ") << compare::shortest(static_cast<double>(values[code]), "null");
    out << "], \"block\": [" << f.spec.block.rows << ", " << f.spec.block.cols
        << "], \"scale\": " << json_text(f.scale())
        << ", \"tensor_scale\": " << (f.spec.has_tensor_scale() ? "\"float\"" : "null")
        << ", \"bits_per_element\": " << compare::shortest(f.bits_per_element, "null")
        << ", \"uniform\": " << (f.uniform() ? "true" : "false") << ", \"summary\": " << json_text(f.summary)
        << ", \"also_called\": " << (f.peers.empty() ? "null" : json_text(f.peers)) << "}";
    separator = ",\n";
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
