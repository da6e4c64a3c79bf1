// ufp4 - the program of docs/gpu.md, for either vendor: gpu:: is cuda:: and hip::.
// SPDX-License-Identifier: Apache-2.0
#if defined(__HIPCC__)
#include <ufp4/hip.hpp>
#else
#include <ufp4/cuda.hpp>
#endif

#include <cstdio>
#include <vector>
using namespace ufp4;

int main() {
  std::vector<float> xs(64 * 1024), ws(96 * 1024);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  for (std::size_t i = 0; i < ws.size(); ++i) ws[i] = static_cast<float>(i * 31 % 17) / 8.0f - 1.0f;
  gpu::buffer<float> x(std::span<const float>{xs}), w(std::span<const float>{ws}), y(64 * 96);
  gpu::buffer<std::byte> memory(1 << 20);
  const gpu::context ctx{nullptr, memory.span()};  // a stream, and memory that calls on it may use

  const matrix_view<const float> xv{x.data(), 64, 1024}, wv{w.data(), 96, 1024};
  const random_hadamard<16> rht{42};
  const gpu::quantized_matrix<nvfp4> qx(64, 1024, rht.spec()), qw(96, 1024, rht.spec());
  if (auto s = gpu::quantize<nvfp4>(ctx, xv, qx, rht, stochastic{.seed = 7}); !s)
    return std::puts(s.text().c_str()), 77;
  if (auto s = gpu::quantize<nvfp4>(ctx, wv, qw, rht); !s) return std::puts(s.text().c_str()), 1;
  const matrix_view<float> yv{y.data(), 64, 96};
  std::puts(gpu::explain(ctx, qx, qw, yv).text().c_str());
  if (auto s = gpu::quantized_gemm(ctx, qx, qw, yv); !s) return std::puts(s.text().c_str()), 1;
}
