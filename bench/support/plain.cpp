// ufp4 - benches: the plain loops of plain.hpp, and Eigen's products.
// SPDX-License-Identifier: Apache-2.0
#include "plain.hpp"

#include <cmath>
#include <cstring>

#if defined(UFP4_BENCH_EIGEN)
#include <Eigen/Core>
#endif

namespace plain {

void to_bf16(const float* x, std::size_t n, std::uint16_t* out) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, x + i, 4);
    out[i] = static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
  }
}

void quantize(const float* x, std::size_t n, std::uint8_t* codes, float* scales) {
  constexpr std::size_t block = 16;
  for (std::size_t b = 0; b < n / block; ++b, x += block, codes += block / 2) {
    float largest = 0;
    for (std::size_t i = 0; i < block; ++i) largest = std::fmax(largest, std::fabs(x[i]));
    scales[b] = largest / 7.0f;
    const float inverse = largest == 0 ? 0 : 7.0f / largest;
    for (std::size_t i = 0; i < block; i += 2) {
      const auto low = static_cast<unsigned>(std::lrintf(x[i] * inverse)) & 15u;
      const auto high = static_cast<unsigned>(std::lrintf(x[i + 1] * inverse)) & 15u;
      codes[i / 2] = static_cast<std::uint8_t>(low | high << 4);
    }
  }
}

void dequantize(const std::uint8_t* codes, const float* scales, std::size_t n, float* out) {
  static constexpr float values[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
  for (std::size_t i = 0; i < n; i += 2) {
    const float scale = scales[i / 16];
    out[i] = values[codes[i / 2] & 15] * scale;
    out[i + 1] = values[codes[i / 2] >> 4] * scale;
  }
}

void hadamard(float* x, std::size_t n, std::size_t length) {
  const float factor = 1 / std::sqrt(static_cast<float>(length));
  for (float* run = x; run != x + n; run += length) {
    for (std::size_t half = 1; half < length; half *= 2)
      for (std::size_t i = 0; i < length; i += 2 * half)
        for (std::size_t j = i; j < i + half; ++j) {
          const float a = run[j], b = run[j + half];
          run[j] = a + b;
          run[j + half] = a - b;
        }
    for (std::size_t i = 0; i < length; ++i) run[i] *= factor;
  }
}

#if defined(UFP4_BENCH_EIGEN)
namespace {
template <class T>
void multiply(const T* a, const T* b, T* c, std::size_t m, std::size_t n, std::size_t k) {
  using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto rows = static_cast<Eigen::Index>(m), cols = static_cast<Eigen::Index>(n),
             depth = static_cast<Eigen::Index>(k);
  const Eigen::Map<const matrix> left(a, rows, depth), right(b, cols, depth);
  Eigen::Map<matrix>(c, rows, cols).noalias() = left * right.transpose();
}
}  // namespace

bool has_eigen() { return true; }
void eigen_float(const float* a, const float* b, float* c, std::size_t m, std::size_t n, std::size_t k) {
  multiply(a, b, c, m, n, k);
}
void eigen_bf16(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* c, std::size_t m, std::size_t n,
                std::size_t k) {
  using bf16 = Eigen::bfloat16;  // two bytes of the same bits
  multiply(reinterpret_cast<const bf16*>(a), reinterpret_cast<const bf16*>(b), reinterpret_cast<bf16*>(c), m, n, k);
}
#else
bool has_eigen() { return false; }
void eigen_float(const float*, const float*, float*, std::size_t, std::size_t, std::size_t) {}
void eigen_bf16(const std::uint16_t*, const std::uint16_t*, std::uint16_t*, std::size_t, std::size_t, std::size_t) {}
#endif

}  // namespace plain
