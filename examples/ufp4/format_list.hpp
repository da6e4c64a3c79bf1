// ufp4 - the formats of the command-line tool: the library's presets, with what their types do not contain.
// SPDX-License-Identifier: Apache-2.0
/// A new preset needs one row of format_notes; without it this header does not compile.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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
    {"tetrajet2", "NVFP4 with a binary32 scale for every 128 columns of a row", "TetraJet-v2 (arXiv 2510.27527)"},
    {"if4", "each block E2M1 or 4-bit integers times 6/7, with NVFP4's scales", "IF4 (arXiv 2603.28765)"},
    {"hif4", "the uniform grid, e6m2 scales of 64, one-bit exponents of 8 and 4", "HiF4 (arXiv 2602.11287)"},
    {"mixfp4", "each block the uniform grid or E2M1, with NVFP4's scales", "MixFP4 (arXiv 2605.31035)"},
    {"razer", "each block E2M1 with -5 or with 5 instead of -0, with NVFP4's scales", "RaZeR (arXiv 2501.04052)"},
    {"mxfp8_e4m3", "8-bit floats, power-of-two scales of 32", "OCP MXFP8 (E4M3)"},
    {"mxfp8_e5m2", "8-bit floats, power-of-two scales of 32", "OCP MXFP8 (E5M2)"},
    {"mxfp6_e3m2", "6-bit floats in a byte, power-of-two scales of 32", "OCP MXFP6 (E3M2)"},
    {"mxfp6_e2m3", "6-bit floats in a byte, power-of-two scales of 32", "OCP MXFP6 (E2M3)"},
};

/// The index of a format's row; the number of rows if it has none. (Not a pointer: with -fsanitize=undefined, g++ 12
/// does not compare one with nullptr at compile time.)
constexpr std::size_t find_note(std::string_view name) {
  std::size_t row = 0;
  while (row < std::size(format_notes) && format_notes[row].name != name) ++row;
  return row;
}
constexpr bool every_preset_has_a_note() {
  bool all = true;
  const auto check = [&](auto row) { all = all && find_note(row.name) < std::size(format_notes); };
  ufp4::detail::for_every_preset(check);
  return all;
}
static_assert(every_preset_has_a_note(), "add a row to format_notes for the new preset");

/// The groups of presets that --format takes by name.
enum class format_group : std::uint8_t {
  base,      ///< ufp4::detail::presets: 4 bits, one grid, one scale a block and at most one of the tensor
  extended,  ///< ufp4::detail::extended_presets
  byte,      ///< ufp4::detail::byte_presets and ufp4::detail::reference_presets: a code takes a byte
};
inline constexpr std::array<std::string_view, 3> format_group_names{"base", "extended", "byte"};

/// A preset as the tool shows it.
struct format_facts {
  std::string_view name;
  format_group group{};
  std::string_view element;  ///< as the library spells it
  ufp4::format_spec spec;
  double bits_per_element = 0;
  std::string_view summary, peers;

  /// How many grids a block chooses among.
  int grids() const { return 1 + spec.choice.count; }
  /// Whether an element is one of 16 values times the scales of its block: one grid, no one-bit exponents.
  bool has_one_grid() const { return !spec.has_bytes() && grids() == 1 && spec.block.group[0] == 0; }

  /// The value of each code; of several grids those of one, without its factor.
  std::vector<float> values(int grid = 0) const {
    const std::size_t codes = spec.has_bytes() ? 256 : 16;
    std::vector<float> all;
    all.reserve(codes);
    for (std::size_t code = 0; code < codes; ++code)
      all.push_back(spec.has_bytes() ? ufp4::detail::value_of(spec, static_cast<std::uint8_t>(code))
                                     : ufp4::detail::nth_grid(spec, grid).value[code]);
    return all;
  }
  /// The values, not negative, that rounding gives with both signs, ascending; of several grids those of one, without
  /// its factor.
  std::vector<float> magnitudes(int grid = 0) const {
    std::vector<float> found;
    const ufp4::grid4& g = ufp4::detail::nth_grid(spec, grid);
    for (int i = 0; i < g.levels; ++i)
      if (g.level[i] >= 0 && has_negative(g, i)) found.push_back(g.level[i]);
    if (!spec.has_bytes()) return found;
    for (const float v : values())
      if (v >= 0 && v <= spec.grid.qmax) found.push_back(v);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }
  /// The values that rounding gives with one sign only.
  std::vector<float> unpaired(int grid = 0) const {
    std::vector<float> found;
    const ufp4::grid4& g = ufp4::detail::nth_grid(spec, grid);
    for (int i = 0; !spec.has_bytes() && i < g.levels; ++i)
      if (!has_negative(g, i)) found.push_back(g.level[i]);
    return found;
  }
  bool uniform() const {
    const std::vector<float> m = magnitudes();
    for (std::size_t i = 2; i < m.size(); ++i)
      if (m[i] - m[i - 1] != m[1] - m[0]) return false;
    return spec.has_bytes() || has_one_grid();
  }
  bool is_integer() const { return element == "int4" || element == "int8"; }
  std::string_view scale() const {
    constexpr std::array<std::string_view, 6> names{"float", "bf16", "e4m3", "ue5m3", "e8m0", "e6m2"};
    return names[static_cast<std::size_t>(spec.scale)];
  }
  /// The type of the outer scales, and for how many columns of a row one is: "float", "float/128", "-".
  std::string outer() const {
    if (!spec.two_level()) return "-";
    const std::string type = spec.outer.type == ufp4::scale_kind::f32 ? "float" : "bf16";
    return spec.has_tensor_scale()   ? type
           : spec.outer.segment == 0 ? type + "/row"
                                     : type + "/" + std::to_string(spec.outer.segment);
  }
  std::string block() const { return std::to_string(spec.block.rows) + "x" + std::to_string(spec.block.cols); }

