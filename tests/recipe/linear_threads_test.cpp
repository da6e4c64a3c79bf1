// ufp4 - the linear operations on many threads: no data race, the same bits.
// SPDX-License-Identifier: Apache-2.0
#include <thread>
#include <vector>

#include <ufp4/recipe/linear.hpp>

#include "recipe/linear_model.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

using namespace ufp4;
using namespace linear_model;

namespace {

/// A dense layer, and the weights of three experts.
struct problem {
  std::mt19937_64 gen;
  layer<float> l;
  tensor<float> weights;

  problem(std::uint64_t seed, std::size_t tokens, std::size_t inputs, std::size_t outputs)
      : gen{support::seed(seed)}, l(gen, tokens, inputs, outputs), weights(gen, 3 * outputs, inputs) {}
};

/// Every output of the dense and of the grouped layer, one after the other.
std::vector<float> everything(const cpu::context& context, const recipe::bound_recipe& now, const problem& p) {
  const layer<float>& l = p.l;
  const tensor<float>& weights = p.weights;
  const std::size_t t = l.tokens, k = l.inputs, n = l.outputs;
  const std::size_t at[] = {0, 70, 70, t};
  output<float> y(t, n), dx(t, k), dw(n, k), ye(t, n), dxe(t, k), dwe(3 * n, k);
  recipe::saved_activation saved, saved_parts;
  linear_forward(now, l.x.view(), l.w.view(), y.view(), {.saved = &saved}, context);
  linear_backward_input(now, l.dy.view(), l.w.view(), dx.view(), {}, context);
  linear_backward_weight(now, l.dy.view(), saved, dw.view(), {}, context);
  linear_forward_grouped(now, l.x.view(), at, weights.view(), ye.view(), {.saved = &saved_parts}, context);
  linear_backward_input_grouped(now, l.dy.view(), at, weights.view(), dxe.view(), {}, context);
  linear_backward_weight_grouped(now, l.dy.view(), saved_parts, at, dwe.view(), {}, context);
  std::vector<float> all;
  for (const output<float>* o : {&y, &dx, &dw, &ye, &dxe, &dwe}) all.insert(all.end(), o->c.begin(), o->c.end());
  return all;
}

}  // namespace

TEST_CASE("an exact_blocks recipe has the same bits for every thread count, instruction set and executor",
          "[recipe][threads]") {
  INFO(support::seed_note());
  const problem p(0, 90, 140, 70);
  for (recipe::training_recipe r : {recipe::ufp4_recipe(1), recipe::nvfp4_recipe(1), recipe::bf16_recipe(1)}) {
    r.accumulate = accumulate::exact_blocks;
    const recipe::bound_recipe now = r.at(2, 3);
    const std::vector<float> alone = everything(cpu::context{.threads = 1, .isa = cpu::isa::scalar}, now, p);
    for (const cpu::isa tier : support::runnable_isas())
      REQUIRE(everything(cpu::context{.threads = 3, .isa = tier}, now, p) == alone);
    support::dealt executor{4};
    REQUIRE(everything(cpu::context{.executor = executor}, now, p) == alone);
  }
}

TEST_CASE("a fast recipe has the same bits for every thread count", "[recipe][threads]") {
  INFO(support::seed_note());
  const problem p(1, 90, 140, 70);
  const recipe::bound_recipe now = recipe::ufp4_recipe<nv_e1m2>(1).at(2, 3);
  const std::vector<float> alone = everything(cpu::context{.threads = 1}, now, p);
  for (const int threads : {2, 7}) REQUIRE(everything(cpu::context{.threads = threads}, now, p) == alone);
  support::backwards executor;
  REQUIRE(everything(cpu::context{.executor = executor}, now, p) == alone);
}

TEST_CASE("layers that run concurrently on the caller's threads have the same bits", "[recipe][threads]") {
  INFO(support::seed_note());
  const problem p(2, 80, 64, 40);
  const recipe::bound_recipe now = recipe::nvfp4_recipe(1).at(2, 3);
  const std::vector<float> alone = everything(cpu::context{.threads = 1}, now, p);
  std::vector<std::vector<float>> results(3);
  std::vector<std::thread> callers;
  for (auto& result : results) callers.emplace_back([&] { result = everything(cpu::context{.threads = 2}, now, p); });
  for (std::thread& caller : callers) caller.join();
  for (const auto& result : results) REQUIRE(result == alone);
}
