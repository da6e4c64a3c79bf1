// ufp4 - a user's own scale rule, preset, grid and block shape are really used, on every instruction set.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/random_matrix.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

using namespace ufp4;
using support::random_matrix;

namespace {

/// Leaves room above amax: the scale of a block whose amax is 1.25 times as large.
struct headroom {
  float qmax;
  float operator()(const block_values&, float amax) const { return 1.25f * amax / qmax; }
};
/// Looks at the values: the mean magnitude.
struct mean_rule {
  float operator()(const block_values& v, float) const {
    float sum = 0;
    for (int r = 0; r < v.rows; ++r)
      for (int k = 0; k < v.cols; ++k) sum += std::fabs(v.x[r * v.stride + k]);
    return sum / static_cast<float>(v.rows * v.cols);
  }
};
struct constant_rule {
  float scale;
  float operator()(const block_values&, float) const { return scale; }
};
static_assert(scale_rule<headroom> && scale_rule<mean_rule> && !scale_rule<scale_up> &&
              !ufp4::detail::builtin_scale_rule<headroom>);
static_assert(ufp4::detail::any_scale_rule<mse_search> && ufp4::detail::any_scale_rule<constant_rule> &&
              !ufp4::detail::any_scale_rule<hadamard<16>>);

}  // namespace

TEST_CASE("a scale rule of the program's own gives the block scales", "[extension]") {
  const matrix<float> x = random_matrix(1, 9, 80);
  const auto q = quantize<e1m2_f32>(x, headroom{1.75f});
  for (std::size_t i = 0; i < 9; ++i)
    for (std::size_t b = 0; b < 5; ++b) {
      float amax = 0;
      for (std::size_t k = 16 * b; k < 16 * b + 16; ++k) amax = std::fmax(amax, std::fabs(x(i, k)));
      REQUIRE(q.scales()[i * 5 + b] == 1.25f * amax / 1.75f);
    }
  matrix<float> ones(2, 64);
  for (std::size_t i = 0; i < 128; ++i) ones.data()[i] = 1;
  const auto powers = quantize<mxfp4>(ones, constant_rule{0.7f});
  for (const e8m0 s : powers.scales()) REQUIRE(static_cast<float>(s) == 0.5f);  // numerics 2: the exponent's floor
}

TEST_CASE("a scale rule works in every operation, on every instruction set and with a format as data", "[extension]") {
  const matrix<float> x = random_matrix(2, 33, 96);
  ufp4::detail::for_each_row(ufp4::detail::presets{}, [&](auto row) {
    using F = typename decltype(row)::format;
    CAPTURE(row.name);
    const auto want = quantize<F>(x, mean_rule{}, stochastic{.seed = 2}, cpu::context{.isa = cpu::isa::scalar});
    const matrix<float> decoded = dequantize(want);
    for (const cpu::isa isa : support::runnable_isas()) {
      const cpu::context ctx{.isa = isa};
      REQUIRE(quantize<F>(x, mean_rule{}, stochastic{.seed = 2}, ctx) == want);
      REQUIRE(quantize(row.spec, x, mean_rule{}, stochastic{.seed = 2}, ctx) == want);
      matrix<float> out(33, 96);
      fake_quantize<F>(x, out, mean_rule{}, stochastic{.seed = 2}, ctx);
      REQUIRE(std::memcmp(out.data(), decoded.data(), 33 * 96 * sizeof(float)) == 0);
    }
    const auto other = quantize<F>(x, stochastic{.seed = 2});
    CHECK_FALSE(other == want);
    CHECK(analysis::measure<F>(x, mean_rule{}).sqnr_db != analysis::measure<F>(x).sqnr_db);
    matrix<float> c(33, 33), d(33, 33);
    quantized_gemm(operand<F>(x, mean_rule{}), other, c);
    quantized_gemm(quantize<F>(x, mean_rule{}), other, d);
    REQUIRE(std::memcmp(c.data(), d.data(), 33 * 33 * sizeof(float)) == 0);
    CHECK(cpu::explain<F>(x, mean_rule{}).isa == cpu::isa::scalar);
  });
}