 private:
  static bool has_negative(const ufp4::grid4& g, int i) {
    return std::count(g.level, g.level + g.levels, -g.level[i]) > 0;
  }
};

namespace detail {

template <class Element>
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
template <>
inline constexpr std::string_view element_name<ufp4::fp8_e4m3> = "fp8_e4m3";
template <>
inline constexpr std::string_view element_name<ufp4::fp8_e5m2> = "fp8_e5m2";
template <>
inline constexpr std::string_view element_name<ufp4::fp6_e3m2> = "fp6_e3m2";
template <>
inline constexpr std::string_view element_name<ufp4::fp6_e2m3> = "fp6_e2m3";
template <>
inline constexpr std::string_view element_name<ufp4::if4::element_type> = "one_of<fp4<E2M1>, scaled<int4, 6, 7>>";
template <>
inline constexpr std::string_view element_name<ufp4::mixfp4::element_type> =
    "one_of<fp4<E1M2>, scaled<fp4<E2M1>, 1, 4>>";
template <>
inline constexpr std::string_view element_name<ufp4::razer::element_type> =
    "one_of<fp4_remapped<E2M1, -5>, fp4_remapped<E2M1, 5>>";

/// Adds the rows of a list of presets.
template <class Rows>
void add_facts(Rows list, format_group group, std::vector<format_facts>& to) {
  ufp4::detail::for_each_row(list, [&](auto row) {
    using format = typename decltype(row)::format;
    const format_note& note = format_notes[find_note(row.name)];
    to.push_back({row.name, group, element_name<typename format::element_type>, row.spec, format::bits_per_element,
                  note.summary, note.peers});
  });
}

}  // namespace detail

/// Every preset of the library, by group, in the order of the library's lists.
inline const std::vector<format_facts>& all_formats() {
  static const std::vector<format_facts> all = [] {
    std::vector<format_facts> rows;
    detail::add_facts(ufp4::detail::presets{}, format_group::base, rows);
    detail::add_facts(ufp4::detail::extended_presets{}, format_group::extended, rows);
    detail::add_facts(ufp4::detail::byte_presets{}, format_group::byte, rows);
    detail::add_facts(ufp4::detail::reference_presets{}, format_group::byte, rows);
    return rows;
  }();
  return all;
}

/// The preset of that name; common::usage_error, which lists the names, for any other.
inline const format_facts& format_named(std::string_view name) {
  for (const format_facts& f : all_formats())
    if (f.name == name) return f;
  throw common::usage_error("unknown format " + ufp4::interop::printable(name) + "; there are " +
                            ufp4::detail::preset_names());
}

namespace detail {

/// The names of a group, or of all formats; none if no group has that name.
inline std::vector<std::string> formats_of_group(std::string_view group) {
  std::vector<std::string> names;
  for (const format_facts& f : all_formats())
    if (group == "all" || group == format_group_names[static_cast<std::size_t>(f.group)]) names.emplace_back(f.name);
  return names;
}

}  // namespace detail

/// Names and groups separated by commas, as --format takes them: base, extended, byte, and all for every format. In the
/// order of the list; if there is a group, in that of all_formats().
inline std::vector<std::string> formats_in_list(std::string_view list) {
  std::vector<std::string> chosen, named;
  bool any_group = false;
  for (std::size_t begin = 0, comma = 0; comma != std::string_view::npos; begin = comma + 1) {
    comma = list.find(',', begin);
    const std::string_view name = list.substr(begin, comma == std::string_view::npos ? comma : comma - begin);
    if (name.empty()) throw common::usage_error("--format " + ufp4::interop::printable(list) + " has an empty name");
    const std::vector<std::string> group = detail::formats_of_group(name);
    chosen.insert(chosen.end(), group.begin(), group.end());
    any_group = any_group || !group.empty();
    if (!group.empty()) continue;
    chosen.emplace_back(format_named(name).name);
    if (std::count(named.begin(), named.end(), chosen.back()) > 0)
      throw common::usage_error("--format names " + chosen.back() + " twice");
    named.push_back(chosen.back());
  }
  if (!any_group) return chosen;
  std::vector<std::string> ordered = detail::formats_of_group("all");
  std::erase_if(ordered, [&](const auto& name) { return std::count(chosen.begin(), chosen.end(), name) == 0; });
  return ordered;
}

}  // namespace tool
