// ufp4 - the code of docs/scaling.md, compiled. Prints the table of bytes of that page.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#undef NDEBUG
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <vector>

using namespace ufp4;

namespace {

/// Rows first .. first + count - 1 of a quantized matrix with 1x16 blocks, as bytes of codes.
template <class Q>
bool same_rows(const Q& part, const Q& whole, std::size_t first) {
  const std::size_t row = whole.padded_cols() / 2;
  return part.tensor_scale() == whole.tensor_scale() &&
         std::equal(part.codes().begin(), part.codes().end(),
                    whole.codes().begin() + static_cast<std::ptrdiff_t>(first * row));
}

/// A mixture of experts of 124 billion parameters. A node holds the model once, with experts and attention heads split
/// over its GPUs; the nodes share the batch.
struct run {
  double layers = 50, width = 4096, ffn = 2048, experts = 96, top_k = 8, vocabulary = 65536;
  double gpus = 1000, node = 8, tokens = 4096.0 * 4096;

  double expert_parameters() const { return layers * experts * 3 * width * ffn; }
  double dense_parameters() const { return layers * 4 * width * width + 2 * vocabulary * width; }
  double parameters() const { return expert_parameters() + dense_parameters(); }
  double active_parameters() const { return expert_parameters() * top_k / experts + dense_parameters(); }
  double tokens_here() const { return tokens / gpus; }
  /// Elements that a GPU sends in a step.
  double routed() const { return layers * tokens_here() * top_k * width * (node - 1) / node; }
  double gathered() const { return layers * tokens_here() * width * (node - 1); }
  double reduced() const { return parameters() / node * (gpus / node - 1) / (gpus / node); }
};

/// Gigabytes that a GPU sends in a step.
void print_bytes(const run& r) {
  std::printf("%.1f billion parameters, %.1f active; %.0f tokens per GPU, %.0f per expert\n", r.parameters() / 1e9,
              r.active_parameters() / 1e9, r.tokens_here(), r.tokens_here() * r.top_k / r.experts);
  double total[4] = {};
  const auto row = [&](const char* what, double elements, std::initializer_list<double> bytes) {
    std::printf("%-48s", what);
    double* sum = total;
    for (const double b : bytes) std::printf(" %9.1f", elements * b / 1e9), *sum++ += elements * b / 1e9;
    std::printf("\n");
  };
  const double f32 = 0.5 + 4.0 / 16, e4m3 = 0.5 + 1.0 / 16,
               square = 0.5 + 1.0 / 256;  // a code and its share of a scale
  std::printf("%-48s %9s %9s %9s %9s\n", "GB per GPU and step", "bf16", "e1m2_f32", "nv_e1m2", "nvfp4");
  row("experts: X to them (fprop), X^T (wgrad)", r.routed(), {2, 2 * f32, 2 * e4m3, 2 * e4m3});
  row("experts: dY to them (dgrad), dY^T (wgrad)", r.routed(), {2, 2 * f32, 2 * e4m3, 2 * e4m3});
  row("experts: Y and dX back, bf16", r.routed(), {4, 4, 4, 4});
  row("attention: X gathered (fprop), X^T (wgrad)", r.gathered(), {2, 2 * f32, 2 * e4m3, 2 * e4m3});
  row("attention: dY gathered (dgrad), dY^T (wgrad)", r.gathered(), {2, 2 * f32, 2 * e4m3, 2 * e4m3});
  row("attention: partial Y and dX reduced, bf16", r.gathered(), {4, 4, 4, 4});
  row("nodes: gradients, float, summed by microbatch", r.reduced(), {4, 4, 4, 4});
  row("nodes: W (fprop), W^T (dgrad) after the update", r.reduced(), {2, 2 * f32, 2 * e4m3, square});
  row("total", 1e9, {total[0], total[1], total[2], total[3]});
  std::printf("tensor scales: %.0f reductions of 4 bytes per microbatch\n", r.layers * 4 * 4);
}

template <class T>
bool same(const std::vector<T>& part, const std::vector<T>& whole, std::size_t at) {
  return std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

int main() {
  const std::size_t T = 128, K = 96, N = 64, ranks = 2, rank = 1, tokens_here = T / ranks, before = rank * tokens_here;
  std::vector<float> xs(T * K), ws(N * K), dys(T * N);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  for (std::size_t i = 0; i < ws.size(); ++i) ws[i] = static_cast<float>(i * 31 % 17) - 8.0f;
  for (std::size_t i = 0; i < dys.size(); ++i) dys[i] = static_cast<float>(i * 101 % 211) - 105.0f;
  const matrix_view<const float> all_x{xs.data(), T, K}, w{ws.data(), N, K}, all_dy{dys.data(), T, N};
  const auto x = row_range(all_x, before, tokens_here), dy = row_range(all_dy, before, tokens_here);

  // What one rank would compute.
  std::vector<float> all_ys(T * N), all_dxs(T * K), all_dws(4 * N * K);
  const auto whole = recipe::ufp4_recipe(/*seed=*/1).at(/*step=*/100, /*layer=*/3);
  const std::size_t all_offsets[] = {0, 32, 64, 96, 128};
  linear_forward(whole, all_x, w, matrix_view<float>{all_ys.data(), T, N});
  linear_backward_input(whole, all_dy, w, matrix_view<float>{all_dxs.data(), T, K});
  linear_backward_weight_grouped(whole, all_dy, all_x, all_offsets, matrix_view<float>{all_dws.data(), 4 * N, K});

  std::vector<float> ys(tokens_here * N), dxs(tokens_here * K), dws(2 * N * K);
  const matrix_view<float> y{ys.data(), tokens_here, N}, dx{dxs.data(), tokens_here, K}, dw{dws.data(), 2 * N, K};

  const auto now = recipe::ufp4_recipe(/*seed=*/1).at(/*step=*/100, /*layer=*/3);  // on every rank the same
  const std::size_t first[] = {before};                                            // tokens of the lower ranks
  linear_forward(now.shard({.first = first}), x, w, y);
  linear_backward_input(now.shard({.first = first}), dy, w, dx);

  const std::size_t offsets[] = {0, 32, 64};  // this rank's two microbatches,
  const std::uint32_t part[] = {2, 3};        // which are the batch's third and fourth
  linear_backward_weight_grouped(now.shard({.part = part}), dy, x, offsets, dw);
  assert(same(ys, all_ys, before * N) && same(dxs, all_dxs, before * K) && same(dws, all_dws, 2 * N * K));

  // A format with a tensor scale. other_amax stands for the amax of the other ranks.
  const auto two_level = recipe::nvfp4_recipe(/*seed=*/1).at(100, 3);
  linear_backward_input(two_level, all_dy, w, matrix_view<float>{all_dxs.data(), T, K});
  const float other_amax = amax(row_range(all_dy, 0, before)).value;
  const auto all_reduce_max = [&](float local) { return std::max(local, other_amax); };
  const auto agree = recipe::amax_agreement::of(all_reduce_max);  // MPI_Allreduce(..., MPI_MAX, ...) in a real program
  linear_backward_input(two_level.shard({.first = first, .tokens = agree}), dy, w, dx);
  assert(same(dxs, all_dxs, before * K));

  // Sequence parallel: each rank quantizes its tokens, and codes and scales are gathered instead of bf16.
  const auto all_codes = quantize<nvfp4>(all_dy, two_level.operand(2).rounding.random_bits);
  const tensor_amax global_amax{all_reduce_max(amax(dy).value)};
  const stochastic random_bits = two_level.operand(2).rounding.random_bits;  // operand 2: dY in dgrad
  const auto codes = quantize<nvfp4>(dy, random_bits, global_amax, shard{.first_row = before, .total_cols = N});
  assert(same_rows(codes, all_codes, before));

  // Row parallel: a rank holds columns of X; K splits where blocks and transform runs do.
  const transform_spec signs = now.operand(0).transform;
  const std::size_t half = K / 2;
  const matrix_view<const float> columns{xs.data() + half, T, half, static_cast<std::ptrdiff_t>(K), 1};
  const auto x_part = quantize<e1m2_f32>(columns, signs, shard{.first_col = half, .total_cols = K});
  const auto x_whole = quantize<e1m2_f32>(all_x, signs);
  for (std::size_t t = 0; t < T; ++t)  // a row's blocks from half / 16 on
    for (std::size_t b = 0; b < half / 16; ++b)
      assert(x_part.scales()[t * half / 16 + b] == x_whole.scales()[(t * K + half) / 16 + b]);

  // Expert parallel: this rank holds the second of two experts, all of its tokens.
  std::vector<float> stacked(2 * N * K);
  for (std::size_t i = 0; i < stacked.size(); ++i) stacked[i] = static_cast<float>(i * 37 % 23) - 11.0f;
  const matrix_view<const float> both_experts{stacked.data(), 2 * N, K};
  const auto w_here = row_range(both_experts, N, N);
  const std::size_t by_expert[] = {0, before, T};
  linear_backward_input_grouped(two_level, all_dy, by_expert, both_experts, matrix_view<float>{all_dxs.data(), T, K});
  const float other_weight_amax = amax(row_range(both_experts, 0, N)).value;
  const auto weights_max = [&](float local) { return std::max(local, other_weight_amax); };
  const auto agree_on_weights = recipe::amax_agreement::of(weights_max);

  const std::uint32_t expert[] = {1};
  const recipe::token_shard place{.part = expert, .tokens = agree, .weights = agree_on_weights};
  linear_backward_input(two_level.shard(place), dy, w_here, dx);
  assert(same(dxs, all_dxs, before * K));

  print_bytes({});
}
