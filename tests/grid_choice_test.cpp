// ufp4 - formats whose blocks choose among several grids: the choice, its storage, products and errors.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/random_matrix.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace ufp4;
using support::random_matrix;
using support::rejection;

namespace {

/// Four grids, whose number takes a byte of its own, and outer scales of rows.
using four_grids =
    block_format<one_of<fp4<E2M1>, scaled<fp4<E1M2>, 4>, scaled<int4, 6, 7>, scaled<nf4, 6>>, e4m3, 16, per_row<float>>;

constexpr std::size_t rows = 9, cols = 200;

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }
bool same_bits(const matrix<float>& a, const matrix<float>& b) {
  return a.rows() == b.rows() && a.cols() == b.cols() &&
         std::memcmp(a.data(), b.data(), a.rows() * a.cols() * sizeof(float)) == 0;
}

int grid_number(const quantized_matrix<if4>& q, std::size_t block) { return q.scales()[block].bits() >> 7; }

struct constant_scale {
  float operator()(const block_values&, float) const { return 1.0f; }
};

}  // namespace

TEST_CASE("a block of if4 has the codes of nvfp4, or those of 4-bit integers with the same scale", "[grids]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(1, rows, cols);
  const auto q = quantize<if4>(x);
  const auto fp = quantize<nvfp4>(x);
  REQUIRE(q.padded_cols() == 208);
  REQUIRE(same_bits(q.tensor_scale(), fp.tensor_scale()));  // 7 * 6/7 is 6
  std::size_t integers = 0;
  for (std::size_t b = 0; b < rows * 13; ++b) {
    REQUIRE((q.scales()[b].bits() & 0x7F) == fp.scales()[b].bits());
    const std::uint8_t *codes = q.codes().data() + 8 * b, *of_fp = fp.codes().data() + 8 * b;
    if (grid_number(q, b) == 0) {
      REQUIRE(std::memcmp(codes, of_fp, 8) == 0);
      continue;
    }
    ++integers;
    const float effective = static_cast<float>(fp.scales()[b]) * fp.tensor_scale(), factor = 6.0f / 7.0f;
    for (std::size_t k = 0; k < 16 && b % 13 * 16 + k < cols; ++k) {
      const float t = x(b / 13, b % 13 * 16 + k) * (1.0f / effective);
      REQUIRE(ufp4::detail::code_at(codes, k) == int4(t * (1.0f / factor)).bits());
      const float decoded = static_cast<float>(int4(t * (1.0f / factor))) *
                            (static_cast<float>(fp.scales()[b]) * factor * fp.tensor_scale());
      REQUIRE(same_bits(q(b / 13, b % 13 * 16 + k), decoded));
    }
  }
  CHECK((integers > 0 && integers < rows * 13));
}

TEST_CASE("a block of mixfp4 in E2M1 has the codes and the scale of nvfp4, under four times its tensor scale",
          "[grids]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(2, rows, cols);
  const auto q = quantize<mixfp4>(x);
  const auto fp = quantize<nvfp4>(x);
  REQUIRE(same_bits(q.tensor_scale(), 4 * fp.tensor_scale()));
  std::size_t uniform = 0;
  for (std::size_t b = 0; b < rows * 13; ++b) {
    if ((q.scales()[b].bits() & 0x80) == 0) {
      ++uniform;
      continue;
    }
    REQUIRE((q.scales()[b].bits() & 0x7F) == fp.scales()[b].bits());
    REQUIRE(std::memcmp(q.codes().data() + 8 * b, fp.codes().data() + 8 * b, 8) == 0);
  }
  CHECK((uniform > 0 && uniform < rows * 13));
}

TEST_CASE("a block of mixfp4 with equal errors is in E1M2", "[grids]") {
  const matrix<float> zeros(1, 16);
  const auto none = quantize<mixfp4>(zeros);
  CHECK(none.scales()[0].bits() == 0);
  matrix<float> one(1, 16);
  one(0, 3) = 1;  // 7 or 6 under the scale of either grid
  const auto q = quantize<mixfp4>(one);
  CHECK((q.scales()[0].bits() & 0x80) == 0);
  CHECK(ufp4::detail::code_at(q.codes().data(), 3) == 7);
}

