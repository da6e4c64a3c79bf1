// ufp4 - the linear operations: every mistake is named with both values, before anything is written.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <type_traits>
#include <vector>

#include <ufp4/recipe/linear.hpp>
#include <ufp4/recipe/recipes.hpp>

#include "support/catch.hpp"
#include "support/poison.hpp"
#include "support/rejection.hpp"

using namespace ufp4;

namespace {

const std::vector<float> ones(1 << 14, 1.0f);
matrix_view<const float> matrix(std::size_t rows, std::size_t cols) { return {ones.data(), rows, cols}; }

const recipe::bound_recipe now = recipe::ufp4(1).at(2, 3);

/// What a operation says that writes to a rows x cols output, which must be as it was if it says anything.
template <class Call>
std::string said(std::size_t rows, std::size_t cols, const Call& call) {
  support::guarded<float> out(rows * cols), poison(rows * cols);
  const std::string text = support::rejection([&] { call(matrix_view<float>{out.data(), rows, cols}); });
  CHECK(out.same_bytes(poison.span()) == !text.empty());
  CHECK(out.guards_intact());
  return text;
}

std::string forward(const recipe::bound_recipe& r) {
  return said(4, 6, [&](auto y) { linear_forward(r, matrix(4, 32), matrix(6, 32), y); });
}
std::string backward_input(const recipe::bound_recipe& r) {
  return said(4, 32, [&](auto dx) { linear_backward_input(r, matrix(4, 6), matrix(6, 32), dx); });
}
std::string backward_weight(const recipe::bound_recipe& r) {
  return said(6, 32, [&](auto dw) { linear_backward_weight(r, matrix(4, 6), matrix(4, 32), dw); });
}
std::string grouped(const std::vector<std::size_t>& offsets, std::size_t weights = 12) {
  return said(4, 6, [&](auto y) { linear_forward_grouped(now, matrix(4, 32), offsets, matrix(weights, 32), y); });
}

}  // namespace

TEST_CASE("shapes of a layer that do not go together are named", "[recipe]") {
  CHECK(said(5, 6, [](auto y) { linear_forward(now, matrix(4, 32), matrix(6, 32), y); }) ==
        "linear_forward: y has 5 rows (tokens), but x has 4");
  CHECK(said(4, 6, [](auto y) { linear_forward(now, matrix(4, 32), matrix(6, 31), y); }) ==
        "linear_forward: w has 31 columns (K), but x has 32");
  CHECK(said(4, 7, [](auto y) { linear_forward(now, matrix(4, 32), matrix(6, 32), y); }) ==
        "linear_forward: w has 6 rows, but 1 experts of 7 outputs (y's columns) take 7");
  CHECK(said(4, 32, [](auto dx) { linear_backward_input(now, matrix(5, 6), matrix(6, 32), dx); }) ==
        "linear_backward_input: dy has 5 rows (tokens), but dx has 4");
  CHECK(said(4, 32, [](auto dx) { linear_backward_input(now, matrix(4, 6), matrix(6, 30), dx); }) ==
        "linear_backward_input: w has 30 columns (K), but dx has 32");
  CHECK(said(4, 32, [](auto dx) { linear_backward_input(now, matrix(4, 6), matrix(7, 32), dx); }) ==
        "linear_backward_input: w has 7 rows, but 1 experts of 6 outputs (dy's columns) take 6");
  CHECK(said(6, 32, [](auto dw) { linear_backward_weight(now, matrix(5, 6), matrix(4, 32), dw); }) ==
        "linear_backward_weight: dy has 5 rows (tokens), but x has 4");
  CHECK(said(6, 30, [](auto dw) { linear_backward_weight(now, matrix(4, 6), matrix(4, 32), dw); }) ==
        "linear_backward_weight: dw has 30 columns (K), but x has 32");
  CHECK(said(7, 32, [](auto dw) { linear_backward_weight(now, matrix(4, 6), matrix(4, 32), dw); }) ==
        "linear_backward_weight: dw has 7 rows, but 1 experts of 6 outputs (dy's columns) take 6");
}

