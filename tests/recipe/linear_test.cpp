// ufp4 - the linear operations equal their two quantize calls and one GEMM, bit for bit.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/recipe/linear.hpp>

#include "recipe/linear_model.hpp"
#include "support/catch.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

using namespace ufp4;
using namespace linear_model;

namespace {

/// All three operations of one layer under a recipe, written over and added, against the calls that numerics 7 names.
template <class Out, class Format, class Weight, class T>
void check(const recipe::training_recipe& r, const policies<Format, Weight>& p, const layer<T>& l) {
  CAPTURE(l.tokens, l.inputs, l.outputs);
  const recipe::bound_recipe now = r.at(p.step, p.layer);
  const auto x = l.x.view(), w = l.w.view(), dy = l.dy.view();

  output<Out> y(l.tokens, l.outputs), want_y(l.tokens, l.outputs);
  quantized_gemm(p.template nearest<Format>(0, x), p.template nearest<Weight>(0, w), want_y.view(),
                 {.accumulate = p.mode});
  recipe::saved_activation saved;
  linear_forward(now, x, w, y.view(), {.saved = &saved});
  REQUIRE(y.c.same_bytes(want_y.c.span()));
  REQUIRE(y.c.guards_intact());

  const auto qdy = p.gradient(2, 0, dy), qdyt = p.gradient(4, 0, transpose(dy));
  const auto qwt = p.template nearest<Weight>(1, transpose(w));
  const auto qxt = p.template nearest<Format>(2, transpose(x));
  for (const recipe::write_mode mode : {recipe::write_mode::overwrite, recipe::write_mode::add}) {
    const gemm_options options{.beta = mode == recipe::write_mode::add ? 1.0f : 0.0f, .accumulate = p.mode};
    output<Out> dx(l.tokens, l.inputs), want_dx(l.tokens, l.inputs);
    output<Out> dw(l.outputs, l.inputs), again(l.outputs, l.inputs), want_dw(l.outputs, l.inputs);
    if (mode == recipe::write_mode::add)
      for (output<Out>* o : {&dx, &want_dx, &dw, &again, &want_dw}) o->fill(9);
    quantized_gemm(qdy, qwt, want_dx.view(), options);
    linear_backward_input(now, dy, w, dx.view(), mode);
    REQUIRE(dx.c.same_bytes(want_dx.c.span()));
    REQUIRE(dx.c.guards_intact());

    quantized_gemm(qdyt, qxt, want_dw.view(), options);
    linear_backward_weight(now, dy, x, dw.view(), mode);
    REQUIRE(dw.c.same_bytes(want_dw.c.span()));
    REQUIRE(dw.c.guards_intact());
    linear_backward_weight(now, dy, saved, again.view(), mode);
    REQUIRE(again.c.same_bytes(want_dw.c.span()));
  }
}

template <class T = float, class Out = float, class Format, class Weight>
void check_shapes(recipe::training_recipe r, policies<Format, Weight> p) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(p.seed)};
  for (const shape& s : shapes) {
    const layer<T> l(gen, s.tokens, s.inputs, s.outputs);
    check<Out>(r, p, l);
    r.accumulate = p.mode = p.mode == accumulate::fast ? accumulate::exact_blocks : accumulate::fast;
  }
}

constexpr bool all[3] = {true, true, true}, wgrad_only[3] = {false, false, true};

template <class Format, class Weight = Format>
policies<Format, Weight> of(std::uint64_t seed, const bool (&transforms)[3], ufp4::scale_rule_spec gradient_rule = {}) {
  return {seed, 1000 + (seed << 33), 7, {transforms[0], transforms[1], transforms[2]}, false, gradient_rule};
}

using nvfp4_square = block_format<fp4<E2M1>, e4m3, square(16), float>;

policies<nvfp4, nvfp4_square> nvfp4_policies(std::uint64_t seed) {
  auto p = of<nvfp4, nvfp4_square>(seed, wgrad_only);
  p.transformer_engine = true;
  return p;
}

}  // namespace

TEST_CASE("ufp4's operations are its quantize calls and one GEMM", "[recipe]") {
  SECTION("e1m2_f32") { check_shapes(recipe::ufp4_recipe(3), of<e1m2_f32>(3, all)); }
  SECTION("int4_f32") { check_shapes(recipe::ufp4_recipe<int4_f32>(4), of<int4_f32>(4, all)); }
  SECTION("nv_e1m2") { check_shapes(recipe::ufp4_recipe<nv_e1m2>(5), of<nv_e1m2>(5, all, scale_up{}.spec())); }
  SECTION("mx_e1m2") { check_shapes(recipe::ufp4_recipe<mx_e1m2>(6), of<mx_e1m2>(6, all, mx_ceil{}.spec())); }
}

