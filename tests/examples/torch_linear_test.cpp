// ufp4 - tests: ufp4_linear computes numerics 7 with torch::nn::Linear's interface, and rejects unsupported tensors.
// SPDX-License-Identifier: Apache-2.0
// ctest: timeout=600
#include "../../examples/torch_linear/program.hpp"

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "recipe/linear_model.hpp"
#include "support/catch.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

namespace torch_linear {

using support::rejection;
using ufp4::quantized_gemm;

namespace {

using nvfp4_square = ufp4::block_format<ufp4::fp4<ufp4::E2M1>, ufp4::e4m3, ufp4::square(16), float>;

constexpr std::uint64_t run_seed = 7, step = 11;
constexpr std::uint32_t layer = 6;

template <class F>
bool reports(const F& f, const std::string& words) {
  const std::string message = rejection(f);
  CAPTURE(message, words);
  const bool found = message.find(words) != std::string::npos && message.find('\n') == std::string::npos;
  CHECK(found);
  return found;
}

/// Bits, whatever the type.
bool same(const Tensor& a, const Tensor& b) {
  const auto bits = [](const Tensor& t) {
    return t.detach().contiguous().view(t.scalar_type() == torch::kFloat ? torch::kInt : torch::kShort);
  };
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && torch::equal(bits(a), bits(b));
}

problem random_problem(std::int64_t tokens, std::int64_t inputs, std::int64_t outputs, torch::ScalarType type) {
  torch::manual_seed(support::seed(1));
  const auto make = [&](std::int64_t rows, std::int64_t cols, double size) {
    return (torch::randn({rows, cols}) * size).to(type);
  };
  return {make(tokens, inputs, 1), make(outputs, inputs, 0.1), make(1, outputs, 0.1).view(-1),
          make(tokens, outputs, 1e-2)};
}

/// y without bias, dx, dw from the library's quantize and GEMM calls; the model computes signs and random bits.
template <class T, class Format, class Weight>
gradients by_hand(const problem& p, const linear_model::policies<Format, Weight>& how) {
  const auto x = detail::view_as<T>(p.x), w = detail::view_as<T>(p.weight), dy = detail::view_as<T>(p.dy);
  gradients g{torch::empty_like(p.dy), torch::empty_like(p.x), torch::empty_like(p.weight), {}};
  quantized_gemm(how.template nearest<Format>(0, x), how.template nearest<Weight>(0, w), detail::view_as<T>(g.y));
  quantized_gemm(how.gradient(2, 0, dy), how.template nearest<Weight>(1, ufp4::transpose(w)), detail::view_as<T>(g.dx));
  quantized_gemm(how.gradient(4, 0, ufp4::transpose(dy)), how.template nearest<Format>(2, ufp4::transpose(x)),
                 detail::view_as<T>(g.dw));
  return g;
}

/// The same through a module whose bias is zero.
gradients through_module(const problem& p, const training_recipe& recipe) {
  ufp4_linear linear(ufp4_linear_options(p.x.size(1), p.weight.size(0)).recipe(recipe).layer(layer));
  linear->to(p.x.scalar_type());
  {
    const torch::NoGradGuard none;
    linear->weight.copy_(p.weight);
    linear->bias.zero_();
  }
  linear->set_step(step);
  const Tensor x = p.x.detach().requires_grad_();
  const Tensor y = linear(x);
  y.backward(p.dy);
  return {y.detach(), x.grad(), linear->weight.grad(), linear->bias.grad()};
}

template <class T>
void check_types(torch::ScalarType type) {
  CAPTURE(c10::toString(type));
  // tails of blocks, of 16 x 16 blocks and of transform runs along all three axes
  const problem p = random_problem(37, 50, 45, type);
  const linear_model::policies<ufp4::e1m2_f32> plain{
      .seed = run_seed, .step = step, .layer = layer, .transforms = {true, true, true}};
  const linear_model::policies<ufp4::nvfp4, nvfp4_square> squares{
      .seed = run_seed, .step = step, .layer = layer, .transforms = {false, false, true}, .transformer_engine = true};
  const auto check = [&](const gradients& ours, const gradients& expected) {
    CHECK(same(ours.y + 0, expected.y + 0));  // -0 plus a bias of zero is +0
    CHECK(same(ours.dx, expected.dx));
    CHECK(same(ours.dw, expected.dw));
    CHECK(same(ours.db, p.dy.sum(0, false, torch::kFloat).to(type)));
  };
  check(through_module(p, recipe_named("ufp4", run_seed)), by_hand<T>(p, plain));
  check(through_module(p, recipe_named("nvfp4", run_seed)), by_hand<T>(p, squares));
}

bound_recipe at_step(const char* name = "ufp4") { return recipe_named(name, run_seed).at(step, layer); }

/// Forward and backward of x as it is, against x as a packed matrix.
void check_layout(const Tensor& x, const Tensor& dy) {
  const problem p = random_problem(1, 48, 32, torch::kFloat);
  const gradients reshaped = through_autograd({x, p.weight, p.bias, dy}, at_step());
  const Tensor packed = x.contiguous().clone().reshape({-1, 48}), packed_dy = dy.contiguous().clone().reshape({-1, 32});
  const gradients even = through_autograd({packed, p.weight, p.bias, packed_dy}, at_step());
  CHECK(reshaped.y.sizes() == dy.sizes());
  CHECK(reshaped.dx.sizes() == x.sizes());
  CHECK(same(reshaped.y.reshape({-1, 32}), even.y));
  CHECK(same(reshaped.dx.reshape({-1, 48}), even.dx));
  CHECK(same(reshaped.dw, even.dw));
}

torch::nn::Sequential small_mlp() {
  auto mlp = make_mlp(3, [](auto k, auto n) { return ufp4_linear(k, n); });
  use_recipe(*mlp, recipe_named("ufp4", run_seed));
  return mlp;
}
Tensor all_parameters(torch::nn::Sequential& model) {
  std::vector<Tensor> flat;
  for (const Tensor& p : model->parameters()) flat.push_back(p.detach().reshape(-1));
  return torch::cat(flat);
}

}  // namespace

TEST_CASE("y, dx and dw are those of numerics 7's quantize calls and GEMMs at the layer's step", "[torch]") {
  check_types<float>(torch::kFloat);
  check_types<c10::BFloat16>(torch::kBFloat16);
  check_types<c10::Half>(torch::kHalf);
}

TEST_CASE("under bf16 every gradient is the central difference, and a wrong one would be found", "[torch]") {
  const difference_check all = check_by_differences(support::seed(2));
  CHECK(all.places == 20 * 40 + 24 * 40 + 24);
  CHECK(all.wrong == 0);
  const problem p{eighths(4, 8), eighths(3, 8), eighths(1, 3).view(-1), eighths(4, 3)};
  const gradients g = through_autograd(p, at_step("bf16"));
  g.dx[2][5] += 1.0 / 64;
  CHECK(wrong_places(p, p.x, g.dx, at_step("bf16")) == 1);
}

TEST_CASE("every named recipe is within numerics' bound of torch's matmul over decoded operands", "[torch]") {
  for (const named_recipe& r : named_recipes) {
    CAPTURE(r.name);
    const definition_check c = check_by_definition(r.make(run_seed), support::seed(3));
    CHECK(c.same_bits);
    CHECK(c.y <= 1);
    CHECK(c.dx <= 1);
    CHECK(c.dw <= 1);
    // A sum of 256 products that never rounds would mean that something else was compared; but those of hif4 are exact,
    // integers times scales with two bits.
    CHECK((c.y > 0 || std::string(r.name) == "hif4"));
  }
  const Tensor a = torch::ones({1, 16}, torch::kDouble), wrong = torch::full({1, 1}, 16.0 + 0x1p-14, torch::kFloat);
  CHECK(of_bound(torch::full({1, 1}, 16.f), a, a) == 0);
  CHECK(of_bound(wrong, a, a) > 1);
}

TEST_CASE("x may have any strides and dimensions, and dy too", "[torch]") {
  torch::manual_seed(support::seed(4));
  const Tensor dy = torch::randn({20, 32});
  check_layout(torch::randn({48, 20}).t(), dy);
  check_layout(torch::randn({20, 96}).slice(1, 0, 96, 2), dy);
  check_layout(torch::randn({40, 48}).slice(0, 0, 40, 2), dy);
  check_layout(torch::randn({1, 48}).expand({20, 48}), dy);
  check_layout(torch::randn({20, 1}).expand({20, 48}), dy);
  check_layout(torch::randn({20, 48}), torch::ones({}).expand({20, 32}));  // what sum().backward() sends
  check_layout(torch::randn({20, 48}), torch::randn({32, 20}).t());
  check_layout(torch::randn({4, 5, 48}), torch::randn({4, 5, 32}));
  check_layout(torch::randn({5, 4, 48}).transpose(0, 1), torch::randn({32, 5, 4}).permute({2, 1, 0}));
  check_layout(torch::randn({2, 1, 2, 5, 48}), torch::randn({2, 1, 2, 5, 32}));
  check_layout(torch::randn({48}), torch::randn({32}));
  check_layout(at::_neg_view(torch::randn({20, 48})), at::_neg_view(dy));  // its memory holds the negated numbers
}

TEST_CASE("no tokens give no rows, and gradients of zero", "[torch]") {
  for (const auto& shape : {std::vector<std::int64_t>{0}, {2, 0}, {0, 3}}) {
    std::vector<std::int64_t> in = shape, out = shape;
    in.push_back(48), out.push_back(32);
    const problem p = random_problem(1, 48, 32, torch::kFloat);
    const gradients g = through_autograd({torch::empty(in), p.weight, p.bias, torch::empty(out)}, at_step());
    CHECK(g.y.sizes() == c10::IntArrayRef(out));
    CHECK(g.dx.sizes() == c10::IntArrayRef(in));
    CHECK(same(g.dw, torch::zeros({32, 48})));
    CHECK(same(g.db, torch::zeros({32})));
  }
}

TEST_CASE("a gradient that nobody needs is not computed", "[torch]") {
  const problem p = random_problem(16, 32, 32, torch::kFloat);
  const auto backward = [&](const training_recipe& r, bool x, bool w, bool b) {
    const Tensor in = p.x.detach().requires_grad_(x), weight = p.weight.detach().requires_grad_(w),
                 bias = p.bias.detach().requires_grad_(b);
    quantized_linear(in, weight, bias, r.at(0, 0)).backward(p.dy);
    CHECK(in.grad().defined() == x);
    CHECK(weight.grad().defined() == w);
    CHECK(bias.grad().defined() == b);
  };
  auto no_dgrad = recipe_named("ufp4", 1), no_wgrad = no_dgrad;  // GEMMs that would be rejected if they were run
  no_dgrad.dgrad.left.transform = {};
  no_wgrad.wgrad.left.transform = {};
  backward(no_dgrad, false, true, true);
  backward(no_wgrad, true, false, true);
  backward(no_wgrad, false, false, true);
  CHECK(reports([&] { backward(no_dgrad, true, true, true); }, "dgrad"));
  CHECK(reports([&] { backward(no_wgrad, true, true, true); }, "wgrad"));
  CHECK_FALSE(quantized_linear(p.x, p.weight, p.bias, at_step()).requires_grad());

  // autograd::grad with respect to one input only
  const Tensor in = p.x.detach().requires_grad_(), weight = p.weight.detach().requires_grad_();
  const Tensor y = quantized_linear(in, weight, {}, no_dgrad.at(0, 0));
  CHECK(torch::autograd::grad({y}, {weight}, {p.dy}).at(0).defined());
}

TEST_CASE("types may differ: y and dx have x's, dw weight's, and y is rounded once", "[torch]") {
  const problem p = random_problem(20, 48, 32, torch::kFloat);
  const Tensor narrow = p.x.to(torch::kBFloat16);
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    const Tensor w = p.weight.to(type), b = p.bias.to(torch::kHalf);
    const gradients g = through_autograd({narrow, w, b, p.dy.to(torch::kBFloat16)}, at_step());
    CHECK(g.y.scalar_type() == torch::kBFloat16);
    CHECK(g.dx.scalar_type() == torch::kBFloat16);
    CHECK(g.dw.scalar_type() == type);
    CHECK(g.db.scalar_type() == torch::kHalf);
    const gradients wide = through_autograd({narrow.to(torch::kFloat), w.to(torch::kFloat), b.to(torch::kFloat),
                                             p.dy.to(torch::kBFloat16).to(torch::kFloat)},
                                            at_step());
    CHECK(same(g.y, wide.y.to(torch::kBFloat16)));
    CHECK(same(g.dx, wide.dx.to(torch::kBFloat16)));
    CHECK(same(g.dw, wide.dw.to(type)));
  }
}

