// ufp4 - a quantized_weight gives the bits of quantizing W in each call, and a bias is that of quantized_gemm.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/recipe/linear.hpp>

#include <string>

#include "recipe/linear_model.hpp"
#include "support/catch.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

using namespace ufp4;
using namespace linear_model;

namespace {

using offsets = std::vector<std::size_t>;

/// Preset recipes, square weights, stochastic rounding of W, scale searches and transforms longer than the block.
std::vector<recipe::training_recipe> recipes() {
  recipe::training_recipe random_weights = recipe::e2m1_baseline_recipe(3);
  random_weights.fprop.right.rounding = random_weights.dgrad.right.rounding = stochastic{};
  recipe::training_recipe searched = recipe::ufp4_recipe<nv_e1m2>(4);
  searched.fprop.right.rule = {scale_up{}, mse_search{}};
  searched.fprop.left.transform = searched.fprop.right.transform = random_hadamard<64>{};
  recipe::training_recipe mixed = recipe::ufp4_recipe<mx_e1m2>(5);
  mixed.fprop.right.quantized = false;
  return {recipe::ufp4_recipe(1),
          recipe::nvfp4_recipe(2),
          random_weights,
          searched,
          mixed,
          recipe::ufp4_recipe<mxint4>(6),
          recipe::bf16_recipe(7),
          recipe::te_four_over_six_recipe(8),
          recipe::tetrajet2_recipe(9),
          recipe::if4_recipe(10),
          recipe::hif4_recipe(11),
          recipe::quartet2_recipe(12)};
}

/// Both operations with a matrix and with a quantized_weight: equal bytes.
void check(const cpu::context& ctx, const recipe::bound_recipe& now, const layer<float>& l, const tensor<float>& w,
           const offsets& at) {
  CAPTURE(l.tokens, l.inputs, l.outputs, at.size());
  const recipe::quantized_weight made =
      quantize_weight(now, w.view(), {.experts = at.size() - 1, .backward = true}, ctx);
  CHECK((made.rows() == w.rows && made.cols() == w.cols));
  output<float> y(l.tokens, l.outputs), want_y(l.tokens, l.outputs), dx(l.tokens, l.inputs),
      want_dx(l.tokens, l.inputs);
  linear_forward_grouped(now, l.x.view(), at, w.view(), want_y.view(), {}, ctx);
  linear_forward_grouped(now, l.x.view(), at, made, y.view(), {}, ctx);
  REQUIRE(y.c.same_bytes(want_y.c.span()));
  REQUIRE(y.c.guards_intact());
  linear_backward_input_grouped(now, l.dy.view(), at, w.view(), want_dx.view(), {}, ctx);
  linear_backward_input_grouped(now, l.dy.view(), at, made, dx.view(), {}, ctx);
  REQUIRE(dx.c.same_bytes(want_dx.c.span()));
  REQUIRE(dx.c.guards_intact());
}

}  // namespace

TEST_CASE("linear operations give the same bits with a quantized_weight as with its matrix", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  for (recipe::training_recipe r : recipes())
    for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks}) {
      r.accumulate = mode;
      for (const shape& s : shapes) {
        const layer<float> l(gen, s.tokens, s.inputs, s.outputs);
        check({}, r.at(8, 3), l, l.w, {0, s.tokens});
      }
      const layer<float> l(gen, 70, 50, 35);
      check({}, r.at(8, 3), l, tensor<float>(gen, 4 * 35, 50), {0, 5, 5, 37, 70});
    }
}

TEST_CASE("a quantized_weight gives the matrix's bits on every instruction set", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const layer<float> l(gen, 37, 200, 70);
  for (const cpu::isa tier : support::runnable_isas())
    for (const recipe::training_recipe& r : recipes()) check({.threads = 2, .isa = tier}, r.at(1, 2), l, l.w, {0, 37});
}

TEST_CASE("a quantized_weight outlives its matrix, moves, and holds four bits per element", "[recipe]") {
  static_assert(!std::is_copy_constructible_v<recipe::quantized_weight>);  // its operands point into its memory
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  layer<float> l(gen, 20, 64, 32);
  const recipe::bound_recipe now = recipe::ufp4_recipe(1).at(0, 0);
  output<float> y(20, 32), want(20, 32);
  linear_forward(now, l.x.view(), l.w.view(), want.view());
  recipe::quantized_weight kept;
  {
    recipe::quantized_weight made = quantize_weight(now, l.w.view());
    CHECK(made.bytes() == 32 * 64 / 2 + 32 * 4 * 4);  // codes, and a float scale per 16 elements
    kept = std::move(made);
  }
  for (float& v : l.w.data) v = NAN;
  linear_forward(now, l.x.view(), kept, y.view());
  REQUIRE(y.c.same_bytes(want.c.span()));
}

