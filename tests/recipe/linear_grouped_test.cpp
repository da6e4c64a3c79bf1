// ufp4 - the grouped linear operations equal per-expert calls with each expert's random bits and one tensor amax.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/recipe/linear.hpp>

#include "recipe/linear_model.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

using namespace ufp4;
using namespace linear_model;

namespace {

using offsets = std::vector<std::size_t>;

/// The maximum amax over the experts' parts of an operand, each transformed on its own.
template <class Part>
tensor_amax amax_of_parts(std::size_t experts, const transform_spec& t, const Part& part) {
  tensor_amax found;
  for (std::size_t e = 0; e < experts; ++e) found.value = std::max(found.value, amax(part(e), t).value);
  return found;
}

template <class Format, class Weight, class T>
void check(const recipe::training_recipe& r, const policies<Format, Weight>& p, const layer<T>& l, const offsets& at) {
  const std::size_t experts = at.size() - 1, k = l.inputs, n = l.outputs;
  CAPTURE(experts, l.tokens, k, n);
  const recipe::bound_recipe now = r.at(p.step, p.layer);
  std::mt19937_64 gen{support::seed(99)};
  const tensor<T> weights(gen, experts * n, k);
  const auto count = [&](std::size_t e) { return at[e + 1] - at[e]; };
  const auto x = [&](std::size_t e) { return l.x.part(at[e], count(e)); };
  const auto dy = [&](std::size_t e) { return l.dy.part(at[e], count(e)); };
  const auto w = [&](std::size_t e) { return weights.part(e * n, n); };

  output<float> y(l.tokens, n), want_y(l.tokens, n);
  recipe::saved_activation saved;
  linear_forward_grouped(now, l.x.view(), at, weights.view(), y.view(), {.saved = &saved});
  CHECK(saved.parts() == experts);
  const tensor_amax gx = amax_of_parts(experts, p.transform(0), x), gw = amax_of_parts(experts, p.transform(0), w);
  for (std::size_t e = 0; e < experts; ++e)
    quantized_gemm(p.template nearest<Format>(0, x(e), gx), p.template nearest<Weight>(0, w(e), gw),
                   want_y.part(at[e], count(e)), {.accumulate = p.mode});
  REQUIRE(y.c.same_bytes(want_y.c.span()));
  REQUIRE(y.c.guards_intact());

  const auto xt = [&](std::size_t e) { return transpose(x(e)); };
  const auto wt = [&](std::size_t e) { return transpose(w(e)); };
  const auto dyt = [&](std::size_t e) { return transpose(dy(e)); };
  const tensor_amax gdy = amax_of_parts(experts, p.transform(1), dy), gwt = amax_of_parts(experts, p.transform(1), wt);
  const tensor_amax gdyt = amax_of_parts(experts, p.transform(2), dyt),
                    gxt = amax_of_parts(experts, p.transform(2), xt);
  for (const recipe::write_mode mode : {recipe::write_mode::overwrite, recipe::write_mode::add}) {
    const bool adds = mode == recipe::write_mode::add;
    const gemm_options options{.beta = adds ? 1.0f : 0.0f, .accumulate = p.mode};
    output<float> dx(l.tokens, k), want_dx(l.tokens, k);
    output<float> dw(experts * n, k), want_dw(experts * n, k), again(experts * n, k);
    if (adds)
      for (output<float>* o : {&dx, &want_dx, &dw, &want_dw, &again}) o->fill(3);
    for (std::size_t e = 0; e < experts; ++e) {
      const auto expert = static_cast<std::uint32_t>(e);
      quantized_gemm(p.gradient(2, expert, dy(e), gdy), p.template nearest<Weight>(1, wt(e), gwt),
                     want_dx.part(at[e], count(e)), options);
      if (adds && count(e) == 0) continue;  // adds nothing
      quantized_gemm(p.gradient(4, expert, dyt(e), gdyt), p.template nearest<Format>(2, xt(e), gxt),
                     want_dw.part(e * n, n), options);
    }
    linear_backward_input_grouped(now, l.dy.view(), at, weights.view(), dx.view(), mode);
    REQUIRE(dx.c.same_bytes(want_dx.c.span()));
    REQUIRE(dx.c.guards_intact());
    linear_backward_weight_grouped(now, l.dy.view(), l.x.view(), at, dw.view(), mode);
    REQUIRE(dw.c.same_bytes(want_dw.c.span()));
    REQUIRE(dw.c.guards_intact());
    linear_backward_weight_grouped(now, l.dy.view(), saved, at, again.view(), mode);
    REQUIRE(again.c.same_bytes(want_dw.c.span()));
  }
}

template <class T, class Format, class Weight>
void check_routings(const recipe::training_recipe& r, const policies<Format, Weight>& p) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(p.seed)};
  // Ragged parts, parts of whole runs, experts without tokens first, last and between, everything to one, one expert.
  for (const offsets& at : {offsets{0, 5, 5, 37, 70}, offsets{0, 16, 48, 64}, offsets{0, 0, 0, 33, 33},
                            offsets{0, 0, 40}, offsets{0, 29}, offsets{0, 0, 0}}) {
    layer<T> l(gen, at.back(), 50, 35);
    // One expert has much larger values: its tensor scale must be that of all experts.
    for (std::size_t i = 0; i < l.x.data.size() / 3; ++i) l.x.data[i] = T(static_cast<float>(l.x.data[i]) * 64);
    for (std::size_t i = 0; i < l.dy.data.size() / 4; ++i) l.dy.data[i] = T(static_cast<float>(l.dy.data[i]) * 0.01f);
    check(r, p, l, at);
  }
}

}  // namespace