TEST_CASE("offsets that are no partition of the tokens are named", "[recipe]") {
  CHECK(grouped({0, 2, 4}) == "");
  CHECK(grouped({}) == "linear_forward_grouped: offsets has 0 entries; it needs one more than experts");
  CHECK(grouped({0}) == "linear_forward_grouped: offsets has 1 entries; it needs one more than experts");
  CHECK(grouped({0, 4}) == "linear_forward_grouped: w has 12 rows, but 1 experts of 6 outputs (y's columns) take 6");
  CHECK(grouped({1, 2, 4}) == "linear_forward_grouped: offsets[0] is 1, not 0");
  CHECK(grouped({0, 3, 2}) == "linear_forward_grouped: offsets[2] is 2, below offsets[1] = 3");
  CHECK(grouped({0, 2, 5}) == "linear_forward_grouped: the last of offsets is 5, but there are 4 tokens");
  CHECK(grouped({0, 2, 3}) == "linear_forward_grouped: the last of offsets is 3, but there are 4 tokens");
  const std::vector<std::size_t> crowd(65538, 0);
  CHECK(support::rejection([&] {
          linear_forward_grouped(now, matrix(0, 32), crowd, matrix_view<const float>{nullptr, 0, 32},
                                 matrix_view<float>{nullptr, 0, 0});
        }) == "linear_forward_grouped: offsets has 65537 experts; at most 65536");
}

TEST_CASE("the other grouped operations check the same things under their own names", "[recipe]") {
  const std::vector<std::size_t> wrong{0, 3, 2};
  CHECK(said(4, 32, [&](auto dx) { linear_backward_input_grouped(now, matrix(4, 6), wrong, matrix(12, 32), dx); }) ==
        "linear_backward_input_grouped: offsets[2] is 2, below offsets[1] = 3");
  CHECK(said(12, 32, [&](auto dw) { linear_backward_weight_grouped(now, matrix(4, 6), matrix(4, 32), wrong, dw); }) ==
        "linear_backward_weight_grouped: offsets[2] is 2, below offsets[1] = 3");
  CHECK(said(12, 32, [&](auto dw) {
          linear_backward_weight_grouped(now, matrix(4, 6), recipe::saved_activation{}, wrong, dw);
        }) == "linear_backward_weight_grouped: offsets[2] is 2, below offsets[1] = 3");
}

TEST_CASE("memory that is null or shared is named", "[recipe]") {
  const matrix_view<const float> x{nullptr, 4, 32}, w{nullptr, 6, 32}, dy{nullptr, 4, 6};
  CHECK(said(4, 6, [&](auto y) { linear_forward(now, x, matrix(6, 32), y); }) ==
        "linear_forward: x is null, but has 4 x 32 elements");
  CHECK(said(4, 6, [&](auto y) { linear_forward(now, matrix(4, 32), w, y); }) ==
        "linear_forward: w is null, but has 6 x 32 elements");
  CHECK(support::rejection([&] {
          linear_forward(now, matrix(4, 32), matrix(6, 32), matrix_view<float>{nullptr, 4, 6});
        }) == "linear_forward: y is null, but has 4 x 6 elements");
  CHECK(said(4, 32, [&](auto dx) { linear_backward_input(now, dy, matrix(6, 32), dx); }) ==
        "linear_backward_input: dy is null, but has 4 x 6 elements");
  CHECK(said(6, 32, [&](auto dw) { linear_backward_weight(now, dy, matrix(4, 32), dw); }) ==
        "linear_backward_weight: dy is null, but has 4 x 6 elements");

  std::vector<float> memory(256, 1.0f);  // 4 x 32, then room for the rest
  const matrix_view<const float> left{memory.data(), 4, 32}, square{memory.data(), 6, 32};
  const auto at = [&](std::size_t first, std::size_t rows, std::size_t cols) {
    return matrix_view<float>{memory.data() + first, rows, cols};
  };
  CHECK(support::rejection([&] { linear_forward(now, left, matrix(6, 32), at(127, 4, 6)); }) ==
        "linear_forward: y overlaps x");
  CHECK(support::rejection([&] { linear_forward(now, matrix(4, 32), square, at(191, 4, 6)); }) ==
        "linear_forward: y overlaps w");
  CHECK(support::rejection([&] { linear_forward(now, left, matrix(6, 32), at(128, 4, 6)); }) == "");
  CHECK(support::rejection([&] { linear_backward_input(now, left, matrix(32, 16), at(100, 4, 16)); }) ==
        "linear_backward_input: dx overlaps dy");
  CHECK(support::rejection([&] { linear_backward_input(now, matrix(4, 6), square, at(64, 4, 32)); }) ==
        "linear_backward_input: dx overlaps w");
  CHECK(support::rejection([&] { linear_backward_weight(now, left, matrix(4, 2), at(0, 32, 2)); }) ==
        "linear_backward_weight: dw overlaps dy");
  CHECK(support::rejection([&] { linear_backward_weight(now, matrix(4, 6), left, at(64, 6, 32)); }) ==
        "linear_backward_weight: dw overlaps x");
}

