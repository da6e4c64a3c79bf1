// ufp4 - the code of docs/cpu.md, compiled.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include <cstdio>
#include <vector>

using namespace ufp4;

int main() {
  std::vector<float> xs(512 * 1024, 1.0f), ys(512 * 512);
  matrix_view<const float> x{xs.data(), 512, 1024};
  matrix_view<float> y{ys.data(), 512, 512};
  auto qx = quantize<nvfp4>(x);

  cpu::context ctx{.threads = 2, .isa = cpu::isa::scalar};
  quantized_gemm(ctx, qx, qx, y);

  std::puts(cpu::explain(qx, qx, y).text().c_str());
  std::puts(cpu::explain<nvfp4>(x, random_hadamard<16>{1}, stochastic{2}).text().c_str());
  std::puts(cpu::explain(qx, y).text().c_str());

  if (cpu::available().has(cpu::isa::avx512)) std::puts("AVX-512 with VNNI");
}
