// ufp4 - the quantize and amax kernels of every tier give the scalar kernels' bits and write nothing else.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/explain.hpp>
#include <ufp4/quantize.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include <ufp4/block/presets.hpp>
#include <ufp4/format/table_element.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/strided.hpp"
#include "support/threads.hpp"

namespace {

using namespace ufp4;
using namespace ufp4::cpu::detail;
using support::guarded;
using support::layout;
using support::strided;
using rule_kind = ufp4::scale_rule_spec::kind;
using rounding_kind = rounding_spec::kind;

/// Not symmetric, with gaps that are no powers of two.
struct lopsided_levels {
  static constexpr float values[16] = {-3,   -1.5f, -1,   -0.75f, -0.3f, 0, 0.1f, 0.25f,
                                       0.4f, 0.7f,  1.1f, 1.6f,   2.2f,  3, 4,    5.5f};
  static constexpr bool exact_products = false;
};

/// The values of fp4_remapped<E2M1, 5> and fp4_remapped<E2M1, -5> times 8, with the codes in another order.
struct with_forty {
  static constexpr float values[16] = {-48, -32, -24, -16, -12, -8, -4, 0, 4, 8, 12, 16, 24, 32, 40, 48};
  static constexpr bool exact_products = true;
};
struct with_minus_forty {
  static constexpr float values[16] = {-48, -40, -32, -24, -16, -12, -8, -4, 0, 4, 8, 12, 16, 24, 32, 48};
  static constexpr bool exact_products = true;
};

/// Formats are data to kernels, so this is a list of values. It holds every preset, every scale kind with one level and
/// with two, every regular grid, squares, and blocks longer and shorter than the transforms; the same of byte elements.
const std::vector<format_spec>& formats() {
  static const std::vector<format_spec> list = [] {
    std::vector<format_spec> all = {
        spec_of<block_format<nf4, float, 32>>,
        spec_of<block_format<nf4, e4m3, 16, float>>,
        spec_of<block_format<table_element<lopsided_levels>, e8m0, 32>>,
        spec_of<block_format<fp4<E3M0>, e4m3, 16>>,
        spec_of<block_format<fp4<E3M0>, e8m0, 64>>,
        spec_of<block_format<fp4<E2M1>, ue5m3, 16>>,
        spec_of<block_format<fp4<E2M1>, ue5m3, 64, float>>,
        spec_of<block_format<fp4<E2M1>, bf16, 16>>,
        spec_of<block_format<int4, bf16, 32>>,
        spec_of<block_format<fp4<E1M2>, bf16, 128>>,
        spec_of<block_format<fp4<E2M1>, float, 256>>,
        spec_of<block_format<fp4<E2M1>, e4m3, square(16), float>>,
        spec_of<block_format<fp4<E1M2>, e8m0, square(32)>>,
        spec_of<block_format<int4, float, square(64)>>,
    };
    const std::vector<format_spec> wide = {
        spec_of<block_format<ufp4::int8, e4m3, 16, float>>,
        spec_of<block_format<ufp4::int8, bf16, 64>>,
        spec_of<block_format<int8q6, ue5m3, 256>>,
        spec_of<block_format<int8q6, e8m0, square(32)>>,
        spec_of<block_format<ufp4::int8, float, square(16)>>,
        spec_of<block_format<fp8_e4m3, float, 32>>,
        spec_of<block_format<fp8_e5m2, bf16, 64>>,
        spec_of<block_format<fp8_e5m2, e8m0, square(32)>>,
        spec_of<block_format<fp6_e2m3, e4m3, 16, float>>,
        spec_of<block_format<fp6_e3m2, ue5m3, 256>>,
    };
    // Outer scales of rows and segments longer and shorter than a tile, several grids, one-bit exponents.
    const std::vector<format_spec> extended = {
        spec_of<block_format<fp4<E2M1>, e4m3, 16, per_row<float>>>,
        spec_of<block_format<int4, ue5m3, 32, per_segment<32, bf16>>>,
        spec_of<block_format<nf4, e4m3, 16, per_segment<2048, float>>>,
        spec_of<block_format<fp4<E2M1>, e4m3, 16, per_segment<48, float>>>,
        spec_of<block_format<int4, ue5m3, 32, per_segment<224, bf16>>>,
        spec_of<block_format<fp4<E2M1>, e4m3, 16, per_segment<272, float>>>,  // does not fit a tile: is read twice
        spec_of<block_format<one_of<fp4<E2M1>, scaled<int4, 6, 7>>, ue5m3, 64, per_segment<320, float>>>,
        spec_of<block_format<fp4<E1M2>, e4m3, grouped(16, 4), per_segment<16 * 5, bf16>>>,
        spec_of<block_format<one_of<fp4<E2M1>, nf4, scaled<fp4<E1M2>, 3>, table_element<lopsided_levels>>, ue5m3, 16>>,
        spec_of<block_format<one_of<int4, scaled<nf4, 5>>, float, 32>>,
        spec_of<block_format<one_of<fp4<E1M2>, fp4<E3M0>>, e8m0, 32>>,
        spec_of<block_format<one_of<fp4<E2M1>, scaled<int4, 6, 7>, fp4<E1M2>>, e4m3, 64, per_segment<128, bf16>>>,
        spec_of<block_format<one_of<int4, fp4<E2M1>>, bf16, 16>>,
        spec_of<block_format<one_of<fp4_remapped<E2M1, 5>, fp4_remapped<E2M1, -5>>, float, 32>>,
        spec_of<block_format<one_of<fp4_remapped<E2M1, -5>, fp4_remapped<E2M1, 7>>, e4m3, 16, per_row<float>>>,
        spec_of<block_format<one_of<table_element<with_forty>, table_element<with_minus_forty>>, ue5m3, 64>>,
        spec_of<block_format<one_of<table_element<with_minus_forty>, fp4_remapped<E2M1, 5>>, e8m0, 32>>,
        spec_of<block_format<fp4<E2M1>, e6m2, 16>>,
        spec_of<block_format<nf4, e6m2, grouped(32, 16)>>,
        spec_of<block_format<fp4<E2M1>, e4m3, grouped(16, 2), float>>,
        spec_of<block_format<int4, e8m0, grouped(256, 64, 16)>>,
        spec_of<block_format<fp4<E1M2>, ue5m3, grouped(32, 8, 2), per_segment<64, float>>>,
    };
    all.insert(all.end(), wide.begin(), wide.end());
    all.insert(all.end(), extended.begin(), extended.end());
    const auto add = [&all](auto preset) { all.push_back(preset.spec); };
    ufp4::detail::for_each_row(ufp4::detail::presets{}, add);
    ufp4::detail::for_each_row(ufp4::detail::extended_presets{}, add);
    ufp4::detail::for_each_row(ufp4::detail::byte_presets{}, add);
    return all;
  }();
  return list;
}

struct random_source {
  std::mt19937_64 gen;
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(gen() % n); }
  bool random_word() { return below(2) == 0; }
};