TEST_CASE("a block of razer has the code 8 for 5 or -5 times its scale, whichever it holds", "[grids]") {
  matrix<float> x(1, 32);
  for (std::size_t k = 0; k < 32; ++k) {
    constexpr float values[] = {6, 5, -5, 0, 5, 1, -.5f, 3};
    x(0, k) = (k < 16 ? 1.0f : -1.0f) * (k % 8 == 2 ? 0.0f : values[k % 8]);
  }
  const auto q = quantize<razer>(x);
  CHECK((q.scales()[0].bits() == (0x7E | 0x80) && q.scales()[1].bits() == 0x7E));
  for (std::size_t k = 0; k < 32; ++k) {
    CHECK(q(0, k) == x(0, k));
    CHECK((ufp4::detail::code_at(q.codes().data(), k) == 8) == (std::abs(x(0, k)) == 5));
  }
  const auto zeros = quantize<razer>(matrix<float>(1, 16));
  CHECK(zeros.scales()[0].bits() == 0);
}

TEST_CASE("a block has the grid of the smallest error, of equal ones the first", "[grids]") {
  // Multiples of 1, 7 among them, are 4-bit integers; with 6 and .5 they are E2M1; 0, 3 and 6 fit both.
  matrix<float> x(1, 64);
  for (std::size_t k = 0; k < 64; ++k) {
    constexpr float integers[] = {7, 5, -6, 3, 1, -2, 4, 0}, floats[] = {6, .5f, -1.5f, 3, 4, -2, 1, 0};
    x(0, k) = k < 16 ? integers[k % 8] : k < 32 ? floats[k % 8] : k < 48 ? (k % 2 ? 0.0f : 6.0f) : 0.0f;
  }
  const format_spec f = spec_of<block_format<one_of<fp4<E2M1>, int4>, float, 16>>;
  const any_quantized q = quantize(f, x);
  for (std::size_t k = 0; k < 64; ++k) CHECK(q(0, k) == x(0, k));
  std::uint32_t bits[4];
  std::memcpy(bits, q.scale_bytes().data(), sizeof bits);
  CHECK(bits[0] == 0xBF800000u);  // 1, the sign for grid 1
  CHECK(bits[1] == 0x3F800000u);
  CHECK(bits[2] == 0x3F800000u);  // both errors are 0
  CHECK(bits[3] == 0);
}

TEST_CASE("choose_grid compares squared, absolute or largest errors", "[grids]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(2, 64, 256);
  double error[3][3];  // of the choice by row, measured by column
  for (int by = 0; by < 3; ++by) {
    const auto q = quantize<if4>(x, choose_grid{static_cast<search_error>(by)});
    for (double& e : error[by]) e = 0;
    for (std::size_t i = 0; i < 64; ++i)
      for (std::size_t k = 0; k < 256; k += 16) {
        double squared = 0, absolute = 0, largest = 0;
        for (std::size_t j = k; j < k + 16; ++j) {
          const double d = std::fabs(static_cast<double>(q(i, j)) - static_cast<double>(x(i, j)));
          squared += d * d, absolute += d, largest = std::max(largest, d);
        }
        error[by][0] += squared, error[by][1] += absolute, error[by][2] += largest;
      }
  }
  for (int what = 0; what < 3; ++what)
    for (int by = 0; by < 3; ++by)
      if (by != what) CHECK(error[what][what] < error[by][what]);
}

TEST_CASE("fake_quantize, elements, prepacked matrices and ranges of several grids agree with dequantize", "[grids]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(3, rows, cols);
  const auto check = [&]<class F>(F) {
    for (const cpu::isa tier : {cpu::isa::automatic, cpu::isa::scalar}) {
      const cpu::context ctx{.threads = 2, .isa = tier};
      const auto q = quantize<F>(x, stochastic{.seed = 4}, hadamard<32>{}, ctx);
      const matrix<float> decoded = dequantize(q, ctx);
      matrix<float> faked(rows, cols);
      fake_quantize<F>(x, faked, stochastic{.seed = 4}, hadamard<32>{}, ctx);
      REQUIRE(same_bits(faked, decoded));
      const auto packed = prepack(q, ctx);
      REQUIRE(unpack(packed) == q);
      const auto part = col_range(row_range(any_quantized_view(q), 2, 5), 64, 64);
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t k = 0; k < cols; ++k) {
          REQUIRE(same_bits(q(i, k), decoded(i, k)));
          REQUIRE(same_bits(packed(i, k), decoded(i, k)));
          if (i >= 2 && i < 7 && k >= 64 && k < 128) REQUIRE(same_bits(part(i - 2, k - 64), decoded(i, k)));
        }
      const auto a = analysis::measure<F>(x, cpu::context{.isa = cpu::isa::scalar}), b = analysis::measure<F>(x, ctx);
      REQUIRE((a.sqnr_db == b.sqnr_db && a.histogram == b.histogram));
    }
  };
  check(if4{}), check(four_grids{});
}