TEST_CASE("NaN and infinities reach the outputs that they touch and no other", "[torch]") {
  problem p = random_problem(20, 48, 32, torch::kFloat);
  const Tensor clean = quantized_linear(p.x, p.weight, p.bias, at_step());
  p.x[3][7] = std::numeric_limits<float>::quiet_NaN();
  p.x[9][40] = std::numeric_limits<float>::infinity();
  const Tensor y = quantized_linear(p.x, p.weight, p.bias, at_step());
  for (std::int64_t i = 0; i < 20; ++i) {
    CAPTURE(i);
    if (i == 3 || i == 9)
      CHECK(y[i].isnan().all().item<bool>());
    else
      CHECK(same(y[i], clean[i]));
  }
}

TEST_CASE("a layer starts as torch::nn::Linear starts, and they load each other's state", "[torch]") {
  for (const bool bias : {true, false}) {
    const torch::nn::LinearOptions options = torch::nn::LinearOptions(40, 24).bias(bias);
    torch::manual_seed(5);
    torch::nn::Linear plain(options);
    torch::manual_seed(5);
    ufp4_linear ours(options);
    REQUIRE(ours->named_parameters().keys() == plain->named_parameters().keys());
    CHECK(same(ours->weight, plain->weight));
    CHECK(ours->bias.defined() == bias);
    if (bias) CHECK(same(ours->bias, plain->bias));

    std::stringstream to_ours, to_plain;
    torch::nn::Linear trained(options);
    torch::save(trained, to_ours);
    torch::load(ours, to_ours);
    CHECK(same(ours->weight, trained->weight));
    torch::save(ours, to_plain);
    torch::load(plain, to_plain);
    CHECK(same(plain->weight, trained->weight));
    if (bias) CHECK(same(plain->bias, trained->bias));
  }
}

