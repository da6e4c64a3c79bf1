// ufp4 - eden: unbiased in every format, and the same bits on every instruction set; the oracle has its bits.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/ufp4.hpp>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

using namespace ufp4;

namespace {

/// Means over batches, and their standard errors.
struct mean {
  double sum = 0, squares = 0, n = 0;
  void add(double x) { sum += x, squares += x * x, n += 1; }
  double value() const { return sum / n; }
  double error() const { return std::sqrt((squares - sum * sum / n) / (n - 1) / n); }
};

enum class kind { gaussian, outliers, student };

matrix<float> numbers(kind what, std::size_t rows, std::size_t cols, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  matrix<float> x(rows, cols);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      x(i, j) = normal(random);
      if (what == kind::outliers && j % 64 == 3) x(i, j) *= 20;
      if (what == kind::student) {  // 3 degrees of freedom
        const float a = normal(random), b = normal(random), c = normal(random);
        x(i, j) /= std::sqrt((a * a + b * b + c * c) / 3);
      }
    }
  return x;
}

double dot(const matrix<float>& a, const matrix<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.rows(); ++i)
    for (std::size_t j = 0; j < a.cols(); ++j) sum += static_cast<double>(a(i, j)) * static_cast<double>(b(i, j));
  return sum;
}
template <class T>
matrix<float> transformed(const matrix<float>& x, const T& t) {
  matrix<float> y(x.rows(), x.cols());
  hadamard_forward(x, y, t);
  return y;
}

/// Over 40 batches of 2^18 numbers: the gain of eden and that of products of operands with a correlation of 1/2.
template <class Format, int n>
void check_unbiased(const std::string& name, kind what) {
  std::mt19937_64 random{support::seed(static_cast<std::uint64_t>(n))};
  mean gain, product;
  for (std::uint64_t batch = 0; batch < 40; ++batch) {
    const matrix<float> x = numbers(what, 64, 4096, random);
    matrix<float> y = numbers(what, 64, 4096, random);
    for (std::size_t i = 0; i < 64; ++i)
      for (std::size_t j = 0; j < 4096; ++j) y(i, j) = 0.5f * x(i, j) + 0.8660254f * y(i, j);
    const random_hadamard<n> signs{batch};
    const matrix<float> qx = dequantize<float>(quantize<Format>(x, signs, eden{.seed = batch, .stream = 1}));
    const matrix<float> qy = dequantize<float>(quantize<Format>(y, signs, eden{.seed = batch, .stream = 2}));
    const matrix<float> hx = transformed(x, signs), hy = transformed(y, signs);
    gain.add(dot(hx, qx) / dot(hx, hx) - 1);
    product.add(dot(qx, qy) / dot(hx, hy) - 1);
  }
  INFO(name << ": gain - 1 is " << gain.value() << " +- " << gain.error() << ", of products " << product.value()
            << " +- " << product.error());
  CHECK(std::abs(gain.value()) < 5 * gain.error() + 1e-6);
  CHECK(std::abs(product.value()) < 5 * product.error() + 1e-6);
  CHECK(gain.error() < 0.001);
}

}  // namespace

TEST_CASE("the gain of eden, and that of products, is 1 within 5 standard errors over 10^7 numbers", "[quantize]") {
  INFO(support::seed_note());
  check_unbiased<nvfp4, 128>("nvfp4", kind::gaussian);
  check_unbiased<nvfp4, 64>("nvfp4, outliers", kind::outliers);
  check_unbiased<e1m2_f32, 16>("e1m2_f32, t(3)", kind::student);
  check_unbiased<mxfp4, 128>("mxfp4", kind::gaussian);
  check_unbiased<hif4, 64>("hif4", kind::gaussian);
  check_unbiased<if4, 32>("if4, t(3)", kind::student);
  check_unbiased<block_format<nf4, bf16, 32>, 64>("nf4 under bf16", kind::gaussian);
}

TEST_CASE("under float scales eden restores the squares of every run to 2^-20", "[quantize]") {
  std::mt19937_64 random{support::seed(3)};
  const matrix<float> x = numbers(kind::outliers, 8, 512, random);
  const random_hadamard<128> t{5};
  const matrix<float> q = dequantize<float>(quantize<e1m2_f32>(x, t, eden{.seed = 1})), h = transformed(x, t);
  for (std::size_t i = 0; i < 8; ++i)
    for (std::size_t k = 0; k < 512; k += 128) {
      double squares = 0, products = 0;
      for (std::size_t j = k; j < k + 128; ++j) {
        squares += static_cast<double>(h(i, j)) * static_cast<double>(h(i, j));
        products += static_cast<double>(h(i, j)) * static_cast<double>(q(i, j));
      }
      REQUIRE(std::abs(products / squares - 1) < 0x1p-20);
    }
}

TEST_CASE(
    "eden has the codes of nearest_even, less than half the squared error of stochastic rounding, and draws scales",
    "[quantize]") {
  std::mt19937_64 random{support::seed(4)};
  const matrix<float> x = numbers(kind::gaussian, 64, 512, random);
  const random_hadamard<128> t{5};
  const matrix<float> h = transformed(x, t);
  const auto error = [&](const auto& q) {
    const matrix<float> y = dequantize<float>(q);
    double sum = 0;
    for (std::size_t i = 0; i < 64; ++i)
      for (std::size_t j = 0; j < 512; ++j) sum += std::pow(static_cast<double>(h(i, j) - y(i, j)), 2);
    return sum / dot(h, h);
  };
  const auto q = quantize<e1m2_f32>(x, t, eden{.seed = 1}), other = quantize<e1m2_f32>(x, t, eden{.seed = 2});
  const auto nearest = quantize<e1m2_f32>(x, t);
  CHECK(std::vector(q.codes().begin(), q.codes().end()) == std::vector(nearest.codes().begin(), nearest.codes().end()));
  CHECK_FALSE(other == q);
  CHECK(error(q) < 1.05 * error(nearest));
  CHECK(error(q) < 0.5 * error(quantize<e1m2_f32>(x, t, stochastic{.seed = 1})));
  CHECK(error(quantize<nvfp4>(x, t, eden{.seed = 1})) <
        0.6 * error(quantize<nvfp4>(x, t, stochastic{.seed = 1}, scale_up{})));
}

