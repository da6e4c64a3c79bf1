// ufp4 - the code of docs/extending.md, compiled.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#undef NDEBUG
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace ufp4;

/// Powers of the square root of 1/2, and their negatives: codes 0 to 6 are negative, 7 is zero, 8 to 15 positive.
struct half_powers {
  static constexpr float values[16] = {-1.0f,  -0.707f, -0.5f,  -0.354f, -0.25f, -0.177f, -0.125f, 0.0f,
                                       0.088f, 0.125f,  0.177f, 0.25f,   0.354f, 0.5f,    0.707f,  1.0f};
};
using half_power = table_element<half_powers>;
using half_power_16 = block_format<half_power, e4m3, 16, float>;
static_assert(element_format<half_power> && half_power{0.3f}.bits() == 11);

/// E2M1 as hardware numbers it: bit 3 is the sign, and code 8 is -0.
struct sign_and_magnitude {
  static constexpr float values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                       -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
};
static_assert(grid_of<table_element<sign_and_magnitude>>() == grid_of<fp4<E2M1>>());

/// Makes a 16-bit type of your own an element type of matrices.
struct my_bf16 {
  std::uint16_t bits;
};
template <>
struct ufp4::matrix_element<my_bf16> {
  static constexpr ufp4::dtype kind = ufp4::dtype::bf16;
};

/// Ignores outliers: the scale is that of four times the mean magnitude, if that is below the amax.
struct clip_outliers {
  float operator()(const block_values& v, float amax) const {
    float sum = 0;
    for (int k = 0; k < v.cols; ++k) sum += v.x[k] < 0 ? -v.x[k] : v.x[k];
    const float limit = 4 * sum / static_cast<float>(v.cols);
    return (limit < amax ? limit : amax) / fp4<E2M1>::max();
  }
};
static_assert(scale_rule<clip_outliers>);

int main() {
  std::vector<float> xs(16 * 64);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 31 % 17) - 8.0f;
  matrix_view<const float> x{xs.data(), 16, 64};
  std::vector<float> ys(16 * 16);

  auto q = quantize<half_power_16>(x, random_hadamard<16>{42}, stochastic{.seed = 7});
  quantized_gemm(q, q, matrix_view<float>{ys.data(), 16, 16});

  auto clipped = quantize<nvfp4>(x, clip_outliers{});
  assert(clipped.rows() == 16);

  // An executor: any callable that runs task(i) once for every i < n, in any order, on any threads.
  auto sequential = [](std::size_t n, cpu::task_ref task) {
    for (std::size_t i = 0; i < n; ++i) task(i);
  };
  cpu::context ctx{.executor = sequential};
  auto same = quantize<half_power_16>(x, random_hadamard<16>{42}, stochastic{.seed = 7}, ctx);
  assert(same == q);

  std::vector<my_bf16> hs(16 * 64, my_bf16{0x3F80});
  assert(amax(matrix_view<const my_bf16>{hs.data(), 16, 64}).value == 1.0f);
}