transform_spec random_transform(random_source& r, std::uint32_t n) {
  transform_spec t{.n = n};
  for (std::uint32_t j = 0; n > 1 && j < n; ++j)
    if (r.random_word()) t.signs[j / 32] |= 1u << (j % 32);
  t.rounds_to_bf16 = n > 1 && r.below(4) == 0;
  return t;
}

quantize_job make_job(const source& x, const format_spec& format, const transform_spec& t) {
  quantize_job job{.x = x, .format = format, .transform = t};
  job.padded_cols = job.whole_padded_cols = ufp4::detail::padded_length(x.cols, format.block, t);
  return job;
}

/// A place in a whole matrix whose element indices sometimes need more than 32 bits.
void place_randomly(random_source& r, quantize_job& job) {
  job.first_row = (r.gen() >> (8 + r.below(50))) / 64 * 64;
  job.first_col = 256 * r.below(100);
  job.whole_padded_cols += job.first_col + 256 * r.below(3);
}

/// One of the rules that read values, around `rule`.
ufp4::scale_rule_spec rule_of_values(random_source& r, const format_spec& format, ufp4::scale_rule_spec rule) {
  const std::size_t which = r.below(6);
  if (r.random_word()) rule.error = search_error::absolute;
  if (which == 0 && format.two_level() && format.grid.qmax == 6.0f)
    return {.what = rule_kind::four_over_six, .error = rule.error};
  if (which <= 2) rule = {.what = rule_kind::percentile, .per_mille = static_cast<std::uint16_t>(1 + r.below(1000))};
  rule.searches = which >= 2;
  if (r.random_word()) rule.window.below = static_cast<std::uint8_t>(r.below(8));
  if (r.random_word()) rule.window.above = static_cast<std::uint8_t>(r.below(8));
  return rule;
}