TEST_CASE("what a recipe may not say is named with its operand", "[recipe]") {
  recipe::training_recipe r = recipe::ufp4(1);
  r.fprop.left.transform = random_hadamard<32>{};
  CHECK(forward(r.at(0, 0)) ==
        "linear_forward: fprop.left (X) and fprop.right (W) have different transforms, of lengths 32 and 16");
  CHECK(backward_input(r.at(0, 0)) == "");  // the other GEMMs do not care
  r = recipe::ufp4(1);
  r.dgrad.right.transform = hadamard<16>{};  // the same length, other signs
  CHECK(backward_input(r.at(0, 0)) ==
        "linear_backward_input: dgrad.left (dY) and dgrad.right (W^T) have different transforms, of lengths 16 and 16");
  r = recipe::e2m1_baseline(1);
  r.fprop.right.format = spec_of<mxfp4>;
  CHECK(forward(r.at(0, 0)) == "linear_forward: fprop.left (X) has blocks of 16, but fprop.right (W) has blocks of 32");
  r = recipe::ufp4(1);
  r.wgrad.left.rule = mx_ceil{}.spec();
  CHECK(backward_weight(r.at(0, 0)) ==
        "linear_backward_weight: wgrad.left (dY^T): mx_floor, mx_even and mx_ceil are for e8m0 scales");
  r = recipe::nvfp4(1);
  r.wgrad.right.format.block = square(16);
  CHECK(backward_weight(r.at(0, 0)) ==
        "linear_backward_weight: wgrad.right (X^T): square blocks are read along both axes, which a Hadamard transform "
        "does not allow");
  r = recipe::ufp4(1);
  r.wgrad.left.transform = r.wgrad.right.transform = signed_hadamard<16>(std::array<int, 16>{3});
  CHECK(backward_weight(r.at(0, 0)) ==
        "linear_backward_weight: wgrad.left (dY^T): signed_hadamard was given a sign that is neither +1 nor -1");
  // linear_forward looks at wgrad only if it is to keep X^T for it.
  CHECK(forward(r.at(0, 0)) == "");
  recipe::saved_activation saved;
  CHECK(said(4, 6, [&](auto y) { linear_forward(r.at(0, 0), matrix(4, 32), matrix(6, 32), y, &saved); }) ==
        "linear_forward: wgrad.left (dY^T): signed_hadamard was given a sign that is neither +1 nor -1");
  CHECK(saved.parts() == 0);

  CHECK(forward(recipe::ufp4(1).at(0, 65536)) == "linear_forward: layer is 65536, not below 65536");
  CHECK(forward(recipe::ufp4(1).at(0, 65535)) == "");
}

