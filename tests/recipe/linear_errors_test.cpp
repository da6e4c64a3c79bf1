// ufp4 - the linear operations reject every mistake with a message that has both values, before anything is written.
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
matrix_view<const float> sized(std::size_t rows, std::size_t cols) { return {ones.data(), rows, cols}; }

const recipe::bound_recipe now = recipe::ufp4_recipe(1).at(2, 3);

/// The error message of an operation that writes a rows x cols output, which an error must leave unchanged.
template <class Call>
std::string message(std::size_t rows, std::size_t cols, const Call& call) {
  support::guarded<float> out(rows * cols), poison(rows * cols);
  const std::string text = support::rejection([&] { call(matrix_view<float>{out.data(), rows, cols}); });
  CHECK(out.same_bytes(poison.span()) == !text.empty());
  CHECK(out.guards_intact());
  return text;
}

std::string forward(const recipe::bound_recipe& r) {
  return message(4, 6, [&](auto y) { linear_forward(r, sized(4, 32), sized(6, 32), y); });
}
std::string backward_input(const recipe::bound_recipe& r) {
  return message(4, 32, [&](auto dx) { linear_backward_input(r, sized(4, 6), sized(6, 32), dx); });
}
std::string backward_weight(const recipe::bound_recipe& r) {
  return message(6, 32, [&](auto dw) { linear_backward_weight(r, sized(4, 6), sized(4, 32), dw); });
}
std::string grouped(const std::vector<std::size_t>& offsets, std::size_t weights = 12) {
  return message(4, 6, [&](auto y) { linear_forward_grouped(now, sized(4, 32), offsets, sized(weights, 32), y); });
}

}  // namespace

TEST_CASE("a recipe with elements of one byte is rejected", "[recipe]") {
  CHECK(forward(recipe::ufp4_recipe<int8_f32>(1).at(2, 3)) ==
        "linear_forward: fprop.left (X): a recipe's formats have elements of 4 bits, not of a byte");
}

TEST_CASE("shapes of a layer that do not match are rejected", "[recipe]") {
  CHECK(message(5, 6, [](auto y) { linear_forward(now, sized(4, 32), sized(6, 32), y); }) ==
        "linear_forward: token count mismatch: y has 5 rows, x has 4");
  CHECK(message(4, 6, [](auto y) { linear_forward(now, sized(4, 32), sized(6, 31), y); }) ==
        "linear_forward: K mismatch: w has 31 columns, x has 32");
  CHECK(message(4, 7, [](auto y) { linear_forward(now, sized(4, 32), sized(6, 32), y); }) ==
        "linear_forward: row count mismatch: w has 6, 1 experts of 7 outputs (columns of y) need 7");
  CHECK(message(4, 32, [](auto dx) { linear_backward_input(now, sized(5, 6), sized(6, 32), dx); }) ==
        "linear_backward_input: token count mismatch: dy has 5 rows, dx has 4");
  CHECK(message(4, 32, [](auto dx) { linear_backward_input(now, sized(4, 6), sized(6, 30), dx); }) ==
        "linear_backward_input: K mismatch: w has 30 columns, dx has 32");
  CHECK(message(4, 32, [](auto dx) { linear_backward_input(now, sized(4, 6), sized(7, 32), dx); }) ==
        "linear_backward_input: row count mismatch: w has 7, 1 experts of 6 outputs (columns of dy) need 6");
  CHECK(message(6, 32, [](auto dw) { linear_backward_weight(now, sized(5, 6), sized(4, 32), dw); }) ==
        "linear_backward_weight: token count mismatch: dy has 5 rows, x has 4");
  CHECK(message(6, 30, [](auto dw) { linear_backward_weight(now, sized(4, 6), sized(4, 32), dw); }) ==
        "linear_backward_weight: K mismatch: dw has 30 columns, x has 32");
  CHECK(message(7, 32, [](auto dw) { linear_backward_weight(now, sized(4, 6), sized(4, 32), dw); }) ==
        "linear_backward_weight: row count mismatch: dw has 7, 1 experts of 6 outputs (columns of dy) need 6");
}

