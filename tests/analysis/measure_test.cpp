// ufp4 - analysis::measure against sums over the model's codes; bin bias for every code of every element.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include <ufp4/analysis/measure.hpp>
#include <ufp4/format/table_element.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/rejection.hpp"
#include "support/report_check.hpp"
#include "support/seed.hpp"
#include "support/tensor_amax.hpp"
#include "support/threads.hpp"

using namespace ufp4;

namespace {

/// The report of numerics 8 over the model's values, codes and decoded values.
analysis::report summed(const model::format& f, const std::vector<float>& x, std::size_t rows, std::size_t cols,
                        const model::request& q) {
  const std::vector<float> values = model::prepared(f, q.t, x, rows, cols);
  const model::result r = model::quantize(f, x, rows, cols, q);
  const std::size_t reached = q.t.n == 1 ? cols : model::round_up(cols, q.t.n);  // where data is
  analysis::report want;
  double xx = 0, xq = 0, ee = 0;
  std::map<float, double> used;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < reached; ++k) {
      const double v = static_cast<double>(values[i * r.padded + k]),
                   d = static_cast<double>(r.decoded[i * r.padded + k]);
      const std::uint8_t code = r.codes[i * r.padded + k];
      xx += v * v, xq += v * d, ee += (d - v) * (d - v);
      if (f.g.bits == 4) ++want.histogram[code];
      ++used[f.g.value[code]];  // -0.0f and 0.0f are one key
      ++want.elements;
    }
  want.blocks = r.scales.size();
  want.attenuation = xq / xx;
  want.sqnr_db = 10 * std::log10(xx / ee);
  double entropy = 0;
  for (const auto& [value, count] : used) {
    const double p = count / static_cast<double>(want.elements);
    entropy -= p * std::log2(p);
  }
  want.bucket_utilization = f.g.bits == 4 ? std::exp2(entropy) / static_cast<double>(f.g.ascending.size()) : NAN;
  want.saturation_rate = static_cast<double>(r.saturated) / static_cast<double>(want.elements);
  want.scale_underflow_rate = static_cast<double>(r.underflowed_scales) / static_cast<double>(want.blocks);
  want.nonfinite_blocks = r.nonfinite_blocks;
  return want;
}

bool near(double a, double b) { return a == b || std::abs(a - b) <= 1e-11 * std::abs(b) || (a != a && b != b); }

void require_equal(const analysis::report& got, const analysis::report& want) {
  support::check_report(got, want, near);
}

model::transform turned(std::size_t n) { return n == 1 ? model::transform{} : model::random_transform(n, 6); }
transform_spec spec_of_turn(std::size_t n) {
  if (n == 256) return random_hadamard<256>{6}.spec();
  return n == 1 ? transform_spec{} : n == 16 ? random_hadamard<16>{6}.spec() : random_hadamard<64>{6}.spec();
}

template <class F>
void check() {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(F::block_size)};
  for (const std::size_t cols : {1u, 16u, 40u, 64u, 100u})
    for (const std::size_t n : {1u, 16u, 64u}) {
      if (n > 1 && F::block.rows > 1) continue;
      CAPTURE(cols, n);
      const std::size_t rows = 21;
      std::vector<float> x = model::wide_floats(gen, rows * cols, 8);
      for (std::size_t k = 0; k < cols; ++k) x[3 * cols + k] = 0;        // a row of zeros
      for (std::size_t k = 0; k < cols; ++k) x[4 * cols + k] *= 1e-20f;  // scales underflow where they can
      const matrix_view<const float> view{x.data(), rows, cols};
      model::request q;
      q.t = turned(n);
      require_equal(analysis::measure<F>(view, spec_of_turn(n)), summed(model::format_of<F>(), x, rows, cols, q));
      q.rounding = {model::rounding::stochastic, 8, 9};
      require_equal(analysis::measure<F>(view, stochastic{.seed = 8, .stream = 9}, spec_of_turn(n)),
                    summed(model::format_of<F>(), x, rows, cols, q));
    }
}

