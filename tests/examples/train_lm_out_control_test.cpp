// ufp4 - tests: OutControl multiplies the channels with the largest norms in MXFP8, and the others under the recipe.
// SPDX-License-Identifier: Apache-2.0
// ctest: threads
#include "../../examples/train_lm/out_control.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../examples/train_lm/recipes.hpp"
#include "train_lm_numeric.hpp"

namespace train_lm_tests {

using namespace train_lm;
using train_lm::index;  // and not the one of <strings.h>

using support::pool;
using ufp4::quantized_gemm, ufp4::row_range, ufp4::transpose;

namespace {

constexpr std::uint32_t linear = 6;
constexpr index tokens = 96, inputs = 48, outputs = 32;

/// A dense layer, two microbatches.
struct problem {
  token_segments segments = token_segments::dense(static_cast<std::size_t>(tokens), 2);
  std::vector<parameter<float>> w = std::vector<parameter<float>>(1);
  matrix<float> x, dy;

  problem() {
    std::mt19937_64 gen{support::seed(1)};
    x = support::random_matrix<float>(gen, tokens, inputs);
    dy = support::random_matrix<float>(gen, tokens, outputs, 1e-3);
    w[0].name = "w";
    w[0].value = support::random_matrix<float>(gen, outputs, inputs, 0.1);
  }
};

out_control engine_of(const out_control_settings& settings, const model_recipe& recipe, const problem& p,
                      thread_pool& threads) {
  static ranks one;
  return {settings, recipe, {{linear, 0}}, p.w, threads, one};
}

matrix<float> forward(out_control& engine, std::uint64_t step, const problem& p, const matrix<float>& x) {
  matrix<float> y;
  engine.begin_step(step);
  engine.forward(linear, p.segments, x, p.w[0].value, y);
  return y;
}

bool same_bits(const matrix<float>& a, const matrix<float>& b) {
  return a.rows() == b.rows() && a.cols() == b.cols() &&
         std::equal(a.data(), a.data() + a.size(), b.data(), [](float p, float q) {
           return std::bit_cast<std::uint32_t>(p) == std::bit_cast<std::uint32_t>(q);
         });
}

// ---- The products by definition: columns copied one by one, then quantize and quantized_gemm.

using columns_of_x = std::vector<index>;

matrix<float> picked(const matrix<float>& x, const columns_of_x& columns) {
  matrix<float> some(x.rows(), static_cast<index>(columns.size()));
  for (index c = 0; c < some.cols(); ++c) some.col(c) = x.col(columns[static_cast<std::size_t>(c)]);
  return some;
}

auto under_policy(const ufp4::recipe::bound_operand& o, const ufp4::matrix_view<const float>& x) {
  return ufp4::quantize(o.policy.format, x, o.transform, o.rounding, o.policy.rule);
}
auto in_mxfp8(const ufp4::matrix_view<const float>& x) { return ufp4::quantize<ufp4::mxfp8_e4m3>(x, ufp4::mx_ceil{}); }

struct split {
  columns_of_x eight, four;
};

matrix<float> forward_by_definition(const training_recipe& r, std::uint64_t step, const split& at, const problem& p) {
  const auto now = r.at(step, linear);
  const matrix<float>&x = p.x, &w = p.w[0].value;
  const matrix<float> x4 = picked(x, at.four), w4 = picked(w, at.four);
  const matrix<float> x8 = picked(x, at.eight), w8 = picked(w, at.eight);
  matrix<float> y4(tokens, outputs), y8(tokens, outputs);
  quantized_gemm(under_policy(now.operand(0), view_of(x4)), under_policy(now.operand(1), view_of(w4)), view_of(y4),
                 {.accumulate = r.accumulate});
  quantized_gemm(in_mxfp8(view_of(x8)), in_mxfp8(view_of(w8)), view_of(y8), {.accumulate = r.accumulate});
  return y4 + y8;
}

matrix<float> weight_gradient_by_definition(const training_recipe& r, std::uint64_t step, const split& at,
                                            const problem& p) {
  const auto now = r.at(step, linear);
  const matrix<float> x4 = picked(p.x, at.four), x8 = picked(p.x, at.eight);
  matrix<float> dw4(2 * outputs, x4.cols()), dw8(2 * outputs, x8.cols()), dw(2 * outputs, inputs);
  for (std::uint32_t m = 0; m < 2; ++m) {
    const auto of = [&](const matrix<float>& all) { return transpose(row_range(view_of(all), m * 48u, 48)); };
    const auto to = [&](matrix<float>& all) { return row_range(view_of(all), m * 32u, 32); };
    quantized_gemm(under_policy(now.operand(4, m), of(p.dy)), under_policy(now.operand(5, m), of(x4)), to(dw4),
                   {.accumulate = r.accumulate});
    quantized_gemm(in_mxfp8(of(p.dy)), in_mxfp8(of(x8)), to(dw8), {.accumulate = r.accumulate});
  }
  for (std::size_t c = 0; c < at.four.size(); ++c) dw.col(at.four[c]) = dw4.col(static_cast<index>(c));
  for (std::size_t c = 0; c < at.eight.size(); ++c) dw.col(at.eight[c]) = dw8.col(static_cast<index>(c));
  return dw;
}

/// An X whose column order[i] has the (i + 1)-th largest norm.
matrix<float> x_of_order(const columns_of_x& order) {
  matrix<float> x(tokens, inputs);
  for (index i = 0; i < inputs; ++i)
    x.col(order[static_cast<std::size_t>(i)]).setConstant(static_cast<float>(inputs - i));
  return x;
}
columns_of_x shuffled() {
  columns_of_x order(static_cast<std::size_t>(inputs));
  std::iota(order.begin(), order.end(), index{0});
  std::mt19937_64 gen{support::seed(2)};
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[gen() % i]);
  return order;
}
split split_of(const columns_of_x& order, index channels) {
  return {{order.begin(), order.begin() + channels}, {order.begin() + channels, order.end()}};
}

}  // namespace

