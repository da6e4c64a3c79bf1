// ufp4 - quantize_block, dequantize_block and the block coder: what one block becomes.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/block/block_codec.hpp>

#include <ufp4/block/presets.hpp>
#include <ufp4/format/table_element.hpp>

#include <bit>
#include <cstring>
#include <vector>

#include "support/catch.hpp"
#include "support/formats.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"

namespace {

using namespace ufp4;

using e4m3_16 = block_format<fp4<E2M1>, e4m3, 16>;
using ue5m3_8 = block_format<ufp4::int4, ue5m3, 8>;
using bf16_2 = block_format<fp4<E1M2>, bf16, 2>;
using e3m0_256 = block_format<fp4<E3M0>, e8m0, 256>;
using nf4_64 = block_format<nf4, float, 64>;

template <class F>
void check_block(const std::vector<float>& x, float global_amax) {
  const model::result want = model::quantize(model::format_of<F>(), x, 1, x.size(), {.global_amax = global_amax});
  const std::vector<std::uint8_t> bytes = model::packed(want.codes);
  support::guarded<std::uint8_t> packed(F::block_size / 2, 1);
  const auto scale =
      quantize_block<F>(x.data(), packed.data(), nearest_even{}, 0, tensor_constants::of<F>(global_amax));
  REQUIRE(support::scale_bits(scale) == want.scales[0]);
  REQUIRE((packed.same_bytes(bytes) && packed.guards_intact()));
  support::guarded<float> back(F::block_size, 1);
  dequantize_block<F>(packed.data(), scale, back.data(), want.tensor_scale);
  REQUIRE((support::same_numbers(back.span(), want.decoded) && back.guards_intact()));
}

}  // namespace

using formats = support::presets_and<e4m3_16, ue5m3_8, bf16_2, e3m0_256, nf4_64>;
TEMPLATE_LIST_TEST_CASE("quantize_block and dequantize_block give the model's bits on hostile blocks", "", formats) {
  INFO(support::seed_note());
  support::hostile source(support::seed());
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    const std::vector<float> x = source.values(TestType::block_size, i % 3 == 0);
    const float own = model::largest_finite(x), global_amax[] = {own, 1.0f, own / 2, 0.0f};
    check_block<TestType>(x, global_amax[i % 4]);
  }
}

TEST_CASE("a worked block of each kind") {
  std::uint8_t packed[16];
  // e1m2_f32: amax 7, s = 4; 7/4 is code 7, -1/4 is code 1 with a sign, 0.6 rounds to 0.5.
  const float a[16] = {7, -1, 2.4f, 0, -0.0f, 0.5f, -0.5f, 1.5f, 0, 0, 0, 0, 0, 0, 0, -7};
  CHECK(quantize_block<e1m2_f32>(a, packed) == 4.0f);
  const std::uint8_t a_bytes[8] = {0x97, 0x02, 0x08, 0x28, 0, 0, 0, 0xF0};  // 0.125 ties to 0; 0.375 ties to 0.5
  CHECK(std::memcmp(packed, a_bytes, 8) == 0);
  // mxfp4: amax 6 * 2^3, scale code 130.
  float b[32] = {48, -24, 4, 1.99f, 2.01f};
  CHECK(quantize_block<mxfp4>(b, packed).bits() == 130);
  const std::uint8_t b_bytes[3] = {0xD7, 0x01, 0x01};
  CHECK(std::memcmp(packed, b_bytes, 3) == 0);
  // nvfp4 with global_amax = amax = 1: the scale is 448, the effective scale 448 * fl(1/2688).
  const float c[16] = {1, 0.5f, -1.0f / 3, 0.25f};
  CHECK(quantize_block<nvfp4>(c, packed, nearest_even{}, 0, tensor_constants::of<nvfp4>(1)).bits() == 0x7E);
  const std::uint8_t c_bytes[2] = {0x57, 0x3C};
  CHECK(std::memcmp(packed, c_bytes, 2) == 0);
}

