// ufp4 - every scale rule of numerics 5 against tables worked out by hand and against the model.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/block/scale_rules.hpp>

#include <ufp4/block/presets.hpp>
#include <ufp4/format/table_element.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/model.hpp"
#include "support/seed.hpp"

namespace {

using namespace ufp4;

/// A block whose values are given; amax follows.
struct given_block {
  std::vector<float> x;
  float amax() const {
    float largest = 0;
    for (const float v : x) largest = std::max(largest, model::absolute(v));
    return largest;
  }
};

ufp4::detail::block_scale chosen(const format_spec& f, const ufp4::scale_rule_spec& rule, const given_block& b,
                                 float global_amax) {
  const tensor_constants tensor = detail::make_tensor_constants(f, rule, global_amax);
  const int count = static_cast<int>(b.x.size());
  return ufp4::detail::choose_scale(f, rule, tensor, {b.x.data(), 1, count, count}, b.amax());
}
/// The code of a block that is one number and zeros.
template <class F>
std::uint32_t code_of(const ufp4::scale_rule_spec& rule, float amax, float global_amax = 1) {
  given_block b{std::vector<float>(F::block_size, 0.0f)};
  b.x[1] = -amax;
  return chosen(spec_of<F>, rule, b, global_amax).bits;
}
template <class F>
std::uint32_t model_code_of(model::rule how, float amax, float global_amax = 1) {
  const model::format f = model::format_of<F>();
  model::block b;
  b.x.assign(F::block_size, 0.0f);
  b.x[1] = -amax;
  b.amax = amax;
  b.tensor = model::tensor_level_of(f, how, global_amax);
  return model::scale_for(f, how, false, b).code;
}

float next(float x, int steps) { return model::float_of(model::bits_of(x) + static_cast<std::uint32_t>(steps)); }

}  // namespace

TEST_CASE("mx rules: E2M1 maxima and their exponents, by hand") {
  const struct {
    float amax;
    std::uint32_t floor, even, ceil;
  } rows[] = {
      {4.0f, 127, 127, 127},
      {6.0f, 127, 127, 127},
      {next(6.0f, 1), 127, 127, 128},
      {next(7.0f, -1), 127, 127, 128},
      {7.0f, 127, 128, 128},
      {next(8.0f, -1), 127, 128, 128},
      {8.0f, 128, 128, 128},
      {5.0f, 127, 127, 127},
      {next(5.0f, 1), 127, 127, 127},
      {1.0f, 125, 125, 125},
      {1.5f, 125, 125, 125},
      {1.75f, 125, 126, 126},
      {0x1p-126f, 0, 0, 0},
      {0x1p-125f, 0, 0, 0},
      {0x1.8p-125f, 0, 0, 0},
      {0x1.8p-124f, 1, 1, 1},
      {next(0x1.8p-124f, 1), 1, 1, 2},
      {next(0x1.8p-125f, 1), 0, 0, 1},
      {0x1p-149f, 0, 0, 0},
      {0x1p127f, 252, 252, 252},
      {0x1.fffffep127f, 252, 252, 252},
      {0x1.8p126f, 251, 251, 251},
      {next(0x1.8p126f, 1), 251, 251, 252},
      {0x1.cp126f, 251, 252, 252},
  };
  for (const auto& row : rows) {
    CAPTURE(row.amax);
    CHECK(code_of<mxfp4>({}, row.amax) == row.floor);
    CHECK(code_of<mxfp4>(mx_floor{}.spec(), row.amax) == row.floor);
    CHECK(code_of<mxfp4>(mx_even{}.spec(), row.amax) == row.even);
    CHECK(code_of<mxfp4>(mx_ceil{}.spec(), row.amax) == row.ceil);
  }
}

namespace {

/// Every exponent with the mantissas at which a rule can change its mind, an ulp to either side too.
std::vector<float> hostile_maxima() {
  const std::uint32_t mantissas[] = {0,         1,         2,         0x1FFFFFu, 0x200000u, 0x200001u,
                                     0x3FFFFFu, 0x400000u, 0x400001u, 0x5FFFFFu, 0x600000u, 0x600001u,
                                     0x6FFFFFu, 0x700000u, 0x700001u, 0x777777u, 0x7FFFFEu, 0x7FFFFFu};
  std::vector<float> all;
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent)
    for (const std::uint32_t m : mantissas)
      if ((exponent | m) != 0) all.push_back(model::float_of(exponent << 23 | m));
  for (std::uint32_t shift = 0; shift < 23; ++shift) {  // subnormal powers of two and their neighbours
    const std::uint32_t power = 1u << shift;
    for (const std::uint32_t b : {power - 1, power, power + 1, 3 * power, 3 * power + 1, 7 * power - 1})
      if (b != 0) all.push_back(model::float_of(b));
  }
  return all;
}

