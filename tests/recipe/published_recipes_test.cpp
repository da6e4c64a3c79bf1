// ufp4 - the recipes of publications have their policies, and operations that are two quantize calls and one GEMM.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/recipe/linear.hpp>

#include <algorithm>
#include <array>

#include "recipe/linear_model.hpp"
#include "support/catch.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

using namespace ufp4;
using namespace linear_model;

namespace {

constexpr std::uint64_t seed = 21, step = (std::uint64_t{3} << 32) + 7;
constexpr std::uint32_t number = 5;

enum class map : std::uint8_t { none, random16, random64, random128, transformer_engine };

/// One operand in the table of numerics 7.
struct row {
  format_spec format;
  map transform = map::none;
  bool is_stochastic = false;
  ufp4::scale_rule_spec rule = {};
  bool by_ms_eden = false;
};

any_quantized untyped(const quantized_matrix<nvfp4>& q) {
  any_quantized copy(q.spec(), q.rows(), q.cols(), q.transform());
  std::copy(q.codes().begin(), q.codes().end(), copy.codes().begin());
  std::copy(q.scale_bytes().begin(), q.scale_bytes().end(), copy.scale_bytes().begin());
  copy.set_tensor_scale(q.tensor_scale());
  return copy;
}

/// A recipe as its publication has it: X, W, dY, W^T, dY^T, X^T.
struct published {
  const char* name;
  recipe::training_recipe made;
  std::array<row, 6> table;
  bool new_signs_each_step = false;

  transform_spec transform(int operand) const {
    const std::uint64_t signs =
        derived(seed, new_signs_each_step ? step : 0, number, static_cast<unsigned>(operand / 2));
    switch (table[static_cast<std::size_t>(operand)].transform) {
      case map::none: return {};
      case map::random16: return random_hadamard<16>{signs}.spec();
      case map::random64: return random_hadamard<64>{signs}.spec();
      case map::random128: return random_hadamard<128>{signs}.spec();
      default: return signed_hadamard<16>(compat::transformer_engine_signs).to_bf16().spec();
    }
  }
  any_quantized quantized(int operand, const matrix_view<const float>& x) const {
    const row& how = table[static_cast<std::size_t>(operand)];
    const stochastic random_bits{.seed = derived(seed, step, number, static_cast<unsigned>(16 + operand))};
    if (how.by_ms_eden) return untyped(quantize_ms_eden(x, transform(operand), random_bits));
    if (!how.is_stochastic) return quantize(how.format, x, transform(operand), how.rule);
    return quantize(how.format, x, transform(operand), how.rule, random_bits);
  }
};

/// W in 16 x 16 blocks, Transformer Engine's transform on wgrad, stochastic rounding of the gradients.
template <class Rows, class Squares>
std::array<row, 6> like_transformer_engine() {
  const row x{spec_of<Rows>}, w{spec_of<Squares>};
  return {x,
          w,
          row{x.format, map::none, true},
          w,
          row{x.format, map::transformer_engine, true},
          row{x.format, map::transformer_engine}};
}

std::vector<published> all_published() {
  using nvfp4_square = block_format<fp4<E2M1>, e4m3, square(16), float>;
  using if4_square = block_format<one_of<fp4<E2M1>, scaled<int4, 6, 7>>, e4m3, square(16), float>;
  const ufp4::scale_rule_spec mae = four_over_six{search_error::absolute}.spec();
  const row te{spec_of<nvfp4>, map::none, false, mae}, te_weight{spec_of<nvfp4_square>, map::none, false, mae};
  const row jet{spec_of<tetrajet2>}, jet_backward{spec_of<tetrajet2>, map::random16, true};
  const row hi{spec_of<hif4>, map::random64};
  const row four{spec_of<nvfp4>, map::none, false, four_over_six{}.spec()};
  const row eden{spec_of<nvfp4>, map::random128, false, {}, true};
  return {{"nvfp4", recipe::nvfp4_recipe(seed), like_transformer_engine<nvfp4, nvfp4_square>()},
          {"if4", recipe::if4_recipe(seed), like_transformer_engine<if4, if4_square>()},
          {"te_four_over_six", recipe::te_four_over_six_recipe(seed), {te, te_weight, te, te_weight, te, te}},
          {"tetrajet2",
           recipe::tetrajet2_recipe(seed),
           {jet, jet, jet_backward, jet_backward, jet_backward, jet_backward},
           true},
          {"quartet2", recipe::quartet2_recipe(seed), {four, four, eden, eden, eden, eden}, true},
          {"hif4", recipe::hif4_recipe(seed), {hi, hi, hi, hi, hi, hi}}};
}

/// Y, dX and dW of a layer from quantize calls and products.
struct by_hand {
  output<float> y, dx, dw;

  by_hand(const published& p, const layer<float>& l, accumulate mode)
      : y(l.tokens, l.outputs), dx(l.tokens, l.inputs), dw(l.outputs, l.inputs) {
    const gemm_options options{.accumulate = mode};
    const auto x = l.x.view(), w = l.w.view(), dy = l.dy.view();
    quantized_gemm(p.quantized(0, x), p.quantized(1, w), y.view(), options);
    quantized_gemm(p.quantized(2, dy), p.quantized(3, transpose(w)), dx.view(), options);
    quantized_gemm(p.quantized(4, transpose(dy)), p.quantized(5, transpose(x)), dw.view(), options);
  }
};

}  // namespace

