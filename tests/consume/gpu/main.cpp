// ufp4 - a first program on a GPU. Without a GPU it prints a message and exits with status 0.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/gpu/buffer.hpp>  // parts of ufp4/cuda.hpp and ufp4/hip.hpp that compile fast
#include <ufp4/gpu/hadamard.hpp>

#include <cstdio>
#include <vector>

namespace gpu = ufp4::gpu;

int main() {
  const gpu::context ctx;
  gpu::device_facts device;
  if (gpu::facts(device) != gpu::success) {
    std::puts("no GPU: this program only had to compile and link");
    return 0;
  }
  const std::vector<float> ones(64, 1.0f);
  const gpu::buffer<float> x(std::span<const float>{ones}), y(64);
  if (!gpu::hadamard_forward(ctx, ufp4::matrix_view<const float>{x.data(), 2, 32},
                             ufp4::matrix_view<float>{y.data(), 2, 32}, ufp4::hadamard<16>{}))
    return 1;
  std::vector<float> back(64);
  y.download(back);
  return back[0] == 4.0f && back[1] == 0.0f ? 0 : 1;
}