/// Columns beyond what kernels take at once, a ragged end, a ragged last strip, NaN, columns that lie along memory;
/// transforms that are shorter and longer than a block.
template <class F, ufp4::detail::matrix_scalar T>
void check_tiers(bool turned_around = false, bool with_nan = false) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(F::block_size)};
  for (const std::size_t cols : {3u, 47u, 640u, 9001u})
    for (const std::size_t n : {1u, 16u, 256u}) {
      const std::size_t rows = 19;
      std::vector<float> wide = model::wide_floats(gen, rows * cols, 6);
      if (with_nan) wide.at(rows * cols / 2) = NAN;
      std::vector<T> x;
      for (const float v : wide) x.push_back(static_cast<T>(v));
      const auto long_stride = static_cast<std::ptrdiff_t>(turned_around ? rows : cols);
      const matrix_view<const T> view{x.data(), rows, cols, turned_around ? 1 : long_stride,
                                      turned_around ? long_stride : 1};
      const stochastic random_word{.seed = 4, .stream = 1};
      const auto nearest_on = [&](cpu::isa tier) {
        return analysis::measure<F>(view, spec_of_turn(n), cpu::context{.isa = tier});
      };
      const auto random_bits_on = [&](cpu::isa tier) {
        return support::with_amax<F>(tensor_amax{100}, [&](auto... amax) {
          return analysis::measure<F>(view, spec_of_turn(n), random_word, amax..., shard{128, 0, cols},
                                      cpu::context{.isa = tier});
        });
      };
      for (const cpu::isa tier : support::runnable_isas()) {
        CAPTURE(cols, n, cpu::name(tier));
        support::check_report(nearest_on(tier), nearest_on(cpu::isa::scalar));
        support::check_report(random_bits_on(tier), random_bits_on(cpu::isa::scalar));
      }
    }
}

const double inf = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("every tier sums to the bits of the portable one", "[analysis]") {
  SECTION("e1m2_f32, from fp16") { check_tiers<e1m2_f32, fp16>(); }
  SECTION("nvfp4") { check_tiers<nvfp4, float>(); }
  SECTION("mxint4, from bf16") { check_tiers<mxint4, bf16>(); }
  SECTION("squares") { check_tiers<block_format<fp4<E2M1>, e4m3, square(16), float>, float>(); }
  SECTION("the largest squares") { check_tiers<block_format<ufp4::int4, float, square(64)>, float>(); }
  SECTION("the shortest blocks") { check_tiers<block_format<fp4<E1M2>, float, 2>, float>(); }
  SECTION("NF4, a NaN") { check_tiers<block_format<nf4, float, 16>, float>(false, true); }
  SECTION("int8_f32") { check_tiers<int8_f32, float>(); }
  SECTION("e2m1_f32, columns along memory") { check_tiers<e2m1_f32, float>(true); }
}

TEST_CASE("measure is the sums of numerics 8 over transformed values and their codes", "[analysis]") {
  SECTION("e1m2_f32") { check<e1m2_f32>(); }
  SECTION("int4_f32") { check<int4_f32>(); }
  SECTION("nvfp4") { check<nvfp4>(); }
  SECTION("mxfp4, blocks longer than the shorter transform") { check<mxfp4>(); }
  SECTION("mxint4") { check<mxint4>(); }
  SECTION("squares, a ragged last strip") { check<block_format<fp4<E2M1>, e4m3, square(16), float>>(); }
  SECTION("NF4") { check<block_format<nf4, float, 16>>(); }
  SECTION("int8_f32, without a histogram") { check<int8_f32>(); }
  SECTION("mxint8, without a histogram") { check<mxint8>(); }
}

TEST_CASE("measure takes rules and tensor_amax, and counts into a report", "[analysis]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  const std::vector<float> x = model::wide_floats(gen, 30 * 64, 8);
  const matrix_view<const float> view{x.data(), 30, 64};
  model::request q;
  q.how = model::rule::up;
  q.global_amax = 1000;
  require_equal(analysis::measure<nvfp4>(view, scale_up{}, tensor_amax{1000}),
                summed(model::format_of<nvfp4>(), x, 30, 64, q));
  quantize_report seen{1, 1, 1};
  analysis::measure<mxfp4>(view, count_into{seen});
  const model::result r = model::quantize(model::format_of<mxfp4>(), x, 30, 64);
  CHECK(r.saturated > 0);
  CHECK(seen == quantize_report{1, 1 + r.saturated, 1});
}

