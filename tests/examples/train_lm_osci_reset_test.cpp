// ufp4 - tests: OsciReset resets the weights whose quantized values move much farther than they do, and no others.
// SPDX-License-Identifier: Apache-2.0
#include "../../examples/train_lm/osci_reset.hpp"

#include <string>
#include <vector>

#include "../../examples/train_lm/recipes.hpp"
#include "train_lm_numeric.hpp"

namespace train_lm_tests {

using namespace train_lm;
using train_lm::index;  // and not the one of <strings.h>

using support::pool;

namespace {

/// One block of 16 weights whose scale is 1: the first is 6, the amax.
std::vector<parameter<float>> one_block() {
  std::vector<parameter<float>> all(1);
  all[0].name = "w";
  all[0].value = matrix<float>::Zero(1, 16);
  all[0].value(0, 0) = 6;
  return all;
}

}  // namespace

TEST_CASE("a weight that jumps between two quantized values is reset, a drifting, a still and a slow one are not",
          "[train_lm]") {
  const model_recipe recipe = make_recipe("e2m1-rht-none", {}, 1);
  auto w = one_block();
  osci_reset osci({.period = 10, .window = 4, .threshold = 16}, recipe, {{0, 0}}, w);
  for (std::uint64_t step = 1; step <= 14; ++step) {
    const float side = step % 2 == 0 ? 1.0f : -1.0f;
    w[0].value(0, 1) = 1.25f + 0.01f * side;             // between 1 and 1.5: jumps by 0.5 for 0.02
    w[0].value(0, 2) = 1.0f + 0.01f * side;              // moves, and stays 1
    w[0].value(0, 3) = 0.1f * static_cast<float>(step);  // jumps as far as it moves
    w[0].value(0, 4) = 1.25f + 0.02f * side;             // jumps by 0.5 for 0.04: 12.5 times
    w[0].value(0, 5) = 3.0f;                             // stands still
    w[0].value(0, 6) = step < 14 && step > 10 ? 2.5f + 0.001f * side : 2.4f;  // jumps once by 1 for 0.1 or less
    const matrix<float> before = w[0].value;
    osci.after_update(step, w, pool());
    if (step != 14) {
      CHECK(w[0].value == before);
      CHECK(osci.resets() == 0);
    }
  }
  CHECK(w[0].value(0, 1) == 1.5f);  // 1.26 is nearer to 1.5
  CHECK(w[0].value(0, 2) == 1.01f);
  CHECK(w[0].value(0, 3) == 0.1f * 14);
  CHECK(w[0].value(0, 4) == 1.27f);
  CHECK(w[0].value(0, 5) == 3.0f);
  CHECK(w[0].value(0, 0) == 6.0f);
  CHECK(osci.resets() == 1);
}

TEST_CASE("a later window forgets the earlier ones, and the first begins at the period", "[train_lm]") {
  const model_recipe recipe = make_recipe("e2m1-rht-none", {}, 1);
  auto w = one_block();
  osci_reset osci({.period = 6, .window = 2, .threshold = 16}, recipe, {{0, 0}}, w);
  for (std::uint64_t step = 1; step <= 14; ++step) {
    const bool jumps = step <= 5 || (step >= 9 && step <= 11);  // between windows 6 .. 8 and 12 .. 14
    w[0].value(0, 1) = jumps ? (step % 2 == 0 ? 1.26f : 1.24f) : 1.3f;
    osci.after_update(step, w, pool());
  }
  CHECK(osci.resets() == 0);
  CHECK(w[0].value(0, 1) == 1.3f);
}

TEST_CASE("Q(w) of a recipe with a transform is the decoded weight, transformed back", "[train_lm]") {
  const model_recipe recipe = make_recipe("ufp4", {}, 3);
  std::vector<parameter<float>> w(1);
  std::mt19937_64 gen{support::seed(1)};
  w[0].name = "w";
  w[0].value = support::random_matrix<float>(gen, 16, 32);
  osci_reset osci({.period = 3, .window = 1, .threshold = 1e-9}, recipe, {{7, 0}}, w);
  osci.after_update(3, w, pool());
  w[0].value *= 1.01f;
  const matrix<float> moved = w[0].value;
  osci.after_update(4, w, pool());
  matrix<float> want(16, 32);
  const auto operand = recipe.quantized.at(4, 7).operand(1);
  ufp4::fake_quantize<ufp4::e1m2_f32>(view_of(moved), view_of(want), operand.transform, ufp4::undo_transform{},
                                      pool().context());
  CHECK(osci.resets() > 400);
  index same = 0;
  for (index i = 0; i < want.size(); ++i) {
    const bool is_reset = w[0].value.data()[i] == want.data()[i];
    same += is_reset;
    CHECK((is_reset || w[0].value.data()[i] == moved.data()[i]));
  }
  CHECK(same == static_cast<index>(osci.resets()));
}

TEST_CASE("layers in bf16 are not watched, and what is watched is what a checkpoint keeps", "[train_lm]") {
  std::vector<parameter<float>> w(3);
  for (std::size_t p = 0; p < 3; ++p) w[p].name = "w" + std::to_string(p), w[p].value = matrix<float>::Ones(16, 16);
  const training_recipe r = make_recipe("tetrajet2", {}, 1);
  osci_reset osci({.period = 9, .window = 2}, model_recipe(r, {1, 0}, 3), {{0, 0}, {4, 1}, {8, 2}}, w);
  std::vector<std::string> names;
  for (const named_matrix& m : osci.state()) names.push_back(m.name);
  CHECK(names == std::vector<std::string>{"osci_reset.before.w1", "osci_reset.moved.w1", "osci_reset.jumped.w1",
                                          "osci_reset.before.w2", "osci_reset.moved.w2", "osci_reset.jumped.w2"});
  osci_reset none({}, model_recipe(r), {{0, 0}}, w);
  CHECK(none.state().empty());
}

}  // namespace train_lm_tests