TEST_CASE("Y is X4 W4^T under the recipe plus X8 W8^T in MXFP8, and the columns of dW are from the same two products",
          "[train_lm]") {
  const problem p;
  const columns_of_x order = shuffled();
  for (const char* name : {"tetrajet2", "ufp4", "hif4"})  // those without a scale of the tensor
    for (const index channels : {1, 5, 36}) {
      CAPTURE(name, channels);
      const training_recipe r = make_recipe(name, {}, 7);
      const double ratio = static_cast<double>(channels) / static_cast<double>(inputs);
      out_control engine = engine_of({.ratio = ratio, .start = 1, .window = 1}, r, p, pool());
      forward(engine, 0, p, x_of_order(order));
      const split at = split_of(order, channels);
      CHECK(same_bits(forward(engine, 3, p, p.x), forward_by_definition(r, 3, at, p)));
      matrix<float> dw, dx, plain_dx;
      engine.backward_weight(linear, p.segments, p.dy, p.x, dw);
      CHECK(same_bits(dw, weight_gradient_by_definition(r, 3, at, p)));
      engine.backward_input(linear, p.segments, p.dy, p.w[0].value, dx);
      recipe_engine plain(r, pool());
      plain.begin_step(3);
      plain.backward_input(linear, p.segments, p.dy, p.w[0].value, plain_dx);
      CHECK(same_bits(dx, plain_dx));
    }
}