TEST_CASE("e2m1_baseline's operations are its quantize calls and one GEMM", "[recipe]") {
  check_shapes(recipe::e2m1_baseline_recipe(7), of<e2m1_f32>(7, wgrad_only));
}

TEST_CASE("nvfp4's operations are its quantize calls and one GEMM", "[recipe]") {
  check_shapes(recipe::nvfp4_recipe(8), nvfp4_policies(8));
}

TEST_CASE("tensors may be float, bf16 or fp16, the output too", "[recipe]") {
  SECTION("bf16 into float") { check_shapes<ufp4::bf16, float>(recipe::ufp4_recipe(9), of<e1m2_f32>(9, all)); }
  SECTION("float into bf16") { check_shapes<float, ufp4::bf16>(recipe::nvfp4_recipe(10), nvfp4_policies(10)); }
  SECTION("fp16 into fp16") {
    check_shapes<ufp4::fp16, ufp4::fp16>(recipe::ufp4_recipe<mx_e1m2>(11), of<mx_e1m2>(11, all, mx_ceil{}.spec()));
  }
}

TEST_CASE("W^T in nvfp4 has the codes of W, transposed", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  const layer<float> l(gen, 20, 50, 45);
  const auto p = nvfp4_policies(12);
  output<float> dx(20, 50), want(20, 50);
  linear_backward_input(recipe::nvfp4_recipe(12).at(p.step, p.layer), l.dy.view(), l.w.view(), dx.view());
  quantized_gemm(p.gradient(2, 0, l.dy.view()), transpose(quantize<nvfp4_square>(l.w.view())), want.view());
  REQUIRE(dx.c.same_bytes(want.c.span()));
}

TEST_CASE("strided and transposed tensors give the bits of packed ones and no other element is written", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const std::size_t t = 35, k = 50, n = 20;
  const layer<float> l(gen, t, k, n);
  const recipe::bound_recipe now = recipe::ufp4_recipe(1).at(1, 1);
  layer_outputs dense(now, l);

  // The same tensors by columns, every other float.
  const auto spread = [](const tensor<float>& from) {
    std::vector<float> to(2 * from.rows * from.cols, NAN);
    for (std::size_t i = 0; i < from.rows; ++i)
      for (std::size_t j = 0; j < from.cols; ++j) to[2 * (j * from.rows + i)] = from.data[i * from.cols + j];
    return to;
  };
  const auto by_columns = [](auto* data, std::size_t rows, std::size_t cols) {
    return matrix_view<std::remove_pointer_t<decltype(data)>>{data, rows, cols, 2,
                                                              2 * static_cast<std::ptrdiff_t>(rows)};
  };
  std::vector<float> xs = spread(l.x), ws = spread(l.w), dys = spread(l.dy);
  std::vector<float> ys(2 * t * n, 42.0f), dxs(2 * t * k, 42.0f), dws(2 * n * k, 42.0f);
  const auto x = by_columns(xs.data(), t, k), w = by_columns(ws.data(), n, k), dy = by_columns(dys.data(), t, n);
  const auto y2 = by_columns(ys.data(), t, n), dx2 = by_columns(dxs.data(), t, k), dw2 = by_columns(dws.data(), n, k);
  linear_forward(now, x, w, y2);
  linear_backward_input(now, dy, w, dx2);
  linear_backward_weight(now, dy, x, dw2);
  const auto equal = [](output<float>& packed, const matrix_view<float>& strided, const std::vector<float>& memory) {
    bool same = true;
    for (std::size_t i = 0; i < packed.rows; ++i)
      for (std::size_t j = 0; j < packed.cols; ++j) same = same && packed.view()(i, j) == strided(i, j);
    for (std::size_t i = 1; i < memory.size(); i += 2) same = same && memory[i] == 42.0f;
    return same;
  };
  REQUIRE(equal(dense.y, y2, ys));
  REQUIRE(equal(dense.dx, dx2, dxs));
  REQUIRE(equal(dense.dw, dw2, dws));
}