kernel_coder random_coder(random_source& r, const quantize_job& job) {
  kernel_coder coder{job.format, {}, {}, {}};
  switch (r.below(5)) {
    case 0: coder.rounding = nearest_away{}; break;
    case 1: coder.rounding = toward_zero{}; break;
    case 2: coder.rounding = stochastic{r.gen(), r.random_word() ? r.gen() : 0}; break;
    default: break;
  }
  constexpr rule_kind rules[] = {rule_kind::by_format, rule_kind::mx_floor, rule_kind::mx_even, rule_kind::mx_ceil};
  if (job.format.scale == scale_kind::e8m0)
    coder.rule.what = rules[r.below(4)];
  else if (job.format.scale != scale_kind::f32 && r.random_word())
    coder.rule.what = rule_kind::up;
  if (r.below(3) == 0) {
    const ufp4::scale_rule_spec rule = rule_of_values(r, job.format, coder.rule);
    if (ufp4::detail::rule_mismatch(rule, job.format) == nullptr) coder.rule = rule;
  }
  if (job.format.choice.count != 0) coder.rule.grids = static_cast<search_error>(r.below(3));
  float global_amax = ufp4::detail::to_float(amax_strips(job, 0, job.strips()));
  if (r.below(6) == 0) global_amax *= 0.01f;  // a tensor_amax that the caller gives may be wrong
  if (r.below(20) == 0) global_amax = 0;
  coder.tensor = ufp4::detail::make_tensor_constants(job.format, coder.rule, global_amax);
  return coder;
}

struct outputs {
  guarded<std::uint8_t> codes, scales;
  quantize_report report{};
  explicit outputs(const quantize_job& job)
      : codes(ufp4::detail::code_bytes(job.format, job.x.rows * job.padded_cols), 3),
        scales(job.strips() * ufp4::detail::scale_strip_of(job.format, job.padded_cols).bytes(), 4) {}
  quantized_sink sink() { return {codes.data(), scales.data()}; }
  bool same_as(const outputs& other) const {
    return codes.same_bytes(other.codes.span()) && scales.same_bytes(other.scales.span()) && codes.guards_intact() &&
           scales.guards_intact();
  }
};

/// Compares the kernels of every tier with the scalar ones; each does the job in two calls, divided at some strip.
void check_every_tier(random_source& r, const quantize_job& job, const kernel_coder& coder) {
  outputs want(job);
  quantize_scalar(job, coder, want.sink(), 0, job.strips(), want.report);
  const std::uint32_t largest = amax_strips(job, 0, job.strips());
  for (const cpu::isa tier : support::runnable_isas()) {
    const quantize_row& row = quantize_kernel_for(kernels::quantize<ufp4::detail::features::all>, job, coder, tier);
    CAPTURE(row.name, job.format.block.rows, job.format.block.cols, static_cast<int>(job.format.scale),
            job.format.two_level(), job.format.outer.segment, job.format.choice.count, job.format.block.group.wide,
            job.format.grid.qmax, job.transform.n, job.transform.rounds_to_bf16, job.x.rows, job.x.cols,
            static_cast<int>(job.x.kind), job.x.row_stride, job.x.col_stride, static_cast<int>(coder.rounding.what),
            static_cast<int>(coder.rule.what), coder.rule.searches, static_cast<int>(coder.rule.error),
            coder.rule.window.below, coder.rule.window.above, coder.rule.per_mille);
    outputs got(job);
    const std::size_t meet = r.below(job.strips() + 1);
    row.kernel(job, coder, got.sink(), 0, meet, got.report);
    row.kernel(job, coder, got.sink(), meet, job.strips(), got.report);
    REQUIRE(got.same_as(want));
    if (!job.counts) got.report.saturated = want.report.saturated;
    REQUIRE(got.report == want.report);
    const auto amax = kernel_for(kernels::amax<ufp4::detail::features::all>, tier).kernel;
    REQUIRE(std::max(amax(job, 0, meet), amax(job, meet, job.strips())) == largest);
  }
}

