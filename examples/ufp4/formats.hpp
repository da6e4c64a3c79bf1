// ufp4 - `ufp4 formats`: the presets by name, from what their types say.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <ostream>
#include <string>
#include <type_traits>
#include <ufp4/block/block_format.hpp>
#include <ufp4/interop/text.hpp>
#include <vector>

#include "../common/arguments.hpp"
#include "../common/output.hpp"
#include "../common/terminal.hpp"
#include "../compare/text.hpp"
#include "format_list.hpp"

namespace tool {

inline constexpr const char* formats_help =
    R"(ufp4 formats - the formats by name: values, blocks, scales, bits, what others call them.

usage: ufp4 formats [--json [FILE]]

  --json [FILE]   the same and the value of each code, as JSON; without FILE, or with -, on stdout.
                  FILE ends in none of .safetensors, .npy and .gguf
  --help

examples
  ufp4 formats
  ufp4 formats --json | jq -r '.formats[] | select(.uniform) | .name'

exit status: 0 done; 1 an output cannot be written; 2 wrong usage
)";

/// A preset as the tool shows it.
struct format_facts {
  format_name name;
  ufp4::format_spec spec;
  double bits_per_element = 0;

  /// The values that are not negative, rising.
  std::vector<float> magnitudes() const {
    std::vector<float> found;
    for (int i = 0; i < spec.grid.levels; ++i)
      if (spec.grid.level[i] >= 0) found.push_back(spec.grid.level[i]);
    return found;
  }
  bool uniform() const {
    const std::vector<float> m = magnitudes();
    for (std::size_t i = 2; i < m.size(); ++i)
      if (m[i] - m[i - 1] != m[1] - m[0]) return false;
    return true;
  }
  std::string_view scale() const {
    constexpr std::array<std::string_view, 5> names{"float", "bf16", "e4m3", "ue5m3", "e8m0"};
    return names[static_cast<std::size_t>(spec.scale)];
  }
  std::string block() const { return std::to_string(spec.block.rows) + "x" + std::to_string(spec.block.cols); }
};

inline format_facts facts_of(const format_name& name) {
  return visit_format(name.name, [&]<class Format>(std::type_identity<Format>) {
    return format_facts{name, ufp4::spec_of<Format>, Format::bits_per_element};
  });
}

inline void print_formats(std::ostream& out) {
  using common::left, common::right, compare::significant;
  out << left("format", 10) << left("values, and their negatives", 33) << left("block", 7) << left("scale", 7)
      << left("tensor", 8) << left("bits", 6) << "uniform\n";
  for (const format_name& name : format_names) {
    const format_facts f = facts_of(name);
    std::string values;
    for (const float m : f.magnitudes()) values += significant(static_cast<double>(m), 4) + " ";
    out << left(std::string(name.name), 10) << left(values, 33) << left(f.block(), 7) << left(std::string(f.scale()), 7)
        << left(f.spec.two_level ? "float" : "-", 8) << left(compare::fixed(f.bits_per_element, 2), 6)
        << (f.uniform() ? "yes" : "no") << "\n";
  }
  out << "\nblock: the elements that share a scale; tensor: a second scale, of the whole\n"
         "matrix; bits: an element's, with its part of the block's scale\n\nalso called\n";
  for (const format_name& name : format_names)
    if (!name.peers.empty()) out << "  " << left(std::string(name.name), 10) << name.peers << "\n";
}

inline void write_formats_json(std::ostream& out) {
  using ufp4::interop::json_text;
  const char* separator = "{\"formats\": [\n";
  for (const format_name& name : format_names) {
    const format_facts f = facts_of(name);
    out << separator << "  {\"name\": " << json_text(name.name) << ", \"element\": " << json_text(name.element)
        << ", \"values\": [";
    for (std::size_t code = 0; code < 16; ++code)
      out << (code == 0 ? "" : ", ") << compare::shortest(static_cast<double>(f.spec.grid.value[code]), "null");
    out << "], \"block\": [" << f.spec.block.rows << ", " << f.spec.block.cols
        << "], \"scale\": " << json_text(f.scale())
        << ", \"tensor_scale\": " << (f.spec.two_level ? "\"float\"" : "null")
        << ", \"bits_per_element\": " << compare::shortest(f.bits_per_element, "null")
        << ", \"uniform\": " << (f.uniform() ? "true" : "false") << ", \"summary\": " << json_text(name.summary)
        << ", \"also_called\": " << (name.peers.empty() ? "null" : json_text(name.peers)) << "}";
    separator = ",\n";
  }
  out << "\n]}\n";
}

inline int formats(common::arguments& rest, std::ostream& out, std::ostream&) {
  std::string json;
  while (!rest.empty()) {
    const std::string flag = rest.next();
    if (flag != "--json") throw common::usage_error("unknown argument " + ufp4::interop::printable(flag));
    json = common::report_name(rest, flag);
  }
  if (!json.empty()) common::check_writable(json);
  if (json != "-") print_formats(out);
  if (!json.empty()) common::write_to(json, out, write_formats_json);
  return 0;
}

}  // namespace tool
