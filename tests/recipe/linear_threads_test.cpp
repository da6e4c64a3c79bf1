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

/// Every output of a dense and a grouped layer, one after the other.
std::vector<float> everything(const cpu::context& context, const recipe::bound_recipe& now, const layer<float>& l,
                              const tensor<float>& weights) {
  const std::size_t t = l.tokens, k = l.inputs, n = l.outputs;
  const std::size_t at[] = {0, 70, 70, t};
  output<float> y(t, n), dx(t, k), dw(n, k), ye(t, n), dxe(t, k), dwe(3 * n, k);
  recipe::saved_activation saved, saved_parts;
  linear_forward(context, now, l.x.view(), l.w.view(), y.view(), {.saved = &saved});
  linear_backward_input(context, now, l.dy.view(), l.w.view(), dx.view());
  linear_backward_weight(context, now, l.dy.view(), saved, dw.view());
  linear_forward_grouped(context, now, l.x.view(), at, weights.view(), ye.view(), {.saved = &saved_parts});
  linear_backward_input_grouped(context, now, l.dy.view(), at, weights.view(), dxe.view());
  linear_backward_weight_grouped(context, now, l.dy.view(), saved_parts, at, dwe.view());
  std::vector<float> all;
  for (const output<float>* o : {&y, &dx, &dw, &ye, &dxe, &dwe}) all.insert(all.end(), o->c.begin(), o->c.end());
  return all;
}

}  // namespace

TEST_CASE("thread counts, tiers and executors change no bit of an exact_blocks recipe", "[recipe][threads]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(0)};
  const layer<float> l(gen, 90, 140, 70);
  const tensor<float> weights(gen, 210, 140);
  for (recipe::training_recipe r : {recipe::ufp4_recipe(1), recipe::nvfp4_recipe(1), recipe::bf16_recipe(1)}) {
    r.accumulate = accumulate::exact_blocks;
    const recipe::bound_recipe now = r.at(2, 3);
    const std::vector<float> alone = everything(cpu::context{.threads = 1, .isa = cpu::isa::scalar}, now, l, weights);
    for (const cpu::isa tier : support::runnable_isas())
      REQUIRE(everything(cpu::context{.threads = 3, .isa = tier}, now, l, weights) == alone);
    support::dealt executor{4};
    REQUIRE(everything(cpu::context{.executor = executor}, now, l, weights) == alone);
  }
}

TEST_CASE("thread counts change no bit of a fast recipe", "[recipe][threads]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  const layer<float> l(gen, 90, 140, 70);
  const tensor<float> weights(gen, 210, 140);
  const recipe::bound_recipe now = recipe::ufp4_recipe<nv_e1m2>(1).at(2, 3);
  const std::vector<float> alone = everything(cpu::context{.threads = 1}, now, l, weights);
  for (const int threads : {2, 7}) REQUIRE(everything(cpu::context{.threads = threads}, now, l, weights) == alone);
  support::backwards executor;
  REQUIRE(everything(cpu::context{.executor = executor}, now, l, weights) == alone);
}

TEST_CASE("layers may run at once, from threads of the caller's", "[recipe][threads]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const layer<float> l(gen, 80, 64, 40);
  const tensor<float> weights(gen, 120, 64);
  const recipe::bound_recipe now = recipe::nvfp4_recipe(1).at(2, 3);
  const std::vector<float> alone = everything(cpu::context{.threads = 1}, now, l, weights);
  std::vector<std::vector<float>> results(3);
  std::vector<std::thread> callers;
  for (auto& result : results)
    callers.emplace_back([&] { result = everything(cpu::context{.threads = 2}, now, l, weights); });
  for (std::thread& caller : callers) caller.join();
  for (const auto& result : results) REQUIRE(result == alone);
}