using e3m0_mx = block_format<fp4<E3M0>, e8m0, 16>;
using nf4_mx = block_format<nf4, e8m0, 64>;

}  // namespace

TEMPLATE_TEST_CASE("mx rules agree with exact comparisons at every exponent", "", mxfp4, mx_e1m2, mxint4, e3m0_mx,
                   nf4_mx) {
  for (const float amax : hostile_maxima()) {
    CAPTURE(model::bits_of(amax));
    REQUIRE(code_of<TestType>({}, amax) == model_code_of<TestType>(model::rule::mx_floor, amax));
    REQUIRE(code_of<TestType>(mx_even{}.spec(), amax) == model_code_of<TestType>(model::rule::mx_even, amax));
    REQUIRE(code_of<TestType>(mx_ceil{}.spec(), amax) == model_code_of<TestType>(model::rule::mx_ceil, amax));
  }
}

TEST_CASE(
    "mx_even goes up from half a unit of qmax's last mantissa bit below the next power of two, mx_ceil above qmax") {
  using kind = ufp4::scale_rule_spec::kind;
  const auto code = [](float qmax, kind rule, float amax) {
    return detail::power_of_two_scale(detail::make_power_of_two_rule(qmax, rule), amax);
  };
  for (const int binade : {0, -126, 127, -127, -140})  // of qmax; the last two are subnormal
    for (int m = 1; m <= 23 && binade - m >= -149; ++m) {
      const float qmax = std::ldexp(1.0f + std::ldexp(1.0f, -m), binade);
      const float tie = m == 23 ? 2.0f : 2.0f - std::ldexp(1.0f, -m - 1), last = std::nextafter(2.0f, 0.0f);
      const auto same = static_cast<std::uint32_t>(std::min(127 - binade, 254));
      const std::uint32_t next = std::min(same + 1, 254u);
      INFO("qmax " << qmax << ", " << m << " bits");
      CHECK(code(qmax, kind::mx_even, std::nextafter(tie, 0.0f)) == same);
      CHECK(code(qmax, kind::mx_even, std::min(tie, last)) == (m == 23 ? same : next));
      CHECK(code(qmax, kind::mx_ceil, 1.0f + std::ldexp(1.0f, -m)) == same);
      CHECK(code(qmax, kind::mx_ceil, std::nextafter(1.0f + std::ldexp(1.0f, -m), 2.0f)) == next);
      CHECK(code(qmax, kind::mx_floor, last) == same);
    }
}

TEST_CASE("an mx scale is a power of two, its factor the inverse, and both ends of the range are exact") {
  for (std::uint32_t code = 0; code <= 254; ++code) {
    const ufp4::detail::block_scale s = detail::scale_from_bits(spec_of<mxfp4>, {}, code);
    REQUIRE(static_cast<long double>(s.effective) == std::ldexp(1.0L, static_cast<int>(code) - 127));
    REQUIRE(static_cast<long double>(s.factor) == std::ldexp(1.0L, 127 - static_cast<int>(code)));
    REQUIRE(!s.divides);
  }
}