TEST_CASE("bf16 and transposed weights give the bits of their packed float values", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const layer<float> l(gen, 20, 48, 30);
  std::vector<float> by_columns(48 * 30);
  for (std::size_t i = 0; i < 30; ++i)
    for (std::size_t j = 0; j < 48; ++j) by_columns[j * 30 + i] = l.w.data[i * 48 + j];
  const matrix_view<const float> transposed{by_columns.data(), 48, 30};
  for (const recipe::training_recipe& r : recipes()) {
    const recipe::bound_recipe now = r.at(0, 0);
    output<float> y(20, 30), want(20, 30);
    linear_forward(now, l.x.view(), l.w.view(), want.view());
    linear_forward(now, l.x.view(), quantize_weight(now, transpose(transposed)), y.view());
    REQUIRE(y.c.same_bytes(want.c.span()));
  }
}

TEST_CASE("the weights' amax_agreement is called by quantize_weight, not by the operations", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(5)};
  const layer<float> l(gen, 32, 48, 32);
  int calls = 0;
  const auto tokens = [](float amax) { return amax; };
  const auto weights = [&](float amax) { return ++calls, 2 * amax; };
  const recipe::bound_recipe now = recipe::nvfp4_recipe(1).at(0, 0).shard(
      {.tokens = recipe::amax_agreement::of(tokens), .weights = recipe::amax_agreement::of(weights)});
  output<float> y(32, 32), want(32, 32);
  linear_forward(now, l.x.view(), l.w.view(), want.view());
  CHECK(calls == 1);
  const recipe::quantized_weight made = quantize_weight(now, l.w.view());
  CHECK(calls == 2);
  linear_forward(now, l.x.view(), made, y.view());
  CHECK(calls == 2);
  REQUIRE(y.c.same_bytes(want.c.span()));
}

TEST_CASE("linear_forward with a bias is quantized_gemm with that bias, expert by expert", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(6)};
  const std::size_t t = 60, k = 70, n = 35;
  const offsets at{0, 20, 20, 60};
  const layer<float> l(gen, t, k, n);
  const tensor<float> w(gen, 3 * n, k);
  const std::vector<float> bias = model::wide_floats(gen, 3 * n, 3);
  for (const bool empty_k : {false, true}) {
    const std::size_t depth = empty_k ? 0 : k;
    const recipe::training_recipe r = recipe::ufp4_recipe(9);
    const recipe::bound_recipe now = r.at(4, 5);
    const transform_spec h = now.operand(0).transform;
    const auto x = [&](std::size_t e) {
      return matrix_view<const float>{l.x.data.data() + at[e] * k, at[e + 1] - at[e], depth, std::ptrdiff_t(k)};
    };
    const auto weight = [&](std::size_t e) {
      return matrix_view<const float>{w.data.data() + e * n * k, n, depth, std::ptrdiff_t(k)};
    };
    output<float> y(t, n), again(t, n), dense(20, n), want(t, n);
    for (std::size_t e = 0; e < 3; ++e)
      quantized_gemm(quantize<e1m2_f32>(x(e), h), quantize<e1m2_f32>(weight(e), h), want.part(at[e], at[e + 1] - at[e]),
                     {.bias = std::span(bias).subspan(e * n, n)});
    const matrix_view<const float> all_x{l.x.data.data(), t, depth, std::ptrdiff_t(k)};
    const matrix_view<const float> all_w{w.data.data(), 3 * n, depth, std::ptrdiff_t(k)};
    recipe::saved_activation saved;
    linear_forward_grouped(now, all_x, at, all_w, y.view(), {.bias = bias, .saved = &saved});
    REQUIRE(y.c.same_bytes(want.c.span()));
    CHECK(saved.parts() == 3);
    linear_forward_grouped(now, all_x, at, quantize_weight(now, all_w, {.experts = 3}), again.view(), {.bias = bias});
    REQUIRE(again.c.same_bytes(want.c.span()));
    linear_forward(now, x(0), weight(0), dense.view(), {.bias = std::span(bias).first(n)});
    REQUIRE(std::memcmp(dense.c.data(), want.c.data(), 20 * n * sizeof(float)) == 0);
  }
}