namespace {

template <class F>
void check_nonfinite(std::uint32_t nan_scale, std::uint8_t zero_pair) {
  for (const std::uint32_t bad : {0x7F800000u, 0xFF800000u, 0x7F800001u, 0x7FC00000u, 0xFFFFFFFFu})
    for (std::size_t at = 0; at < F::block_size; ++at) {
      std::vector<float> x(F::block_size, 1.0f);
      x[at] = model::float_of(bad);
      support::guarded<std::uint8_t> packed(F::block_size / 2);
      const auto scale = quantize_block<F>(x.data(), packed.data(), stochastic{1}, 0, tensor_constants::of<F>(2));
      REQUIRE(support::scale_bits(scale) == nan_scale);
      for (const std::uint8_t byte : packed) REQUIRE(byte == zero_pair);
      std::vector<float> back(F::block_size);
      dequantize_block<F>(packed.data(), scale, back.data(), 0.5f);
      for (const float v : back) REQUIRE(v != v);
    }
}

}  // namespace

TEST_CASE("a NaN or an infinity anywhere gives codes +0, the scale type's NaN, and NaN everywhere when decoded") {
  check_nonfinite<e2m1_f32>(0x7FC00000u, 0);
  check_nonfinite<bf16_2>(0x7FC0u, 0);
  check_nonfinite<nvfp4>(0x7Fu, 0);
  check_nonfinite<e4m3_16>(0x7Fu, 0);
  check_nonfinite<ue5m3_8>(0xFFu, 0);
  check_nonfinite<mxint4>(0xFFu, 0);
  check_nonfinite<nf4_64>(0x7FC00000u, 0x77);  // NF4's zero is code 7
}

TEMPLATE_LIST_TEST_CASE("a block of zeros, of either sign, has scale code 0 and codes +0", "", formats) {
  const std::uint8_t zero = std::is_same_v<typename TestType::element_type, nf4> ? 0x77 : 0;
  for (const float global_amax : {0.0f, 1.0f})
    for (const std::size_t negative : {0u, 1u, 2u}) {
      std::vector<float> x(TestType::block_size);
      for (std::size_t k = 0; k < x.size(); ++k) x[k] = negative == 0 || k % negative != 0 ? 0.0f : -0.0f;
      std::vector<std::uint8_t> packed(TestType::block_size / 2, 0xFF);
      for (const ufp4::scale_rule_spec& rule : {ufp4::scale_rule_spec{}, mse_search{}.spec()}) {
        const auto scale = quantize_block<TestType>(x.data(), packed.data(), nearest_away{}, 0,
                                                    tensor_constants::of<TestType>(global_amax), rule);
        REQUIRE(support::scale_bits(scale) == 0);
        for (const std::uint8_t byte : packed) REQUIRE(byte == zero);
      }
      std::vector<float> back(x.size(), 1.0f);
      dequantize_block<TestType>(packed.data(), {}, back.data());
      for (const float v : back) REQUIRE(model::bits_of(v) == 0);  // +0
    }
}

namespace {

template <class Rounding = nearest_even>
struct coded {
  std::vector<std::uint8_t> codes;
  std::uint32_t scale;
  quantize_report report;
};
template <class F, class Rounding>
coded<Rounding> code(const std::vector<float>& x, Rounding rounding, float global_amax = 0, std::uint64_t index = 0) {
  const format_spec f = spec_of<F>;
  coded<Rounding> out{std::vector<std::uint8_t>(x.size(), 0xEE), 0, {}};
  const ufp4::detail::block_coder<Rounding> coder{f, {}, tensor_constants::of<F>(global_amax), rounding};
  const int count = static_cast<int>(x.size());
  out.scale = coder({x.data(), 1, count, count}, index, 0, out.codes.data(), out.report);
  return out;
}

}  // namespace

