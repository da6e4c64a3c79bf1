// ufp4 - the formats of the command-line tool: the library's presets, with what their types do not contain.
// SPDX-License-Identifier: Apache-2.0
/// A new preset needs one row of format_notes; without it this header does not compile.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <ufp4/block/scale_rules.hpp>
#include <ufp4/interop/text.hpp>
#include <ufp4/matrix/preset_names.hpp>
#include <vector>

#include "../common/arguments.hpp"

namespace tool {

/// What cannot be read off a format.
struct format_note {
  std::string_view name;
  std::string_view summary;
  std::string_view peers;  ///< the names that others use; may be empty
};
inline constexpr format_note format_notes[] = {
    {"nvfp4", "E2M1, E4M3 scales of 16, one tensor scale",
     "NVFP4: Transformer Engine, ModelOpt, torchao, compressed-tensors"},
    {"nv_e1m2", "the uniform grid with NVFP4's scales", "NVFP4 with E0M3 elements, in hardware literature"},
    {"nvint4", "4-bit integers with NVFP4's scales", "NVINT4"},
    {"mxfp4", "E2M1, power-of-two scales of 32", "OCP MXFP4: torchao, ggml, compressed-tensors"},
    {"mx_e1m2", "the uniform grid with MXFP4's scales", ""},
    {"mxint4", "4-bit integers with MXFP4's scales", "MXINT4"},
    {"e2m1_f32", "E2M1, binary32 scales of 16", "the E2M1 baseline of the UFP4 paper"},
    {"e1m2_f32", "the uniform grid, binary32 scales of 16", "UFP4 (arXiv 2606.20381)"},
    {"int4_f32", "4-bit integers, binary32 scales of 16", "symmetric INT4 in groups of 16"},
    {"int8_f32", "8-bit integers, binary32 scales of 16", "symmetric INT8 in groups of 16"},
    {"mxint8", "8-bit integers, power-of-two scales of 32", "OCP MXINT8"},
};

constexpr const format_note* find_note(std::string_view name) {
  for (const format_note& note : format_notes)
    if (note.name == name) return &note;
  return nullptr;
}
constexpr bool every_preset_has_a_note() {
  bool all = true;
  const auto check = [&](auto row) { all = all && find_note(row.name) != nullptr; };
  ufp4::for_each_preset(check);
  ufp4::for_each_wide_preset(check);
  return all;
}
static_assert(every_preset_has_a_note(), "add a row to format_notes for the new preset");

/// A preset as the tool shows it.
struct format_facts {
  std::string_view name;
  std::string_view element;  ///< as the library spells it
  ufp4::format_spec spec;
  double bits_per_element = 0;
  std::string_view summary, peers;

  /// The value of each code.
  std::vector<float> values() const {
    std::vector<float> all;
    for (int code = 0; code < (spec.is_wide() ? 256 : 16); ++code)
      all.push_back(ufp4::detail::value_of(spec, static_cast<std::uint8_t>(code)));
    return all;
  }
  /// The values that rounding gives and that are not negative, ascending.
  std::vector<float> magnitudes() const {
    std::vector<float> found;
    for (int n = 0; spec.is_wide() && n < 128; ++n) found.push_back(static_cast<float>(n) * spec.grid.unit);
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
  bool is_integer() const { return element == "int4" || element == "int8"; }
  std::string_view scale() const {
    constexpr std::array<std::string_view, 5> names{"float", "bf16", "e4m3", "ue5m3", "e8m0"};
    return names[static_cast<std::size_t>(spec.scale)];
  }
  std::string block() const { return std::to_string(spec.block.rows) + "x" + std::to_string(spec.block.cols); }
};

namespace detail {

template <ufp4::any_element_format Element>
inline constexpr std::string_view element_name = "custom";
template <>
inline constexpr std::string_view element_name<ufp4::fp4<ufp4::E2M1>> = "fp4<E2M1>";
template <>
inline constexpr std::string_view element_name<ufp4::fp4<ufp4::E1M2>> = "fp4<E1M2>";
template <>
inline constexpr std::string_view element_name<ufp4::int4> = "int4";
template <>
inline constexpr std::string_view element_name<ufp4::int8> = "int8";
template <>
inline constexpr std::string_view element_name<ufp4::int8q6> = "int8q6";

/// The rows of a list of presets.
template <class Rows>
std::vector<format_facts> facts_of(Rows list) {
  std::vector<format_facts> rows;
  ufp4::for_each_row(list, [&](auto row) {
    using format = typename decltype(row)::format;
    const format_note& note = *find_note(row.name);
    rows.push_back({row.name, element_name<typename format::element_type>, row.spec, format::bits_per_element,
                    note.summary, note.peers});
  });
  return rows;
}

}  // namespace detail

/// Every preset of 4 bits, in the order of the library's list: what formats are compared by.
inline const std::vector<format_facts>& all_formats() {
  static const std::vector<format_facts> all = detail::facts_of(ufp4::presets{});
  return all;
}
/// The presets of one byte.
inline const std::vector<format_facts>& wide_formats() {
  static const std::vector<format_facts> all = detail::facts_of(ufp4::wide_presets{});
  return all;
}

/// The preset of that name; common::usage_error, which lists the names, for any other.
inline const format_facts& format_named(std::string_view name) {
  for (const auto* list : {&all_formats(), &wide_formats()})
    for (const format_facts& f : *list)
      if (f.name == name) return f;
  throw common::usage_error("unknown format " + ufp4::interop::printable(name) + "; there are " + ufp4::preset_names());
}

/// Names separated by commas, as --format takes them; if one of them is "all", all formats.
inline std::vector<std::string> formats_in_list(std::string_view list) {
  std::vector<std::string> chosen;
  bool all = false;
  for (std::size_t begin = 0, comma = 0; comma != std::string_view::npos; begin = comma + 1) {
    comma = list.find(',', begin);
    const std::string_view name = list.substr(begin, comma == std::string_view::npos ? comma : comma - begin);
    if (name.empty()) throw common::usage_error("--format " + ufp4::interop::printable(list) + " has an empty name");
    if (name == "all") {
      all = true;
      continue;
    }
    chosen.emplace_back(format_named(name).name);
    if (std::count(chosen.begin(), chosen.end(), chosen.back()) > 1)
      throw common::usage_error("--format names " + chosen.back() + " twice");
  }
  if (!all) return chosen;
  chosen.clear();
  for (const format_facts& f : all_formats()) chosen.emplace_back(f.name);
  return chosen;
}

}  // namespace tool
