// ufp4 - the values of --rule, --search and --choose-grid: scale rules of the library by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <ufp4/block/scale_rules.hpp>
#include <ufp4/interop/text.hpp>
#include <utility>

#include "../common/arguments.hpp"
#include "format_list.hpp"

namespace tool {

/// A scale rule as --rule, --search and --choose-grid give it.
struct scale_choice {
  ufp4::scale_rule_spec rule{};
  std::string name, search, grids;  ///< as written; "" for the default
};

namespace detail {

inline constexpr std::array<std::pair<std::string_view, ufp4::scale_rule_spec>, 7> named_rules{{
    {"default", {}},
    {"scale_up", ufp4::scale_up{}.spec()},
    {"mx_floor", ufp4::mx_floor{}.spec()},
    {"mx_even", ufp4::mx_even{}.spec()},
    {"mx_ceil", ufp4::mx_ceil{}.spec()},
    {"four_over_six", ufp4::four_over_six{}.spec()},
    {"four_over_six_mae", ufp4::four_over_six{ufp4::search_error::absolute}.spec()},
}};

/// The number that a text is, if it is one of 0 .. last in decimal digits; -1 otherwise.
inline int small_number(std::string_view text, int last) {
  if (text.empty() || text.size() > 4) return -1;
  int number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return -1;
    number = 10 * number + (c - '0');
  }
  return number <= last ? number : -1;
}

inline ufp4::scale_rule_spec rule_named(const std::string& text) {
  for (const auto& [name, rule] : named_rules)
    if (name == text) return rule;
  constexpr std::string_view percentile = "percentile:";
  if (text.starts_with(percentile)) {
    const int per_mille = small_number(text.substr(percentile.size()), 1000);
    if (per_mille >= 1) return ufp4::percentile{static_cast<std::uint16_t>(per_mille)}.spec();
  }
  throw common::usage_error(
      "--rule takes default, scale_up, mx_floor, mx_even, mx_ceil, four_over_six, four_over_six_mae, or percentile:P "
      "with 1 to 1000 thousandths, not " +
      ufp4::interop::printable(text));
}

/// mse or mae, and after a colon the steps below and above.
inline ufp4::scale_rule_spec search_named(const std::string& text) {
  const auto reject = [&] {
    throw common::usage_error("--search takes mse or mae, or mse:BELOW,ABOVE with 0 to 254 steps, not " +
                              ufp4::interop::printable(text));
  };
  const std::string error = text.substr(0, text.find(':'));
  ufp4::scale_rule_spec search = ufp4::mse_search{}.spec();
  if (error == "mae") search.error = ufp4::search_error::absolute;
  if (error != "mse" && error != "mae") reject();
  if (error.size() == text.size()) return search;
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) reject();
  const std::string_view all = text;
  const int below = small_number(all.substr(0, comma).substr(error.size() + 1), 254);
  const int above = small_number(all.substr(comma + 1), 254);
  if (below < 0 || above < 0) reject();
  search.window = {static_cast<std::uint8_t>(below), static_cast<std::uint8_t>(above)};
  return search;
}

}  // namespace detail

/// Takes the value of --rule.
inline void take_rule(common::arguments& rest, const std::string& flag, scale_choice& choice) {
  const ufp4::scale_rule_spec before = choice.rule;
  choice.name = rest.value(flag);
  choice.rule = detail::rule_named(choice.name);
  if (before.searches) ufp4::detail::join_search(choice.rule, before);
  choice.rule.grids = before.grids;
}
/// Takes the value of --search.
inline void take_search(common::arguments& rest, const std::string& flag, scale_choice& choice) {
  choice.search = rest.value(flag);
  ufp4::detail::join_search(choice.rule, detail::search_named(choice.search));
}
/// Takes the value of --choose-grid.
inline void take_grid_choice(common::arguments& rest, const std::string& flag, scale_choice& choice) {
  constexpr std::array<std::string_view, 3> errors{"mse", "mae", "max"};  // as search_error
  choice.grids = rest.value(flag);
  const auto found = std::find(errors.begin(), errors.end(), choice.grids);
  if (found == errors.end())
    throw common::usage_error(flag + " takes mse, mae or max, not " + ufp4::interop::printable(choice.grids));
  choice.rule.grids = static_cast<ufp4::search_error>(found - errors.begin());
}
/// usage_error if the rule does not apply to a format.
inline void check_rule(const scale_choice& choice, const format_facts& format) {
  if (const char* why = ufp4::detail::rule_mismatch(choice.rule, format.spec))
    throw common::usage_error(std::string(format.name) + ": " + why);
}

}  // namespace tool
