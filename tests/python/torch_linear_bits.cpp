// ufp4 - one layer of examples/torch_linear on matrices from files, for torch_test.py, which compares its bits.
// SPDX-License-Identifier: Apache-2.0
//
//   torch_linear_bits FOLDER RECIPE TYPE T K N     TYPE: 0 for float, 1 for bfloat16, 2 for half
//
// Reads x (T x K), w (N x K), b (N) and dy (T x N), floats that TYPE represents; writes y, dx, dw and db as floats.
#include "torch_linear/quantized_linear.hpp"

#include <fstream>

namespace {

using torch::Tensor;

Tensor read(const std::string& path, std::vector<std::int64_t> shape, torch::ScalarType type) {
  Tensor t = torch::empty(shape);
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(t.data_ptr<float>()), t.numel() * 4)) throw std::runtime_error("no " + path);
  return t.to(type).requires_grad_();
}
void write(const std::string& path, const Tensor& t) {
  const Tensor all = t.detach().to(torch::kFloat).contiguous();
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(all.data_ptr<float>()), all.numel() * 4);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const std::string folder = std::string(argv[1]) + "/";
  const torch::ScalarType types[] = {torch::kFloat, torch::kBFloat16, torch::kHalf};
  const torch::ScalarType type = types[std::stoi(argv[3])];
  const std::int64_t t = std::stoi(argv[4]), k = std::stoi(argv[5]), n = std::stoi(argv[6]);
  const Tensor x = read(folder + "x", {t, k}, type), w = read(folder + "w", {n, k}, type);
  const Tensor b = read(folder + "b", {n}, type), dy = read(folder + "dy", {t, n}, type).detach();
  const auto recipe = torch_linear::recipe_named(argv[2], /*seed=*/3);
  const Tensor y = torch_linear::quantized_linear(x, w, b, recipe.at(/*step=*/7, /*layer=*/5));
  y.backward(dy);
  write(folder + "y", y), write(folder + "dx", x.grad()), write(folder + "dw", w.grad()),
      write(folder + "db", b.grad());
}