template <class T>
void check_matrix(random_source& r, support::hostile& numbers, const format_spec& format, const transform_spec& t,
                  std::size_t rows, std::size_t cols, layout l) {
  strided<T> x(rows, cols, l);
  x.fill(support::elements<T>(numbers.values(rows * cols, r.random_word(), r.random_word())));
  quantize_job job = make_job(ufp4::detail::source_of(matrix_view<const T>(x.view())), format, t);
  if (r.below(3) == 0) place_randomly(r, job);
  job.counts = r.random_word();
  check_every_tier(r, job, random_coder(r, job));
}

constexpr std::uint32_t transforms[] = {1, 16, 32, 64, 128, 256};

/// The values that rounding can give, ascending.
std::vector<float> levels_of(const format_spec& format) {
  std::vector<float> levels(format.grid.level, format.grid.level + format.grid.levels);
  if (format.byte == ufp4::detail::byte_element::none) return levels;
  levels.clear();
  const int most = format.byte == ufp4::detail::byte_element::int8
                       ? 127
                       : static_cast<int>(ufp4::detail::byte_layout(format.byte).max_code);
  for (int n = -most; n <= most; ++n) {
    const float magnitude = format.byte == ufp4::detail::byte_element::int8
                                ? static_cast<float>(std::abs(n)) * format.grid.unit
                                : ufp4::detail::byte_float_value(format.byte, static_cast<std::uint32_t>(std::abs(n)));
    levels.push_back(n < 0 ? -magnitude : magnitude);
  }
  return levels;
}

}  // namespace

TEST_CASE("any job gives the scalar kernel's codes, scales and report on every tier", "[cpu]") {
  INFO(support::seed_note());
  random_source r{std::mt19937_64{support::seed(1)}};
  support::hostile numbers(support::seed(2));
  for (int i = 0; i < 1500; ++i) {
    const format_spec& format = formats()[r.below(formats().size())];
    const transform_spec t = random_transform(r, transforms[r.below(6)]);
    const bool large = r.below(12) == 0;
    const std::size_t rows = large ? 120 + r.below(40) : 1 + r.below(r.random_word() ? 20 : 3);
    const std::size_t cols = large ? r.below(700) : r.below(330);
    const layout l = support::all_layouts[r.below(6)];
    switch (r.below(3)) {
      case 0: check_matrix<float>(r, numbers, format, t, rows, cols, l); break;
      case 1: check_matrix<bf16>(r, numbers, format, t, rows, cols, l); break;
      default: check_matrix<fp16>(r, numbers, format, t, rows, cols, l);
    }
  }
}

TEST_CASE("every tier gives the scalar kernel's bytes for 0 to 320 columns and 1 to 17 rows", "[cpu]") {
  INFO(support::seed_note());
  random_source r{std::mt19937_64{support::seed(3)}};
  support::hostile numbers(support::seed(4));
  std::size_t next = 0;
  for (std::size_t cols = 0; cols <= 320; ++cols) {
    const std::size_t rows = 1 + cols % 17;
    for (const layout l : {layout::packed, layout::wide, layout::transposed}) {
      const format_spec& format = formats()[next++ % formats().size()];
      check_matrix<float>(r, numbers, format, random_transform(r, transforms[next % 6]), rows, cols, l);
    }
  }
  for (std::size_t rows = 1; rows <= 17; ++rows)
    for (const format_spec& format : formats())
      check_matrix<bf16>(r, numbers, format, random_transform(r, rows % 3 == 0 ? 16 : 1), rows, 97, layout::transposed);
}