TEST_CASE("a preset of another project's is measured by the values that it gives", "[analysis]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const std::vector<float> x = model::wide_floats(gen, 8 * 64, 3);
  const matrix_view<const float> view{x.data(), 8, 64};
  std::vector<float> fake(x.size());
  fake_quantize<compat::ggml_mxfp4>(view, matrix_view<float>{fake.data(), 8, 64});
  double xx = 0, xq = 0, ee = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto v = static_cast<double>(x[i]), d = static_cast<double>(fake[i]);
    xx += v * v, xq += v * d, ee += (d - v) * (d - v);
  }
  const analysis::report got = analysis::measure<compat::ggml_mxfp4>(view);
  CHECK(near(got.attenuation, xq / xx));
  CHECK(near(got.sqnr_db, 10 * std::log10(xx / ee)));
}

TEST_CASE("a NaN block makes attenuation and SQNR NaN, and only those", "[analysis]") {
  std::vector<float> x(64, 1.0f);
  x[20] = NAN;
  const analysis::report r = analysis::measure<e1m2_f32>(matrix_view<const float>{x.data(), 2, 32});
  CHECK(std::isnan(r.attenuation));
  CHECK(std::isnan(r.sqnr_db));
  CHECK(r.nonfinite_blocks == 1);
  CHECK((r.blocks == 4 && r.elements == 64));
  CHECK((r.histogram[7] == 48 && r.histogram[0] == 16));
  CHECK(r.saturation_rate == 0);
}

TEST_CASE("zeros, representable values and nothing at all", "[analysis]") {
  std::vector<float> x(64, 0.0f);
  const matrix_view<const float> view{x.data(), 2, 32};
  const analysis::report zeros = analysis::measure<mxfp4>(view);
  CHECK(std::isnan(zeros.attenuation));
  CHECK(std::isnan(zeros.sqnr_db));
  CHECK(zeros.bucket_utilization == 1.0 / 15);
  CHECK(zeros.scale_underflow_rate == 0);
  for (std::size_t i = 0; i < 64; ++i) x[i] = i % 2 == 0 ? 6.0f : -1.5f;
  const analysis::report exact = analysis::measure<mxfp4>(view);
  CHECK(exact.attenuation == 1);
  CHECK(exact.sqnr_db == inf);
  CHECK(near(exact.bucket_utilization, 2.0 / 15));
  CHECK((exact.histogram[7] == 32 && exact.histogram[8 + 3] == 32));
  const analysis::report none = analysis::measure<mxfp4>(matrix_view<const float>{nullptr, 0, 32});
  CHECK((none.elements == 0 && none.blocks == 0 && none.bucket_utilization == 0));
}

TEST_CASE("the two zeros are one value of fifteen", "[analysis]") {
  std::vector<float> x(32, 0.01f);
  for (std::size_t i = 0; i < 32; i += 2) x[i] = -0.01f;
  x[0] = 6.0f;
  const analysis::report r = analysis::measure<mxfp4>(matrix_view<const float>{x.data(), 1, 32});
  CHECK((r.histogram[0] == 16 && r.histogram[8] == 15 && r.histogram[7] == 1));
  const double p = 1.0 / 32, entropy = -p * std::log2(p) - (1 - p) * std::log2(1 - p);
  CHECK(near(r.bucket_utilization, std::exp2(entropy) / 15));
}

TEST_CASE("a matrix in pieces of rows gives the report of the whole", "[analysis]") {
  constexpr std::size_t rows = 37, cols = 70;
  std::mt19937_64 random{support::seed(6)};
  std::normal_distribution<float> normal;
  std::vector<float> x(rows * cols);
  for (float& v : x) v = normal(random);
  const auto piece = [&](std::size_t first, std::size_t count) {
    return matrix_view<const float>{x.data() + first * cols, count, cols};
  };
  const random_hadamard<32> rht{3};
  const stochastic random_word{.seed = 8};
  const analysis::report whole = analysis::measure<nvfp4>(piece(0, rows), rht, random_word);
  for (const std::size_t at_once : {1u, 5u, 36u}) {
    analysis::measurement<nvfp4> sums;
    for (std::size_t first = 0; first < rows; first += at_once)
      sums.add(piece(first, std::min(at_once, rows - first)), rht, random_word, amax(piece(0, rows), rht),
               shard{first, 0, cols}, cpu::context{});
    support::check_report(sums.result(), whole);
  }
}