TEST_CASE("a saved activation of another shape, recipe, step or layer is rejected", "[recipe]") {
  static_assert(!std::is_copy_constructible_v<recipe::saved_activation>);  // its operands point into its memory
  const auto save = [](const recipe::bound_recipe& r, std::size_t tokens, std::size_t inputs) {
    recipe::saved_activation saved;
    std::vector<float> y(tokens * 6);
    linear_forward(r, matrix(tokens, inputs), matrix(6, inputs), matrix_view<float>{y.data(), tokens, 6}, &saved);
    return saved;
  };
  const auto use = [](const recipe::bound_recipe& r, const recipe::saved_activation& saved) {
    return said(6, 32, [&](auto dw) { linear_backward_weight(r, matrix(4, 6), saved, dw); });
  };
  CHECK(use(now, save(now, 4, 32)) == "");
  CHECK(use(now, recipe::saved_activation{}) ==
        "linear_backward_weight: saved has 0 parts, but offsets names 1 experts");
  CHECK(use(now, save(now, 5, 32)) ==
        "linear_backward_weight: saved part 0 is X^T of 32 x 5, but dw and dy make it 32 x 4");
  CHECK(use(now, save(now, 4, 31)) ==
        "linear_backward_weight: saved part 0 is X^T of 31 x 4, but dw and dy make it 32 x 4");
  const std::vector<std::size_t> two{0, 2, 4};
  CHECK(said(12, 32, [&](auto dw) { linear_backward_weight_grouped(now, matrix(4, 6), save(now, 4, 32), two, dw); }) ==
        "linear_backward_weight_grouped: saved has 1 parts, but offsets names 2 experts");

  const auto signs = [](const recipe::bound_recipe& r) {
    return std::to_string(r.operand(4).transform.n) + " (first signs " +
           std::to_string(r.operand(4).transform.signs[0]) + ")";
  };
  const recipe::bound_recipe other_layer = recipe::ufp4(1).at(2, 4), baseline = recipe::bf16(1).at(2, 3);
  for (const recipe::bound_recipe& before : {other_layer, baseline})
    CHECK(use(now, save(before, 4, 32)) == "linear_backward_weight: saved was transformed in runs of " + signs(before) +
                                               ", but this recipe, step and layer transform dy in runs of " +
                                               signs(now));
  recipe::training_recipe small = recipe::ufp4(1), large = recipe::ufp4(1);
  small.wgrad.left.transform = small.wgrad.right.transform = {};
  large.wgrad.left.transform = large.wgrad.right.transform = {};
  large.wgrad.left.format = large.wgrad.right.format = spec_of<mxint4>;
  CHECK(use(small.at(0, 0), save(large.at(0, 0), 4, 32)) ==
        "linear_backward_weight: saved has blocks of 32, but this recipe's wgrad has blocks of 16");
  const std::string another = "linear_backward_weight: saved has another format than this recipe's wgrad.right (X^T)";
  recipe::training_recipe coarse = recipe::ufp4(1), half = recipe::ufp4(1);
  coarse.wgrad.right.format = spec_of<int4_f32>;
  half.wgrad.right.quantized = false;
  for (const recipe::training_recipe& r : {coarse, half}) {
    CHECK(use(now, save(r.at(2, 3), 4, 32)) == another);
    CHECK(use(r.at(2, 3), save(now, 4, 32)) == another);
    CHECK(use(r.at(2, 3), save(r.at(2, 3), 4, 32)) == "");
  }
  CHECK(use(now, save(recipe::ufp4(1).at(9, 3), 4, 32)) ==
        "linear_backward_weight: saved is of step 9 and layer 3, but this call is of step 2 and layer 3");
  CHECK(use(small.at(2, 3), save(small.at(2, 4), 4, 32)) ==
        "linear_backward_weight: saved is of step 2 and layer 4, but this call is of step 2 and layer 3");
}