TEST_CASE("a rule's answer that is no scale makes a NaN block", "[extension]") {
  matrix<float> x(2, 32);
  for (std::size_t i = 0; i < 64; ++i) x.data()[i] = static_cast<float>(i + 1);
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {-1.0f, inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    quantize_report seen;
    const auto q = quantize<nvfp4>(x, constant_rule{bad}, count_into{seen});
    CHECK(seen.nonfinite_blocks == 4);
    for (std::size_t k = 0; k < 32; ++k) CHECK(std::isnan(q(1, k)));
  }
  quantize_report zero;
  const auto q = quantize<e1m2_f32>(x, constant_rule{0}, count_into{zero});
  CHECK(zero.underflowed_scales == 4);
  CHECK(q(0, 0) == 0);
}

TEST_CASE("quantize_block calls the rule of a kernel of one's own", "[extension]") {
  float x[16];
  for (int k = 0; k < 16; ++k) x[k] = static_cast<float>(k) - 7;
  std::uint8_t packed[8];
  CHECK(quantize_block<e1m2_f32>(x, packed, nearest_even{}, 0, {}, constant_rule{2}) == 2.0f);
  CHECK(quantize_block<e1m2_f32>(x, packed) == 8 / 1.75f);
}

namespace {

/// A preset of one's own: every code is the sign, every scale 2.
struct sign_codec {
  format_spec format;
  tensor_constants tensor;
  static constexpr tensor_constants constants(const format_spec&, float) { return {}; }
  std::uint32_t operator()(const block_values& v, std::uint64_t, std::uint64_t, std::uint8_t* codes,
                           quantize_report&) const {
    for (int r = 0; r < v.rows; ++r)
      for (int k = 0; k < v.cols; ++k)
        codes[r * v.stride + k] = ufp4::int4(v.x[r * v.stride + k] < 0 ? -1.f : 1.f).bits();
    return 0x40000000u;  // binary32 2
  }
};
struct sign_preset {
  using format = int4_f32;
  using coder = sign_codec;
};
struct incomplete_preset {
  using format = int4_f32;
  struct coder {};
};
static_assert(compat::block_codec<sign_codec> && compat::preset<sign_preset> && !compat::preset<incomplete_preset>);
static_assert(ufp4::detail::quantizer_target<sign_preset> && !ufp4::detail::quantizer_target<incomplete_preset>);

}  // namespace

TEST_CASE("a preset of the program's own fills the blocks", "[extension]") {
  const matrix<float> x = random_matrix(4, 3, 48);
  const auto q = quantize<sign_preset>(x);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < 48; ++k) REQUIRE(q(i, k) == (x(i, k) < 0 ? -2.0f : 2.0f));
}

namespace {

struct seven_levels {
  static constexpr float values[16] = {-4, -4, -2, -2, -1, -1, 0, 0, 0, 1, 1, 1, 2, 2, 4, 4};
  static constexpr bool exact_products = true;
};
using seven = table_element<seven_levels>;

/// E2M1 as hardware numbers it.
struct hardware_levels {
  static constexpr float values[16] = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0f, -.5, -1, -1.5, -2, -3, -4, -6};
};
/// In no order, with repeated values, +0 at 5 and 9, and -0 at 2 and 14; and values that are not exact.
struct shuffled_levels {
  static constexpr float values[16] = {7, 2, -0.0f, 7, -2, 0, 11, -1, -4, 0, 1, 3, -9, 5, -0.0f, -4};
};
struct uneven_levels {
  static constexpr float values[16] = {0.7f, -0.1f, 1,     0, 0.3f, -1,   -0.7f, -0.0f,
                                       0.1f, 0.2f,  -0.3f, 2, -2,   0.9f, -3,    3};
};
using hardware = table_element<hardware_levels>;