TEST_CASE("a clone has the recipe, the layer number and the step, and weights of its own", "[torch]") {
  ufp4_linear one(ufp4_linear_options(32, 16).recipe(recipe_named("nvfp4", 4)).layer(9));
  one->set_step(17);
  const auto two = std::dynamic_pointer_cast<ufp4_linearImpl>(one->clone());
  REQUIRE(two != nullptr);
  CHECK(two->options.layer() == 9);
  CHECK(two->step() == 17);
  CHECK(same(one->weight, two->weight));
  const Tensor x = torch::randn({4, 32});
  CHECK(same(one->forward(x), two->forward(x)));
  {
    const torch::NoGradGuard none;
    two->weight.zero_();
  }
  CHECK_FALSE(same(one->weight, two->weight));
}

TEST_CASE("a recorded forward takes a step, one that is not recorded takes none", "[torch]") {
  auto stochastic = recipe_named("ufp4", 2);
  stochastic.fprop.left.rounding = ufp4::stochastic{};  // so that y shows the step
  ufp4_linear linear(ufp4_linear_options(32, 16).recipe(stochastic));
  const Tensor x = torch::randn({4, 32});
  const auto unrecorded = [&] {
    const torch::NoGradGuard none;
    return linear(x);
  };
  const Tensor first = unrecorded();
  linear->eval();
  CHECK(same(unrecorded(), first));
  linear->train();
  CHECK(linear->step() == 0);
  CHECK(same(linear(x), first));
  CHECK(linear->step() == 1);
  CHECK_FALSE(same(unrecorded(), first));
  linear->set_step(0);
  CHECK(same(linear(x), first));
  {
    const torch::InferenceMode inference;
    linear->set_step(0);
    CHECK(same(linear(x), first));
  }
  CHECK(linear->step() == 0);
}

