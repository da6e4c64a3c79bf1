// ufp4 - grids of a program's own at the ends of binary32: small inputs of what fuzz_user_formats looks for.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/ufp4.hpp>

#include <cmath>
#include <string>

#include "format/user_tables.hpp"
#include "support/catch.hpp"

using namespace ufp4;

namespace {

template <int exponent>
using element = format_tests::multiples_of<exponent>;
struct two_zeros {
  static constexpr float values[16] = {-7, -6, -5, -4, -3, -2, -1, 0, 0, 1, 2, 3, 4, 5, 6, 7};
};
struct far_apart {
  static constexpr float values[16] = {0, 1, 0x1p53f, -1, -0x1p53f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
};
struct vanishing {
  static constexpr float values[16] = {0, 0x1p-20f, -0x1p-20f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
};
struct below_one {
  static constexpr float values[16] = {0, .75f, -.75f, .5f, -.5f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
};
matrix<float> row(std::initializer_list<float> values, std::size_t cols) {
  matrix<float> x(1, cols);
  std::size_t k = 0;
  for (const float v : values) x(0, k++) = v;
  return x;
}

/// The result of every instruction set, whose bits and counts are the same.
template <class Format, class... Policies>
quantized_matrix<Format> same_on_every_isa(const matrix<float>& x, quantize_report& report,
                                           const Policies&... policies) {
  quantize_report first;
  const auto want = quantize<Format>(x, policies..., count_into{first}, cpu::context{.isa = cpu::isa::scalar});
  for (const cpu::isa tier : cpu::all_isas) {
    if (!cpu::available().has(tier)) continue;
    quantize_report here;
    CAPTURE(cpu::name(tier));
    CHECK(quantize<Format>(x, policies..., count_into{here}, cpu::context{.isa = tier}) == want);
    CHECK(here == first);
  }
  report += first;
  return want;
}

}  // namespace

TEST_CASE("e8m0 scales stay below the NaN code where the largest value of a grid is below 1", "[quantize]") {
  quantize_report report;
  const auto q = same_on_every_isa<block_format<element<-4>, e8m0, 32>>(row({0x1p127f, -0x1p125f}, 32), report);
  CHECK(q.scales()[0].bits() == 0xFE);
  CHECK(q(0, 0) == 0x1p126f);
  CHECK(q(0, 1) == -0x1p125f);
  CHECK(report == quantize_report{0, 1, 0});
  quantize_report tiny;
  const auto t = same_on_every_isa<block_format<element<-140>, e8m0, 32>>(row({1.0f, -0.25f}, 32), tiny, mse_search{});
  CHECK((t(0, 0) == 0x1p-10f && t(0, 1) == -0x1p-10f));
  CHECK(tiny.saturated == 2);
}

TEST_CASE("mx_ceil and mx_even compare an amax with the digits of a largest value that is subnormal", "[quantize]") {
  // The second grid ends at 2^-117 times 2^-30.
  using format = block_format<one_of<table_element<vanishing>, scaled<element<-120>, 1, 1 << 30>>, e8m0, 32>;
  quantize_report report;
  const auto stored = [&](float amax, auto rule) {
    CAPTURE(amax);
    const auto q = same_on_every_isa<format>(row({amax, amax / 2}, 32), report, rule);
    return ufp4::detail::load_block(ufp4::detail::quantized_source_of(q).scales, q.spec(), 0);
  };
  constexpr std::uint32_t second_grid = 0x100, bias = 127;
  CHECK(stored(0x1p-50f, mx_ceil{}) == second_grid + bias + 97);
  CHECK(stored(0x1.000002p-50f, mx_ceil{}) == second_grid + bias + 98);
  CHECK(stored(0x1.7ffffep-50f, mx_even{}) == second_grid + bias + 97);
  CHECK(stored(0x1.8p-50f, mx_even{}) == second_grid + bias + 98);
}

TEMPLATE_TEST_CASE("under a tensor scale zeros decode to zeros, however small amax and the grid are", "[quantize]",
                   e4m3, ue5m3) {
  for (const float amax : {1e-38f, 0x1p-149f, 1.0f, ufp4::detail::max_finite}) {
    CAPTURE(amax);
    quantize_report report;
    const auto near = same_on_every_isa<block_format<element<-4>, TestType, 16, float>>(row({amax}, 80), report);
    const auto far = same_on_every_isa<block_format<element<-149>, TestType, 16, float>>(row({amax}, 80), report);
    CHECK(std::isfinite(near.tensor_scale()));
    CHECK(std::isfinite(far.tensor_scale()));
    for (std::size_t k = 0; k < 80; ++k) {
      REQUIRE(std::isfinite(near(0, k)));
      REQUIRE(std::isfinite(far(0, k)));
      REQUIRE((k == 0 || (near(0, k) == 0.0f && far(0, k) == 0.0f)));
    }
    if (amax >= 1e-38f && amax < 1e38f) CHECK(std::abs(near(0, 0) / amax - 1) < 0.07f);
    CHECK(report.nonfinite_blocks == 0);
  }
}

TEST_CASE("a float scale stays finite, so a block of numbers near 3e38 decodes to numbers on every grid",
          "[quantize]") {
  matrix<float> x(1, 16);
  for (std::size_t c = 0; c < 16; ++c) x(0, c) = static_cast<float>(-3e38 + 4e37 * static_cast<double>(c));
  using choice = block_format<one_of<fp4<E2M1>, scaled<fp4<E1M2>, 1, 4>, scaled<element<-4>, 3>>, e4m3, 16, float>;
  using pair = block_format<one_of<fp4<E2M1>, scaled<fp4<E1M2>, 1, 4>>, float, 16>;
  for (const search_error by : {search_error::squared, search_error::absolute, search_error::largest}) {
    quantize_report report;
    const auto q = same_on_every_isa<pair>(x, report, choose_grid{by});
    const auto other = same_on_every_isa<choice>(x, report, choose_grid{by});
    for (std::size_t c = 0; c < 16; ++c) REQUIRE((std::isfinite(q(0, c)) && std::isfinite(other(0, c))));
  }
  quantize_report report;
  const auto half = same_on_every_isa<block_format<element<-4>, float, 16>>(x, report);
  CHECK(half.scales()[0] == ufp4::detail::max_finite);
  CHECK(report.saturated == 8);  // beyond half of FLT_MAX
}

TEST_CASE("an e8m0 scale times the factor of a grid stays finite", "[quantize]") {
  using two = block_format<one_of<table_element<vanishing>, scaled<table_element<below_one>, 2, 1>>, e8m0, 2>;
  quantize_report report;
  const auto q =
      same_on_every_isa<two>(row({0x1.fffffep127f, 0x1p127f}, 2), report, choose_grid{search_error::largest});
  CHECK((q(0, 0) == 0x1.8p126f && q(0, 1) == 0x1.8p126f));  // on the second grid, under 2^126 * 2
  CHECK(report.saturated == 2);
}

TEST_CASE("nearest values of a grid with values far apart are those by exact distances", "[quantize]") {
  using format = block_format<table_element<far_apart>, float, 8>;
  const auto x = row({0x1p53f, 0x1p52f, -0x1p52f, 0x1.000002p52f, -0x1.000002p52f}, 8);
  quantize_report report;
  const auto check = [](const auto& q) {
    CHECK((q(0, 0) == 0x1p53f && q(0, 1) == 1.0f && q(0, 2) == -1.0f));
    CHECK((q(0, 3) == 0x1p53f && q(0, 4) == -0x1p53f));
  };
  check(same_on_every_isa<format>(x, report));
  check(same_on_every_isa<format>(x, report, nearest_away{}));
}

TEST_CASE("an outer scale times a block scale is finite, and -0 keeps its sign under it", "[quantize]") {
  quantize_report report;
  using format = block_format<fp4_remapped<E2M1, 5>, ue5m3, 16, float>;
  const auto q = same_on_every_isa<block_format<element<-10>, ue5m3, 16, float>>(
      row({ufp4::detail::max_finite, -1.0f}, 16), report);
  CHECK(std::isfinite(static_cast<float>(q.scales()[0]) * q.tensor_scale()));
  CHECK(report.underflowed_scales == 0);
  CHECK(report.saturated == 1);
  CHECK(same_on_every_isa<format>(row({ufp4::detail::max_finite, -1.0f}, 16), report)(0, 0) > 3e38f);
}

TEST_CASE("elements of blocks whose scale has no reciprocal in binary32 are counted as saturated, zeros not",
          "[quantize]") {
  // T is limited to 2^-128; the block scales are 0.125 and 2, and the factor of the first would be 2^131.
  quantize_report report;
  const auto q = same_on_every_isa<block_format<fp4<E2M1>, e4m3, 16, float>>(
      row({0x1.8p-129f, -0x1p-130f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x1.8p-125f, 0x1p-127f}, 32), report);
  CHECK(q.tensor_scale() == 0x1p-128f);
  CHECK((static_cast<float>(q.scales()[0]) == 0.125f && static_cast<float>(q.scales()[1]) == 2.0f));
  CHECK(report.saturated == 2);
  CHECK(report.underflowed_scales == 0);
}

TEST_CASE("quantize and cast give the lowest code of a value", "[quantize]") {
  using repeated = block_format<table_element<two_zeros>, float, 16>;
  CHECK(quantize<repeated>(matrix<float>(1, 16)).codes()[0] == 0x77);
  CHECK(cast<repeated>(quantize<nvfp4>(matrix<float>(1, 16))).codes()[0] == 0x77);
}

TEST_CASE("what saturates at the nearer end of a grid is counted", "[quantize]") {
  quantize_report report;
  const auto q = same_on_every_isa<block_format<fp4_remapped<E2M1, 8>, float, 16>>(row({8, -8, -6, 8}, 16), report);
  CHECK((q(0, 0) == 8 && q(0, 1) == -6 && q(0, 2) == -6));
  CHECK(report.saturated == 1);
  quantize_report positive;
  const auto p = same_on_every_isa<block_format<format_tests::counting, e8m0, 32>>(row({15, -1, -0.1f}, 32), positive);
  CHECK((p(0, 0) == 15 && p(0, 1) == 0 && p(0, 2) == 0));
  CHECK(positive.saturated == 2);
}

TEST_CASE("fast products of grids beyond 2^10 or below 2^-40 are those of binary64", "[gemm]") {
  using tiny = block_format<element<-140>, float, 16>;
  using huge = block_format<element<120>, float, 16>;
  matrix<float> x(2, 64), w(3, 64), c(2, 3);
  for (std::size_t k = 0; k < 64; ++k)
    for (std::size_t i = 0; i < 3; ++i) w(i, k) = static_cast<float>((k * (i + 3)) % 13) - 6, x(i % 2, k) = w(i, k);
  const auto check = [&](const auto& a, const auto& b) {
    const matrix<float> da = dequantize<float>(a), db = dequantize<float>(b);
    for (const cpu::isa tier : cpu::all_isas) {
      if (!cpu::available().has(tier)) continue;
      quantized_gemm(a, b, c, {}, cpu::context{.isa = tier});
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 3; ++j) {
          double sum = 0;
          for (std::size_t k = 0; k < 64; ++k) sum += static_cast<double>(da(i, k)) * static_cast<double>(db(j, k));
          REQUIRE(std::abs(static_cast<double>(c(i, j)) - sum) <= 1e-6 * std::abs(sum) + 1e-4);
        }
    }
    CHECK(cpu::explain(a, b, c).kernel == std::string("gemm_scalar"));
  };
  check(quantize<tiny>(x), quantize<tiny>(w));
  check(quantize<huge>(x), quantize<tiny>(w));
  check(quantize<huge>(x), quantize<huge>(w));
}

TEST_CASE("a context may come before the matrix", "[quantize]") {
  const matrix<float> x = row({1, 2, -3}, 16);
  CHECK(quantize<nvfp4>(cpu::context{.threads = 1}, x, mse_search{}) == quantize<nvfp4>(x, mse_search{}));
  CHECK(quantize(cpu::context{.threads = 1}, spec_of<nvfp4>, x) == quantize(spec_of<nvfp4>, x));
}