namespace {

// A grid whose largest value is a power of two makes the argument of Scale() any float one likes: amax / 16.
template <class Scale>
using one_level = block_format<fp4<E3M0>, Scale, 16>;

template <class Scale>
void check_around_every_code() {
  const model::scale s = model::scale_kind_of<Scale>();
  for (std::uint32_t code = 0; code < model::largest_code(s); ++code) {
    const float low = model::fl(model::value_of(s, code)), high = model::fl(model::value_of(s, code + 1));
    const float middle = model::fl((static_cast<long double>(low) + static_cast<long double>(high)) / 2);
    const struct {
      float argument;
      std::uint32_t nearest, up;
    } cases[] = {
        {high, code + 1, code + 1},
        {next(high, -1), code + 1, code + 1},
        {next(middle, 1), code + 1, code + 1},
        {middle, code % 2 == 0 ? code : code + 1, code + 1},
        {next(middle, -1), code, code + 1},
        {next(low, 1), code, code + 1},
    };
    for (const auto& c : cases) {
      CAPTURE(code, c.argument);
      REQUIRE(code_of<one_level<Scale>>({}, 16 * c.argument) == c.nearest);
      REQUIRE(code_of<one_level<Scale>>(scale_up{}.spec(), 16 * c.argument) == c.up);
    }
  }
  const float largest = model::fl(model::value_of(s, model::largest_code(s)));
  for (const float beyond : {largest, next(largest, 1), 2 * largest, 0x1.fffffep122f}) {
    REQUIRE(code_of<one_level<Scale>>({}, 16 * beyond) == model::largest_code(s));
    REQUIRE(code_of<one_level<Scale>>(scale_up{}.spec(), 16 * beyond) == model::largest_code(s));
  }
  REQUIRE(code_of<one_level<Scale>>(scale_up{}.spec(), 0x1p-149f) == 0);  // fl(2^-149 / 16) is 0
  REQUIRE(code_of<one_level<Scale>>(scale_up{}.spec(), 0x1p-144f) ==
          1);  // the smallest scale, for any positive argument
}

}  // namespace

TEST_CASE("nearest and scale_up around every code of e4m3 and ue5m3") {
  check_around_every_code<e4m3>();
  check_around_every_code<ue5m3>();
}

TEST_CASE("nearest and scale_up of bf16 scales, by the bits that are cut off") {
  const struct {
    std::uint32_t argument, nearest, up;
  } rows[] = {
      {0x3F800000u, 0x3F80, 0x3F80}, {0x3F800001u, 0x3F80, 0x3F81}, {0x3F807FFFu, 0x3F80, 0x3F81},
      {0x3F808000u, 0x3F80, 0x3F81}, {0x3F808001u, 0x3F81, 0x3F81}, {0x3F818000u, 0x3F82, 0x3F82},
      {0x3FFF8000u, 0x4000, 0x4000}, {0x3FFFFFFFu, 0x4000, 0x4000}, {0x00000001u, 0x0000, 0x0001},
      {0x00008000u, 0x0000, 0x0001}, {0x00018000u, 0x0002, 0x0002}, {0x007F8001u, 0x0080, 0x0080},
  };
  for (const auto& row : rows) {
    const float amax = 16 * model::float_of(row.argument);  // exact: no row is near either end after times 16
    CAPTURE(row.argument);
    CHECK(code_of<one_level<bf16>>({}, amax) == row.nearest);
    CHECK(code_of<one_level<bf16>>(scale_up{}.spec(), amax) == row.up);
  }
  // At the top both saturate, though IEEE rounding would give infinity: with qmax = 1 the argument is amax.
  using unit = block_format<nf4, bf16, 16>;
  for (const std::uint32_t b : {0x7F7F0000u, 0x7F7F0001u, 0x7F7F8000u, 0x7F7FFFFFu}) {
    CHECK(code_of<unit>({}, model::float_of(b)) == 0x7F7F);
    CHECK(code_of<unit>(scale_up{}.spec(), model::float_of(b)) == 0x7F7F);
  }
}

TEST_CASE("a float scale is the rounded quotient, and the values are divided by it") {
  INFO(support::seed_note());
  support::hostile source(support::seed());
  for (const float x : source.values(4000, true, false)) {
    const float amax = model::absolute(x);
    const std::uint32_t want = model::bits_of(model::div(amax, 1.75f));
    REQUIRE(code_of<e1m2_f32>({}, amax) == want);
    const ufp4::detail::block_scale s = detail::scale_from_bits(spec_of<e1m2_f32>, {}, want);
    REQUIRE((s.divides && model::bits_of(s.factor) == want && model::bits_of(s.effective) == want));
  }
}

