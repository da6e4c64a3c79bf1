// ufp4 - Search and Percentile in Python, and arguments that name scale rules.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "policies.hpp"

namespace ufp4::python {
namespace {

constexpr const char* rule_names[] = {"default", "scale_up", "mx_floor", "mx_even", "mx_ceil", "four_over_six"};
constexpr const char* error_names[] = {"mse", "mae", "max"};  // as search_error
/// What a search compares.
constexpr std::span<const char* const> search_names = std::span(error_names).first(2);

/// Search(error, below, above).
struct scale_search {
  scale_rule_spec rule{.searches = true};
  friend bool operator==(const scale_search&, const scale_search&) = default;
};

std::uint8_t steps_of(const char* argument, std::optional<int> steps) {
  if (!steps) return detail::search_window::by_format;
  expects(*steps >= 0 && *steps <= 254, "Search: ", argument, " must be 0 to 254, got ", *steps);
  return static_cast<std::uint8_t>(*steps);
}
std::optional<int> steps_in(std::uint8_t steps) {
  if (steps == detail::search_window::by_format) return std::nullopt;
  return steps;
}
scale_search make_search(const char* operation, const char* argument, nb::handle error, std::optional<int> below,
                         std::optional<int> above) {
  scale_search out;
  out.rule.error = static_cast<search_error>(chosen(operation, argument, error, search_names));
  out.rule.window = {steps_of("below", below), steps_of("above", above)};
  return out;
}
std::tuple<const char*, std::optional<int>, std::optional<int>> state_of(const scale_search& s) {
  return {error_names[static_cast<int>(s.rule.error)], steps_in(s.rule.window.below), steps_in(s.rule.window.above)};
}

percentile make_percentile(int per_mille) {
  expects(per_mille >= 1 && per_mille <= 1000, "Percentile: per_mille must be 1 to 1000, got ", per_mille);
  return {static_cast<std::uint16_t>(per_mille)};
}

}  // namespace

scale_rule_spec rule_of(const char* operation, nb::handle rule) {
  if (rule.is_none()) return {};
  if (nb::isinstance<percentile>(rule)) return nb::cast<const percentile&>(rule).spec();
  if (nb::cast<std::string>(nb::str(rule)) == "four_over_six_mae") return four_over_six{search_error::absolute}.spec();
  return {.what = static_cast<scale_rule_spec::kind>(chosen(operation, "rule", rule, rule_names))};
}

void add_search(const char* operation, nb::handle search, scale_rule_spec& rule) {
  if (search.is_none()) return;
  ufp4::detail::join_search(rule, nb::isinstance<scale_search>(search)
                                      ? nb::cast<const scale_search&>(search).rule
                                      : make_search(operation, "search", search, {}, {}).rule);
}

search_error grid_error_of(const char* operation, nb::handle choose_grid) {
  if (choose_grid.is_none()) return search_error::squared;
  return static_cast<search_error>(chosen(operation, "choose_grid", choose_grid, error_names));
}

void bind_rules(nb::module_& m) {
  nb::class_<scale_search>(
      m, "Search",
      "A search for the scale of each block: of those from `below` steps under the scale of the rule to `above` steps\n"
      "over it, the one with the smallest error, 'mse' or 'mae'. A step is one code of an 8-bit scale, and 1/32 of "
      "the\n"
      "scale for f32 and bf16. None: the default of the scale type.")
      .def(
          "__init__",
          [](scale_search* self, nb::handle error, std::optional<int> below, std::optional<int> above) {
            new (self) scale_search(make_search("Search", "error", error, below, above));
          },
          nb::arg("error") = "mse", nb::arg("below") = nb::none(), nb::arg("above") = nb::none(),
          nb::sig("def __init__(self, error: str = 'mse', below: int | None = None, above: int | None = None) -> None"))
      .def(
          "__eq__", [](const scale_search& a, const scale_search& b) { return a == b; }, nb::arg("other"),
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const scale_search& s) { return nb::hash(nb::cast(state_of(s))); })
      .def("__repr__", [](const scale_search& s) {
        return "ufp4.Search" + nb::cast<std::string>(nb::repr(nb::cast(state_of(s))));
      });
  nb::class_<percentile>(
      m, "Percentile",
      "The default rule with a percentile of the magnitudes of a block instead of their amax: the smallest magnitude\n"
      "that per_mille / 1000 of the elements do not exceed. Larger elements saturate.")
      .def(
          "__init__", [](percentile* self, int per_mille) { new (self) percentile(make_percentile(per_mille)); },
          nb::arg("per_mille"))
      .def_prop_ro(
          "per_mille", [](const percentile& p) { return int{p.per_mille}; }, "1 to 1000; 1000 is the amax.")
      .def(
          "__eq__", [](const percentile& a, const percentile& b) { return a.per_mille == b.per_mille; },
          nb::arg("other"), nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const percentile& p) { return std::size_t{p.per_mille}; })
      .def("__repr__", [](const percentile& p) { return concat("ufp4.Percentile(", p.per_mille, ")"); });
}

}  // namespace ufp4::python
