#include <ufp4/ufp4.hpp>

#include <cstdio>
#include <vector>
using namespace ufp4;

int main() {
  std::vector<float> xs(64 * 1024), ws(96 * 1024), ys(64 * 96);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  for (std::size_t i = 0; i < ws.size(); ++i)
    ws[i] = i % 97 == 0 ? 8.0f : static_cast<float>(i * 31 % 17) / 8.0f - 1.0f;
  matrix_view<const float> x{xs.data(), 64, 1024}, w{ws.data(), 96, 1024};

  const random_hadamard<16> rht{42};                            // the same transform on both sides cancels
  auto qx = quantize<e1m2_f32>(x, rht, stochastic{.seed = 7});  // 1x16 blocks along the columns
  auto qw = quantize<e1m2_f32>(w, rht);
  quantized_gemm(qx, qw, matrix_view<float>{ys.data(), 64, 96});  // y = x * w^T

  std::printf("SQNR of w: E2M1 %.2f dB, uniform %.2f dB, uniform after RHT %.2f dB\n",
              analysis::measure<e2m1_f32>(w).sqnr_db, analysis::measure<e1m2_f32>(w).sqnr_db,
              analysis::measure<e1m2_f32>(w, rht).sqnr_db);
}
