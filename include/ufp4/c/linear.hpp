// ufp4 - definitions of the functions of ufp4.h for a linear layer, for one file of a program (functions.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/c/convert.hpp>

namespace ufp4::c::detail::inline UFP4_CODE {

inline const recipe::named_recipe& named(const char* name) {
  given("recipe.name", name);
  std::string all;
  for (const recipe::named_recipe& r : recipe::named_recipes) {
    if (std::string_view(r.name) == name) return r;
    all += (all.empty() ? "" : ", ") + std::string(r.name);
  }
  reject(concat(function, ": unknown recipe.name: ", name, "; the recipes are ", all));
}

inline recipe::bound_recipe recipe_of(const ufp4_recipe* given_recipe) {
  given("recipe", given_recipe);
  const auto r = with_defaults("recipe", given_recipe, ufp4_recipe UFP4_RECIPE_INIT);
  recipe::training_recipe out = named(r.name).make(r.seed);
  out.accumulate = chosen<accumulate>("recipe.accumulate", r.accumulate, UFP4_FOLDED_BF16);
  return out.at(r.step, r.layer);
}

inline recipe::write_mode mode_of(std::int32_t mode) {
  return flag("mode", mode) ? recipe::write_mode::add : recipe::write_mode::overwrite;
}

/// Where the tokens of each expert begin. All tokens of a dense layer are those of one expert.
class offsets_of {
 public:
  /// Of a dense layer, with the rows of x or dy.
  offsets_of(const char* argument, const ufp4_matrix* x) : dense_{0, given(argument, x).rows}, all_(dense_) {}
  offsets_of(std::size_t experts, const std::size_t* offsets) {
    given("offsets", offsets);
    expects(experts >= 1 && experts <= 1u << 16, "experts must be 1 to 65536, got ", experts);
    all_ = {offsets, experts + 1};
  }
  offsets_of(const offsets_of&) = delete;
  operator recipe::expert_offsets() const { return all_; }
  std::size_t experts() const { return all_.size() - 1; }

 private:
  std::size_t dense_[2] = {0, 0};
  recipe::expert_offsets all_;
};

inline void linear_forward(const ufp4_context* context, const ufp4_recipe* recipe, const offsets_of& offsets,
                           const ufp4_matrix* x, const ufp4_matrix* w, const float* bias, const ufp4_matrix* y) {
  const context_of ctx(context);
  const auto now = recipe_of(recipe);
  const source from = source_of(matrix_of("x", x)), weights = source_of(matrix_of("w", w));
  const sink out = matrix_of("y", y);
  recipe::forward_options options;
  if (bias != nullptr) options.bias = {bias, offsets.experts() * out.cols};
  recipe::detail::forward(function, ctx, now, from, offsets, weights, out, options);
}
inline void linear_backward_input(const ufp4_context* context, const ufp4_recipe* recipe, const offsets_of& offsets,
                                  const ufp4_matrix* dy, const ufp4_matrix* w, const ufp4_matrix* dx,
                                  std::int32_t mode) {
  const context_of ctx(context);
  const auto now = recipe_of(recipe);
  const source from = source_of(matrix_of("dy", dy)), weights = source_of(matrix_of("w", w));
  recipe::detail::backward_input(function, ctx, now, from, offsets, weights, matrix_of("dx", dx), mode_of(mode));
}
inline void linear_backward_weight(const ufp4_context* context, const ufp4_recipe* recipe, const offsets_of& offsets,
                                   const ufp4_matrix* dy, const ufp4_matrix* x, const ufp4_matrix* dw,
                                   std::int32_t mode) {
  const context_of ctx(context);
  const auto now = recipe_of(recipe);
  const source gradient = source_of(matrix_of("dy", dy)), from = source_of(matrix_of("x", x));
  recipe::detail::backward_weight(function, ctx, now, gradient, from, offsets, matrix_of("dw", dw), mode_of(mode));
}
#pragma GCC visibility push(default)  // of ufp4.h, which g++ does not apply in another namespace
extern "C" {
// NOLINTBEGIN(misc-definitions-in-headers): for one file of a program

std::size_t ufp4_recipe_count() { return std::size(recipe::named_recipes); }
const char* ufp4_recipe_name(std::size_t i) {
  return i < std::size(recipe::named_recipes) ? recipe::named_recipes[i].name : nullptr;
}

std::int32_t ufp4_linear_forward(const ufp4_context* context, const ufp4_recipe* recipe, const ufp4_matrix* x,
                                 const ufp4_matrix* w, const float* bias, const ufp4_matrix* y) {
  return guarded(__func__, [&] { linear_forward(context, recipe, {"x", x}, x, w, bias, y); });
}
std::int32_t ufp4_linear_backward_input(const ufp4_context* context, const ufp4_recipe* recipe, const ufp4_matrix* dy,
                                        const ufp4_matrix* w, const ufp4_matrix* dx, std::int32_t mode) {
  return guarded(__func__, [&] { linear_backward_input(context, recipe, {"dy", dy}, dy, w, dx, mode); });
}
std::int32_t ufp4_linear_backward_weight(const ufp4_context* context, const ufp4_recipe* recipe, const ufp4_matrix* dy,
                                         const ufp4_matrix* x, const ufp4_matrix* dw, std::int32_t mode) {
  return guarded(__func__, [&] { linear_backward_weight(context, recipe, {"dy", dy}, dy, x, dw, mode); });
}

std::int32_t ufp4_linear_forward_grouped(const ufp4_context* context, const ufp4_recipe* recipe, std::size_t experts,
                                         const std::size_t* offsets, const ufp4_matrix* x, const ufp4_matrix* w,
                                         const float* bias, const ufp4_matrix* y) {
  return guarded(__func__, [&] { linear_forward(context, recipe, {experts, offsets}, x, w, bias, y); });
}
std::int32_t ufp4_linear_backward_input_grouped(const ufp4_context* context, const ufp4_recipe* recipe,
                                                std::size_t experts, const std::size_t* offsets, const ufp4_matrix* dy,
                                                const ufp4_matrix* w, const ufp4_matrix* dx, std::int32_t mode) {
  return guarded(__func__, [&] { linear_backward_input(context, recipe, {experts, offsets}, dy, w, dx, mode); });
}
std::int32_t ufp4_linear_backward_weight_grouped(const ufp4_context* context, const ufp4_recipe* recipe,
                                                 std::size_t experts, const std::size_t* offsets, const ufp4_matrix* dy,
                                                 const ufp4_matrix* x, const ufp4_matrix* dw, std::int32_t mode) {
  return guarded(__func__, [&] { linear_backward_weight(context, recipe, {experts, offsets}, dy, x, dw, mode); });
}
// NOLINTEND(misc-definitions-in-headers)
}
#pragma GCC visibility pop

}  // namespace ufp4::c::detail::inline UFP4_CODE
