// ufp4 - the code of docs/gemm.md, compiled.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#undef NDEBUG
#include <cassert>
#include <cstring>
#include <vector>

using namespace ufp4;

int main() {
  const std::size_t M = 48, N = 80, K = 256;
  std::vector<float> xs(M * K);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  const matrix_view<const float> x{xs.data(), M, K};
  matrix<float> w(N, K), y(M, N), z(M, N);
  for (std::size_t i = 0; i < N * K; ++i) w.data()[i] = static_cast<float>(i * 31 % 17) - 8.0f;
  const auto equal = [&] { return std::memcmp(y.data(), z.data(), M * N * sizeof(float)) == 0; };

  auto qx = quantize<nvfp4>(x);
  auto qw = quantize<e1m2_f32>(w);  // formats may differ; block lengths may not
  quantized_gemm(qx, qw, y);        // y = x * w^T

  quantized_gemm(qx, qw, y, {.alpha = 0.5f, .beta = 1.0f, .accumulate = accumulate::exact_blocks});

  const random_hadamard<16> rht{42};
  auto weights = quantize<e1m2_f32>(w, rht);
  quantized_gemm(operand<e1m2_f32>(x, rht, stochastic{.seed = 7}), weights, y);  // x is quantized in the call
  quantized_gemm(unquantized(x, rht), weights, y);                               // or not quantized

  cpu::context one_core{.threads = 1, .isa = cpu::isa::scalar};
  quantized_gemm(qx, qw, y, {.accumulate = accumulate::exact_blocks}, one_core);
  quantized_gemm(qx, qw, z, {.accumulate = accumulate::exact_blocks});  // all cores, the best kernel: the same bits
  assert(equal());

  std::vector<float> by_columns(M * N);
  quantized_gemm(qx, qw, transpose(matrix_view<float>{by_columns.data(), N, M}));
  quantized_gemm(qx, qw, y);
  assert(by_columns[3 * M + 2] == y(2, 3));

  std::vector<float> bias(N, 1.0f);
  quantized_gemm(qx, qw, y, {.bias = bias});  // one number for each column of C

  auto activations = quantize<int8_f32>(x);  // 8-bit integers in blocks of 16, float scales
  auto weights4 = quantize<nvfp4>(w);
  quantized_gemm(activations, weights4, y);  // the kernel of 4-bit activations: integer products, exact in each block

  auto packed = prepack(qw);      // once
  quantized_gemm(qx, packed, y);  // the same bits
  quantized_gemm(qx, qw, z);
  assert(equal());

  // Four experts with 8, 0, 30 and 10 tokens, each with its own weights.
  std::vector<quantized_view<nvfp4>> tokens;
  std::vector<prepacked_matrix<e1m2_f32>> experts(4, packed);
  std::vector<matrix_view<float>> out;
  for (std::size_t first = 0; const std::size_t count : {8u, 0u, 30u, 10u}) {
    tokens.push_back(row_range(qx, first, count));
    out.push_back(row_range(y, first, count));
    first += count;
  }
  quantized_gemm_grouped(tokens, experts, out);
  assert(equal());

  // Six heads of 8 x 64, one after another in memory; one tensor amax for all of them.
  std::vector<float> qs(6 * 8 * 64, 0.5f), ks(6 * 8 * 64, 0.25f), scores(6 * 8 * 8);
  auto queries = quantize<nvfp4>(matrix_batch<const float>{qs.data(), 6, 8, 64}, batch_amax::shared);
  auto keys = quantize<nvfp4>(matrix_batch<const float>{ks.data(), 6, 8, 64}, batch_amax::shared);
  quantized_gemm(queries, keys, matrix_batch<float>{scores.data(), 6, 8, 8});
  assert(scores[0] == 8.0f);

  // 16 x 128 weights in unsigned 4-bit integers, with a scale and a zero point for every 64 columns.
  std::vector<std::uint8_t> integers(16 * 128, 9), zeros(16 * 2, 8);
  std::vector<float> steps(16 * 2, 0.5f), out16(M * 16);
  const zero_point_matrix w16(16, 128, 64, integers, steps, zeros);
  quantized_gemm(matrix_view<const float>{xs.data(), M, 128}, w16, matrix_view<float>{out16.data(), M, 16});
  assert(w16(0, 0) == 0.5f);
}