TEST_CASE("offsets that are no partition of the tokens are rejected", "[recipe]") {
  CHECK(grouped({0, 2, 4}) == "");
  CHECK(grouped({}) == "linear_forward_grouped: offsets must have one entry more than experts, at least 2, got 0");
  CHECK(grouped({0}) == "linear_forward_grouped: offsets must have one entry more than experts, at least 2, got 1");
  CHECK(grouped({0, 4}) ==
        "linear_forward_grouped: row count mismatch: w has 12, 1 experts of 6 outputs (columns of y) need 6");
  CHECK(grouped({1, 2, 4}) == "linear_forward_grouped: offsets[0] must be 0, got 1");
  CHECK(grouped({0, 3, 2}) == "linear_forward_grouped: offsets must not decrease: offsets[1] = 3, offsets[2] = 2");
  CHECK(grouped({0, 2, 5}) == "linear_forward_grouped: the last of offsets must be the number of tokens, 4, got 5");
  CHECK(grouped({0, 2, 3}) == "linear_forward_grouped: the last of offsets must be the number of tokens, 4, got 3");
  const std::vector<std::size_t> crowd(65538, 0);
  CHECK(support::rejection([&] {
          linear_forward_grouped(now, sized(0, 32), crowd, matrix_view<const float>{nullptr, 0, 32},
                                 matrix_view<float>{nullptr, 0, 0});
        }) == "linear_forward_grouped: offsets must have at most 65536 experts, got 65537");
}

TEST_CASE("the other grouped operations reject wrong offsets under their own names", "[recipe]") {
  const std::vector<std::size_t> wrong{0, 3, 2};
  CHECK(message(4, 32, [&](auto dx) { linear_backward_input_grouped(now, sized(4, 6), wrong, sized(12, 32), dx); }) ==
        "linear_backward_input_grouped: offsets must not decrease: offsets[1] = 3, offsets[2] = 2");
  CHECK(message(12, 32, [&](auto dw) { linear_backward_weight_grouped(now, sized(4, 6), sized(4, 32), wrong, dw); }) ==
        "linear_backward_weight_grouped: offsets must not decrease: offsets[1] = 3, offsets[2] = 2");
  CHECK(message(12, 32, [&](auto dw) {
          linear_backward_weight_grouped(now, sized(4, 6), recipe::saved_activation{}, wrong, dw);
        }) == "linear_backward_weight_grouped: offsets must not decrease: offsets[1] = 3, offsets[2] = 2");
}

