// ufp4 - both namespaces can be imported at once: no name of ufp4::recipe hides or contradicts one of ufp4 or of POSIX.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>  // ::write

#include <cmath>
#include <type_traits>
#include <vector>

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"

using namespace ufp4;
using namespace ufp4::recipe;

TEST_CASE("a program that imports ufp4 and ufp4::recipe uses formats and recipes by their short names", "[recipe]") {
  const std::vector<float> x(64, 1.0f), w(64, 0.5f);
  std::vector<float> y(16);
  const matrix_view<const float> xs{x.data(), 4, 16}, ws{w.data(), 4, 16};
  const matrix_view<float> ys{y.data(), 4, 4};
  const auto q = quantize<nvfp4>(xs);
  CHECK(q.rows() == 4);
  CHECK(float(bf16(1.5f)) == 1.5f);
  static_assert(std::is_same_v<ufp4::nvfp4, nvfp4> && std::is_same_v<ufp4::bf16, bf16>);
  for (const training_recipe& r : {ufp4_recipe(1), e2m1_baseline_recipe(1), nvfp4_recipe(1), bf16_recipe(1)}) {
    linear_forward(r.at(0, 0), xs, ws, ys);
    CHECK(std::abs(y[0] - 8.0f) < 1.5f);
  }
  const bound_recipe now = nvfp4_recipe(1).at(0, 0);
  const quantized_weight made = quantize_weight(now, ws);
  linear_forward(now, xs, ws, ys);
  const float without_bias = y[0];
  linear_forward(now, xs, made, ys, {.bias = std::vector<float>(4, 1.0f)});
  CHECK(y[0] == without_bias + 1.0f);
  const write_mode mode = write_mode::add;
  std::vector<float> dw(64);
  linear_backward_weight(now, ys, xs, matrix_view<float>{dw.data(), 4, 16}, mode);
  CHECK(write(-1, nullptr, 0) == -1);
}

TEST_CASE("an operand_policy takes the policy objects of quantize", "[recipe]") {
  constexpr operand_policy policy{
      .format = spec_of<nvfp4>, .rounding = stochastic{}, .transform = random_hadamard<16>{}, .rule = four_over_six{}};
  static_assert(policy.rounding.what == rounding_spec::kind::stochastic);
  static_assert(policy.transform.what == transform_choice::kind::random && policy.transform.spec.n == 16);
  static_assert(policy.rule.what == ufp4::scale_rule_spec::kind::four_over_six);
  operand_policy edited = policy;
  edited.rounding = nearest_away{}, edited.transform = {}, edited.rule = {mx_ceil{}, mse_search{}};
  CHECK(edited.rounding.what == rounding_spec::kind::nearest_away);
  CHECK(edited.transform.what == transform_choice::kind::none);
  CHECK((edited.rule.what == ufp4::scale_rule_spec::kind::mx_ceil && edited.rule.searches));
  // A seed would have no effect: such policies are no arguments of a recipe, tests/compile_fail/host.cpp.
}