TEST_CASE("values at every cut of a grid, and next to it, get the scalar kernel's codes", "[cpu]") {
  // Scales that are powers of two and others: quotients on a cut, a float below and a float above.
  random_source r{std::mt19937_64{support::seed(5)}};
  for (const format_spec& format : formats()) {
    const grid4& g = format.grid;
    const auto length = static_cast<std::size_t>(format.block.cols);
    for (const float scale : {1.0f, 0.5f, 3.0f, 1.1f, 0x1p-100f, 0x1.8p100f, 0x1p-140f}) {
      std::vector<float> x;
      const std::vector<float> level = levels_of(format);
      for (std::size_t i = 1; i < level.size(); ++i)
        for (const float at : {(level[i - 1] + level[i]) / 2, level[i], level[i - 1]})
          for (int ulps = -3; ulps <= 3; ++ulps) {
            const float v = at * scale;
            x.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) + static_cast<std::uint32_t>(ulps)));
          }
      for (std::size_t i = 0; i < x.size(); i += length) x[i] = g.qmax * scale;
      for (const rounding_spec rounding : {rounding_spec(nearest_even{}), rounding_spec(nearest_away{}),
                                           rounding_spec(toward_zero{}), rounding_spec(stochastic{1, 2})}) {
        quantize_job job =
            make_job({x.data(), dtype::f32, 1, x.size(), static_cast<std::ptrdiff_t>(x.size()), 1}, format, {});
        kernel_coder coder{format, {}, {}, rounding};
        coder.tensor = ufp4::detail::make_tensor_constants(format, coder.rule, g.qmax * scale);
        for (const bool counts : {true, false}) {
          job.counts = counts;
          check_every_tier(r, job, coder);
        }
        coder.rule.searches = true;  // its first candidates have these quotients too
        coder.rule.window = {0, 1};
        if (rounding.what == rounding_kind::nearest_even && ufp4::detail::rule_mismatch(coder.rule, format) == nullptr)
          check_every_tier(r, job, coder);
      }
    }
  }
}

TEST_CASE("a search gives the scalar kernel's scales where errors are equal, zero, or of values far beyond the grid",
          "[cpu]") {
  // One value a block, levels times a scale, one magnitude, and an outlier of either sign under a percentile.
  random_source r{std::mt19937_64{support::seed(8)}};
  for (const format_spec& format : formats()) {
    const auto length = static_cast<std::size_t>(format.block.cols),
               height = static_cast<std::size_t>(format.block.rows);
    const std::size_t cols = (height == 1 ? 40 : 16) * length;
    const std::vector<float> levels = levels_of(format);
    std::vector<float> x(height * cols);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t block = i % cols / length, k = i % cols % length + i / cols;
      const float sign = r.random_word() ? -1.0f : 1.0f,
                  power = std::bit_cast<float>(static_cast<std::uint32_t>(block % 8 * 9 + 92) << 23);
      const float level = levels[r.below(levels.size())];
      const float values[5] = {k == 3 ? sign : 0.0f, level, sign, k == 5 ? sign * 0x1p30f : level, 1.0f + level / 1024};
      x[i] = values[block % 5] * power;
    }
    for (ufp4::scale_rule_spec rule : {mse_search{}.spec(), mae_search{}.spec(), mse_search{31, 40}.spec()})
      for (const std::uint16_t per_mille : {std::uint16_t{1000}, std::uint16_t{500}}) {
        quantize_job job =
            make_job({x.data(), dtype::f32, height, cols, static_cast<std::ptrdiff_t>(cols), 1}, format, {});
        if (per_mille != 1000) rule.what = rule_kind::percentile, rule.per_mille = per_mille;
        if (ufp4::detail::rule_mismatch(rule, format) != nullptr) continue;
        kernel_coder coder{format, rule, {}, {}};
        coder.tensor = ufp4::detail::make_tensor_constants(format, coder.rule, 1.0f);
        check_every_tier(r, job, coder);
      }
  }
}

TEST_CASE("stochastic rounding gives the scalar kernel's codes where the number of a Philox block needs a 33rd bit",
          "[cpu]") {
  random_source r{std::mt19937_64{support::seed(7)}};
  constexpr std::size_t rows = 24, cols = 3088;
  std::normal_distribution<float> normal;
  std::vector<float> x(rows * cols);
  for (float& v : x) v = normal(r.gen);
  for (const format_spec& format : formats()) {
    quantize_job job = make_job({x.data(), dtype::f32, rows, cols, static_cast<std::ptrdiff_t>(cols), 1}, format, {});
    const std::uint64_t height = static_cast<std::uint64_t>(format.block.rows);
    job.first_row = ((std::uint64_t{1} << 35) / job.whole_padded_cols - rows / 2) / height * height;
    job.counts = false;
    kernel_coder coder{format, {}, {}, stochastic{r.gen(), r.gen()}};
    coder.tensor = ufp4::detail::make_tensor_constants(format, coder.rule, 4.0f);
    check_every_tier(r, job, coder);
  }
}