TEST_CASE("the recipes of publications have the policies of the table", "[recipe]") {
  for (const published& p : all_published()) {
    CHECK(p.made.seed == seed);
    CHECK(p.made.accumulate == accumulate::fast);
    CHECK(p.made.redraw_signs_each_step == p.new_signs_each_step);
    for (int i = 0; i < 6; ++i) {
      CAPTURE(p.name, i);
      const row& want = p.table[static_cast<std::size_t>(i)];
      const recipe::operand_policy& o = p.made.operand(i);
      CHECK((o.quantized && o.format == want.format && o.rule == want.rule && o.ms_eden == want.by_ms_eden));
      CHECK(o.rounding.what ==
            (want.is_stochastic ? rounding_spec::kind::stochastic : rounding_spec::kind::nearest_even));
      const transform_spec bound = p.made.at(step, number).operand(i).transform;
      CHECK(same_map(bound, p.transform(i)));
      CHECK(bound.rounds_to_bf16 == (want.transform == map::transformer_engine));
    }
  }
}

TEST_CASE("operations under a published recipe are its quantize calls and one GEMM", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  for (published p : all_published())
    for (const shape& s : shapes) {
      const layer<float> l(gen, s.tokens, s.inputs, s.outputs);
      for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks}) {
        CAPTURE(p.name, l.tokens, l.inputs, l.outputs, static_cast<int>(mode));
        p.made.accumulate = mode;
        const recipe::bound_recipe now = p.made.at(step, number);
        by_hand want(p, l, mode);
        recipe::saved_activation saved;
        layer_outputs got(now, l, {.saved = &saved});
        REQUIRE(got.y.c.same_bytes(want.y.c.span()));
        REQUIRE(got.dx.c.same_bytes(want.dx.c.span()));
        REQUIRE(got.dw.c.same_bytes(want.dw.c.span()));
        output<float> from_saved(l.outputs, l.inputs);
        linear_backward_weight(now, l.dy.view(), saved, from_saved.view());
        REQUIRE(from_saved.c.same_bytes(want.dw.c.span()));
      }
    }
}

TEST_CASE("the NVFP4 paper's blocks in bf16 are the first 2 and the last 8 of 62, and at least the last of any",
          "[recipe]") {
  using recipe::bf16_blocks, recipe::bf16_blocks_of_nvfp4;
  CHECK(bf16_blocks_of_nvfp4(62) == bf16_blocks{2, 8});
  CHECK(bf16_blocks_of_nvfp4(0) == bf16_blocks{0, 0});
  CHECK(bf16_blocks_of_nvfp4(1) == bf16_blocks{0, 1});
  CHECK(bf16_blocks_of_nvfp4(6) == bf16_blocks{0, 1});
  CHECK(bf16_blocks_of_nvfp4(32) == bf16_blocks{1, 5});
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < 9; ++i)
    if (bf16_blocks{2, 3}.contain(i, 9)) kept.push_back(i);
  CHECK(kept == std::vector<std::size_t>{0, 1, 6, 7, 8});
}

TEST_CASE("MS-EDEN with a rounding, a rule, another format or without a transform is an error", "[recipe]") {
  const std::vector<float> x(256, 1.0f);
  std::vector<float> y(4, 42.0f);
  const auto message = [&](const auto& edit) {
    recipe::training_recipe r = recipe::quartet2_recipe(1);
    edit(r.dgrad);
    const std::string text = support::rejection([&] {
      linear_backward_input(r.at(0, 0), matrix_view<const float>(x.data(), 2, 128),
                            matrix_view<const float>(x.data(), 128, 2), matrix_view<float>(y.data(), 2, 2));
    });
    CHECK(y == std::vector<float>(4, 42.0f));
    return text;
  };
  CHECK(message([](auto& g) { g.left.rounding = stochastic{}; }) ==
        "linear_backward_input: dgrad.left (dY): MS-EDEN has a rounding and a scale rule of its own; leave both out");
  CHECK(message([](auto& g) { g.right.rule = scale_up{}; }) ==
        "linear_backward_input: dgrad.right (W^T): MS-EDEN has a rounding and a scale rule of its own; leave both out");
  CHECK(message([](auto& g) { g.left.format = spec_of<e2m1_f32>; })
            .starts_with(
                "linear_backward_input: dgrad.left (dY): MS-EDEN is for formats of one grid in blocks of one row"));
  CHECK(message([](auto& g) { g.left.transform = g.right.transform = {}; }) ==
        "linear_backward_input: dgrad.left (dY): MS-EDEN needs a transform of at least the block's length, got none");
}

TEST_CASE("a quantized weight under MS-EDEN is rejected by a recipe without it, or with another seed", "[recipe]") {
  const std::vector<float> w(128 * 128, 1.0f), dy(128, 1.0f);
  std::vector<float> dx(128);
  const matrix_view<const float> weights(w.data(), 128, 128);
  const auto made = quantize_weight(recipe::quartet2_recipe(1).at(2, 3), weights, {.backward = true});
  const auto message = [&](const recipe::training_recipe& r) {
    return support::rejection([&] {
      linear_backward_input(r.at(2, 3), matrix_view<const float>(dy.data(), 1, 128), made,
                            matrix_view<float>(dx.data(), 1, 128));
    });
  };
  CHECK(message(recipe::quartet2_recipe(1)) == "");
  CHECK(message(recipe::quartet2_recipe(2)).find("mismatch") != std::string::npos);
  recipe::training_recipe nearest = recipe::quartet2_recipe(1);
  nearest.dgrad.right.ms_eden = false;
  CHECK(message(nearest).find("rounding mismatch: part 0 of w was quantized under another policy") !=
        std::string::npos);
}