TEST_CASE("null pointers and outputs that overlap an input are rejected", "[recipe]") {
  const matrix_view<const float> x{nullptr, 4, 32}, w{nullptr, 6, 32}, dy{nullptr, 4, 6};
  CHECK(message(4, 6, [&](auto y) { linear_forward(now, x, sized(6, 32), y); }) ==
        "linear_forward: x is null, but has 4 x 32 elements");
  CHECK(message(4, 6, [&](auto y) { linear_forward(now, sized(4, 32), w, y); }) ==
        "linear_forward: w is null, but has 6 x 32 elements");
  CHECK(support::rejection([&] {
          linear_forward(now, sized(4, 32), sized(6, 32), matrix_view<float>{nullptr, 4, 6});
        }) == "linear_forward: y is null, but has 4 x 6 elements");
  CHECK(message(4, 32, [&](auto dx) { linear_backward_input(now, dy, sized(6, 32), dx); }) ==
        "linear_backward_input: dy is null, but has 4 x 6 elements");
  CHECK(message(6, 32, [&](auto dw) { linear_backward_weight(now, dy, sized(4, 32), dw); }) ==
        "linear_backward_weight: dy is null, but has 4 x 6 elements");

  std::vector<float> memory(256, 1.0f);  // 4 x 32, then the output
  const matrix_view<const float> left{memory.data(), 4, 32}, square{memory.data(), 6, 32};
  const auto at = [&](std::size_t first, std::size_t rows, std::size_t cols) {
    return matrix_view<float>{memory.data() + first, rows, cols};
  };
  CHECK(support::rejection([&] { linear_forward(now, left, sized(6, 32), at(127, 4, 6)); }) ==
        "linear_forward: y overlaps x");
  CHECK(support::rejection([&] { linear_forward(now, sized(4, 32), square, at(191, 4, 6)); }) ==
        "linear_forward: y overlaps w");
  CHECK(support::rejection([&] { linear_forward(now, left, sized(6, 32), at(128, 4, 6)); }) == "");
  CHECK(support::rejection([&] { linear_backward_input(now, left, sized(32, 16), at(100, 4, 16)); }) ==
        "linear_backward_input: dx overlaps dy");
  CHECK(support::rejection([&] { linear_backward_input(now, sized(4, 6), square, at(64, 4, 32)); }) ==
        "linear_backward_input: dx overlaps w");
  CHECK(support::rejection([&] { linear_backward_weight(now, left, sized(4, 2), at(0, 32, 2)); }) ==
        "linear_backward_weight: dw overlaps dy");
  CHECK(support::rejection([&] { linear_backward_weight(now, sized(4, 6), left, at(64, 6, 32)); }) ==
        "linear_backward_weight: dw overlaps x");
}

TEST_CASE("policies that do not go together are rejected with the operand's name", "[recipe]") {
  recipe::training_recipe r = recipe::ufp4_recipe(1);
  r.fprop.left.transform = random_hadamard<32>{};
  CHECK(forward(r.at(0, 0)) ==
        "linear_forward: transform mismatch: fprop.left (X) has random_hadamard<32>, fprop.right (W) has "
        "random_hadamard<16>");
  CHECK(backward_input(r.at(0, 0)) == "");  // dgrad is not affected
  r = recipe::ufp4_recipe(1);
  r.dgrad.right.transform = hadamard<16>{};  // the same length, other signs
  CHECK(backward_input(r.at(0, 0)) ==
        "linear_backward_input: transform mismatch: dgrad.left (dY) has random_hadamard<16>, dgrad.right (W^T) has "
        "hadamard<16>");
  r = recipe::e2m1_baseline_recipe(1);
  r.fprop.right.format = spec_of<mxfp4>;
  CHECK(forward(r.at(0, 0)) == "linear_forward: block length mismatch: fprop.left (X) has 16, fprop.right (W) has 32");
  r = recipe::ufp4_recipe(1);
  r.wgrad.left.rule = mx_ceil{};
  CHECK(backward_weight(r.at(0, 0)) ==
        "linear_backward_weight: wgrad.left (dY^T): mx_floor, mx_even and mx_ceil are for e8m0 scales");
  r = recipe::nvfp4_recipe(1);
  r.wgrad.right.format.block = square(16);
  CHECK(backward_weight(r.at(0, 0)) ==
        "linear_backward_weight: wgrad.right (X^T): a transform needs blocks of one row, got signed_hadamard<16> with "
        "blocks of 16 x 16");
  r = recipe::ufp4_recipe(1);
  r.wgrad.left.transform = r.wgrad.right.transform = signed_hadamard<16>(std::array<int, 16>{3});
  CHECK(backward_weight(r.at(0, 0)) ==
        "linear_backward_weight: wgrad.left (dY^T): signed_hadamard was given a sign that is neither +1 nor -1");
  // linear_forward checks wgrad only if it saves X^T.
  CHECK(forward(r.at(0, 0)) == "");
  recipe::saved_activation saved;
  CHECK(message(4, 6, [&](auto y) { linear_forward(r.at(0, 0), sized(4, 32), sized(6, 32), y, {.saved = &saved}); }) ==
        "linear_forward: wgrad.left (dY^T): signed_hadamard was given a sign that is neither +1 nor -1");
  CHECK(saved.parts() == 0);

  CHECK(forward(recipe::ufp4_recipe(1).at(0, 65536)) == "linear_forward: layer must be below 65536, got 65536");
  CHECK(forward(recipe::ufp4_recipe(1).at(0, 65535)) == "");
}

