// ufp4 - preset(name) and preset_name(format): from a preset's name to its format as data, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/block/presets.hpp>
#include <ufp4/detail/expects.hpp>

namespace ufp4::detail::inline UFP4_CODE {

// Templates, so that only a program that calls them pays for the formats as data.

/// "nvfp4, nv_e1m2, ...": every preset's name, for messages; the 4-bit ones first.
template <class = void>
std::string preset_names() {
  std::string all;
  const auto add = [&all](auto row) { all += (all.empty() ? "" : ", ") + std::string(row.name); };
  for_every_preset(add);
  return all;
}

/// The format of that name, or nullptr.
template <class = void>
const format_spec* find_preset(std::string_view name) {
  const format_spec* found = nullptr;
  const auto look = [&](auto row) {
    if (name == row.name) found = &row.spec;
  };
  for_every_preset(look);
  return found;
}

/// The name of a format that is a preset, else an empty string.
template <class = void>
std::string_view preset_name(const format_spec& format) {
  std::string_view name;
  const auto look = [&](auto row) {
    if (format == row.spec) name = row.name;
  };
  for_every_preset(look);
  return name;
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// The format of that name. Throws std::invalid_argument, which lists the names, for any other.
template <class = void>
const format_spec& preset(std::string_view name) {
  const format_spec* found = detail::find_preset(name);
  detail::expects(found != nullptr, "preset: unknown format: ", std::string(name), "; the presets are ",
                  detail::preset_names());
  return *found;
}

}  // namespace ufp4::inline UFP4_CODE
