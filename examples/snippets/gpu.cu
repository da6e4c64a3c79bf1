// ufp4 - the program of docs/gpu.md.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cuda.hpp>

#include <cstdio>
#include <vector>
using namespace ufp4;

int main() {
  std::vector<float> xs(64 * 1024), ws(96 * 1024);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  for (std::size_t i = 0; i < ws.size(); ++i) ws[i] = static_cast<float>(i * 31 % 17) / 8.0f - 1.0f;
  cuda::buffer<float> x(std::span<const float>{xs}), w(std::span<const float>{ws}), y(64 * 96);
  cuda::buffer<std::byte> memory(1 << 20);
  const cuda::context ctx{nullptr, memory.span()};  // a stream, and memory that calls on it may use

  const matrix_view<const float> xv{x.data(), 64, 1024}, wv{w.data(), 96, 1024};
  const random_hadamard<16> rht{42};
  const cuda::quantized_matrix<nvfp4> qx(64, 1024, rht.spec()), qw(96, 1024, rht.spec());
  if (auto s = cuda::quantize<nvfp4>(ctx, xv, qx, rht, stochastic{.seed = 7}); !s)
    return std::puts(s.text().c_str()), 77;
  if (auto s = cuda::quantize<nvfp4>(ctx, wv, qw, rht); !s) return std::puts(s.text().c_str()), 1;
  const matrix_view<float> yv{y.data(), 64, 96};
  std::puts(cuda::explain(ctx, qx, qw, yv).text().c_str());
  if (auto s = cuda::quantized_gemm(ctx, qx, qw, yv); !s) return std::puts(s.text().c_str()), 1;
}