TEST_CASE("a saved activation of another shape, recipe, step or layer is rejected", "[recipe]") {
  static_assert(!std::is_copy_constructible_v<recipe::saved_activation>);  // its operands point into its memory
  const auto save = [](const recipe::bound_recipe& r, std::size_t tokens, std::size_t inputs) {
    recipe::saved_activation saved;
    std::vector<float> y(tokens * 6);
    linear_forward(r, sized(tokens, inputs), sized(6, inputs), matrix_view<float>{y.data(), tokens, 6},
                   {.saved = &saved});
    return saved;
  };
  const auto use = [](const recipe::bound_recipe& r, const recipe::saved_activation& saved) {
    return message(6, 32, [&](auto dw) { linear_backward_weight(r, sized(4, 6), saved, dw); });
  };
  CHECK(use(now, save(now, 4, 32)) == "");
  CHECK(use(now, recipe::saved_activation{}) ==
        "linear_backward_weight: part count mismatch: saved has 0, offsets has 1 experts");
  CHECK(use(now, save(now, 5, 32)) ==
        "linear_backward_weight: shape mismatch: part 0 of saved is X^T of 32 x 5, dw and dy need 32 x 4");
  CHECK(use(now, save(now, 4, 31)) ==
        "linear_backward_weight: shape mismatch: part 0 of saved is X^T of 31 x 4, dw and dy need 32 x 4");
  const std::vector<std::size_t> two{0, 2, 4};
  CHECK(message(12, 32, [&](auto dw) {
          linear_backward_weight_grouped(now, sized(4, 6), save(now, 4, 32), two, dw);
        }) == "linear_backward_weight_grouped: part count mismatch: saved has 1, offsets has 2 experts");

  const auto signs = [](const recipe::bound_recipe& r) {
    return std::to_string(r.operand(4).transform.n) + " (first signs " +
           std::to_string(r.operand(4).transform.signs[0]) + ")";
  };
  const recipe::bound_recipe other_layer = recipe::ufp4_recipe(1).at(2, 4), baseline = recipe::bf16_recipe(1).at(2, 3);
  for (const recipe::bound_recipe& before : {other_layer, baseline})
    CHECK(use(now, save(before, 4, 32)) == "linear_backward_weight: transform mismatch: saved has length " +
                                               signs(before) + ", this recipe, step and layer have length " +
                                               signs(now));
  recipe::training_recipe small = recipe::ufp4_recipe(1), large = recipe::ufp4_recipe(1);
  small.wgrad.left.transform = small.wgrad.right.transform = {};
  large.wgrad.left.transform = large.wgrad.right.transform = {};
  large.wgrad.left.format = large.wgrad.right.format = spec_of<mxint4>;
  CHECK(use(small.at(0, 0), save(large.at(0, 0), 4, 32)) ==
        "linear_backward_weight: block length mismatch: saved has 32, wgrad of this recipe has 16");
  const std::string another =
      "linear_backward_weight: format mismatch: saved has another format than wgrad.right (X^T) of this recipe";
  recipe::training_recipe coarse = recipe::ufp4_recipe(1), half = recipe::ufp4_recipe(1);
  coarse.wgrad.right.format = spec_of<int4_f32>;
  half.wgrad.right.quantized = false;
  for (const recipe::training_recipe& r : {coarse, half}) {
    CHECK(use(now, save(r.at(2, 3), 4, 32)) == another);
    CHECK(use(r.at(2, 3), save(now, 4, 32)) == another);
    CHECK(use(r.at(2, 3), save(r.at(2, 3), 4, 32)) == "");
  }
  CHECK(use(now, save(recipe::ufp4_recipe(1).at(9, 3), 4, 32)) ==
        "linear_backward_weight: step or layer mismatch: saved has step 9, layer 3, this call has step 2, layer 3");
  CHECK(use(small.at(2, 3), save(small.at(2, 4), 4, 32)) ==
        "linear_backward_weight: step or layer mismatch: saved has step 2, layer 4, this call has step 2, layer 3");
}

