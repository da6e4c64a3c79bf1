// ufp4 - MS-EDEN: nearest codes under corrected scales, on every instruction set; the oracle has its bits.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/ufp4.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

using namespace ufp4;

namespace {

struct numbers {
  std::size_t rows, cols;
  std::vector<float> data;

  numbers(std::uint64_t seed, std::size_t r, std::size_t c) : rows(r), cols(c) {
    std::mt19937_64 gen{support::seed(seed)};
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < r * c; ++i) data.push_back(normal(gen));
  }
  matrix_view<const float> view() const { return {data.data(), rows, cols}; }
};

/// The decoded values, transformed back.
template <class Transform>
std::vector<double> decoded(const quantized_matrix<nvfp4>& q, const Transform& t) {
  std::vector<float> out(q.rows() * q.cols());
  const matrix_view<float> view(out.data(), q.rows(), q.cols());
  dequantize(q, view);
  hadamard_inverse(matrix_view<const float>(out.data(), q.rows(), q.cols()), view, t);
  return {out.begin(), out.end()};
}

/// Over draws of signs and random bits: squared error of a draw, squared bias (unbiased), gain; relative.
struct statistics {
  double error = 0, bias = 0, gain = 0;
};

template <class Quantize>
statistics over_draws(const numbers& x, std::size_t draws, const Quantize& quantized) {
  std::vector<double> sum(x.data.size());
  double errors = 0, gain = 0, whole = 0;
  for (const float v : x.data) whole += static_cast<double>(v) * static_cast<double>(v);
  for (std::size_t s = 0; s < draws; ++s) {
    const random_hadamard<128> t{s};
    const std::vector<double> got = decoded(quantized(t, stochastic{.seed = 1000 + s}), t);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double v = static_cast<double>(x.data[i]);
      errors += (got[i] - v) * (got[i] - v), gain += got[i] * v, sum[i] += got[i];
    }
  }
  const auto n = static_cast<double>(draws);
  double mean_off = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) mean_off += std::pow(sum[i] / n - static_cast<double>(x.data[i]), 2);
  const double variance = (errors - n * mean_off) / (n - 1);
  return {errors / n / whole, (mean_off - variance / n) / whole, gain / n / whole};
}

}  // namespace

TEST_CASE(
    "over signs MS-EDEN has a gain within 0.002 of 1 on Gaussian numbers, and half the squared error of stochastic "
    "rounding",
    "[quantize]") {
  INFO(support::seed_note());
  const numbers x(1, 32, 512);
  const auto view = x.view();
  const statistics eden =
      over_draws(x, 100, [&](const auto& t, const stochastic& bits) { return quantize_ms_eden(view, t, bits); });
  const statistics random = over_draws(
      x, 100, [&](const auto& t, const stochastic& bits) { return quantize<nvfp4>(view, t, bits, scale_up{}); });
  const statistics nearest =
      over_draws(x, 100, [&](const auto& t, const stochastic&) { return quantize<nvfp4>(view, t); });
  CAPTURE(eden.error, eden.bias, eden.gain, random.error, nearest.gain);
  CHECK(std::abs(eden.gain - 1) < 0.002);
  CHECK(std::abs(eden.bias) < 1e-5);
  CHECK(nearest.gain < 0.997);  // what the correction restores
  CHECK(eden.error < 0.5 * random.error);
  CHECK(eden.error < 1.2 * nearest.error);
}