namespace {

const std::vector<float> ones(1 << 14, 1.0f);
matrix_view<const float> sized(std::size_t rows, std::size_t cols) { return {ones.data(), rows, cols}; }

/// The error message of linear_forward or linear_backward_input on 4 tokens; an error must leave the output unchanged.
template <class W>
std::string forward(const recipe::bound_recipe& now, const W& w, const recipe::forward_options& options = {},
                    const offsets& at = {0, 4}) {
  support::guarded<float> out(4 * 6), poison(4 * 6);
  const std::string text = support::rejection(
      [&] { linear_forward_grouped(now, sized(4, 32), at, w, matrix_view<float>{out.data(), 4, 6}, options); });
  CHECK(out.same_bytes(poison.span()) == !text.empty());
  return text;
}
std::string backward_input(const recipe::bound_recipe& now, const recipe::quantized_weight& w) {
  support::guarded<float> out(4 * 32), poison(4 * 32);
  const std::string text =
      support::rejection([&] { linear_backward_input(now, sized(4, 6), w, matrix_view<float>{out.data(), 4, 32}); });
  CHECK(out.same_bytes(poison.span()) == !text.empty());
  return text;
}
std::string quantizing(const recipe::bound_recipe& now, const matrix_view<const float>& w,
                       const recipe::weight_options& options) {
  return support::rejection([&] { (void)quantize_weight(now, w, options); });
}

}  // namespace

TEST_CASE("a quantized_weight of another step, layer, shape or recipe is rejected", "[recipe]") {
  const recipe::training_recipe r = recipe::ufp4_recipe(1);
  const recipe::bound_recipe now = r.at(2, 3);
  const recipe::quantized_weight made = quantize_weight(now, sized(6, 32));
  const std::string forward_name = "linear_forward_grouped: ";
  CHECK(forward(now, made) == "");
  CHECK(forward(r.at(4, 3), made) ==
        forward_name + "step or layer mismatch: w has step 2, layer 3, this call has step 4, layer 3");
  CHECK(forward(r.at(2, 5), made) ==
        forward_name + "step or layer mismatch: w has step 2, layer 3, this call has step 2, layer 5");
  CHECK(backward_input(now, made) ==
        "linear_backward_input: w was quantized without dgrad.right (W^T): quantize_weight needs {.backward = true}");
  CHECK(forward(now, quantize_weight(now, sized(6, 32), {.forward = false, .backward = true})) ==
        forward_name + "w was quantized without fprop.right (W): quantize_weight needs {.forward = true}");
  CHECK(forward(now, quantize_weight(now, sized(6, 31))) == forward_name + "K mismatch: w has 31 columns, x has 32");
  CHECK(forward(now, recipe::quantized_weight{}) == forward_name + "K mismatch: w has 0 columns, x has 32");
  CHECK(forward(now, quantize_weight(now, sized(12, 32)), {}, {0, 2, 4}) ==
        forward_name + "expert count mismatch: w has 1, offsets has 2");
  const auto edited = [&](auto edit) {
    recipe::training_recipe other = r;
    edit(other);
    return forward(now, quantize_weight(other.at(2, 3), sized(6, 32)));
  };
  const auto mismatch = [&](const char* what) {
    return forward_name + what +
           " mismatch: part 0 of w was quantized under another policy than fprop.right (W) of this recipe";
  };
  CHECK(edited([](auto& o) { o.seed = 2; }) == mismatch("transform"));
  CHECK(edited([](auto& o) { o.fprop.left.transform = o.fprop.right.transform = {}; }) == mismatch("transform"));
  CHECK(edited([](auto& o) { o.fprop.right.format = spec_of<int4_f32>; }) == mismatch("format"));
  CHECK(edited([](auto& o) { o.fprop.right.quantized = false; }) == mismatch("format"));
  CHECK(edited([](auto& o) { o.fprop.right.rule = mse_search{}; }) == mismatch("scale rule"));
  CHECK(edited([](auto& o) { o.fprop.right.rounding = toward_zero{}; }) == mismatch("rounding"));
  CHECK(edited([](auto& o) { o.fprop.left.format = spec_of<int4_f32>; }) == "");  // X is not part of w
}