TEST_CASE("the report counts what happened to the block, and only that") {
  std::vector<float> x(16, 0.0f);
  CHECK(code<nvfp4>(x, nearest_even{}).report == quantize_report{0, 0, 0});
  x[3] = 1e-6f;  // against global_amax = 1 the argument of the scale is 448e-6, below half of e4m3's 2^-9
  auto tiny = code<nvfp4>(x, nearest_even{}, 1);
  CHECK(tiny.report == quantize_report{0, 0, 1});
  CHECK(tiny.scale == 0);
  CHECK(tiny.codes == std::vector<std::uint8_t>(16, 0));
  x[3] = -0x1p-149f;  // fl(2^-149 / 6) is 0
  CHECK(code<e2m1_f32>(x, stochastic{}).report == quantize_report{0, 0, 1});
  x[3] = -5;
  CHECK(code<nvfp4>(x, nearest_even{}, 5).report == quantize_report{0, 0, 0});
  x[4] = 10, x[5] = -10;
  CHECK(code<nvfp4>(x, nearest_even{}, 2.5f).report ==
        quantize_report{0, 3, 0});  // global_amax was too small: the scale stops at 448
  x[6] = model::float_of(0x7F800000u);
  CHECK(code<nvfp4>(x, nearest_even{}, 5).report == quantize_report{1, 0, 0});
  std::vector<float> y(32, 0.0f);
  y[0] = 7.5f, y[1] = -7, y[2] = 6, y[3] = 6.5f;  // scale 1: three lie beyond 6
  CHECK(code<mxfp4>(y, nearest_even{}).report == quantize_report{0, 3, 0});
  quantize_report total{1, 2, 3};
  total += {10, 20, 30};
  CHECK(total == quantize_report{11, 22, 33});
}

