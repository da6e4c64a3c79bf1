// ufp4 - recipes as data: seeds, signs, random bits, and the table of numerics 7.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <ufp4/recipe/recipe.hpp>
#include <ufp4/recipe/recipes.hpp>

#include "support/catch.hpp"
#include "support/model.hpp"
#include "support/seed.hpp"

using namespace ufp4;

namespace {

using kind = rounding_spec::kind;
using rule_of = ufp4::scale_rule_spec::kind;
enum class map { none, random16, transformer_engine };

/// The policy of one operand in numerics 7.
struct row {
  format_spec format;
  map transform = map::none;
  kind rounding = kind::nearest_even;
  rule_of rule = rule_of::by_format;
};

constexpr const char* names[6] = {"X", "W", "dY", "W^T", "dY^T", "X^T"};

void check(const recipe::training_recipe& r, const std::array<row, 6>& table) {
  CHECK(r.accumulate == accumulate::fast);
  CHECK_FALSE(r.redraw_signs_each_step);
  for (int i = 0; i < 6; ++i) {
    const row& want = table[static_cast<std::size_t>(i)];
    const recipe::operand_policy& p = r.operand(i);
    INFO("operand " << i << ", " << names[i]);
    CHECK(p.quantized);
    CHECK(p.format == want.format);
    CHECK(p.rounding.what == want.rounding);
    CHECK(p.rule.what == want.rule);
    CHECK_FALSE(p.rule.searches);
    using choice = recipe::transform_choice::kind;
    CHECK(p.transform.what == (want.transform == map::none       ? choice::none
                               : want.transform == map::random16 ? choice::random
                                                                 : choice::given));
    if (want.transform != map::none) CHECK(p.transform.spec.n == 16);
    CHECK(p.transform.spec.rounds_to_bf16 == (want.transform == map::transformer_engine));
    if (want.transform == map::transformer_engine) {
      const char* signs = "+++-+------+-+--";  // numerics 4
      for (unsigned j = 0; j < 16; ++j) CHECK(p.transform.spec.negative(j) == (signs[j] == '-'));
    }
  }
}

/// ufp4_recipe: the same policy for all operands, but stochastic rounding and its scale rule for dY and dY^T.
template <class F>
std::array<row, 6> ufp4_table(rule_of stochastic_rule) {
  const row nearest{spec_of<F>, map::random16};
  const row gradient{spec_of<F>, map::random16, kind::stochastic, stochastic_rule};
  return {nearest, nearest, gradient, nearest, gradient, nearest};
}

std::uint64_t derived(std::uint64_t seed, std::uint64_t step, std::uint32_t layer, std::uint32_t role) {
  const auto words = model::philox(
      {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32), layer, 0x52000000u + role}, seed);
  return words[0] + (std::uint64_t{words[1]} << 32);
}

}  // namespace

TEST_CASE("the four recipes are the table of numerics 7", "[recipe]") {
  SECTION("ufp4_recipe") {
    check(recipe::ufp4_recipe(1), ufp4_table<e1m2_f32>(rule_of::by_format));
    check(recipe::ufp4_recipe<int4_f32>(1), ufp4_table<int4_f32>(rule_of::by_format));
    check(recipe::ufp4_recipe<nv_e1m2>(1), ufp4_table<nv_e1m2>(rule_of::up));
    check(recipe::ufp4_recipe<mx_e1m2>(1), ufp4_table<mx_e1m2>(rule_of::mx_ceil));
  }
  SECTION("e2m1_baseline_recipe") {
    const row plain{spec_of<e2m1_f32>}, transformed{spec_of<e2m1_f32>, map::random16};
    check(recipe::e2m1_baseline_recipe(1), {plain, plain, row{spec_of<e2m1_f32>, map::none, kind::stochastic}, plain,
                                            row{spec_of<e2m1_f32>, map::random16, kind::stochastic}, transformed});
  }
  SECTION("nvfp4_recipe") {
    const row plain{spec_of<nvfp4>}, weight{spec_of<block_format<fp4<E2M1>, e4m3, square(16), float>>};
    check(recipe::nvfp4_recipe(1), {plain, weight, row{spec_of<nvfp4>, map::none, kind::stochastic}, weight,
                                    row{spec_of<nvfp4>, map::transformer_engine, kind::stochastic},
                                    row{spec_of<nvfp4>, map::transformer_engine}});
  }
  SECTION("bf16_recipe") {
    const recipe::training_recipe r = recipe::bf16_recipe(1);
    for (int i = 0; i < 6; ++i) {
      CHECK_FALSE(r.operand(i).quantized);
      CHECK(r.at(0, 0).operand(i).transform.n == 1);
    }
  }
}