TEST_CASE("empty, vanishing and infinite blocks are counted and coded as the scalar kernel does", "[cpu]") {
  random_source r{std::mt19937_64{support::seed(6)}};
  constexpr float special[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-127f, 0x1p-126f, 0x1.fffffep127f, -0x1p120f, 1.0f};
  for (const format_spec& format : formats()) {
    const std::size_t cols = 24 * static_cast<std::size_t>(format.block.cols);
    std::vector<float> x(cols);
    for (std::size_t i = 0; i < cols; ++i) x[i] = special[i / static_cast<std::size_t>(format.block.cols) % 8];
    x[cols / 2] = std::bit_cast<float>(0x7FC00001u);
    x[cols / 3] = -std::bit_cast<float>(0x7F800000u);
    for (const std::uint32_t n : {1u, 16u})
      for (const float global_amax : {0.0f, 1.0f, 0x1p-140f, 0x1.fffffep127f}) {
        quantize_job job =
            make_job({x.data(), dtype::f32, 1, cols, static_cast<std::ptrdiff_t>(cols), 1}, format, {.n = n});
        for (const ufp4::scale_rule_spec& rule :
             {ufp4::scale_rule_spec{}, mse_search{}.spec(), percentile{700}.spec()}) {
          kernel_coder coder{format, rule, {}, {}};
          coder.tensor = ufp4::detail::make_tensor_constants(format, coder.rule, global_amax);
          job.counts = r.random_word();
          check_every_tier(r, job, coder);
        }
      }
  }
}

TEST_CASE(
    "blocks of 16 and more have a vector kernel for every grid, scale, rounding and rule but searches in NF4 with "
    "one-bit exponents; short blocks have none",
    "[cpu]") {
  const auto kernel_of = [](const format_spec& format, ufp4::scale_rule_spec rule, cpu::isa tier) {
    float x[2] = {1, 2};
    const quantize_job job = make_job({x, dtype::f32, 1, 2, 2, 1}, format, {});
    return quantize_kernel_for(kernels::quantize<ufp4::detail::features::all>, job,
                               kernel_coder{format, rule, {}, stochastic{}}, tier)
        .tier;
  };
  for (const cpu::isa tier : support::runnable_isas()) {
    const cpu::isa vectors = tier == cpu::isa::avx_vnni                           ? cpu::isa::avx2
                             : tier == cpu::isa::scalar || tier == cpu::isa::avx2 ? tier
                             : tier >= cpu::isa::neon                             ? cpu::isa::neon
                                                                                  : cpu::isa::avx512;
    for (const format_spec& format : formats()) {
      const bool has_searches = format.block.group[0] == 0 || format.grid.levels == 15;  // NF4 has 16
      CAPTURE(static_cast<int>(format.scale), format.block.rows, format.block.cols, format.outer.segment);
      CHECK(kernel_of(format, {}, tier) == vectors);
      CHECK(kernel_of(format, percentile{}.spec(), tier) == vectors);
      for (const ufp4::scale_rule_spec& rule : {mse_search{}.spec(), mae_search{2, 3}.spec()})
        CHECK(kernel_of(format, rule, tier) == (has_searches ? vectors : cpu::isa::scalar));
    }
    CHECK(kernel_of(spec_of<block_format<int4, float, 8>>, {}, tier) == cpu::isa::scalar);
    CHECK(kernel_of(spec_of<block_format<int4, float, 8>>, mse_search{}.spec(), tier) == cpu::isa::scalar);
    CHECK(kernel_of(spec_of<nvfp4>, four_over_six{}.spec(), tier) == vectors);
    CHECK(kernel_of(spec_of<tetrajet2>, four_over_six{}.spec(), tier) == vectors);
    CHECK(kernel_of(spec_of<block_format<fp4<E2M1>, e4m3, square(16), float>>, four_over_six{}.spec(), tier) ==
          vectors);
  }
}

namespace {

/// FNV-1a, so that a number stands for the bytes.
struct byte_hash {
  std::uint64_t value = 0xCBF29CE484222325u;
  template <class Range>
  void add(const Range& range) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(range.data());
    for (std::size_t i = 0; i < range.size() * sizeof(*range.data()); ++i) value = (value ^ bytes[i]) * 0x100000001B3u;
  }
};

constexpr std::size_t hashed_rows = 70, hashed_cols = 1000;