TEST_CASE("every thread count and executor sums to the same bits", "[analysis]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  const std::size_t rows = 300, cols = 700;
  const std::vector<float> x = model::wide_floats(gen, rows * cols, 10);
  const matrix_view<const float> view{x.data(), rows, cols};
  const analysis::report alone = analysis::measure<nvfp4>(view, random_hadamard<16>{1}, cpu::context{.threads = 1});
  support::on_every_context([&](const cpu::context& context) {
    const analysis::report r = analysis::measure<nvfp4>(view, random_hadamard<16>{1}, context);
    REQUIRE(r.attenuation == alone.attenuation);
    REQUIRE(r.sqnr_db == alone.sqnr_db);
    REQUIRE(r.bucket_utilization == alone.bucket_utilization);
    REQUIRE(r.histogram == alone.histogram);
    REQUIRE(r.saturation_rate == alone.saturation_rate);
    REQUIRE(r.elements == rows * 704);
  });
}

TEST_CASE("delta_sqnr is the quotient of the two normalised errors in decibel", "[analysis]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  std::vector<float> x = model::wide_floats(gen, 20 * 64, 2);
  for (std::size_t i = 0; i < x.size(); i += 16) x[i] *= 30;  // a transform helps a uniform grid here
  const matrix_view<const float> view{x.data(), 20, 64};
  model::request with;
  with.t = turned(16);
  const double plain = summed(model::format_of<e1m2_f32>(), x, 20, 64, {}).sqnr_db;
  const double better = summed(model::format_of<e1m2_f32>(), x, 20, 64, with).sqnr_db;
  const double delta = analysis::delta_sqnr<e1m2_f32>(view, random_hadamard<16>{6});
  CHECK(std::abs(delta - (better - plain)) < 1e-9);
  CHECK(delta > 3);
}

TEST_CASE("mistakes are named", "[analysis]") {
  const matrix_view<const float> nothing{nullptr, 2, 32};
  CHECK(support::rejection([&] { analysis::measure<mxfp4>(nothing); }) ==
        "analysis::measure: x is null, but has 2 x 32 elements");
  std::vector<float> x(64);
  CHECK(support::rejection([&] { analysis::measure<nvfp4>(matrix_view<const float>{x.data(), 2, 32}, mx_ceil{}); }) ==
        "analysis::measure: mx_floor, mx_even and mx_ceil are for e8m0 scales");
}

// ---- Bin bias

TEST_CASE("bin bias is a quarter of what a code's neighbours lack in balance", "[analysis]") {
  const auto all = []<class E>(E, const std::array<double, 16>& want) {
    for (std::uint8_t code = 0; code < 16; ++code) {
      CAPTURE(code);
      CHECK(analysis::bin_bias<E>(code) == want[code]);
    }
  };
  // From the magnitudes of numerics 1 by hand: 2 lies between 1.5 and 3, (4 - 4.5)/4; 4 between 3 and 6, (8 - 9)/4.
  all(fp4<E2M1>{}, {0, 0, 0, 0, -0.125, 0, -0.25, 0, 0, 0, 0, 0, -0.125, 0, -0.25, 0});
  all(fp4<E1M2>{}, {});
  all(ufp4::int4{}, {});
  // 0 .25 .5 1 2 4 8 16: from .5 on, the lower neighbour is half, the upper twice: -a/8.
  all(fp4<E3M0>{}, {0, 0, -0.0625, -0.125, -0.25, -0.5, -1, 0, 0, 0, -0.0625, -0.125, -0.25, -0.5, -1, 0});
  // NF4 counts each side's own neighbours.
  const auto v = [](std::size_t c) { return static_cast<double>(model::grid_of<nf4>().value[c]); };
  std::array<double, 16> nf4_bias{};
  for (std::size_t c = 1; c < 15; ++c)
    if (c != 7) nf4_bias[c] = (c < 7 ? -1 : 1) * (2 * v(c) - v(c - 1) - v(c + 1)) / 4;
  all(nf4{}, nf4_bias);
  static_assert(analysis::bin_bias<fp4<E2M1>>(4) == -0.125);
}