TEST_CASE("a stochastically rounded quantized_weight of another seed or part is rejected", "[recipe]") {
  recipe::training_recipe r = recipe::e2m1_baseline_recipe(1);
  r.fprop.right.rounding = stochastic{};
  const recipe::bound_recipe now = r.at(2, 3);
  const std::uint32_t second[] = {1};
  recipe::training_recipe other = r;
  other.seed = 2;
  const std::string seed =
      "linear_forward_grouped: seed mismatch: part 0 of w was quantized under another policy than fprop.right (W) of "
      "this recipe";
  CHECK(forward(now, quantize_weight(now, sized(6, 32))) == "");
  CHECK(forward(now, quantize_weight(other.at(2, 3), sized(6, 32))) == seed);
  CHECK(forward(now, quantize_weight(now.shard({.part = second}), sized(6, 32))) == seed);
}

TEST_CASE("a quantized bf16 weight of another block length is rejected", "[recipe]") {
  recipe::training_recipe narrow = recipe::e2m1_baseline_recipe(1), wide = narrow;
  narrow.fprop.right.quantized = wide.fprop.right.quantized = false;
  wide.fprop.left.format = spec_of<mxint4>;
  CHECK(forward(wide.at(0, 0), quantize_weight(narrow.at(0, 0), sized(6, 32))) ==
        "linear_forward_grouped: block length mismatch: w has 16, this recipe has 32");
}

TEST_CASE("quantize_weight rejects wrong arguments", "[recipe]") {
  const recipe::training_recipe r = recipe::ufp4_recipe(1);
  const recipe::bound_recipe now = r.at(0, 0);
  CHECK(quantizing(now, sized(6, 32), {.experts = 3, .backward = true}) == "");
  CHECK(quantizing(now, sized(6, 32), {.forward = false}) == "quantize_weight: forward and backward are both false");
  CHECK(quantizing(now, sized(6, 32), {.experts = 0}) == "quantize_weight: experts must be 1 .. 65536, got 0");
  CHECK(quantizing(now, sized(6, 32), {.experts = 65537}) == "quantize_weight: experts must be 1 .. 65536, got 65537");
  CHECK(quantizing(now, sized(6, 32), {.experts = 4}) ==
        "quantize_weight: the rows of w must be a multiple of experts, 4, got 6");
  CHECK(quantizing(now, {nullptr, 6, 32}, {}) == "quantize_weight: w is null, but has 6 x 32 elements");
  CHECK(quantizing(r.at(0, 65536), sized(6, 32), {}) == "quantize_weight: layer must be below 65536, got 65536");
  const std::uint32_t one_part[] = {1};
  CHECK(quantizing(now.shard({.part = one_part}), sized(6, 32), {.experts = 2}) ==
        "quantize_weight: token_shard.part must have one entry per part, 2, got 1");
  recipe::training_recipe square_blocks = r;
  square_blocks.fprop.right.format.block = square(16);
  CHECK(quantizing(square_blocks.at(0, 0), sized(6, 32), {}) ==
        "quantize_weight: fprop.right (W): a transform needs blocks of one row, got random_hadamard<16> with blocks of "
        "16 x 16");
  CHECK(quantizing(square_blocks.at(0, 0), sized(6, 32), {.forward = false, .backward = true}) == "");
}

TEST_CASE("a bias of the wrong length, or one that overlaps y, is rejected", "[recipe]") {
  const recipe::bound_recipe now = recipe::ufp4_recipe(1).at(0, 0);
  const std::vector<float> bias(12, 1.0f);
  CHECK(forward(now, sized(6, 32), {.bias = std::span(bias).first(6)}) == "");
  CHECK(forward(now, sized(6, 32), {.bias = std::span(bias).first(5)}) ==
        "linear_forward_grouped: bias must have 6 entries, one per row of w, got 5");
  CHECK(forward(now, sized(12, 32), {.bias = std::span(bias).first(6)}, {0, 2, 4}) ==
        "linear_forward_grouped: bias must have 12 entries, one per row of w, got 6");
  std::vector<float> memory(30, 1.0f);
  const matrix_view<float> y{memory.data(), 4, 6};
  CHECK(support::rejection([&] {
          linear_forward(now, sized(4, 32), sized(6, 32), y, {.bias = std::span(memory).subspan(23, 6)});
        }) == "linear_forward: y overlaps bias");
  CHECK(support::rejection([&] {
          linear_forward(now, sized(4, 32), sized(6, 32), y, {.bias = std::span(memory).subspan(24, 6)});
        }) == "");
}
