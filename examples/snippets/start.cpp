// ufp4 - the code of docs/start.md, compiled.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#undef NDEBUG
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

using namespace ufp4;

int main() {
  const std::size_t M = 64, N = 96, K = 1024;
  std::vector<float> xs(M * K), ws(N * K), ys(M * N), back(M * K);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  for (std::size_t i = 0; i < ws.size(); ++i)
    ws[i] = i % 97 == 0 ? 8.0f : static_cast<float>(i * 31 % 17) / 8.0f - 1.0f;

  // A matrix is a view of memory that you own: pointer, rows, columns.
  matrix_view<const float> x{xs.data(), M, K}, w{ws.data(), N, K};
  matrix_view<float> y{ys.data(), M, N};

  auto qx = quantize<nvfp4>(x);  // 4.5 bits an element, in blocks of 16 along the columns
  auto qw = quantize<nvfp4>(w);
  quantized_gemm(qx, qw, y);  // y = x * w^T, 64 x 96

  dequantize(qx, matrix_view<float>{back.data(), M, K});

  const double before = analysis::measure<e1m2_f32>(w).sqnr_db;                          // 17.28
  const double after = analysis::measure<e1m2_f32>(w, random_hadamard<16>{42}).sqnr_db;  // 23.39

  const random_hadamard<16> rht{42};
  auto tx = quantize<e1m2_f32>(x, rht, stochastic{.seed = 7});
  auto tw = quantize<e1m2_f32>(w, rht);
  quantized_gemm(tx, tw, y);

  std::string said;
  try {
    quantized_gemm(qx, tw, y);
  } catch (const std::invalid_argument& e) {
    said = e.what();
  }
  assert(said == "quantized_gemm: transform mismatch: A has none, B has hadamard<16>");
  assert(xs[1] == 352 && back[1] == 336 && std::abs(before - 17.28) < .005 && std::abs(after - 23.39) < .005);
  assert(qx.codes().size() == M * K / 2 && qx.scales().size() == M * K / 16);
}
