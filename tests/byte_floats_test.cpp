// ufp4 - OCP MXFP8 and MXFP6: scales, codes, products, and what rejects them.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/random_matrix.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <algorithm>
#include <cmath>

using namespace ufp4;
using support::random_matrix;
using support::rejection;

TEMPLATE_TEST_CASE("a block has the scale of OCP MX, the largest power of two up to amax over that of the element",
                   "[mxfp]", mxfp8_e4m3, mxfp8_e5m2, mxfp6_e3m2, mxfp6_e2m3) {
  using element = typename TestType::element_type;
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(1, 5, 96);
  quantize_report report;
  const auto q = quantize<TestType>(x, count_into{report});
  std::uint64_t beyond = 0;
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t b = 0; b < 3; ++b) {
      float amax = 0;
      for (std::size_t k = 0; k < 32; ++k) amax = std::max(amax, std::abs(x(i, 32 * b + k)));
      const int e = std::ilogb(amax) - std::ilogb((element::max)());
      REQUIRE(q.scales()[3 * i + b].bits() == e + 127);
      for (std::size_t k = 32 * b; k < 32 * b + 32; ++k) {
        const float t = std::ldexp(x(i, k), -e);
        beyond += std::abs(t) > (element::max)();
        REQUIRE(q.codes()[96 * i + k] == element(t).bits());
        REQUIRE(q(i, k) == std::ldexp(static_cast<float>(element(t)), e));
      }
    }
  CHECK(report.saturated == beyond);
}

TEST_CASE("floats with three bits of mantissa have at least 8 dB less error than mxfp4", "[mxfp]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(2, 64, 256);
  const auto sqnr = [&](const format_spec& f) { return analysis::measure(f, x).sqnr_db; };
  const double least = sqnr(spec_of<mxfp4>) + 8;
  CHECK((sqnr(spec_of<mxfp8_e4m3>) > least && sqnr(spec_of<mxfp6_e2m3>) > least));
}

TEST_CASE("products with 8-bit and 6-bit floats agree with those of the decoded matrices on every tier", "[mxfp]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(3, 9, 160), w = random_matrix(4, 20, 160);
  const auto check = [&](const format_spec& left, const format_spec& right) {
    const any_quantized a = quantize(left, x), b = quantize(right, w);
    for (const cpu::isa tier : support::runnable_isas()) {
      matrix<float> c(9, 20);
      quantized_gemm(a, b, c, cpu::context{.threads = 1, .isa = tier});
      for (std::size_t i = 0; i < 9; ++i)
        for (std::size_t j = 0; j < 20; ++j) {
          double sum = 0, size = 0;
          for (std::size_t k = 0; k < 160; ++k) {
            const double p = static_cast<double>(a(i, k)) * static_cast<double>(b(j, k));
            sum += p, size += std::abs(p);
          }
          REQUIRE(std::abs(static_cast<double>(c(i, j)) - sum) <= 166 * 0x1p-24 * size);
        }
    }
  };
  check(spec_of<mxfp8_e4m3>, spec_of<mxfp4>);
  check(spec_of<mxfp6_e3m2>, spec_of<mxfp8_e5m2>);
  check(spec_of<mxint8>, spec_of<mxfp6_e2m3>);
}

TEST_CASE("a code without a finite value gives a product that is not finite", "[mxfp]") {
  auto q = quantize<mxfp8_e5m2>(matrix<float>(1, 32));
  const auto b = quantize<mxfp4>([] {
    matrix<float> ones(1, 32);
    for (std::size_t k = 0; k < 32; ++k) ones(0, k) = 1;
    return ones;
  }());
  matrix<float> c(1, 1);
  q.codes()[3] = 0x7C, q.scales()[0] = e8m0::from_bits(127);
  for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks}) {
    quantized_gemm(q, b, c, gemm_options{.accumulate = mode});
    CHECK(std::isinf(c(0, 0)));
  }
  q.codes()[3] = 0x7D;
  quantized_gemm(q, b, c);
  CHECK(std::isnan(c(0, 0)));
}

TEST_CASE("8-bit and 6-bit floats are rejected where formats need 4 bits or a file layout", "[mxfp]") {
  const matrix<float> x(2, 64);
  const auto q = quantize<mxfp8_e4m3>(x);
  CHECK(rejection([&] { (void)prepack(q); }).find("elements of one byte are not prepacked") != std::string::npos);
  CHECK(rejection([&] { (void)cast(q, spec_of<mxfp4>); }) == "cast: a format with elements of one byte cannot be cast");
  format_spec wrong = spec_of<mxfp8_e4m3>;
  wrong.grid.unit *= 2;
  CHECK(rejection([&] { (void)quantize(wrong, x); }).find("needs the grid of its element type, as grid_of<int8>()") !=
        std::string::npos);
  CHECK(mxfp6_e2m3::bits_per_element == 8.25);
}
