// ufp4 - arguments that choose a format, a transform, a rounding, a scale rule or a mode, as the library's own types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "arrays.hpp"

namespace ufp4::python {

/// The arguments of a call that quantizes, as the program gave them.
struct policies {
  nb::handle rht, rounding, rule;
  nb::handle search, choose_grid, tensor_amax, shard;
};

/// A Format, or the preset of that name.
format_spec format_of(const char* operation, nb::handle format);
/// A Transform; a number n for random_hadamard(n); None or 0 for none.
transform_spec transform_of(const char* operation, nb::handle rht);
/// A Stochastic, an Eden, or the name of a rounding that needs no random bits; None is the nearest, ties to even.
rounding_spec rounding_of(const char* operation, nb::handle rounding);
/// A Percentile, or the name of a rule; None is the format's default.
scale_rule_spec rule_of(const char* operation, nb::handle rule);
/// A Search, or "mse" or "mae"; None is no search.
void add_search(const char* operation, nb::handle search, scale_rule_spec& rule);
/// "mse", "mae" or "max": the error by which a block chooses among several grids; None is "mse".
search_error grid_error_of(const char* operation, nb::handle choose_grid);
/// All of them.
detail::quantize_options<> options_of(const char* operation, const policies& given);
/// "fast", "exact_blocks" or "folded_bf16".
accumulate accumulate_of(const char* operation, nb::handle mode);
/// A named recipe at a step of a layer; ValueError that lists the names.
recipe::bound_recipe recipe_of(const char* operation, const std::string& name, std::uint64_t seed, std::uint64_t step,
                               std::uint32_t layer, nb::handle mode);

/// A row of names that an error message lists.
std::string list_of(std::span<const char* const> names);
/// The place of a name in a list; ValueError that lists the names.
std::size_t chosen(const char* operation, const char* argument, nb::handle value, std::span<const char* const> names);

inline constexpr const char* scale_names[] = {"f32", "bf16", "e4m3", "ue5m3", "e8m0", "e6m2"};
/// The name of a preset, or "" for another format.
std::string name_of(const format_spec& format);
/// "nvfp4", or the grid, scale and block of another format.
std::string text_of(const format_spec& format);
std::string text_of(const transform_spec& transform);

/// Adds Format, Transform, Stochastic, Eden and what makes them to the module.
void bind_formats(nb::module_& m);
void bind_rules(nb::module_& m);
void bind_quantized(nb::module_& m);
void bind_quantize(nb::module_& m);
void bind_transforms(nb::module_& m);
void bind_products(nb::module_& m);
void bind_cast(nb::module_& m);
void bind_linear(nb::module_& m);
void bind_files(nb::module_& m);
void bind_device(nb::module_& m);  ///< in builds with a GPU's operations

}  // namespace ufp4::python
