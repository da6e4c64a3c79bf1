// ufp4 - operand_policy: how one operand of a linear layer is quantized, as data.
// SPDX-License-Identifier: Apache-2.0
//
// The members take the policy objects that quantize takes:
//
//   operand_policy{.format = spec_of<nvfp4>, .rounding = stochastic{}, .transform = random_hadamard<16>{},
//                  .rule = four_over_six{}}
//
// A recipe derives the seeds of its operands from its own seed, the step and the layer (numerics 7), so a policy object
// with a seed, stochastic{5} or random_hadamard<16>{5}, would have no effect and does not compile.
// A scale rule of the user's own is code, not data: recipes take the library's rules.
#pragma once

#include <ufp4/block/block_format.hpp>
#include <ufp4/block/scale_rules.hpp>
#include <ufp4/hadamard/signs.hpp>
#include <ufp4/round/round_to_grid.hpp>

namespace ufp4::recipe::detail::inline UFP4_TYPES {

/// Not constexpr: its call in a consteval constructor is a compile error that shows this name.
void a_recipe_derives_the_seeds_of_its_operands();

}  // namespace ufp4::recipe::detail::inline UFP4_TYPES

namespace ufp4::recipe::inline UFP4_TYPES {

/// nearest_even{} (the default), nearest_away{}, toward_zero{} or stochastic{}.
struct rounding_choice {
  using kind = rounding_spec::kind;  ///< the policies
  kind what = kind::nearest_even;    ///< the policy as data

  constexpr rounding_choice() = default;
  constexpr rounding_choice(nearest_even) {}                             ///< the default
  constexpr rounding_choice(nearest_away) : what(kind::nearest_away) {}  ///< ties away from zero
  constexpr rounding_choice(toward_zero) : what(kind::toward_zero) {}    ///< toward zero
  /// Without a seed: the recipe derives it. Another seed does not compile.
  consteval rounding_choice(stochastic s) : what(kind::stochastic) {
    if (s.seed != 0 || s.stream != 0) detail::a_recipe_derives_the_seeds_of_its_operands();
  }
  friend constexpr bool operator==(const rounding_choice&, const rounding_choice&) = default;
};

/// `{}` for none (the default), random_hadamard<n>{}, hadamard<n>{} or signed_hadamard<n>(signs), each with or without
/// .to_bf16(). Both operands of a GEMM need the same transform.
struct transform_choice {
  enum class kind : std::uint8_t { none, random, given };  ///< where the signs come from
  kind what = kind::none;  ///< random: the recipe draws the signs; given: they are in spec
  transform_spec spec;     ///< random: its length and bf16 rounding; the signs are drawn when the recipe is bound

  constexpr transform_choice() = default;
  /// Without a seed: the recipe derives it. Another seed does not compile.
  template <int n>
  consteval transform_choice(random_hadamard<n> h)
      : what(kind::random), spec{.n = n, .rounds_to_bf16 = h.rounds_to_bf16} {
    if (h.seed != 0) detail::a_recipe_derives_the_seeds_of_its_operands();
  }
  /// No signs.
  template <int n>
  constexpr transform_choice(hadamard<n> h) : what(kind::given), spec(h.spec()) {}
  /// Explicit signs.
  template <int n>
  constexpr transform_choice(signed_hadamard<n> h) : what(kind::given), spec(h.spec()) {}
};

/// default_scale{} (the default), scale_up{}, mx_floor{}, mx_even{}, mx_ceil{}, four_over_six{} or mse_search{};
/// `{mx_ceil{}, mse_search{}}` searches around mx_ceil's scale.
struct rule_choice : scale_rule_spec {
  constexpr rule_choice() = default;
  /// One rule.
  template <builtin_scale_rule Rule>
  constexpr rule_choice(const Rule& rule) : scale_rule_spec(rule.spec()) {}
  /// A search near the scale of a rule.
  template <builtin_scale_rule Rule>
  constexpr rule_choice(const Rule& rule, ufp4::mse_search) : scale_rule_spec(rule.spec()) {
    scale_rule_spec::mse_search = true;
  }
};

/// How one operand is quantized. What does not go together (a rule for another scale type, a transform with square
/// blocks) is an error of the linear operations, before they write anything.
struct operand_policy {
  format_spec format = {};  ///< `spec_of<nvfp4>`; its blocks extend along the GEMM's contraction axis
  bool quantized = true;    ///< false: the operand is rounded to bf16 and transformed; the other members do not apply
  rounding_choice rounding{};    ///< nearest_even by default
  transform_choice transform{};  ///< none by default
  rule_choice rule{};            ///< the default rule of the format
};

}  // namespace ufp4::recipe::inline UFP4_TYPES