TEMPLATE_TEST_CASE("eden has the same bits on every instruction set, by threads, in parts, in one pass and as data",
                   "[quantize]", nvfp4, mxfp4, e1m2_f32, hif4, if4, tetrajet2, mxint8) {
  std::mt19937_64 random{support::seed(5)};
  const matrix<float> x = numbers(kind::student, 37, 300, random);
  const random_hadamard<64> t{5};
  const eden bits{.seed = 9, .stream = 3};
  const auto want = quantize<TestType>(x, t, bits, cpu::context{.threads = 1, .isa = cpu::isa::scalar});
  for (const cpu::isa tier : cpu::all_isas)
    if (cpu::available().has(tier)) {
      CAPTURE(cpu::name(tier));
      CHECK(quantize<TestType>(x, t, bits, cpu::context{.threads = 2, .isa = tier}) == want);
    }
  CHECK(quantized_matrix<TestType>(quantize(spec_of<TestType>, x, t, rounding_spec(bits))) == want);
  matrix<float> faked(37, 300);
  fake_quantize<TestType>(x, faked, t, bits);
  const matrix<float> plain = dequantize<float>(want);
  for (std::size_t i = 0; i < 37; ++i)
    for (std::size_t j = 0; j < 300; ++j) REQUIRE(faked(i, j) == plain(i, j));
  if constexpr (!TestType::has_outer_array) {  // a part of the rows
    const shard place{.first_row = 16, .first_col = 0, .total_cols = 300};
    const auto part = [&] {
      if constexpr (TestType::has_tensor_scale)
        return quantize<TestType>(row_range(x, 16, 8), t, bits, place, amax(x, t));
      else
        return quantize<TestType>(row_range(x, 16, 8), t, bits, place);
    }();
    const matrix<float> decoded = dequantize<float>(part);
    for (std::size_t i = 0; i < 8; ++i)
      for (std::size_t j = 0; j < 300; ++j) REQUIRE(decoded(i, j) == plain(16 + i, j));
  }
}

TEST_CASE("a NaN block stays NaN under eden and changes no other block, and zeros stay zeros", "[quantize]") {
  matrix<float> x(1, 256);
  for (std::size_t j = 0; j < 64; ++j) x(0, j) = static_cast<float>(j) - 20.0f;
  x(0, 70) = std::nanf("");
  const auto q = quantize<mxfp4>(x, hadamard<64>{}, eden{.seed = 1});
  const matrix<float> y = dequantize<float>(q);
  matrix<float> clean = x;
  clean(0, 70) = 0;
  const matrix<float> z = dequantize<float>(quantize<mxfp4>(clean, hadamard<64>{}, eden{.seed = 1}));
  for (std::size_t j = 0; j < 64; ++j) CHECK(y(0, j) == z(0, j));
  for (std::size_t j = 64; j < 128; ++j) CHECK(std::isnan(y(0, j)));
  for (std::size_t j = 128; j < 256; ++j) CHECK(y(0, j) == 0.0f);
}

TEST_CASE("eden needs a transform of the block's length and blocks of one row", "[quantize]") {
  const matrix<float> x(16, 64);
  CHECK(support::rejection([&] { (void)quantize<nvfp4>(x, eden{}); }) ==
        "quantize: eden needs a transform of at least the block's length, got a block of 1 x 16 and a transform of 1");
  CHECK(support::rejection([&] { (void)quantize<mxfp4>(x, hadamard<16>{}, eden{}); }) ==
        "quantize: eden needs a transform of at least the block's length, got a block of 1 x 32 and a transform of 16");
  CHECK(support::rejection([&] {
          (void)quantize<block_format<fp4<E2M1>, e4m3, square(16), float>>(x, hadamard<16>{}, eden{});
        }) == "quantize: eden is for blocks of one row, got a block of 16 x 16 and a transform of 16");
}

TEST_CASE("a recipe takes eden as the rounding of an operand, with the bits of quantize", "[quantize]") {
  std::mt19937_64 random{support::seed(6)};
  const matrix<float> x = numbers(kind::gaussian, 32, 64, random), w = numbers(kind::gaussian, 48, 64, random);
  recipe::training_recipe r = recipe::ufp4_recipe(7);
  r.fprop.left.rounding = eden{};
  r.accumulate = accumulate::exact_blocks;
  const auto now = r.at(3, 2);
  matrix<float> y(32, 48), want(32, 48);
  linear_forward(now, x, w, y);
  const auto left = now.operand(0), right = now.operand(1);
  quantized_gemm(quantize(left.policy.format, x, left.transform, left.rounding),
                 quantize(right.policy.format, w, right.transform), want, {.accumulate = accumulate::exact_blocks});
  for (std::size_t i = 0; i < 32; ++i)
    for (std::size_t j = 0; j < 48; ++j) REQUIRE(y(i, j) == want(i, j));
  CHECK(left.rounding.what == rounding_spec::kind::eden);
}