TEST_CASE("the codes do not depend on the random bits, and the mean of a scale over them is its corrected value",
          "[quantize]") {
  INFO(support::seed_note());
  const numbers x(2, 1, 128);
  const random_hadamard<128> t{5};
  const std::size_t draws = 4000;
  const auto first = quantize_ms_eden(x.view(), t, stochastic{.seed = 1});
  // Numerics 5: the scales before the correction, and c, in binary64.
  std::vector<float> transformed(128);
  hadamard_forward(x.view(), matrix_view<float>(transformed.data(), 1, 128), t);
  double amax = 0;
  for (const float v : transformed) amax = std::max(amax, std::abs(static_cast<double>(v)));
  const double largest = 6 / 0.988125, tensor = amax / (256 * largest);
  CHECK(std::abs(static_cast<double>(first.tensor_scale()) / tensor - 1) < 1e-6);
  std::vector<double> before(8), sums(8);
  double squares = 0, products = 0;
  for (std::size_t b = 0; b < 8; ++b) {
    double block = 0;
    for (std::size_t i = 16 * b; i < 16 * b + 16; ++i)
      block = std::max(block, std::abs(static_cast<double>(transformed[i])));
    before[b] = static_cast<double>(static_cast<float>(e4m3(static_cast<float>(block / largest / tensor))));
    for (std::size_t i = 16 * b; i < 16 * b + 16; ++i) {
      const double scaled = static_cast<double>(transformed[i]) / (before[b] * tensor);
      squares += scaled * scaled;
      products += scaled * static_cast<double>(static_cast<float>(fp4<E2M1>(static_cast<float>(scaled))));
    }
  }
  CHECK(std::abs(squares / products - 1) > 1e-3);
  CHECK(std::abs(squares / products - 1) < 0.05);
  for (std::size_t s = 0; s < draws; ++s) {
    const auto q = quantize_ms_eden(x.view(), t, stochastic{.seed = s});
    REQUIRE(std::equal(q.codes().begin(), q.codes().end(), first.codes().begin()));
    for (std::size_t b = 0; b < 8; ++b) sums[b] += static_cast<double>(static_cast<float>(q.scales()[b]));
  }
  for (std::size_t b = 0; b < 8; ++b) {
    const double want = before[b] * squares / products, step = want / 8;  // a step of e4m3 is at most 1/8 of its value
    CAPTURE(b, want, sums[b] / draws);
    CHECK(std::abs(sums[b] / static_cast<double>(draws) - want) < 6 * step / 2 / std::sqrt(static_cast<double>(draws)));
  }
}

TEST_CASE("MS-EDEN has the same bits on every instruction set and number of threads, for ragged matrices too",
          "[quantize]") {
  const numbers x(3, 37, 300);
  const random_hadamard<64> t{7};
  const stochastic bits{.seed = 9, .stream = 2};
  const auto want = quantize_ms_eden(x.view(), t, bits, cpu::context{.threads = 1, .isa = cpu::isa::scalar});
  for (const cpu::isa tier : support::runnable_isas())
    for (const int threads : {1, 3}) {
      CAPTURE(cpu::name(tier), threads);
      CHECK(quantize_ms_eden(x.view(), t, bits, cpu::context{.threads = threads, .isa = tier}) == want);
    }
  CHECK_FALSE(quantize_ms_eden(x.view(), t, stochastic{.seed = 9, .stream = 3}) == want);
  CHECK_FALSE(quantize_ms_eden(x.view(), t, stochastic{.seed = 8, .stream = 2}) == want);
}

TEST_CASE("a row with a NaN has NaN scales, zeros have scales of 0, and other rows keep their bits", "[quantize]") {
  numbers x(4, 3, 128);
  for (std::size_t i = 0; i < 128; ++i) x.data[128 + i] = 0;
  const random_hadamard<128> t{1};
  const auto clean = quantize_ms_eden(x.view(), t, stochastic{.seed = 1});
  for (std::size_t b = 0; b < 8; ++b) CHECK(clean.scales()[8 + b].bits() == 0);
  numbers dirty = x;
  dirty.data[128 + 5] = NAN;
  const auto q = quantize_ms_eden(dirty.view(), t, stochastic{.seed = 1});
  CHECK(q.tensor_scale() == clean.tensor_scale());
  for (std::size_t b = 0; b < 8; ++b) {
    CHECK(q.scales()[8 + b].bits() == 0x7F);
    CHECK(q.scales()[b].bits() == clean.scales()[b].bits());
    CHECK(q.scales()[16 + b].bits() == clean.scales()[16 + b].bits());
  }
  const auto none = quantize_ms_eden(matrix_view<const float>(x.data.data(), 0, 128), t, stochastic{});
  CHECK((none.rows() == 0 && none.tensor_scale() == 1));
}

TEST_CASE("MS-EDEN without a transform, and one of null data, are errors", "[quantize]") {
  const numbers x(5, 2, 32);
  CHECK(support::rejection([&] { quantize_ms_eden(x.view(), transform_spec{}, stochastic{}); }) ==
        "quantize_ms_eden: MS-EDEN needs a transform of at least the block's length, got n = 1");
  CHECK(support::rejection([&] {
          quantize_ms_eden(matrix_view<const float>(nullptr, 2, 32), random_hadamard<16>{1}, stochastic{});
        }).find("quantize_ms_eden: x") != std::string::npos);
}