TEST_CASE("a backward pass has the random bits of its own forward, whatever came between", "[torch]") {
  const problem p = random_problem(64, 48, 32, torch::kFloat);
  const auto weight_gradients = [&](bool interleaved) {
    ufp4_linear linear(48, 32);
    {
      const torch::NoGradGuard none;
      linear->weight.copy_(p.weight);
    }
    Tensor y0 = linear(p.x), y1;
    const auto gradient = [&](const Tensor& y) {
      return torch::autograd::grad({y}, {linear->weight}, {p.dy}, true).at(0);
    };
    if (interleaved) y1 = linear(p.x);
    const Tensor g0 = gradient(y0), again = gradient(y0);
    CHECK(same(g0, again));
    if (!interleaved) y1 = linear(p.x);
    const Tensor g1 = gradient(y1);
    CHECK_FALSE(same(g0, g1));  // another step: other random bits
    return std::pair{g0, g1};
  };
  const auto [a0, a1] = weight_gradients(true);
  const auto [b0, b1] = weight_gradients(false);
  CHECK(same(a0, b0));
  CHECK(same(a1, b1));
}

TEST_CASE("a training run has the same bits again, on other threads, and with evaluations in between", "[torch]") {
  const toy_task task(support::seed(6));
  const int threads = at::get_num_threads();
  const auto trained = [&](int on, bool evaluates) {
    at::set_num_threads(on);
    auto mlp = small_mlp();
    for (int part = 0; part < 3; ++part) {
      train(mlp, task, 5);
      if (!evaluates) continue;
      const torch::NoGradGuard none;
      mlp->eval();
      mlp->forward(task.x);
      mlp->train();
    }
    at::set_num_threads(threads);
    return all_parameters(mlp);
  };
  const Tensor once = trained(1, false);
  CHECK(same(trained(1, false), once));
  CHECK(same(trained(3, false), once));
  CHECK(same(trained(1, true), once));
  auto other = small_mlp();
  use_recipe(*other, recipe_named("ufp4", run_seed + 1));
  for (int part = 0; part < 3; ++part) train(other, task, 5);
  CHECK_FALSE(same(all_parameters(other), once));
}