TEST_CASE("columns of one buffer are not memory that overlaps", "[recipe]") {
  std::vector<float> fused(4 * 38, 1.0f), apart(4 * 6);
  const matrix_view<const float> x{fused.data(), 4, 32, 38};
  linear_forward(now, x, matrix(6, 32), matrix_view<float>{fused.data() + 32, 4, 6, 38});
  linear_forward(now, x, matrix(6, 32), matrix_view<float>{apart.data(), 4, 6});
  for (std::size_t i = 0; i < 4 * 6; ++i) REQUIRE(fused[i / 6 * 38 + 32 + i % 6] == apart[i]);
  CHECK(support::rejection([&] {
          linear_forward(now, x, matrix(6, 32), matrix_view<float>{fused.data() + 31, 4, 6, 38});
        }) == "linear_forward: y overlaps x");
}

TEST_CASE("a recipe put together by hand is rejected where no kernel can take it", "[recipe]") {
  // linear_forward under ufp4 with an edit of X's and W's policies.
  const auto edited = [](auto edit) {
    recipe::training_recipe r = recipe::ufp4(1);
    edit(r.fprop.left), edit(r.fprop.right);
    return forward(r.at(0, 0));
  };
  using recipe::operand_policy;
  const std::string x = "linear_forward: fprop.left (X): ";
  CHECK(forward(recipe::training_recipe{}.at(0, 0)) == x + "the format has no values; spec_of<nvfp4> is one that has");
  CHECK(edited([](operand_policy& o) { o = {}; }) == x + "the format has no values; spec_of<nvfp4> is one that has");
  CHECK(edited([](operand_policy& o) { o.format.grid.levels = 17; }) ==
        x + "the format has no values; spec_of<nvfp4> is one that has");
  CHECK(edited([](operand_policy& o) { o.format.scale = static_cast<scale_kind>(77); }) ==
        x + "the format's scale is no scale_kind");
  for (const int length : {512, 24, 1, 0, -16})
    CHECK(edited([&](operand_policy& o) { o.format.block = length; }) ==
          x + "the block length must be a power of two from 2 to 256");
  for (const block_shape block : {block_shape(4, 16), block_shape(128, 128), block_shape(0, 16)})
    CHECK(edited([&](operand_policy& o) {
            o.format.block = block;
            o.transform = {};
          }) == x + "a block is 1 x B, or a square of at most 64 x 64");
  for (const scale_kind scale : {scale_kind::f32, scale_kind::bf16, scale_kind::e8m0})
    CHECK(edited([&](operand_policy& o) {
            o.format.scale = scale;
            o.format.two_level = true;
          }) == x + "float, bf16 and e8m0 block scales take no tensor scale: their range needs none");
  for (const bool quantized : {true, false})
    for (const auto kind : {recipe::transform_choice::kind::random, recipe::transform_choice::kind::given})
      CHECK(edited([&](operand_policy& o) {
              o.quantized = quantized;
              o.transform.what = kind;
              o.transform.spec.n = 24;
            }) == x + "the transform's length is 24, not 16, 32, 64, 128 or 256 (or 1 for none)");
  CHECK(edited([](operand_policy& o) { o.rounding = static_cast<rounding_spec::kind>(9); }) ==
        x + "the rounding is no rounding_spec::kind");
  recipe::training_recipe odd = recipe::ufp4(1);
  odd.accumulate = static_cast<accumulate>(9);
  CHECK(forward(odd.at(0, 0)) == "linear_forward: accumulate is 9, which is no mode of ufp4");
}

TEST_CASE("a tier that the machine lacks is rejected before anything is written", "[recipe]") {
  const cpu::isa absent = cpu::available().has(cpu::isa::neon) ? cpu::isa::amx : cpu::isa::neon_i8mm;
  const cpu::context context{.isa = absent};
  const std::string start = "cpu::context::isa asks for " + std::string(cpu::name(absent));
  CHECK(said(4, 6, [&](auto y) { linear_forward(context, now, matrix(4, 32), matrix(6, 32), y); }).find(start) == 0);
  CHECK(said(4, 32, [&](auto dx) {
          linear_backward_input(context, now, matrix(4, 6), matrix(6, 32), dx);
        }).find(start) == 0);
  CHECK(said(6, 32, [&](auto dw) {
          linear_backward_weight(context, now, matrix(4, 6), matrix(4, 32), dw);
        }).find(start) == 0);
}