TEST_CASE("separate columns of one buffer do not overlap", "[recipe]") {
  std::vector<float> fused(4 * 38, 1.0f), apart(4 * 6);
  const matrix_view<const float> x{fused.data(), 4, 32, 38};
  linear_forward(now, x, sized(6, 32), matrix_view<float>{fused.data() + 32, 4, 6, 38});
  linear_forward(now, x, sized(6, 32), matrix_view<float>{apart.data(), 4, 6});
  for (std::size_t i = 0; i < 4 * 6; ++i) REQUIRE(fused[i / 6 * 38 + 32 + i % 6] == apart[i]);
  CHECK(support::rejection([&] {
          linear_forward(now, x, sized(6, 32), matrix_view<float>{fused.data() + 31, 4, 6, 38});
        }) == "linear_forward: y overlaps x");
}

TEST_CASE("a recipe with an invalid format, transform, rounding or mode is rejected", "[recipe]") {
  // linear_forward under ufp4 with an edit of X's and W's policies.
  const auto edited = [](auto edit) {
    recipe::training_recipe r = recipe::ufp4_recipe(1);
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
          x + "the block length must be a power of two from 2 to 256, got 1 x " + std::to_string(length));
  for (const block_shape block : {block_shape(3, 16), block_shape(256, 128), block_shape(0, 16)})
    CHECK(edited([&](operand_policy& o) {
            o.format.block = block;
            o.transform = {};
          }) == x + "the rows of a block must be a power of two from 1 to 128, got " + std::to_string(block.rows) +
                    " x " + std::to_string(block.cols));
  for (const scale_kind scale : {scale_kind::f32, scale_kind::bf16, scale_kind::e8m0})
    CHECK(edited([&](operand_policy& o) {
            o.format.scale = scale;
            o.format.outer = outer_scale::per_tensor();
          }) == x + "only e4m3 and ue5m3 block scales take outer scales: the range of the others needs none");
  for (const bool quantized : {true, false})
    for (const auto kind : {recipe::transform_choice::kind::random, recipe::transform_choice::kind::given})
      CHECK(edited([&](operand_policy& o) {
              o.quantized = quantized;
              o.transform.what = kind;
              o.transform.spec.n = 24;
            }) == x + "transform length must be 16, 32, 64, 128 or 256 (or 1 for none), got 24");
  CHECK(edited([](operand_policy& o) { o.rounding.what = static_cast<rounding_spec::kind>(9); }) ==
        x + "invalid kind of rounding_spec: 9");
  recipe::training_recipe invalid = recipe::ufp4_recipe(1);
  invalid.accumulate = static_cast<accumulate>(9);
  CHECK(forward(invalid.at(0, 0)) == "linear_forward: invalid accumulate mode 9");
}

TEST_CASE("an instruction set that the machine lacks is rejected before anything is written", "[recipe]") {
  const cpu::isa absent = cpu::available().has(cpu::isa::neon) ? cpu::isa::amx : cpu::isa::neon_i8mm;
  const cpu::context context{.isa = absent};
  const std::string start = "cpu::context::isa: " + std::string(cpu::name(absent)) + " is not on this machine";
  CHECK(message(4, 6, [&](auto y) { linear_forward(now, sized(4, 32), sized(6, 32), y, {}, context); }).find(start) ==
        0);
  CHECK(message(4, 32, [&](auto dx) {
          linear_backward_input(now, sized(4, 6), sized(6, 32), dx, {}, context);
        }).find(start) == 0);
  CHECK(message(6, 32, [&](auto dw) {
          linear_backward_weight(now, sized(4, 6), sized(4, 32), dw, {}, context);
        }).find(start) == 0);
}