TEST_CASE("grouped operations are per-expert calls with random bits of layer + expert * 2^16", "[recipe]") {
  SECTION("ufp4") { check_routings<float>(recipe::ufp4_recipe(21), policies<e1m2_f32>{21, 5, 9, {true, true, true}}); }
  SECTION("ufp4 with nv_e1m2, bf16 tensors") {
    check_routings<ufp4::bf16>(recipe::ufp4_recipe<nv_e1m2>(22),
                               policies<nv_e1m2>{22, 6, 65535, {true, true, true}, false, scale_up{}.spec()});
  }
  SECTION("ufp4 with mx_e1m2") {
    check_routings<float>(recipe::ufp4_recipe<mx_e1m2>(23),
                          policies<mx_e1m2>{23, 7, 0, {true, true, true}, false, mx_ceil{}.spec()});
  }
}

TEST_CASE("one tensor amax serves all experts of a call", "[recipe]") {
  using square_weights = block_format<fp4<E2M1>, e4m3, square(16), float>;
  check_routings<float>(recipe::nvfp4_recipe(24),
                        policies<nvfp4, square_weights>{24, 8, 3, {false, false, true}, true});
}

TEST_CASE("an expert without tokens writes +0 to dW, or leaves every bit of it", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(0)};
  const offsets at{0, 0, 20, 20};
  const layer<float> l(gen, 20, 32, 10);
  for (const recipe::training_recipe& r :
       {recipe::ufp4_recipe(1), recipe::nvfp4_recipe(1), recipe::e2m1_baseline_recipe(1), recipe::bf16_recipe(1),
        recipe::te_four_over_six_recipe(1), recipe::tetrajet2_recipe(1), recipe::if4_recipe(1), recipe::hif4_recipe(1),
        recipe::quartet2_recipe(1)}) {
    const recipe::bound_recipe now = r.at(0, 0);
    output<float> dw(3 * 10, 32);
    linear_backward_weight_grouped(now, l.dy.view(), l.x.view(), at, dw.view());
    for (std::size_t i = 0; i < 320; ++i) {
      REQUIRE(model::bits_of(dw.c[i]) == 0);
      REQUIRE(model::bits_of(dw.c[640 + i]) == 0);
    }
    const std::uint32_t kept[] = {0x80000000, 0x00000001, 0x7FABCDEF, 0x3F800000};
    for (std::size_t i = 0; i < 960; ++i) dw.c[i] = i < 320 || i >= 640 ? model::float_of(kept[i % 4]) : 1.0f;
    linear_backward_weight_grouped(now, l.dy.view(), l.x.view(), at, dw.view(), recipe::write_mode::add);
    for (std::size_t i = 0; i < 320; ++i) {
      REQUIRE(model::bits_of(dw.c[i]) == kept[i % 4]);
      REQUIRE(model::bits_of(dw.c[640 + i]) == kept[(640 + i) % 4]);
    }
  }
}

TEST_CASE("one expert that owns every token is the dense layer", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  const layer<float> l(gen, 37, 50, 20);
  const offsets at{0, 37};
  for (const recipe::training_recipe& r :
       {recipe::ufp4_recipe(2), recipe::nvfp4_recipe(2), recipe::bf16_recipe(2), recipe::te_four_over_six_recipe(2),
        recipe::tetrajet2_recipe(2), recipe::if4_recipe(2), recipe::hif4_recipe(2), recipe::quartet2_recipe(2)}) {
    const recipe::bound_recipe now = r.at(3, 4);
    layer_outputs dense(now, l);
    output<float> y1(37, 20), dx1(37, 50), dw1(20, 50);
    linear_forward_grouped(now, l.x.view(), at, l.w.view(), y1.view());
    linear_backward_input_grouped(now, l.dy.view(), at, l.w.view(), dx1.view());
    linear_backward_weight_grouped(now, l.dy.view(), l.x.view(), at, dw1.view());
    REQUIRE(dense.y.c.same_bytes(y1.c.span()));
    REQUIRE(dense.dx.c.same_bytes(dx1.c.span()));
    REQUIRE(dense.dw.c.same_bytes(dw1.c.span()));
  }
}

TEST_CASE("the bf16 recipe's experts are dense layers of their own, saved activations too", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const offsets at{0, 13, 13, 40};
  const std::size_t k = 30, n = 18;
  const layer<float> l(gen, 40, k, n);
  const tensor<float> weights(gen, 3 * n, k);
  const recipe::bound_recipe now = recipe::bf16_recipe(0).at(1, 1);
  output<float> y(40, n), dx(40, k), dw(3 * n, k), again(3 * n, k), want_y(40, n), want_dx(40, k), want_dw(3 * n, k);
  recipe::saved_activation saved;
  linear_forward_grouped(now, l.x.view(), at, weights.view(), y.view(), {.saved = &saved});
  linear_backward_input_grouped(now, l.dy.view(), at, weights.view(), dx.view());
  linear_backward_weight_grouped(now, l.dy.view(), l.x.view(), at, dw.view());
  linear_backward_weight_grouped(now, l.dy.view(), saved, at, again.view());
  for (std::size_t e = 0; e < 3; ++e) {
    const std::size_t first = at[e], count = at[e + 1] - at[e];
    const auto x = l.x.part(first, count), dy = l.dy.part(first, count), w = weights.part(e * n, n);
    linear_forward(now, x, w, want_y.part(first, count));
    linear_backward_input(now, dy, w, want_dx.part(first, count));
    linear_backward_weight(now, dy, x, want_dw.part(e * n, n));
  }
  REQUIRE(y.c.same_bytes(want_y.c.span()));
  REQUIRE(dx.c.same_bytes(want_dx.c.span()));
  REQUIRE(dw.c.same_bytes(want_dw.c.span()));
  REQUIRE(again.c.same_bytes(want_dw.c.span()));
}