TEST_CASE("the channels are those with the largest sums of squares over all tokens and steps of the window",
          "[train_lm]") {
  const problem p;
  const training_recipe r = make_recipe("tetrajet2", {}, 7);
  out_control engine = engine_of({.ratio = 4.0 / 48, .start = 2, .window = 2}, r, p, pool());
  matrix<float> x = matrix<float>::Zero(tokens, inputs), none = x;
  none.col(30).setConstant(100);  // in steps 1 and 4, which are not measured
  forward(engine, 0, p, none);
  x.col(11).setConstant(0.5f);   // 24 in each of two steps
  x.col(33).setConstant(0.25f);  // 6 in each, but by amounts above all except column 11
  x(90, 7) = 6;                  // 36 in each
  x(3, 20) = 5;                  // 25 in the first and 16 in the second
  x(50, 2) = -4;                 // 16 in each, as much as column 41
  x(50, 41) = 4;
  forward(engine, 1, p, x);
  x(3, 20) = 4;
  forward(engine, 2, p, x);
  forward(engine, 3, p, none);
  const columns_of_x eight{7, 11, 20, 2};
  split at{eight, {41, 33}};  // then the columns of zeros
  for (index c = 0; c < inputs; ++c)
    if (c != 41 && c != 33 && std::ranges::find(eight, c) == eight.end()) at.four.push_back(c);
  CHECK(same_bits(forward(engine, 4, p, p.x), forward_by_definition(r, 4, at, p)));
}

TEST_CASE("until the window has ended, and in layers that the recipe leaves in bf16, all channels are the recipe's",
          "[train_lm]") {
  const problem p;
  const training_recipe r = make_recipe("tetrajet2", {}, 7);
  out_control engine = engine_of({.ratio = 0.1, .start = 2, .window = 3}, r, p, pool());
  recipe_engine plain(r, pool());
  for (std::uint64_t step = 0; step < 5; ++step) {
    CAPTURE(step);
    matrix<float> y, dw, plain_dw;
    plain.begin_step(step);
    plain.forward(linear, p.segments, p.x, p.w[0].value, y);
    CHECK(same_bits(forward(engine, step, p, p.x), y) == (step < 4));
    plain.backward_weight(linear, p.segments, p.dy, p.x, plain_dw);
    engine.backward_weight(linear, p.segments, p.dy, p.x, dw);
    CHECK(same_bits(dw, plain_dw) == (step < 4));
  }
  static ranks one;
  const std::vector<parameter<float>> w{{"w0", p.w[0].value}, {"w1", p.w[0].value}, {"w2", p.w[0].value}};
  out_control some({.ratio = 0.1}, model_recipe(r, {1, 0}, 3), {{0, 0}, {4, 1}, {8, 2}}, w, pool(), one);
  std::vector<std::string> names;
  for (const named_matrix& m : some.state()) names.push_back(m.name);
  CHECK(names == std::vector<std::string>{"out_control.squares.w1", "out_control.squares.w2"});
  out_control off({}, model_recipe(r), {{0, 0}}, w, pool(), one);
  CHECK(off.state().empty());
}

TEST_CASE("OutControl has the same sums and products on 1, 2 and 3 threads, and after its sums were restored",
          "[train_lm]") {
  const problem p;
  const model_recipe r = make_recipe("tetrajet2", {}, 7);
  const out_control_settings settings{.ratio = 0.2, .start = 1, .window = 2};
  thread_pool one(1);
  out_control first = engine_of(settings, r, p, one);
  forward(first, 0, p, p.x);
  const matrix<float> sums = *first.state()[0].value;
  forward(first, 1, p, p.x * 1.5f);
  const matrix<float> y = forward(first, 2, p, p.x);
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    thread_pool many(threads);
    out_control again = engine_of(settings, r, p, many);
    if (threads == 1)
      *again.state()[0].value = sums;
    else
      forward(again, 0, p, p.x);
    forward(again, 1, p, p.x * 1.5f);
    CHECK(same_bits(*again.state()[0].value, *first.state()[0].value));
    CHECK(same_bits(forward(again, 2, p, p.x), y));
  }
}

TEST_CASE("validation has the channels of training and measures nothing", "[train_lm]") {
  const problem p;
  const model_recipe r = make_recipe("tetrajet2", {}, 7);
  out_control engine = engine_of({.ratio = 0.2, .start = 1, .window = 1}, r, p, pool());
  out_control early = engine.alone();
  forward(early, 0, p, p.x);
  CHECK(early.state()[0].value->isZero(0));
  forward(engine, 0, p, p.x);
  out_control late = engine.alone();
  CHECK(same_bits(forward(late, 1, p, p.x), forward(engine, 1, p, p.x)));
}

}  // namespace train_lm_tests