TEST_CASE("operands are numbered in the table's reading order", "[recipe]") {
  recipe::training_recipe r = recipe::ufp4_recipe(1);
  const recipe::operand_policy* in_order[] = {&r.fprop.left,  &r.fprop.right, &r.dgrad.left,
                                              &r.dgrad.right, &r.wgrad.left,  &r.wgrad.right};
  for (int i = 0; i < 6; ++i) CHECK(&r.operand(i) == in_order[i]);
}

TEST_CASE("derive is words 0 and 1 of Philox on step, layer and role", "[recipe]") {
  // The published vectors of the model that the library is compared with.
  CHECK(model::philox({0, 0, 0, 0}, 0) == std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(model::philox({~0u, ~0u, ~0u, ~0u}, ~std::uint64_t{0}) ==
        std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(0)};
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t seed = gen(), step = i % 2 == 0 ? gen() : gen() % 1000;
    const auto layer = static_cast<std::uint32_t>(gen()), role = static_cast<std::uint32_t>(gen() % 22);
    REQUIRE(recipe::derive(seed, step, layer, role) == derived(seed, step, layer, role));
  }
  static_assert(recipe::derive(1, 2, 3, 4) != recipe::derive(1, 2, 3, 5));  // usable in constant expressions
}

TEST_CASE("signs come from roles 0, 1, 2 with step 0, random bits from 16 + operand with the step, stream 0",
          "[recipe]") {
  const std::uint64_t seed = 0x123456789ABCDEFu, step = 0x100000007u;
  for (const std::uint32_t layer : {0u, 3u, 65535u}) {
    for (const bool redraw : {false, true}) {
      recipe::training_recipe r = recipe::ufp4_recipe(seed);
      r.redraw_signs_each_step = redraw;
      const recipe::bound_recipe now = r.at(step, layer);
      CHECK(now.step() == step);
      CHECK(now.layer() == layer);
      for (const std::uint32_t expert : {0u, 1u, 65535u})
        for (int i = 0; i < 6; ++i) {
          CAPTURE(layer, redraw, expert, i);
          const auto role = static_cast<std::uint32_t>(i);
          const recipe::bound_operand o = now.operand(i, expert);
          CHECK(o.rounding.what == (i == 2 || i == 4 ? kind::stochastic : kind::nearest_even));
          CHECK(o.rounding.random_bits.seed == derived(seed, step, layer + expert * 65536u, 16 + role));
          CHECK(o.rounding.random_bits.stream == 0);
          const model::transform signs = model::random_transform(16, derived(seed, redraw ? step : 0, layer, role / 2));
          CHECK(o.transform.n == 16);
          for (unsigned j = 0; j < 16; ++j) CHECK(o.transform.negative(j) == signs.flipped[j]);
        }
    }
  }
}

TEST_CASE("no two operands, steps, layers or experts share a seed", "[recipe]") {
  const recipe::training_recipe r = recipe::ufp4_recipe(77);
  std::set<std::uint64_t> seeds;
  std::size_t drawn = 0;
  for (const std::uint64_t step : {0u, 1u, 2u})
    for (const std::uint32_t layer : {0u, 1u, 2u})
      for (const std::uint32_t expert : {0u, 1u, 2u})
        for (int i = 0; i < 6; ++i, ++drawn)
          seeds.insert(r.at(step, layer).operand(i, expert).rounding.random_bits.seed);
  CHECK(seeds.size() == drawn);
}

TEST_CASE("any transform may be chosen: random ones keep their length and rounding, given ones their signs",
          "[recipe]") {
  recipe::training_recipe r = recipe::ufp4_recipe(5);
  r.fprop.left.transform = random_hadamard<64>{}.to_bf16();
  r.fprop.right.transform = hadamard<32>{};
  r.dgrad.left.transform = {};
  const recipe::bound_recipe now = r.at(1, 2);
  const transform_spec drawn = now.operand(0).transform;
  const model::transform signs = model::random_transform(64, derived(5, 0, 2, 0));
  CHECK((drawn.n == 64 && drawn.rounds_to_bf16));
  for (unsigned j = 0; j < 64; ++j) CHECK(drawn.negative(j) == signs.flipped[j]);
  const transform_spec given = now.operand(1).transform;
  CHECK((given.n == 32 && !given.rounds_to_bf16 && given.signs[0] == 0));
  CHECK(now.operand(2).transform.n == 1);
}