TEST_CASE("-0 and values that round to zero keep their sign where the format has one") {
  const std::vector<float> x{4, -4, 0.0f, -0.0f, 0.1f, -0.1f, 1e-40f, -1e-40f};
  std::vector<float> padded = x;
  padded.resize(16, -0.0f);
  const std::vector<std::uint8_t> e2m1 = code<e2m1_f32>(padded, nearest_even{}).codes;
  CHECK(std::vector<std::uint8_t>(e2m1.begin(), e2m1.begin() + 8) ==
        std::vector<std::uint8_t>{7, 15, 0, 8, 0, 8, 0, 8});
  CHECK(e2m1[15] == 8);
  const std::vector<std::uint8_t> integers = code<int4_f32>(padded, nearest_even{}).codes;
  CHECK(std::vector<std::uint8_t>(integers.begin(), integers.begin() + 8) ==
        std::vector<std::uint8_t>{7, 9, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("stochastic: the random number of an element is its own, wherever its block starts and however it is cut") {
  INFO(support::seed_note());
  support::hostile source(support::seed(1));
  const stochastic ours{.seed = support::seed(2), .stream = support::seed(3)};
  const model::rounding theirs{model::rounding::stochastic, ours.seed, ours.stream};
  const model::format f = model::format_of<e2m1_f32>();
  const std::uint64_t far = 0xFFFFFFFFull * 8;  // where the group's low word carries into the high one
  for (std::uint64_t index = 0; index < 40; ++index)
    for (const std::uint64_t base : {std::uint64_t{0}, far - 16, ~std::uint64_t{0} - 100}) {
      const std::vector<float> x = source.values(16, false, false);
      model::block b{x, model::largest_finite(x), {}};
      const model::trial t = model::scale_for(f, model::rule::by_format, false, b);
      const auto got = code<e2m1_f32>(x, ours, 0, base + index);
      const auto by_value = code<e2m1_f32>(x, rounding_spec(ours), 0, base + index);
      for (std::size_t k = 0; k < 16; ++k) {
        const std::uint8_t want =
            t.dead ? std::uint8_t{0} : model::round(f.g, t.scaled(x[k]), theirs, base + index + k);
        REQUIRE(got.codes[k] == want);
        REQUIRE(by_value.codes[k] == want);
      }
    }
}

namespace {

struct asked {
  float lower, upper, t;
  int rank;
  std::uint64_t index;
};

/// A user's policy that writes down what it is asked.
struct recorder {
  std::vector<asked>* log;
  bool round_up(const neighbours& n, float t, std::uint64_t index) const {
    log->push_back({n.lower, n.upper, t, n.lower_rank, index});
    return index % 2 == 0;
  }
};
static_assert(rounding_policy<recorder>);

}  // namespace

TEST_CASE("a user's rounding policy is asked about values between neighbours, with their rank and place, and obeyed") {
  std::vector<asked> log;
  // Scale 1 (amax 6 and qmax 6): t is x.
  const std::vector<float> x{6, -6, 2.5f, -2.5f, 0.3f, -0.3f, 3, 0, -0.0f, 5.5f, -5.5f, 0.5f, 1.2f, -1.2f, 1.5f, 4};
  const auto got = code<e2m1_f32>(x, recorder{&log}, 0, 1000);
  REQUIRE(log.size() == 8);
  const asked want[] = {{2, 3, 2.5f, 4, 1002},      {-2, -3, -2.5f, 4, 1003},   {0, 0.5f, 0.3f, 0, 1004},
                        {0, -0.5f, -0.3f, 0, 1005}, {4, 6, 5.5f, 6, 1009},      {-4, -6, -5.5f, 6, 1010},
                        {1, 1.5f, 1.2f, 2, 1012},   {-1, -1.5f, -1.2f, 2, 1013}};
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(log[i].lower == want[i].lower);
    CHECK(log[i].upper == want[i].upper);
    CHECK(log[i].t == want[i].t);
    CHECK(log[i].rank == want[i].rank);
    CHECK(log[i].index == want[i].index);
  }
  CHECK(got.codes == std::vector<std::uint8_t>{7, 15, 5, 12, 1, 8, 5, 0, 8, 6, 15, 1, 3, 10, 3, 6});
}

TEST_CASE("a square is one block: its amax, its codes in place, nothing between its rows touched") {
  using square4 = block_format<fp4<E2M1>, float, square(4)>;
  const format_spec f = spec_of<square4>;
  float x[4 * 9];
  std::uint8_t codes[4 * 9];
  for (int i = 0; i < 36; ++i) x[i] = 1e30f, codes[i] = 0xEE;
  for (int r = 0; r < 4; ++r)
    for (int k = 0; k < 4; ++k) x[9 * r + k] = static_cast<float>(r - k) * 2;  // the largest is 6
  std::vector<asked> log;
  quantize_report seen;
  const ufp4::detail::block_coder<recorder> coder{f, {}, {}, recorder{&log}};
  CHECK(coder({x, 4, 4, 9}, 500, 70, codes, seen) == model::bits_of(1.0f));
  const std::uint8_t want[4][4] = {{0, 12, 14, 15}, {4, 0, 12, 14}, {6, 4, 0, 12}, {7, 6, 4, 0}};
  for (int i = 0; i < 36; ++i) CHECK(codes[i] == (i % 9 < 4 ? want[i / 9][i % 9] : 0xEE));
  // Element (r, k) has index 500 + 70 r + k.
  x[9 * 2 + 3] = 0.7f;
  coder({x, 4, 4, 9}, 500, 70, codes, seen);
  REQUIRE(log.size() == 1);
  CHECK(log[0].index == 500 + 2 * 70 + 3);
}

TEST_CASE("blocks decode in constant expressions") {
  constexpr auto decoded = [] {
    struct {
      float at[16];
    } out{};
    const std::uint8_t packed[8] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE};
    dequantize_block<nvfp4>(packed, e4m3::from_bits(0x40), out.at, 0.5f);
    return out;
  }();
  static_assert(decoded.at[1] == 0.5f && decoded.at[7] == 6.0f && decoded.at[15] == -6.0f && decoded.at[10] == -1.0f);
  CHECK(model::bits_of(decoded.at[8]) == 0x80000000u);
}
