// ufp4 - the code of docs/hadamard.md, compiled.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#undef NDEBUG
#include <array>
#include <cassert>
#include <cmath>
#include <vector>

using namespace ufp4;

int main() {
  const std::size_t M = 32, N = 48, K = 160;
  std::vector<float> xs(M * K), ws(N * K), ys(M * N);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = i % 97 == 0 ? 64.0f : static_cast<float>(i * 31 % 17) - 8.0f;
  for (std::size_t i = 0; i < ws.size(); ++i) ws[i] = static_cast<float>(i * 7 % 23) - 11.0f;
  matrix_view<const float> x{xs.data(), M, K}, w{ws.data(), N, K};
  matrix_view<float> y{ys.data(), M, N};

  const random_hadamard<16> rht{42};
  auto qx = quantize<e1m2_f32>(x, rht);
  auto qw = quantize<e1m2_f32>(w, rht);
  quantized_gemm(qx, qw, y);  // (x R)(w R)^T = x w^T

  // Transformer Engine's transform: its sixteen signs, the result rounded to bf16.
  auto te = quantize<nvfp4>(x, signed_hadamard<16>{compat::transformer_engine_signs}.to_bf16());

  std::vector<float> transformed(M * 192), back(M * K);
  const matrix_view<float> t{transformed.data(), M, 192};  // 160 columns, padded to a multiple of 64
  hadamard_forward(x, t, hadamard<64>{});
  hadamard_inverse(t, matrix_view<float>{back.data(), M, K}, hadamard<64>{});

  // dequantize gives transformed values; fake_quantize applies the inverse transform on request.
  std::vector<float> near(M * K);
  fake_quantize<e1m2_f32>(x, matrix_view<float>{near.data(), M, K}, rht, undo_transform{});

  for (std::size_t i = 0; i < xs.size(); ++i)
    assert(std::abs(back[i] - xs[i]) < 1e-3f && std::abs(near[i] - xs[i]) < 16);
  assert(te.padded_cols() == K && qx.transform().n == 16);
}