TEST_CASE("two-level constants: S, its reciprocal and fl(S * fl(1/qmax)) at both ends of global_amax") {
  const struct {
    float global_amax;
    std::uint32_t decode, factor;  // of nvfp4, worked out with exact rationals
  } rows[] = {
      {0.0f, 0x3F800000u, 0x3E2AAAABu},             // S = 1
      {1.0f, 0x39C30C31u, 0x43E00000u},             // S = 2688
      {2688.0f, 0x3F800000u, 0x3E2AAAABu},          // S = 1
      {0x1.fffffep127f, 0x79C30C30u, 0x03E00002u},  // S = fl(2688 / FLT_MAX) is an ulp above 2688 * 2^-128
      {0x1p-149f, 0x00200000u, 0x7E2AAAAAu},        // S = FLT_MAX; its reciprocal is 2^-128
      {0x1p-117f, 0x00200000u, 0x7E2AAAAAu},        // 2688 * 2^117 overflows: S = FLT_MAX
      {0x1p-116f, 0x0030C30Cu, 0x7DE00000u},        // 2688 * 2^116 = 1.3125 * 2^127: the last S below the clamp
  };
  for (const auto& row : rows) {
    const tensor_constants t = detail::make_tensor_constants(spec_of<nvfp4>, {}, row.global_amax);
    const model::tensor_level want =
        model::tensor_level_of(model::format_of<nvfp4>(), model::rule::by_format, row.global_amax);
    CAPTURE(row.global_amax);
    CHECK(model::bits_of(t.decode) == row.decode);
    CHECK(model::bits_of(t.scale_factor) == row.factor);
    CHECK(model::bits_of(want.tensor_scale) == row.decode);
    CHECK(model::bits_of(want.times) == row.factor);
  }
  const tensor_constants none = detail::make_tensor_constants(spec_of<mxfp4>, {}, 3.0f);
  CHECK((none.decode == 1 && none.scale_factor == 1));
}

namespace {

template <class F>
void check_two_level(const ufp4::scale_rule_spec& rule, model::rule how) {
  const model::format f = model::format_of<F>();
  const std::vector<float> maxima = hostile_maxima();
  const float shrink[] = {1,          0.999999f, 0.5f, 0.01f,
                          1.0f / 448, 1e-4f,     2.0f};  // the last: a global_amax that was too small
  for (std::size_t i = 0; i < maxima.size(); ++i) {
    const float global_amax = maxima[i];
    for (std::size_t j = 0; j < 3; ++j) {
      const float amax = model::mul(global_amax, shrink[(i + 2 * j) % 7]);
      if (!model::finite(amax)) continue;
      model::block b;
      b.x.assign(F::block_size, 0.0f);
      b.x[2] = amax, b.x[5] = -0.4f * amax, b.x[6] = 0.7f * amax;
      b.amax = amax;
      b.tensor = model::tensor_level_of(f, how, global_amax);
      const model::trial want = model::scale_for(f, how, false, b);
      const ufp4::detail::block_scale got = chosen(spec_of<F>, rule, {b.x}, global_amax);
      CAPTURE(global_amax, amax);
      REQUIRE(got.bits == want.code);
      REQUIRE(model::bits_of(got.effective) == model::bits_of(want.effective));
      REQUIRE(model::bits_of(got.factor) == (want.dead ? 0u : model::bits_of(want.by)));
      REQUIRE(!got.divides);
    }
  }
}

using nv_ue5m3 = block_format<fp4<E1M2>, ue5m3, 16, float>;

}  // namespace

TEST_CASE(
    "two-level scales, their effective value and their clamped inverse agree with the model at every global_amax") {
  check_two_level<nvfp4>({}, model::rule::by_format);
  check_two_level<nv_e1m2>({}, model::rule::by_format);
  check_two_level<nvint4>(scale_up{}.spec(), model::rule::up);
  check_two_level<nv_ue5m3>({}, model::rule::by_format);
  check_two_level<nv_ue5m3>(scale_up{}.spec(), model::rule::up);
  check_two_level<nvfp4>(four_over_six{}.spec(), model::rule::four_over_six);
}