TEST_CASE("torch's threads run the tasks, inside torch's own loops and beside other threads", "[torch]") {
  const problem p = random_problem(256, 512, 256, torch::kFloat);
  const Tensor expected = quantized_linear(p.x, p.weight, p.bias, at_step());
  std::vector<Tensor> inside(4), beside(4);
  at::parallel_for(0, 4, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      inside[static_cast<std::size_t>(i)] = quantized_linear(p.x, p.weight, p.bias, at_step());
  });
  std::vector<std::thread> threads;
  for (Tensor& y : beside) threads.emplace_back([&] { y = quantized_linear(p.x, p.weight, p.bias, at_step()); });
  for (std::thread& t : threads) t.join();
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(same(inside[i], expected));
    CHECK(same(beside[i], expected));
  }
  std::vector<int> calls(1000);  // each task once
  const auto body = [&](std::size_t i) { ++calls[i]; };
  const ufp4::cpu::task_ref task{&body,
                                 [](const void* f, std::size_t i) { (*static_cast<const decltype(body)*>(f))(i); }};
  detail::torch_threads{}(calls.size(), task);
  CHECK(calls == std::vector<int>(1000, 1));
}

TEST_CASE("use_recipe numbers all layers of a model, however deep", "[torch]") {
  torch::nn::Sequential inner(ufp4_linear(8, 8), torch::nn::Linear(8, 8), ufp4_linear(8, 8));
  torch::nn::ModuleList model(ufp4_linear(8, 8), inner, ufp4_linear(8, 8));
  model->ptr<ufp4_linearImpl>(0)->set_step(5);
  CHECK(use_recipe(*model, recipe_named("nvfp4", 3)) == 4);
  CHECK(model->ptr<ufp4_linearImpl>(0)->options.layer() == 0);
  CHECK(inner->ptr<ufp4_linearImpl>(0)->options.layer() == 1);
  CHECK(inner->ptr<ufp4_linearImpl>(2)->options.layer() == 2);
  CHECK(model->ptr<ufp4_linearImpl>(2)->options.layer() == 3);
  CHECK(model->ptr<ufp4_linearImpl>(0)->step() == 0);
  CHECK(model->ptr<ufp4_linearImpl>(2)->options.recipe().seed == 3);
  set_step(*model, 40);
  CHECK(inner->ptr<ufp4_linearImpl>(2)->step() == 40);
  ufp4_linear alone(8, 8);
  CHECK(use_recipe(*alone, recipe_named("bf16", 1)) == 1);
  CHECK(use_recipe(*torch::nn::Linear(8, 8), recipe_named("bf16", 1)) == 0);
}