TEST_CASE("a saved activation outlives its source, moves, and holds four bits an element", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  for (const recipe::training_recipe& r : {recipe::ufp4_recipe(1), recipe::nvfp4_recipe(1), recipe::bf16_recipe(1)}) {
    const recipe::bound_recipe now = r.at(5, 6);
    layer<float> l(gen, 48, 32, 20);
    output<float> y(48, 20), dw(20, 32), want(20, 32);
    linear_backward_weight(now, l.dy.view(), l.x.view(), want.view());
    recipe::saved_activation kept;
    {
      recipe::saved_activation saved;
      linear_forward(now, l.x.view(), l.w.view(), y.view(), {.saved = &saved});
      CHECK(saved.parts() == 1);
      CHECK(saved.bytes() ==
            (r.operand(5).quantized ? 32 * 48 / 2 + 32 * 3 * (r.operand(5).format.two_level() ? 1 : 4) : 32 * 48 * 2));
      kept = std::move(saved);
    }
    for (float& v : l.x.data) v = NAN;
    linear_backward_weight(now, l.dy.view(), kept, dw.view());
    REQUIRE(dw.c.same_bytes(want.c.span()));
    linear_forward(now, l.w.view(), l.w.view(), matrix_view<float>{std::vector<float>(400).data(), 20, 20},
                   {.saved = &kept});
    CHECK(kept.bytes() < 48 * 32 * 2);  // reused: the former content is released
  }
}

// ---- The bf16 recipe, against a model in long double

TEST_CASE("the bf16 recipe rounds operands to bf16, multiplies exactly, and adds in binary32", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const auto rounded = [](const tensor<float>& from, bool transposed) {
    std::vector<float> out(from.data.size());
    for (std::size_t i = 0; i < from.rows; ++i)
      for (std::size_t j = 0; j < from.cols; ++j)
        out[transposed ? j * from.rows + i : i * from.cols + j] =
            model::from_bf16(model::bf16_bits(from.data[i * from.cols + j]));
    return out;
  };
  for (const shape& s : shapes) {
    const layer<float> l(gen, s.tokens, s.inputs, s.outputs);
    CAPTURE(l.tokens, l.inputs, l.outputs);
    recipe::training_recipe r = recipe::bf16_recipe(0);
    const auto expect = [&](output<float>& got, const model::side& a, const model::side& b, std::size_t depth) {
      REQUIRE(got.c.guards_intact());
      if (r.accumulate == accumulate::exact_blocks) {
        REQUIRE(support::same_numbers(got.c.span(), model::exact_blocks(a, b)));
        return;
      }
      const model::bounded exact = model::extended(a, b);
      const model::wide relative = static_cast<model::wide>(depth + 6) * 0x1p-24L;
      for (std::size_t i = 0; i < got.c.size(); ++i)
        REQUIRE(std::abs(static_cast<model::wide>(got.c[i]) - exact.value[i]) <= relative * exact.magnitude[i]);
    };
    for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks}) {
      r.accumulate = mode;
      const recipe::bound_recipe now = r.at(3, 4);
      const std::size_t t = l.tokens, k = l.inputs, n = l.outputs;
      output<float> from_saved(n, k);
      recipe::saved_activation saved;
      layer_outputs got(now, l, {.saved = &saved});
      linear_backward_weight(now, l.dy.view(), saved, from_saved.view());
      expect(got.y, model::unquantized_side(rounded(l.x, false), t, k, 16),
             model::unquantized_side(rounded(l.w, false), n, k, 16), k);
      expect(got.dx, model::unquantized_side(rounded(l.dy, false), t, n, 16),
             model::unquantized_side(rounded(l.w, true), k, n, 16), n);
      expect(got.dw, model::unquantized_side(rounded(l.dy, true), n, t, 16),
             model::unquantized_side(rounded(l.x, true), k, t, 16), t);
      REQUIRE(from_saved.c.same_bytes(got.dw.c.span()));
    }
  }
}

// ---- Edited recipes