/// Bits of the generator alone: the same everywhere.
std::vector<float> hashed_values() {
  std::mt19937_64 gen{20260620};
  std::vector<float> x(hashed_rows * hashed_cols);
  for (float& v : x) {
    const std::uint64_t draw = gen();
    v = std::bit_cast<float>(static_cast<std::uint32_t>((draw & 0x807FFFFFu) | (116u + (draw >> 32) % 16u) << 23));
  }
  return x;
}

template <class F, class... Policies>
void add_quantized(byte_hash& h, const cpu::context& ctx, const matrix_view<const float>& x,
                   const Policies&... policies) {
  const auto q = quantize<F>(x, policies..., ctx);
  h.add(q.codes());
  h.add(q.scales());
  h.add(std::vector<float>{q.tensor_scale()});
}

/// Codes and scales of several formats under one seed.
std::uint64_t hash_of(const cpu::context& ctx, const std::vector<float>& values) {
  const matrix_view<const float> x{values.data(), hashed_rows, hashed_cols};
  const stochastic random_bits{.seed = 7, .stream = 0x123456789u};
  byte_hash h;
  add_quantized<e1m2_f32>(h, ctx, x, random_hadamard<16>{3}, random_bits);
  add_quantized<nvfp4>(h, ctx, x, random_bits, scale_up{});
  add_quantized<mxfp4>(h, ctx, transpose(x), random_hadamard<128>{4}, random_bits);
  add_quantized<block_format<nf4, float, 32>>(h, ctx, x, random_bits);
  add_quantized<nvfp4>(h, ctx, transpose(x), signed_hadamard<16>{compat::transformer_engine_signs}.to_bf16());
  add_quantized<e2m1_f32>(h, ctx, x);
  return h.value;
}

/// The bytes of a shard to their place in the whole.
template <class Span>
void copy_shard(const Span& from, std::size_t rows, std::size_t width, std::vector<std::uint8_t>& to,
                std::size_t first_row, std::size_t first, std::size_t whole) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(from.data());
  for (std::size_t i = 0; i < rows; ++i)
    std::copy_n(bytes + i * width, width, to.data() + (first_row + i) * whole + first);
}

}  // namespace

TEST_CASE("one seed gives one fixed hash of the bytes on every tier, with one thread and with many", "[cpu][hash]") {
  constexpr std::uint64_t pinned = 0x6b1b68fcf20d188a;  // of the scalar kernels, when this was written
  const std::vector<float> x = hashed_values();
  support::on_every_context([&](const cpu::context& ctx) {
    CAPTURE(cpu::name(ctx.isa), ctx.threads);
    REQUIRE(hash_of(ctx, x) == pinned);
  });
}

TEST_CASE("shards of a matrix quantize to the bytes of the whole on every tier", "[cpu]") {
  const std::vector<float> values = hashed_values();
  const matrix_view<const float> x{values.data(), hashed_rows, hashed_cols};
  const stochastic random_bits{.seed = 5};
  const random_hadamard<32> h{6};
  for (const cpu::isa tier : support::runnable_isas()) {
    const cpu::context ctx{.threads = 2, .isa = tier};
    const auto whole = quantize<e1m2_f32>(x, h, random_bits, ctx);
    const std::size_t codes = whole.padded_cols() / 2, scales = whole.padded_cols() / 4;  // bytes a row
    std::vector<std::uint8_t> joined_codes(whole.codes().size()), joined_scales(whole.scales().size() * 4);
    for (const std::size_t row : std::initializer_list<std::size_t>{0, 13, 40})
      for (const std::size_t col : std::initializer_list<std::size_t>{0, 320, 928}) {
        const std::size_t rows = row == 0 ? 13 : row == 13 ? 27 : 30, cols = col == 0 ? 320 : col == 320 ? 608 : 72;
        const matrix_view<const float> part{&x(row, col), rows, cols, hashed_cols};
        const auto q = quantize<e1m2_f32>(part, h, random_bits, shard{row, col, hashed_cols}, ctx);
        copy_shard(q.codes(), rows, q.padded_cols() / 2, joined_codes, row, col / 2, codes);
        copy_shard(q.scales(), rows, q.padded_cols() / 4, joined_scales, row, col / 4, scales);
      }
    const auto* want = reinterpret_cast<const std::uint8_t*>(whole.scales().data());
    CHECK(std::equal(joined_codes.begin(), joined_codes.end(), whole.codes().begin()));
    CHECK(std::equal(joined_scales.begin(), joined_scales.end(), want));
  }
}