TEST_CASE("a block with a NaN has a NaN scale and grid 0", "[grids]") {
  matrix<float> x = random_matrix(4, 2, 64);
  x(1, 20) = std::numeric_limits<float>::infinity();
  quantize_report report;
  const auto q = quantize<if4>(x, count_into{report});
  CHECK(report.nonfinite_blocks == 1);
  CHECK(q.scales()[5].bits() == 0x7F);
  CHECK((std::isnan(q(1, 16)) && std::isnan(q(1, 31)) && !std::isnan(q(1, 15)) && !std::isnan(q(1, 32))));
}

TEST_CASE("a product of blocks of several grids is that of their decoded elements", "[grids]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(5, rows, cols), w = random_matrix(6, 7, cols);
  const auto check = [&](const auto& a, const auto& b) {
    matrix<float> exact(rows, 7), fast(rows, 7), packed(rows, 7);
    quantized_gemm(a, b, exact, {.accumulate = accumulate::exact_blocks});
    quantized_gemm(a, b, fast);
    quantized_gemm(a, prepack(b), packed, {.accumulate = accumulate::exact_blocks});
    CHECK(same_bits(packed, exact));
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < 7; ++j) {
        double sum = 0, magnitude = 0;
        for (std::size_t k = 0; k < cols; ++k) {
          const double product = static_cast<double>(a(i, k)) * static_cast<double>(b(j, k));
          sum += product, magnitude += std::fabs(product);
        }
        CHECK(std::fabs(static_cast<double>(fast(i, j)) - sum) <= magnitude * 250 * 0x1p-24);
        CHECK(std::fabs(static_cast<double>(exact(i, j)) - sum) <= magnitude * 250 * 0x1p-24);
      }
  };
  check(quantize<if4>(x), quantize<if4>(w));
  check(quantize<if4>(x), quantize<nvfp4>(w));
  check(quantize<four_grids>(x), quantize<if4>(w));
}

TEST_CASE("what cannot apply to several grids is rejected", "[grids]") {
  const matrix<float> x = random_matrix(7, 2, 32);
  CHECK(rejection([&] { quantize(spec_of<if4>, x, four_over_six{}); }) ==
        "quantize: four_over_six is for formats of one grid without one-bit exponents");
  CHECK(rejection([&] { quantize(spec_of<nvfp4>, x, choose_grid{search_error::largest}); }) ==
        "quantize: choose_grid has no effect: the format has one grid");
  CHECK(
      rejection([&] { quantize(spec_of<if4>, x, constant_scale{}); }) ==
      "quantize: a scale rule of the program's own is for formats of one grid without one-bit exponents; this one has "
      "2 grids, 0 exponents");
  const auto bad = [&](auto change) {
    format_spec f = spec_of<if4>;
    change(f);
    return rejection([&] { quantize(f, x); });
  };
  CHECK(bad([](format_spec& f) { f.choice.count = 4; }) == "quantize: a block chooses among at most four grids");
  CHECK(bad([](format_spec& f) { f.choice.more = nullptr; }) == "quantize: the format's choice.more is null");
  CHECK(bad([](format_spec& f) { f.choice.count = 0; }).empty());
  const grid4 e2m1 = spec_of<if4>.grid;
  const ufp4::detail::scaled_grid empty[] = {{e2m1, 1}, {}}, unscaled[] = {{e2m1, 0}}, two[] = {{e2m1, 1}, {e2m1, 2}};
  CHECK(bad([&](format_spec& f) { f.choice = {2, empty}; }) == "quantize: a grid of the choice has no values");
  CHECK(bad([&](format_spec& f) { f.choice = {1, unscaled}; }) ==
        "quantize: the factor of a grid must be from 2^-40 to 2^40");
  CHECK(bad([&](format_spec& f) { f.outer = {}, f.scale = scale_kind::bf16, f.choice = {2, two}; }) ==
        "quantize: bf16 and float scales can store the choice of two grids only");
  format_spec copied = spec_of<if4>, other = copied;
  const ufp4::detail::scaled_grid same[] = {*copied.choice.more}, another[] = {{e2m1, 1}};
  copied.choice.more = same, other.choice.more = another;
  CHECK(copied == spec_of<if4>);  // by their values
  CHECK(!(other == spec_of<if4>));
}
