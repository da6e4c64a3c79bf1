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

inline void print_formats(std::ostream& out) {
  using common::left, compare::significant;
  out << left("format", 10) << left("values, and their negatives", 33) << left("block", 7) << left("scale", 7)
      << left("tensor", 8) << left("bits", 6) << "uniform\n";
  for (const format_facts& f : all_formats()) {
    std::string values;
    for (const float m : f.magnitudes()) values += significant(static_cast<double>(m), 4) + " ";
    out << left(std::string(f.name), 10) << left(values, 33) << left(f.block(), 7) << left(std::string(f.scale()), 7)
        << left(f.spec.has_tensor_scale() ? "float" : "-", 8) << left(compare::fixed(f.bits_per_element, 2), 6)
        << (f.uniform() ? "yes" : "no") << "\n";
  }
  out << "\nblock: the elements that share a scale; tensor: a second scale, of the whole\n"
         "matrix; bits: of an element, with its part of the block's scale\n\nalso called\n";
  for (const format_facts& f : all_formats())
    if (!f.peers.empty()) out << "  " << left(std::string(f.name), 10) << f.peers << "\n";
}

inline void write_formats_json(std::ostream& out) {
  using ufp4::interop::json_text;
  const char* separator = "{\"formats\": [\n";
  for (const format_facts& f : all_formats()) {
    out << separator << "  {\"name\": " << json_text(f.name) << ", \"element\": " << json_text(f.element)
        << ", \"values\": [";
    for (std::size_t code = 0; code < 16; ++code)
      out << (code == 0 ? "" : ", ") << compare::shortest(static_cast<double>(f.spec.grid.value[code]), "null");
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
