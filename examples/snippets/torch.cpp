// ufp4 - the code of docs/torch.md, compiled. It needs libtorch, and is left out where there is none.
// SPDX-License-Identifier: Apache-2.0
#include "../torch_linear/quantized_linear.hpp"

#undef NDEBUG
#include <cassert>
#include <sstream>

using namespace torch_linear;

int main() {
  const auto x = torch::randn({256, 32}), target = torch::randn({256, 8});

  // Where torch::nn::Linear(32, 64) and torch::nn::Linear(64, 8) were:
  torch::nn::Sequential mlp(ufp4_linear(32, 64), torch::nn::ReLU(), ufp4_linear(64, 8));
  use_recipe(*mlp, recipe_named("ufp4", /*seed=*/1));

  torch::optim::Adam optimizer(mlp->parameters());
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    torch::mse_loss(mlp->forward(x), target).backward();
    optimizer.step();
  }
  assert(mlp->ptr<ufp4_linearImpl>(0)->step() == 10 && mlp->ptr<ufp4_linearImpl>(2)->options.layer() == 1);

  auto recipe = ufp4::recipe::nvfp4_recipe(/*seed=*/1);
  recipe.dgrad.left.quantized = recipe.dgrad.right.quantized = false;  // dX in bf16
  ufp4_linear head(ufp4_linear_options(64, 8).bias(false).recipe(recipe).layer(2));

  const auto y = quantized_linear(x, torch::randn({8, 32}), /*bias=*/{}, recipe.at(/*step=*/0, /*layer=*/3));
  assert(y.size(0) == 256 && y.size(1) == 8 && head->weight.size(0) == 8);

  const auto keep = ufp4::recipe::bf16_blocks_of_nvfp4(/*blocks=*/12);
  std::uint32_t number = 0;
  for_each_layer(*mlp, [&](ufp4_linearImpl& layer) {  // here one layer is a block
    const bool plain = keep.contain(number, 12);
    layer.options.recipe(plain ? ufp4::recipe::bf16_recipe(1) : ufp4::recipe::nvfp4_recipe(1)).layer(number++);
  });
  assert(keep.last == 2 && keep.contain(11, 12) && !keep.contain(1, 12));

  std::stringstream file;
  torch::nn::Linear trained(64, 8);
  torch::save(trained, file);
  ufp4_linear quantized(64, 8);
  torch::load(quantized, file);  // the same names: weight and bias
  assert(torch::equal(quantized->weight, trained->weight));

  set_step(*mlp, 10);  // going on from a checkpoint: the forward passes that each layer had been trained with
}
