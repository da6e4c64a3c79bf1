// ufp4 - quantize, quantize_into, fake_quantize and dequantize give the model's bits.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include "support/formats.hpp"
#include "support/operations.hpp"

using namespace ufp4;

TEMPLATE_LIST_TEST_CASE("every preset gives the model's bits at every tail under every transform", "",
                        support::presets) {
  support::check_tails<TestType, float>();
}

namespace {

using bf16_scaled = block_format<fp4<E1M2>, bf16, 16>;
using e4m3_scaled = block_format<fp4<E2M1>, e4m3, 16>;
using ue5m3_scaled = block_format<fp4<E2M1>, ue5m3, 16>;
using ue5m3_two_level = block_format<int4, ue5m3, 16, float>;
using shortest = block_format<fp4<E2M1>, float, 2>;
using longest = block_format<fp4<E3M0>, e8m0, 256>;
using nf4_f32 = block_format<nf4, float, 64>;
using nf4_two_level = block_format<nf4, e4m3, 16, float>;
using int8_two_level = block_format<ufp4::int8, e4m3, 16, float>;
using int8_shortest = block_format<ufp4::int8, float, 2>;

}  // namespace

TEMPLATE_TEST_CASE("user-defined formats give the model's bits at every tail", "", bf16_scaled, e4m3_scaled,
                   ue5m3_scaled, ue5m3_two_level, shortest, longest, nf4_f32, nf4_two_level, int8_f32, mxint8,
                   int8_two_level, int8_shortest) {
  support::check_tails<TestType, float>();
}

namespace {

using square_nvfp4 = block_format<fp4<E2M1>, e4m3, square(16), float>;
using square_mx = block_format<fp4<E1M2>, e8m0, square(32)>;
using square_nf4 = block_format<nf4, float, square(4)>;
using largest_square = block_format<int4, bf16, square(64)>;
using square_int8 = block_format<int8q6, e8m0, square(32)>;

}  // namespace

TEMPLATE_TEST_CASE("square blocks give the model's bits at every ragged edge", "", square_nvfp4, square_mx, square_nf4,
                   largest_square, square_int8) {
  INFO(support::seed_note());
  support::hostile source(support::seed(2));
  const std::size_t edge = TestType::block_size, most = 2 * edge + 1,
                    step = edge < 16   ? 1
                           : edge < 64 ? edge / 8 + 1
                                       : 25;
  for (const int n : {1, 16, 128})
    for (std::size_t rows = 0; rows <= most; rows += step)
      for (std::size_t cols = rows % step; cols <= most; cols += step + 1) {
        CAPTURE(n, rows, cols);
        support::check_matrix<TestType, float>(source.values(rows * cols, cols % 3 == 0), rows, cols,
                                               support::random_transform(n, 5));
      }
}

namespace {

support::policies with_rounding(support::policies p, rounding_spec ours, model::rounding theirs) {
  p.rounding = ours;
  p.theirs.rounding = theirs;
  return p;
}
support::policies with_rule(support::policies p, ufp4::scale_rule_spec ours, model::rule theirs) {
  p.rule = ours;
  p.theirs.how = theirs;
  p.theirs.mse = ours.searches;
  return p;
}

/// All roundings of a transform and rule, on matrices whose last block is ragged.
template <class F>
void check_policies(const support::policies& base) {
  INFO(support::seed_note());
  support::hostile source(support::seed(3));
  const support::policies all[] = {
      base,
      with_rounding(base, nearest_away{}, {.what = model::rounding::nearest_away}),
      with_rounding(base, toward_zero{}, {.what = model::rounding::toward_zero}),
      with_rounding(base, stochastic{.seed = 0x123456789ABCDEFull, .stream = 0xFEDCBA9876543210ull},
                    {model::rounding::stochastic, 0x123456789ABCDEFull, 0xFEDCBA9876543210ull}),
  };
  const int trials = F::block.rows == 1 ? 16 : 3;
  for (int trial = 0; trial < trials; ++trial)
    for (const support::policies& p : all) {
      const std::size_t rows = 1 + source.below(3), cols = 100 + source.below(60);
      CAPTURE(trial, rows, cols, static_cast<int>(p.rounding.what), static_cast<int>(p.rule.what), p.rule.searches);
      support::check_matrix<F, float>(source.values(rows * cols, trial % 3 == 0), rows, cols, p);
    }
}

ufp4::scale_rule_spec searching(ufp4::scale_rule_spec rule) {
  rule.searches = true;
  return rule;
}

/// The default rule, mse_search around it, and both of them behind a transform.
template <class F>
void check_rules() {
  const support::policies plain, transformed = support::random_transform(32, 77);
  for (const support::policies& p : {plain, transformed}) {
    check_policies<F>(p);
    check_policies<F>(with_rule(p, mse_search{}.spec(), model::rule::by_format));
  }
}
template <class F, class Rule>
void check_rule(Rule rule, model::rule theirs) {
  const support::policies plain, transformed = support::random_transform(16, 78);
  for (const support::policies& p : {plain, transformed}) {
    check_policies<F>(with_rule(p, rule.spec(), theirs));
    check_policies<F>(with_rule(p, searching(rule.spec()), theirs));
  }
}

}  // namespace

using searched_formats = support::presets_and<bf16_scaled, ue5m3_scaled, nf4_f32, square_nvfp4>;
TEMPLATE_LIST_TEST_CASE("every rounding and mse_search give the model's bits on every preset", "", searched_formats) {
  check_rules<TestType>();
}

TEMPLATE_TEST_CASE("the mx rules give the model's bits", "", mxfp4, mx_e1m2, mxint4, longest, square_mx) {
  check_rule<TestType>(mx_floor{}, model::rule::mx_floor);
  check_rule<TestType>(mx_even{}, model::rule::mx_even);
  check_rule<TestType>(mx_ceil{}, model::rule::mx_ceil);
}

TEMPLATE_TEST_CASE("scale_up gives the model's bits", "", nvfp4, nv_e1m2, bf16_scaled, e4m3_scaled, ue5m3_scaled,
                   ue5m3_two_level, square_nvfp4) {
  check_rule<TestType>(scale_up{}, model::rule::up);
}

TEMPLATE_TEST_CASE("four_over_six gives the model's bits", "", nvfp4, square_nvfp4) {
  const support::policies plain, transformed = support::random_transform(64, 79);
  for (const support::policies& p : {plain, transformed})
    check_policies<TestType>(with_rule(p, four_over_six{}.spec(), model::rule::four_over_six));
}
