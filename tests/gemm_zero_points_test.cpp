// ufp4 - weights with zero points: elements, dequantize and quantized_gemm.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

constexpr std::size_t rows = 37, cols = 256, group = 128, tokens = 5;

struct weights {
  std::vector<std::uint8_t> codes, zeros;
  std::vector<float> scales;
  explicit weights(std::uint64_t seed) : codes(rows * cols), zeros(rows * cols / group), scales(rows * cols / group) {
    std::mt19937_64 gen(support::seed(seed));
    for (auto& c : codes) c = static_cast<std::uint8_t>(gen() & 15);
    for (auto& z : zeros) z = static_cast<std::uint8_t>(gen() & 15);
    for (auto& s : scales) s = std::ldexp(1.0f + static_cast<float>(gen() & 1023) / 1024, -7);  // exact in binary16
  }
  float at(std::size_t n, std::size_t k) const {
    const std::size_t g = n * (cols / group) + k / group;
    return scales[g] * static_cast<float>(codes[n * cols + k] - zeros[g]);
  }
  zero_point_matrix matrix() const { return {rows, cols, group, codes, scales, zeros}; }
};

}  // namespace

TEST_CASE("an element is scale * (code - zero point)", "[zero_points]") {
  INFO(support::seed_note());
  const weights w(1);
  const zero_point_matrix q = w.matrix();
  const matrix<float> all = dequantize(q);
  for (std::size_t n = 0; n < rows; ++n)
    for (std::size_t k = 0; k < cols; ++k) {
      REQUIRE(q(n, k) == w.at(n, k));
      REQUIRE(all(n, k) == w.at(n, k));
    }
}

TEST_CASE("the part of the zero points is rounded to binary64 before it is added to the signed part", "[zero_points]") {
  INFO(support::seed_note());
  weights w(6);
  w.zeros.assign(w.zeros.size(), 3);
  w.codes.assign(w.codes.size(), 3);  // every element is zero, so that a sum of the two parts is their rounding errors
  const zero_point_matrix q = w.matrix();
  std::mt19937_64 gen(support::seed(7));
  std::normal_distribution<float> normal;
  matrix<float> x(tokens, cols), c(tokens, rows), p(tokens, rows);
  for (std::size_t i = 0; i < tokens * cols; ++i) x.data()[i] = normal(gen);
  const float alpha = 0.1f;
  quantized_gemm(x, q, c, {.alpha = alpha});
  quantized_gemm(x, q.signed_part(), p, {.alpha = alpha});
  for (std::size_t i = 0; i < tokens; ++i)
    for (std::size_t n = 0; n < rows; ++n) {
      double part = 0;
      for (std::size_t g = 0; g < cols / group; ++g) {
        double sum = 0;
        for (std::size_t k = g * group; k < (g + 1) * group; ++k) sum += static_cast<double>(x(i, k));
        const float offset = w.scales[n * (cols / group) + g] * 5.0f;
        part += static_cast<double>(static_cast<float>(sum)) * static_cast<double>(offset);
      }
      const volatile double product = static_cast<double>(alpha) * part;
      REQUIRE(c(i, n) == static_cast<float>(static_cast<double>(p(i, n)) + product));
    }
}

TEST_CASE("quantized_gemm with zero points is within its bound of the exact product, on every instruction set",
          "[zero_points]") {
  INFO(support::seed_note());
  const weights w(2);
  const zero_point_matrix q = w.matrix();
  std::mt19937_64 gen(support::seed(3));
  matrix<float> x(tokens, cols), c0(tokens, rows);
  std::vector<float> bias(rows);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < tokens * cols; ++i) x.data()[i] = normal(gen);
  for (auto& b : bias) b = normal(gen);
  for (std::size_t i = 0; i < tokens * rows; ++i) c0.data()[i] = normal(gen);
  for (const cpu::isa isa : support::runnable_isas()) {
    CAPTURE(cpu::name(isa));
    matrix<float> c = c0;
    quantized_gemm(x, q, c, {.alpha = 0.5f, .beta = 2.0f, .bias = bias}, cpu::context{.isa = isa});
    for (std::size_t i = 0; i < tokens; ++i)
      for (std::size_t n = 0; n < rows; ++n) {
        double exact = 0, magnitude = 0;
        for (std::size_t k = 0; k < cols; ++k) {
          const double term = static_cast<double>(x(i, k)) * static_cast<double>(w.at(n, k));
          const double scale = static_cast<double>(w.scales[n * (cols / group) + k / group]);
          exact += term;
          magnitude += std::fabs(static_cast<double>(x(i, k))) * scale * 16;  // |code - 8| + |8 - zero point|
        }
        const double want = 0.5 * exact + static_cast<double>(bias[n]) + 2.0 * static_cast<double>(c0(i, n));
        const double bound =
            (static_cast<double>(cols) + 8) * 0x1p-24 *
            (0.5 * magnitude + std::fabs(static_cast<double>(bias[n])) + 2 * std::fabs(static_cast<double>(c0(i, n))));
        REQUIRE(std::fabs(static_cast<double>(c(i, n)) - want) <= bound);
      }
    matrix<float> again = c0;
    quantized_gemm(x, q, again, {.alpha = 0.5f, .beta = 2.0f, .bias = bias}, cpu::context{.threads = 3, .isa = isa});
    REQUIRE(std::memcmp(again.data(), c.data(), tokens * rows * sizeof(float)) == 0);
  }
}

TEST_CASE("codes, zero points, groups and sizes that do not fit are named", "[zero_points]") {
  weights w(4);
  const auto made = [&](std::size_t r, std::size_t k, std::size_t g) {
    return support::rejection([&] { zero_point_matrix(r, k, g, w.codes, w.scales, w.zeros); });
  };
  CHECK(made(rows, cols, 96) == "zero_point_matrix: group must be a power of two from 2 to 256, got 96");
  CHECK(made(rows, 200, 128) == "zero_point_matrix: cols must be a multiple of group 128, got 200");
  CHECK(made(rows + 1, cols, 128) == "zero_point_matrix: codes has 9472 entries, 9728 are needed");
  CHECK(made(rows, cols, 64) == "zero_point_matrix: scales has 74 entries, 148 are needed");
  w.codes[77] = 16;
  CHECK(made(rows, cols, 128) == "zero_point_matrix: codes must be below 16, got 16 at 77");
  w.codes[77] = 0;
  w.zeros[3] = 200;
  CHECK(made(rows, cols, 128) == "zero_point_matrix: zero_points must be below 16, got 200 at 3");
  matrix<float> x(2, 128), c(2, rows);
  CHECK(support::rejection([&] { quantized_gemm(x, weights(5).matrix(), c); }) ==
        "quantized_gemm: shape mismatch: A has 128 columns (K), B has 256");
}
