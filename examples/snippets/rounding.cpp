// ufp4 - the code of docs/rounding.md, compiled.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#undef NDEBUG
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

using namespace ufp4;

/// Rounds away from zero in the upper quarter of a step only.
struct upper_quarter {
  constexpr bool round_up(const neighbours& n, float t, std::uint64_t) const {
    return t - n.lower > 0.75f * (n.upper - n.lower) || n.lower - t > 0.75f * (n.lower - n.upper);
  }
};
static_assert(rounding_policy<upper_quarter>);

int main() {
  const std::size_t rows = 48, cols = 256;
  std::vector<float> xs(rows * cols);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  matrix_view<const float> x{xs.data(), rows, cols};

  auto nearest = quantize<nvfp4>(x);  // nearest_even
  auto away = quantize<nvfp4>(x, nearest_away{});
  auto random = quantize<nvfp4>(x, stochastic{.seed = 7, .stream = 3}, scale_up{});

  auto corrected = quantize<e1m2_f32>(x, random_hadamard<16>{42}, eden{.seed = 7});
  auto mx = quantize<mxfp4>(x, random_hadamard<128>{42}, eden{.seed = 7, .stream = 1}, mse_search{});
  assert(corrected.transform().n == 16 && mx.transform().n == 128);

  auto quartet = quantize_ms_eden(x, random_hadamard<128>{42}, stochastic{.seed = 7});  // a quantized_matrix<nvfp4>
  assert(quartet.transform().n == 128);

  auto mine = quantize<e1m2_f32>(x, upper_quarter{});

  // Rows 24 .. 47 of x, quantized as a shard, use the random bits of these rows in the whole matrix.
  matrix_view<const float> lower = row_range(x, 24, 24);
  auto part = quantize<nvfp4>(lower, stochastic{.seed = 7}, amax(x),
                              shard{.first_row = 24, .first_col = 0, .total_cols = cols});
  auto whole = quantize<nvfp4>(x, stochastic{.seed = 7});
  assert(std::equal(part.codes().begin(), part.codes().end(), whole.codes().begin() + 24 * cols / 2));

  assert(!(nearest == random) && away.rows() == rows && mine.cols() == cols);
  static_assert(static_cast<float>(fp4<E2M1>{2.5f}) == 2.0f && static_cast<float>(fp4<E2M1>{3.5f}) == 4.0f);
}