TEST_CASE("four_over_six takes 4 where that loses less, 6 where it loses more or the same") {
  // global_amax = 1: S = 256 * 6, u = 256. Under six the scale is 256 (an effective 1/6), under four 384 (an effective
  // 1/4).
  given_block quarters{{1, 0.75f, -0.5f, 0.25f, 0, 0.125f, 1, -1, 0, 0, 0, 0, 0, 0, 0, 0}};  // exact in quarters
  CHECK(chosen(spec_of<nvfp4>, four_over_six{}.spec(), quarters, 1).bits == 0x7C);           // 384
  given_block sixths{{1, 0.5f, 1.0f / 3, 1.0f / 6, 0, 0, 1, -1, 0, 0, 0, 0, 0, 0, 0, 0}};    // exact in sixths
  CHECK(chosen(spec_of<nvfp4>, four_over_six{}.spec(), sixths, 1).bits == 0x78);             // 256
  given_block tied{{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1}};  // 1 * 4 and 1 * 6 are both exact: a tie
  CHECK(chosen(spec_of<nvfp4>, four_over_six{}.spec(), tied, 1).bits == 0x78);
}

TEST_CASE("four_over_six: the argument of the second scale is fl(1.5 * u), u rounded first") {
  INFO(support::seed_note());
  const model::format f = model::format_of<nvfp4>();
  std::mt19937_64 gen{support::seed(5)};
  int found = 0;
  while (found < 10) {
    // Near an argument halfway between two scale codes, look for a maximum that the two orders of rounding tell apart.
    const float global_amax = 1 + static_cast<float>(gen() >> 40) * 0x1p-24f;
    const model::tensor_level t = model::tensor_level_of(f, model::rule::four_over_six, global_amax);
    const auto code = static_cast<std::uint32_t>(0x60 + gen() % 0x18);
    const long double middle = (model::value_of(f.s, code) + model::value_of(f.s, code + 1)) / 2;
    const float near = model::fl(middle / (1.5L * static_cast<long double>(t.times)));
    for (int step = -4; step <= 4; ++step) {
      const float amax = next(near, step);
      const std::uint32_t four = model::nearest_code(f.s, model::mul(1.5f, model::mul(amax, t.times)));
      if (four == model::nearest_code(f.s, model::mul(amax, model::mul(1.5f, t.times)))) continue;
      given_block b{std::vector<float>(16, 0.75f * amax)};  // three quarters of the maximum: exact under four alone
      b.x[0] = amax;
      CAPTURE(global_amax, amax);
      CHECK(chosen(spec_of<nvfp4>, four_over_six{}.spec(), b, global_amax).bits == four);
      ++found;
    }
  }
}

namespace {

template <class F>
void check_searches(const ufp4::scale_rule_spec& rule, model::rule how) {
  INFO(support::seed_note());
  support::hostile source(support::seed(4));
  const model::format f = model::format_of<F>();
  for (int i = 0; i < 600; ++i) {
    const std::vector<float> x = source.values(F::block_size, i % 4 == 0, false);
    const given_block b{x};
    const float global_amax = i % 3 == 0 ? b.amax() : model::mul(b.amax(), 3.0f);
    if (!model::finite(global_amax)) continue;
    const model::block mb{x, b.amax(), model::tensor_level_of(f, how, global_amax)};
    const model::trial want = model::scale_for(f, how, rule.searches, mb);
    const ufp4::detail::block_scale got = chosen(spec_of<F>, rule, b, global_amax);
    CAPTURE(i, b.amax(), global_amax);
    REQUIRE(got.bits == want.code);
    REQUIRE(model::bits_of(got.effective) == model::bits_of(want.effective));
  }
}
ufp4::scale_rule_spec searching(ufp4::scale_rule_spec rule) {
  rule.searches = true;
  return rule;
}

}  // namespace

TEST_CASE("the searches agree with the model's literal ones on hostile blocks") {
  check_searches<nvfp4>(four_over_six{}.spec(), model::rule::four_over_six);
  check_searches<nvfp4>(mse_search{}.spec(), model::rule::by_format);
  check_searches<nvint4>(searching(scale_up{}.spec()), model::rule::up);
  check_searches<nv_ue5m3>(mse_search{}.spec(), model::rule::by_format);
  check_searches<e2m1_f32>(mse_search{}.spec(), model::rule::by_format);
  check_searches<block_format<fp4<E1M2>, bf16, 16>>(mse_search{}.spec(), model::rule::by_format);
  check_searches<block_format<ufp4::int4, e4m3, 8>>(mse_search{}.spec(), model::rule::by_format);
  check_searches<mxfp4>(mse_search{}.spec(), model::rule::mx_floor);
  check_searches<mx_e1m2>(searching(mx_ceil{}.spec()), model::rule::mx_ceil);
  check_searches<mxint4>(searching(mx_even{}.spec()), model::rule::mx_even);
  check_searches<block_format<nf4, float, 64>>(mse_search{}.spec(), model::rule::by_format);
}