TEST_CASE("a tensor that cannot be read is rejected with one message that names it", "[torch]") {
  ufp4_linear linear(48, 32);
  const Tensor x = torch::randn({4, 48});
  const auto forward = [&](const Tensor& t) { return [&linear, t] { linear(t); }; };
  CHECK(reports(forward({}), "x is an undefined tensor"));
  CHECK(reports(forward(x.to(torch::kDouble)), "x has elements of type Double, not Float, BFloat16 or Half"));
  CHECK(reports(forward(x.to(torch::kInt)), "x has elements of type Int"));
  CHECK(reports(forward(torch::randn({4, 48}, torch::kComplexFloat)), "x has elements of type ComplexFloat"));
  CHECK(reports(forward(torch::empty({4, 48}, torch::kMeta)), "x is on meta; this layer computes on the CPU only"));
  CHECK(reports(forward(x.to_sparse()), "x has the layout Sparse, not Strided"));
  CHECK(reports(forward(torch::randn({4, 47})), "x's last dimension is 47, but weight's in_features are 48"));
  CHECK(reports(forward(torch::randn({48, 0})), "x's last dimension is 0"));
  CHECK(reports(forward(torch::randn({})), "x has no dimensions"));
  CHECK(linear->step() == 0);  // nothing that was rejected took a step

  const Tensor w = torch::randn({32, 48});
  CHECK(reports([&] { quantized_linear(x, {}, {}, at_step()); }, "weight is an undefined tensor"));
  CHECK(reports([&] { quantized_linear(x, w[0], {}, at_step()); }, "weight has 1 dimensions, not 2"));
  CHECK(reports([&] { quantized_linear(x, w, torch::randn({31}), at_step()); },
                "bias has the shape [31], but weight's out_features are 32"));
  CHECK(reports([&] { quantized_linear(x, w, torch::randn({1, 32}), at_step()); }, "bias has the shape [1, 32]"));
  CHECK(reports([&] { quantized_linear(x, w, torch::randn({32}, torch::kDouble), at_step()); },
                "bias has elements of type Double"));
  CHECK(reports([&] { quantized_linear(x, w, {}, recipe_named("ufp4", 1).at(0, 65536)); },
                "layer must be below 65536, got 65536"));
  CHECK(reports([] { recipe_named("fp4", 1); }, "'fp4' is none of bf16, ufp4, "));
  CHECK(reports([] { ufp4_linear(0, 3); }, "in_features is 0, not above 0"));
  CHECK(reports([] { ufp4_linear(3, -1); }, "out_features is -1, not above 0"));
  linear->to(torch::kDouble);
  CHECK(reports(forward(x), "weight has elements of type Double"));
}

TEST_CASE("y may be changed in place, as torch::nn::Linear's may", "[torch]") {
  for (const auto& shape : {std::vector<std::int64_t>{4, 48}, {2, 3, 48}, {48}}) {
    ufp4_linear linear(48, 32);
    const Tensor x = torch::randn(shape);
    Tensor y = linear(x);
    const Tensor before = y.detach().clone();
    y.relu_();
    CHECK(same(y, before.relu()));
    y.sum().backward();
    CHECK(same(linear->bias.grad(), (before > 0).to(torch::kFloat).reshape({-1, 32}).sum(0)));
  }
}

TEST_CASE("a second derivative is rejected, and so is an input that was changed since", "[torch]") {
  const problem p = random_problem(4, 48, 32, torch::kFloat);
  const Tensor w = p.weight.detach().requires_grad_();
  const Tensor y = quantized_linear(p.x, w, {}, at_step());
  CHECK(reports([&] { torch::autograd::grad({y}, {w}, {p.dy}, true, /*create_graph=*/true); },
                "create_graph = true is not supported"));
  p.x.add_(1);
  CHECK_THROWS_AS(y.backward(p.dy), c10::Error);  // torch's own message, on the version of a saved tensor
}

TEST_CASE("the program checks, trains, and reports invalid arguments", "[torch]") {
  const auto run = [](std::vector<const char*> words) {
    std::ostringstream out, err;
    words.insert(words.begin(), "torch_linear");
    const int status = run_program(static_cast<int>(words.size()), words.data(), out, err);
    return std::tuple{status, out.str(), err.str()};
  };
  const auto [good, table, silence] = run({"--recipe", "ufp4", "--recipe", "nvfp4"});
  CAPTURE(table, silence);
  CHECK(good == 0);
  CHECK(silence.empty());
  CHECK(table.find("1784 of 1784 equal, ok") != std::string::npos);
  CHECK(table.find("torch::nn::Linear") != std::string::npos);
  CHECK(table.find("ufp4_linear nvfp4") != std::string::npos);
  CHECK(table.find("FAILED") == std::string::npos);

  const auto [stopped, short_table, nothing] = run({"--recipe", "bf16", "--steps", "1"});
  CHECK(stopped == 1);  // one step does not halve a loss
  CHECK(short_table.find("FAILED") != std::string::npos);

  CHECK(std::get<1>(run({"--help"})).find("usage: torch_linear") != std::string::npos);
  CHECK(std::get<0>(run({"--help"})) == 0);
  const auto [wrong, no_out, message] = run({"--recipe", "fp3"});
  CHECK(wrong == 2);
  CHECK(no_out.empty());
  CHECK(message.find("--recipe fp3 is not a recipe") != std::string::npos);
  CHECK(std::get<0>(run({"--steps", "-1"})) == 2);
  CHECK(std::get<0>(run({"ufp4"})) == 2);
}

}  // namespace torch_linear