TEST_CASE("an edit of any member of a recipe takes effect", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(5)};
  const std::size_t t = 40, k = 70, n = 50;
  const layer<float> l(gen, t, k, n);
  const auto x = l.x.view(), w = l.w.view(), dy = l.dy.view();
  output<float> y(t, n), want(t, n), dx(t, k), want_dx(t, k), dw(n, k), want_dw(n, k);

  SECTION("no transform in wgrad") {
    recipe::training_recipe r = recipe::ufp4_recipe(1);
    r.wgrad.left.transform = r.wgrad.right.transform = {};
    auto p = of<e1m2_f32>(1, all);
    p.transforms[2] = false;
    check<float>(r, p, l);
  }
  SECTION("another transform, a format per operand, two searches") {
    recipe::training_recipe r = recipe::e2m1_baseline_recipe(2);
    r.fprop.left.transform = r.fprop.right.transform = hadamard<64>{};
    r.fprop.left.format = spec_of<nvfp4>;
    r.fprop.left.rule = four_over_six{};
    r.fprop.right.format = spec_of<int4_f32>;
    r.fprop.right.rule = mse_search{};
    linear_forward(r.at(0, 0), x, w, y.view());
    quantized_gemm(quantize<nvfp4>(x, hadamard<64>{}, four_over_six{}),
                   quantize<int4_f32>(w, hadamard<64>{}, mse_search{}), want.view());
    REQUIRE(y.c.same_bytes(want.c.span()));
  }
  SECTION("other rounding policies") {
    recipe::training_recipe r = recipe::e2m1_baseline_recipe(3);
    r.fprop.left.rounding = stochastic{};
    r.fprop.right.rounding = toward_zero{};
    r.dgrad.left.rounding = nearest_away{};
    linear_forward(r.at(9, 8), x, w, y.view());
    quantized_gemm(quantize<e2m1_f32>(x, stochastic{.seed = derived(3, 9, 8, 16)}),
                   quantize<e2m1_f32>(w, toward_zero{}), want.view());
    REQUIRE(y.c.same_bytes(want.c.span()));
    linear_backward_input(r.at(9, 8), dy, w, dx.view());
    quantized_gemm(quantize<e2m1_f32>(dy, nearest_away{}), quantize<e2m1_f32>(transpose(w)), want_dx.view());
    REQUIRE(dx.c.same_bytes(want_dx.c.span()));
  }
  SECTION("stochastic on both sides, with random bits of their own") {
    recipe::training_recipe r = recipe::e2m1_baseline_recipe(4);
    r.fprop.left.rounding = r.fprop.right.rounding = stochastic{};
    linear_forward(r.at(1, 2), x, w, y.view());
    quantized_gemm(quantize<e2m1_f32>(x, stochastic{.seed = derived(4, 1, 2, 16)}),
                   quantize<e2m1_f32>(w, stochastic{.seed = derived(4, 1, 2, 17)}), want.view());
    REQUIRE(y.c.same_bytes(want.c.span()));
  }
  SECTION("one side in bf16, the other in four bits") {
    std::vector<ufp4::bf16> narrow;
    for (const float v : l.w.data) narrow.push_back(ufp4::bf16::from_bits(model::bf16_bits(v)));
    recipe::training_recipe r = recipe::ufp4_recipe<mx_e1m2>(5);
    r.fprop.left.transform = r.fprop.right.transform = {};
    r.fprop.right.quantized = false;
    for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks}) {
      r.accumulate = mode;
      linear_forward(r.at(0, 0), x, w, y.view());
      quantized_gemm(quantize<mx_e1m2>(x), matrix_view<const ufp4::bf16>{narrow.data(), n, k}, want.view(),
                     {.accumulate = mode});
      REQUIRE(y.c.same_bytes(want.c.span()));
    }
  }
  SECTION("signs drawn anew each step") {
    recipe::training_recipe r = recipe::ufp4_recipe(6);
    r.redraw_signs_each_step = true;
    linear_forward(r.at(11, 4), x, w, y.view());
    const random_hadamard<16> h{derived(6, 11, 4, 0)};
    quantized_gemm(quantize<e1m2_f32>(x, h), quantize<e1m2_f32>(w, h), want.view());
    REQUIRE(y.c.same_bytes(want.c.span()));
  }
  SECTION("folded_bf16") {
    recipe::training_recipe r = recipe::e2m1_baseline_recipe(7);
    r.accumulate = accumulate::folded_bf16;
    linear_forward(r.at(0, 0), x, w, y.view());
    quantized_gemm(quantize<e2m1_f32>(x), quantize<e2m1_f32>(w), want.view(), {.accumulate = accumulate::folded_bf16});
    REQUIRE(y.c.same_bytes(want.c.span()));
  }
  SECTION("NF4 weights") {
    recipe::training_recipe r = recipe::e2m1_baseline_recipe(8);
    using nf4_f32 = block_format<nf4, float, 16>;
    r.fprop.right.format = r.dgrad.right.format = spec_of<nf4_f32>;
    linear_forward(r.at(0, 0), x, w, y.view());
    quantized_gemm(quantize<e2m1_f32>(x), quantize<nf4_f32>(w), want.view());
    REQUIRE(y.c.same_bytes(want.c.span()));
  }
}

TEST_CASE("a step replays its bits; another step, layer or seed changes the gradients", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(6)};
  const layer<float> l(gen, 40, 64, 64);
  const auto gradient = [&](std::uint64_t seed, std::uint64_t step, std::uint32_t number) {
    std::vector<float> dx(40 * 64);
    linear_backward_input(recipe::e2m1_baseline_recipe(seed).at(step, number), l.dy.view(), l.w.view(),
                          matrix_view<float>{dx.data(), 40, 64});
    return dx;
  };
  const std::vector<float> once = gradient(1, 2, 3);
  CHECK(gradient(1, 2, 3) == once);
  CHECK(gradient(2, 2, 3) != once);
  CHECK(gradient(1, 3, 3) != once);
  CHECK(gradient(1, 2 + (std::uint64_t{1} << 32), 3) != once);
  CHECK(gradient(1, 2, 4) != once);
}