TEST_CASE("mse_search: the candidates and the order of ties, by hand") {
  // Five times the value 5: at scale 1 it becomes 4 (a tie, to even), at scale 2 it becomes 2 * 2: the same error. The
  // codes are tried from below, so 127 wins over 128.
  given_block fives{std::vector<float>(32, 0.0f)};
  for (std::size_t i = 0; i < 5; ++i) fives.x[i] = 5;
  CHECK(chosen(spec_of<mxfp4>, mse_search{}.spec(), fives, 0).bits == 127);
  // One 4 and many 0.25: at 1 the quarters vanish, at 1/2 they are exact and 4 saturates at 3: 1 < 31 / 16.
  given_block small{std::vector<float>(32, 0.25f)};
  small.x[0] = 4;
  CHECK(chosen(spec_of<mxfp4>, mse_search{}.spec(), small, 0).bits == 126);
  CHECK(chosen(spec_of<mxfp4>, mse_search{.below = 3, .above = 1}.spec(), small, 0).bits == 126);
  CHECK(chosen(spec_of<mxfp4>, mse_search{.below = 0, .above = 1}.spec(), small, 0).bits == 127);
  // A float scale shrinks by 1/32 a step: at 1 - 4/32 all values of 0.875 * 4 become exact, and 6 becomes 5.25.
  given_block shrunk{std::vector<float>(64, 3.5f)};
  shrunk.x[0] = 6;
  CHECK(chosen(spec_of<block_format<fp4<E2M1>, float, 64>>, mse_search{}.spec(), shrunk, 0).bits ==
        model::bits_of(0.875f));
  // Of the ends of its window, 1 - 8/32 makes 4.5 exact, and 1 + 16/32 also 6.
  given_block most{std::vector<float>(64, 4.5f)};
  most.x[0] = 6;
  const format_spec f64 = spec_of<block_format<fp4<E2M1>, float, 64>>;
  CHECK(chosen(f64, mse_search{.above = 0}.spec(), most, 0).bits == model::bits_of(0.75f));
  CHECK(chosen(f64, mse_search{.above = 15}.spec(), most, 0).bits == model::bits_of(1.125f));  // 6 becomes 6.75
  CHECK(chosen(f64, mse_search{}.spec(), most, 0).bits == model::bits_of(1.5f));
  // The last code from which a window of 254 steps starts is 0, not below it.
  given_block tiny{std::vector<float>(32, 0x1p-126f)};
  CHECK(chosen(spec_of<mxfp4>, mse_search{.below = 254}.spec(), tiny, 0).bits == 0);
  given_block zero{std::vector<float>(16, 0.0f)};
  CHECK(chosen(spec_of<e2m1_f32>, mse_search{}.spec(), zero, 0).bits == 0);
  CHECK(chosen(spec_of<nvfp4>, mse_search{}.spec(), zero, 1).bits == 0);
  given_block zeros{std::vector<float>(32, -0.0f)};
  CHECK(chosen(spec_of<mxfp4>, mse_search{}.spec(), zeros, 0).bits == 0);
}

TEST_CASE("mae_search and four_over_six by absolute errors choose by the sum of the magnitudes") {
  // Scale 1: 20 values of 0.25 vanish, 5 in all. Scale 1/2: they are exact, and 8 saturates at 3. Squares: 1.25 < 25.
  given_block squares{std::vector<float>(32, 0.0f)};
  for (std::size_t i = 1; i <= 20; ++i) squares.x[i] = 0.25f;
  squares.x[0] = 4;  // at 1/2 it is 3: an error of 1, while the quarters cost 5, or 1.25 as squares
  CHECK(chosen(spec_of<mxfp4>, mae_search{}.spec(), squares, 0).bits == 126);
  for (std::size_t i = 5; i <= 20; ++i) squares.x[i] = 0;
  CHECK(chosen(spec_of<mxfp4>, mae_search{}.spec(), squares, 0).bits == 126);  // 1 against 1: a tie, the first
  squares.x[4] = 0;                                                            // 1 against 0.75
  CHECK(chosen(spec_of<mxfp4>, mae_search{}.spec(), squares, 0).bits == 127);
  // global_amax = 1, amax = 1: under six the step above 4/6 is 2/6, under four 1/4. The value 5/6 loses 1/6 under six
  // and 1/12 under four; eight values of 1/12 lose nothing under six and 1/24 each under four: sums 1/6 and 5/12.
  const float twelfth = 1.0f / 12;
  given_block b{std::vector<float>(16, 0.0f)};
  b.x[0] = 1, b.x[1] = 10 * twelfth;
  for (std::size_t i = 2; i < 10; ++i) b.x[i] = twelfth;
  CHECK(chosen(spec_of<nvfp4>, four_over_six{search_error::absolute}.spec(), b, 1).bits == 0x78);  // six
  CHECK(chosen(spec_of<nvfp4>, four_over_six{}.spec(), b, 1).bits == 0x7C);                        // 4/144 > 3/144
}