template <class F>
void check_all_isas(std::size_t rows, std::size_t cols) {
  const matrix<float> x = random_matrix(rows, rows, cols), w = random_matrix(cols, 70, cols);
  const cpu::context scalar{.isa = cpu::isa::scalar};
  const gemm_options exact{.accumulate = accumulate::exact_blocks};
  const auto want = quantize<F>(x, random_hadamard<32>{1}, scalar), b = quantize<F>(w, random_hadamard<32>{1}, scalar);
  const matrix<float> decoded = dequantize(want, scalar);
  matrix<float> product(rows, 70);
  quantized_gemm(want, b, product, exact, scalar);
  for (const cpu::isa isa : support::runnable_isas()) {
    const cpu::context ctx{.isa = isa};
    CAPTURE(cpu::name(isa), rows, cols);
    REQUIRE(quantize<F>(x, random_hadamard<32>{1}, ctx) == want);
    const matrix<float> d = dequantize(want, ctx);
    REQUIRE(std::memcmp(d.data(), decoded.data(), rows * cols * sizeof(float)) == 0);
    matrix<float> fake(rows, cols), c(rows, 70), p(rows, 70);
    fake_quantize<F>(x, fake, random_hadamard<32>{1}, ctx);
    REQUIRE(std::memcmp(fake.data(), decoded.data(), rows * cols * sizeof(float)) == 0);
    quantized_gemm(want, b, c, exact, ctx);
    quantized_gemm(want, prepack(b, ctx), p, exact, ctx);
    REQUIRE(std::memcmp(c.data(), product.data(), rows * 70 * sizeof(float)) == 0);
    REQUIRE(std::memcmp(p.data(), product.data(), rows * 70 * sizeof(float)) == 0);
  }
}

}  // namespace

TEST_CASE("a grid with repeated values rounds to the nearest, ties to an even number of distinct values",
          "[extension]") {
  for (const auto& [x, want] : std::vector<std::pair<float, float>>{{0.4f, 0},
                                                                    {0.5f, 0},
                                                                    {0.6f, 1},
                                                                    {1.5f, 2},
                                                                    {3.0f, 2},
                                                                    {3.1f, 4},
                                                                    {-1.5f, -2},
                                                                    {-3.0f, -2},
                                                                    {9, 4},
                                                                    {-9, -4}})
    CHECK(static_cast<float>(seven(x)) == want);
  CHECK(grid_of<seven>().levels == 7);
  check_all_isas<block_format<seven, float, 16>>(19, 160);
  check_all_isas<block_format<seven, e4m3, 64, float>>(19, 160);
}

TEST_CASE("a grid whose codes are in no order has the same bits on every instruction set", "[extension]") {
  check_all_isas<block_format<table_element<shuffled_levels>, float, 16>>(19, 160);
  check_all_isas<block_format<table_element<shuffled_levels>, e4m3, 32, float>>(19, 160);
  check_all_isas<block_format<table_element<uneven_levels>, e8m0, 32>>(19, 160);
}

TEST_CASE("E2M1 written as a table of its codes quantizes and multiplies as fp4<E2M1> does", "[extension]") {
  using table = block_format<hardware, e4m3, 16, float>;
  static_assert(spec_of<table> == spec_of<nvfp4>);
  const matrix<float> x = random_matrix(1, 33, 160), w = random_matrix(2, 17, 160);
  const auto qx = quantize<table>(x), qw = quantize<table>(w);
  const auto px = quantize<nvfp4>(x), pw = quantize<nvfp4>(w);
  REQUIRE(std::memcmp(qx.codes().data(), px.codes().data(), px.codes().size()) == 0);
  matrix<float> y(33, 17), z(33, 17);
  quantized_gemm(qx, qw, y);
  quantized_gemm(px, pw, z);
  REQUIRE(std::memcmp(y.data(), z.data(), 33 * 17 * sizeof(float)) == 0);
}

TEST_CASE("blocks of 128 x 128, of other rectangles and of every length work on every instruction set", "[extension]") {
  check_all_isas<block_format<ufp4::int4, float, square(128)>>(140, 300);
  check_all_isas<block_format<fp4<E2M1>, e4m3, block_shape(32, 16), float>>(70, 160);
  check_all_isas<block_format<fp4<E1M2>, e8m0, block_shape(4, 64)>>(21, 160);
  check_all_isas<block_format<ufp4::int4, bf16, block_shape(128, 2)>>(70, 96);
  check_all_isas<block_format<ufp4::int4, float, 2>>(5, 96);
  check_all_isas<block_format<ufp4::int4, float, 4>>(5, 96);
  check_all_isas<block_format<fp4<E2M1>, e4m3, 8, float>>(5, 96);
  check_all_isas<block_format<fp4<E2M1>, ue5m3, 128>>(5, 300);
  check_all_isas<block_format<fp4<E1M2>, float, 256>>(5, 300);
}
