// ufp4 - the functions of ufp4.h for a linear layer under a training recipe.
// SPDX-License-Identifier: Apache-2.0
//
// Definitions: include them in one file of a program (functions.hpp).
#pragma once

#include <ufp4/c/convert.hpp>

namespace ufp4::c::detail::inline UFP4_CODE {

inline const recipe::named_recipe& named(const char* function, const char* name) {
  given(function, "recipe.name", name);
  std::string all;
  for (const recipe::named_recipe& r : recipe::named_recipes) {
    if (std::string_view(r.name) == name) return r;
    all += (all.empty() ? "" : ", ") + std::string(r.name);
  }
  ufp4::detail::reject(ufp4::detail::concat(function, ": unknown recipe.name: ", name, "; the recipes are ", all));
}

inline recipe::bound_recipe recipe_of(const char* function, const ufp4_recipe* given_recipe) {
  given(function, "recipe", given_recipe);
  const auto r = with_defaults(function, "recipe", given_recipe, ufp4_recipe UFP4_RECIPE_INIT);
  recipe::training_recipe out = named(function, r.name).make(r.seed);
  out.accumulate = chosen<accumulate>(function, "recipe.accumulate", r.accumulate, UFP4_FOLDED_BF16);
  return out.at(r.step, r.layer);
}

inline recipe::write_mode mode_of(const char* function, std::int32_t mode) {
  return flag(function, "mode", mode) ? recipe::write_mode::add : recipe::write_mode::overwrite;
}

}  // namespace ufp4::c::detail::inline UFP4_CODE

extern "C" {

std::size_t ufp4_recipe_count() { return std::size(ufp4::recipe::named_recipes); }
const char* ufp4_recipe_name(std::size_t i) {
  return i < std::size(ufp4::recipe::named_recipes) ? ufp4::recipe::named_recipes[i].name : nullptr;
}

std::int32_t ufp4_linear_forward(const ufp4_context* context, const ufp4_recipe* recipe, const ufp4_matrix* x,
                                 const ufp4_matrix* w, const float* bias, const ufp4_matrix* y) {
  using namespace ufp4::c::detail;
  return guarded(__func__, [&, function = __func__] {
    const context_of ctx(function, context);
    const auto now = recipe_of(function, recipe);
    const source from = source_of(matrix_of(function, "x", x)), weights = source_of(matrix_of(function, "w", w));
    const sink out = matrix_of(function, "y", y);
    ufp4::recipe::forward_options options;
    if (bias != nullptr) options.bias = {bias, out.cols};
    const std::size_t offsets[] = {0, from.rows};
    ufp4::recipe::detail::forward(function, ctx, now, from, offsets, weights, out, options);
  });
}
std::int32_t ufp4_linear_backward_input(const ufp4_context* context, const ufp4_recipe* recipe, const ufp4_matrix* dy,
                                        const ufp4_matrix* w, const ufp4_matrix* dx, std::int32_t mode) {
  using namespace ufp4::c::detail;
  return guarded(__func__, [&, function = __func__] {
    const context_of ctx(function, context);
    const auto now = recipe_of(function, recipe);
    const source from = source_of(matrix_of(function, "dy", dy)), weights = source_of(matrix_of(function, "w", w));
    const std::size_t offsets[] = {0, from.rows};
    ufp4::recipe::detail::backward_input(function, ctx, now, from, offsets, weights, matrix_of(function, "dx", dx),
                                         mode_of(function, mode));
  });
}
std::int32_t ufp4_linear_backward_weight(const ufp4_context* context, const ufp4_recipe* recipe, const ufp4_matrix* dy,
                                         const ufp4_matrix* x, const ufp4_matrix* dw, std::int32_t mode) {
  using namespace ufp4::c::detail;
  return guarded(__func__, [&, function = __func__] {
    const context_of ctx(function, context);
    const auto now = recipe_of(function, recipe);
    const source gradient = source_of(matrix_of(function, "dy", dy)), from = source_of(matrix_of(function, "x", x));
    const std::size_t offsets[] = {0, gradient.rows};
    ufp4::recipe::detail::backward_weight(function, ctx, now, gradient, from, offsets, matrix_of(function, "dw", dw),
                                          mode_of(function, mode));
  });
}
}