TEST_CASE("percentile: the k-th smallest magnitude, k rounded up, takes the place of amax") {
  given_block b{std::vector<float>(16, 0.0f)};
  for (std::size_t i = 0; i < 16; ++i) b.x[i] = static_cast<float>(16 - i) * (i % 2 == 0 ? -1.0f : 1.0f);
  const auto scale = [&](std::uint16_t per_mille) {
    return model::float_of(chosen(spec_of<e1m2_f32>, percentile{per_mille}.spec(), b, 0).bits);
  };
  CHECK(scale(1000) == model::div(16, 1.75f));
  CHECK(scale(938) == model::div(16, 1.75f));  // 15.008
  CHECK(scale(937) == model::div(15, 1.75f));  // 14.992
  CHECK(scale(500) == model::div(8, 1.75f));
  CHECK(scale(1) == model::div(1, 1.75f));
  given_block mostly_zero{std::vector<float>(32, 0.0f)};
  mostly_zero.x[7] = -3;
  CHECK(chosen(spec_of<mxfp4>, percentile{900}.spec(), mostly_zero, 0).bits == 126);  // the rule of amax: 2^(1 - 2)
}

TEST_CASE("a rule that does not go with a format is named") {
  const auto text = [](const ufp4::scale_rule_spec& rule, const format_spec& f) {
    const char* why = detail::rule_mismatch(rule, f);
    return std::string(why == nullptr ? "" : why);
  };
  const format_spec nv = spec_of<nvfp4>, mx = spec_of<mxfp4>, plain = spec_of<e2m1_f32>, uniform = spec_of<nv_e1m2>;
  CHECK(text({}, nv).empty());
  CHECK(text(scale_up{}.spec(), nv).empty());
  CHECK(text(mx_even{}.spec(), mx).empty());
  CHECK(text(four_over_six{}.spec(), nv).empty());
  CHECK(text(mse_search{}.spec(), mx).empty());
  CHECK(text(scale_up{}.spec(), mx) == "scale_up is for e4m3, ue5m3, e6m2 and bf16 scales; for e8m0 use mx_ceil");
  CHECK(text(scale_up{}.spec(), plain) ==
        "scale_up is for e4m3, ue5m3, e6m2 and bf16 scales; a float scale is not rounded");
  for (const ufp4::scale_rule_spec& rule : {mx_floor{}.spec(), mx_even{}.spec(), mx_ceil{}.spec()})
    CHECK(text(rule, nv) == "mx_floor, mx_even and mx_ceil are for e8m0 scales");
  for (const format_spec& f : {mx, plain, uniform, spec_of<block_format<fp4<E2M1>, e4m3, 16>>})
    CHECK(text(four_over_six{}.spec(), f) ==
          "four_over_six is for grids of 4 bits that end at 6, with two levels of scales (nvfp4)");
  CHECK(text(percentile{0}.spec(), nv) == "percentile: per_mille must be 1 to 1000");
  CHECK(text(percentile{1001}.spec(), mx) == "percentile: per_mille must be 1 to 1000");
  CHECK(text(mse_search{.below = 31}.spec(), plain).empty());
  CHECK(text(mse_search{.below = 32}.spec(), plain) ==
        "a search below float and bf16 scales has at most 31 steps, each 1/32 of the scale");
  CHECK(text(mse_search{.below = 254, .above = 254}.spec(), nv).empty());
  CHECK(text(searching(four_over_six{}.spec()), nv) ==
        "four_over_six and a search near a scale are two searches; choose one");
}
