// ufp4 - the compat presets give the bits of torchao, ggml and Transformer Engine, and differ from our rules where
// docs/compatibility.md says so.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/block/compat.hpp>

#include <ufp4/block/layouts.hpp>
#include <ufp4/dequantize.hpp>
#include <ufp4/quantize.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "block/compat_vectors.hpp"
#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/tensor_amax.hpp"

namespace {

using namespace ufp4;
namespace cv = compat_vectors;

const cpu::context one_thread{.threads = 1};

std::vector<float> floats(std::span<const std::uint32_t> bits) {
  std::vector<float> x;
  for (const std::uint32_t b : bits) x.push_back(model::float_of(b));
  return x;
}

/// Blocks, one a row, against a project's codes and scales: through quantize_into, and decoded by fake_quantize.
template <class Preset>
void check_blocks(std::span<const std::uint32_t> inputs, std::span<const std::uint8_t> codes,
                  std::span<const std::uint8_t> scales, const std::uint32_t* tensor_scale = nullptr) {
  using F = ufp4::detail::format_of<Preset>;
  const std::vector<float> values = floats(inputs);
  const std::size_t rows = scales.size();
  REQUIRE(values.size() == rows * F::block_size);
  const matrix_view<const float> x{values.data(), rows, F::block_size};
  support::guarded<std::uint8_t> packed(codes.size() / 2);
  support::guarded<typename F::scale_type> got(rows);
  const auto q = quantize_into<Preset>(x, packed.span(), got.span(), one_thread);
  for (std::size_t r = 0; r < rows; ++r) {
    CAPTURE(r);
    REQUIRE(got[r].bits() == scales[r]);
    for (std::size_t k = 0; k < F::block_size; ++k) {
      CAPTURE(k, values[r * F::block_size + k]);
      REQUIRE(static_cast<int>(ufp4::detail::code_at(packed.data() + r * F::block_size / 2, k)) ==
              codes[r * F::block_size + k]);
    }
  }
  REQUIRE((packed.guards_intact() && got.guards_intact()));
  if (tensor_scale != nullptr) REQUIRE(model::bits_of(q.tensor_scale()) == *tensor_scale);

  REQUIRE(quantize<Preset>(x) == q);
  std::vector<float> fake(values.size()), back(values.size());
  fake_quantize<Preset>(x, matrix_view<float>{fake.data(), rows, F::block_size}, one_thread);
  dequantize(q, matrix_view<float>{back.data(), rows, F::block_size}, one_thread);
  REQUIRE(support::same_numbers(fake, back));
}

}  // namespace

TEST_CASE("torchao_mx_* give to_mx's codes and scales") {
  SECTION("floor") {
    check_blocks<compat::torchao_mx_floor>(cv::mx_inputs, cv::torchao_mx_floor_codes, cv::torchao_mx_floor_scales);
  }
  SECTION("even") {
    check_blocks<compat::torchao_mx_even>(cv::mx_inputs, cv::torchao_mx_even_codes, cv::torchao_mx_even_scales);
  }
  SECTION("ceil") {
    check_blocks<compat::torchao_mx_ceil>(cv::mx_inputs, cv::torchao_mx_ceil_codes, cv::torchao_mx_ceil_scales);
  }
  SECTION("rceil") {
    check_blocks<compat::torchao_mx_rceil>(cv::mx_inputs, cv::torchao_mx_rceil_codes, cv::torchao_mx_rceil_scales);
  }
}

TEST_CASE("ggml_mxfp4 and ggml_nvfp4 give quantize_row_*_ref's codes and scales") {
  check_blocks<compat::ggml_mxfp4>(std::span(cv::mx_inputs).first(32 * cv::ggml_mxfp4_blocks), cv::ggml_mxfp4_codes,
                                   cv::ggml_mxfp4_scales);
  check_blocks<compat::ggml_nvfp4>(cv::one_level_inputs, cv::ggml_nvfp4_codes, cv::ggml_nvfp4_scales);
}

namespace {

template <class Preset>
void check_tensors(std::size_t tensors, std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales,
                   std::span<const std::uint32_t> tensor_scales) {
  std::size_t block = 0;
  for (std::size_t t = 0; t < tensors; ++t) {
    CAPTURE(t);
    const std::size_t n = cv::two_level_tensor_blocks[t];
    check_blocks<Preset>(std::span(cv::two_level_inputs).subspan(16 * block, 16 * n), codes.subspan(16 * block, 16 * n),
                         scales.subspan(block, n), &tensor_scales[t]);
    block += n;
  }
}

}  // namespace

TEST_CASE("te_nvfp4 gives Transformer Engine's codes and scales; the tensor scale is fl(1/S), made of its amax") {
  check_tensors<compat::te_nvfp4>(cv::two_level_tensors, cv::te_nvfp4_codes, cv::te_nvfp4_scales,
                                  cv::te_nvfp4_tensor_scales);
  std::size_t block = 0;
  for (std::size_t t = 0; t < cv::two_level_tensors; ++t) {
    const std::size_t n = cv::two_level_tensor_blocks[t];
    const std::vector<float> x = floats(std::span(cv::two_level_inputs).subspan(16 * block, 16 * n));
    const matrix_view<const float> view{x.data(), n, 16};
    CHECK(model::bits_of(amax(view).value) == cv::te_nvfp4_tensor_amax[t]);
    const tensor_amax kept{model::float_of(cv::te_nvfp4_tensor_amax[t])};  // what Transformer Engine stores
    CHECK(quantize<compat::te_nvfp4>(view, kept) == quantize<compat::te_nvfp4>(view));
    block += n;
  }
}

TEST_CASE("our own nvfp4 is Transformer Engine's wherever the block scale is not zero") {
  std::size_t block = 0, differing = 0;
  for (std::size_t t = 0; t < cv::two_level_tensors; ++t) {
    const std::size_t n = cv::two_level_tensor_blocks[t];
    const std::vector<float> x = floats(std::span(cv::two_level_inputs).subspan(16 * block, 16 * n));
    const auto q = quantize<nvfp4>(matrix_view<const float>{x.data(), n, 16});
    for (std::size_t r = 0; r < n; ++r, ++block) {
      REQUIRE(q.scales()[r].bits() == cv::te_nvfp4_scales[block]);
      for (std::size_t k = 0; k < 16; ++k) {
        const int ours = ufp4::detail::code_at(q.codes().data() + 8 * r, k),
                  theirs = cv::te_nvfp4_codes[16 * block + k];
        if (q.scales()[r].bits() != 0) REQUIRE(ours == theirs);
        if (q.scales()[r].bits() == 0) REQUIRE(ours == 0);
        differing += ours != theirs;
      }
    }
  }
  CHECK(differing > 0);
}

TEST_CASE("torchao_nvfp4 gives nvfp4_quantize's codes, scales and per_tensor_scale") {
  check_tensors<compat::torchao_nvfp4>(cv::torchao_nvfp4_tensors, cv::torchao_nvfp4_codes, cv::torchao_nvfp4_scales,
                                       cv::torchao_nvfp4_tensor_scales);
}

namespace {

/// One block by sections 5.2 and 6.3 of OCP Microscaling Formats v1.0, in binary64, where all of it is exact.
void check_ocp_block(const std::vector<float>& x, int scale_code, const std::uint8_t* packed) {
  double amax = 0;
  for (const float v : x) amax = std::max(amax, std::abs(static_cast<double>(v)));
  const int exponent = std::max(std::ilogb(amax) - 2, -127);
  REQUIRE(scale_code == exponent + 127);
  constexpr double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double scaled = std::ldexp(std::abs(static_cast<double>(x[k])), -exponent);
    int nearest = 0;  // of two that are as near, the one whose mantissa bit, the code's last, is 0
    for (int c = 1; c < 8; ++c) {
      const double here = std::abs(values[c] - scaled), best = std::abs(values[nearest] - scaled);
      if (here < best || (here == best && c % 2 == 0)) nearest = c;
    }
    CAPTURE(k, x[k], scaled);
    REQUIRE(ufp4::detail::code_at(packed, k) == nearest + (std::signbit(x[k]) ? 8 : 0));
  }
}

}  // namespace

TEST_CASE("mxfp4 is the conversion of OCP Microscaling Formats v1.0") {
  INFO(support::seed_note());
  std::vector<float> x = floats(cv::mx_inputs);
  support::hostile source(support::seed());
  for (const float v : source.values(32 * 400, false, false)) x.push_back(v);
  for (int e = -149; e < 128; ++e)  // quarters of every power of two: ties are among them
    for (int k = 0; k < 32; ++k)
      x.push_back(std::ldexp(static_cast<float>(k) * (k % 2 ? -0.25f : 0.25f), e > 124 ? 124 : e));
  const std::size_t blocks = x.size() / 32;
  const auto q = quantize<mxfp4>(matrix_view<const float>{x.data(), blocks, 32});
  std::size_t checked = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::vector<float> block(x.begin() + static_cast<std::ptrdiff_t>(32 * b),
                                   x.begin() + static_cast<std::ptrdiff_t>(32 * b + 32));
    bool decided = model::largest_finite(block) != 0;  // the standard leaves zeros, NaN and infinities open
    for (const float v : block) decided = decided && std::isfinite(v);
    if (!decided) continue;
    CAPTURE(b);
    check_ocp_block(block, q.scales()[b].bits(), q.codes().data() + 16 * b);
    ++checked;
  }
  CHECK(checked > 500);
}

TEST_CASE("torchao_mx_floor has the default rule's scales always; codes differ in blocks of zeros only") {
  const std::vector<float> x = floats(cv::mx_inputs);
  const auto q = quantize<mxfp4>(matrix_view<const float>{x.data(), cv::mx_blocks, 32});
  for (std::size_t r = 0; r < cv::mx_blocks; ++r) {
    REQUIRE(q.scales()[r].bits() == cv::torchao_mx_floor_scales[r]);
    const bool zeros = model::largest_finite({x.begin() + static_cast<std::ptrdiff_t>(32 * r),
                                              x.begin() + static_cast<std::ptrdiff_t>(32 * r + 32)}) == 0;
    for (std::size_t k = 0; k < 32; ++k) {
      const int ours = ufp4::detail::code_at(q.codes().data() + 16 * r, k);
      REQUIRE(ours == (zeros ? 0 : cv::torchao_mx_floor_codes[32 * r + k]));
    }
  }
}

namespace {

/// A block that begins with the given values and goes on with zeros.
template <class F>
struct one_block {
  std::uint32_t scale;
  std::vector<int> codes;  // of the values given
  float tensor_scale;
};
template <class Target, class... Policies>
auto coded(std::vector<float> values, const Policies&... policies) {
  using F = ufp4::detail::format_of<Target>;
  const std::size_t given = values.size();
  values.resize(F::block_size, 0.0f);
  const auto q = quantize<Target>(matrix_view<const float>{values.data(), 1, F::block_size}, policies..., one_thread);
  one_block<F> out{q.scales()[0].bits(), {}, q.tensor_scale()};
  for (std::size_t k = 0; k < given; ++k) out.codes.push_back(ufp4::detail::code_at(q.codes().data(), k));
  return out;
}
float from(std::uint32_t bits) { return model::float_of(bits); }
using codes = std::vector<int>;

}  // namespace

TEST_CASE("torchao_mx_*: where each differs from our rule of the same name, by its smallest example") {
  // -0 in a block of zeros keeps its sign.
  CHECK(coded<compat::torchao_mx_floor>({-0.0f, 0.0f}).codes == codes{8, 0});
  CHECK(coded<mxfp4>({-0.0f, 0.0f}).codes == codes{0, 0});
  // even: from 1.75 * 2^127 on the rounded maximum is infinite: a NaN block from finite input. Ours saturates.
  const float wall = from(0x7F600000u), below = from(0x7F5FFFFFu);
  CHECK(coded<compat::torchao_mx_even>({wall}).scale == 0xFF);
  CHECK(coded<compat::torchao_mx_even>({wall, 1}).codes == codes{0, 0});
  CHECK(coded<mxfp4>({wall}, mx_even{}).scale == 252);
  CHECK(coded<compat::torchao_mx_even>({below}).scale == 252);
  // ceil: compares with 4, ours with 6. The maxima in (4, 6] * 2^k.
  CHECK(coded<compat::torchao_mx_ceil>({4.5f}).scale == 128);
  CHECK(coded<mxfp4>({4.5f}, mx_ceil{}).scale == 127);
  CHECK(coded<compat::torchao_mx_ceil>({4}).scale == 127);
  CHECK(coded<compat::torchao_mx_ceil>({from(0x40800001u)}).scale == 128);
  CHECK(coded<compat::torchao_mx_ceil>({6.1f}).scale == coded<mxfp4>({6.1f}, mx_ceil{}).scale);
  CHECK(coded<compat::torchao_mx_ceil>({from(0x7F000001u)}).scale == 253);
  CHECK(coded<mxfp4>({from(0x7F000001u)}, mx_ceil{}).scale == 252);
  // rceil: our mx_ceil but at both ends.
  CHECK(coded<compat::torchao_mx_rceil>({from(0x01400001u)}).scale == 0);
  CHECK(coded<mxfp4>({from(0x01400001u)}, mx_ceil{}).scale == 1);
  CHECK(coded<compat::torchao_mx_rceil>({from(0x01400002u)}).scale == 1);
  CHECK(coded<compat::torchao_mx_rceil>({from(0x7F400001u)}).scale == 253);
  CHECK(coded<mxfp4>({from(0x7F400001u)}, mx_ceil{}).scale == 252);
}

TEST_CASE("torchao_mx_rceil is our mx_ceil for every maximum between the ends") {
  using rule_kind = ufp4::scale_rule_spec::kind;
  constexpr auto rule = detail::make_power_of_two_rule(spec_of<mxfp4>.grid.qmax, rule_kind::mx_ceil);
  std::uint32_t wrong = 0;
  for (std::uint32_t exponent = 4; exponent < 253; ++exponent)
    for (std::uint32_t m = 0x3FFFE0u; m <= 0x400020u; ++m) {  // around 1.5 * 2^k
      const float x[2] = {from(exponent << 23 | m), from(exponent << 23 | (m * 0x9E3779B9u & 0x7FFFFFu))};
      for (const float amax : x)
        wrong += compat::detail::torchao_scale(compat::detail::torchao_mode::rceil, amax) !=
                 detail::power_of_two_scale(rule, amax);
    }
  CHECK(wrong == 0);
}

TEST_CASE("ggml_mxfp4: log2 rounded to binary32, ties toward zero, no -0") {
  CHECK(coded<compat::ggml_mxfp4>({from(0x40FFFFFFu)}).scale == 128);  // just below 8
  CHECK(coded<mxfp4>({from(0x40FFFFFFu)}).scale == 127);
  CHECK(coded<compat::ggml_mxfp4>({from(0x40FFFFFEu)}).scale == 127);
  CHECK(coded<compat::ggml_mxfp4>({6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, -5, -0.75f}).codes ==
        codes{7, 0, 1, 2, 3, 4, 5, 6, 14, 9});
  CHECK(coded<mxfp4>({6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, -5, -0.75f}).codes ==
        codes{7, 0, 2, 2, 4, 4, 6, 6, 14, 10});
  CHECK(coded<compat::ggml_mxfp4>({6, -0.0f, -0.1f, -0.25f, from(0xBE800001u)}).codes == codes{7, 0, 0, 0, 9});
  CHECK(coded<mxfp4>({6, -0.0f, -0.1f, -0.25f, from(0xBE800001u)}).codes == codes{7, 8, 8, 8, 9});
  // The last 44 floats: scale 2^126, 4 and 6 times that overflow, so the largest code is 5 (the value 3).
  CHECK(coded<compat::ggml_mxfp4>({from(0x7F7FFFD4u), from(0xFF7FFFD4u)}).codes == codes{5, 13});
  CHECK(coded<compat::ggml_mxfp4>({from(0x7F7FFFD4u)}).scale == 253);
  CHECK(coded<compat::ggml_mxfp4>({from(0x7F7FFFD3u)}).scale == 252);
  // Where ggml converts a negative float to uint8_t, which C leaves undefined, the scale code is 0.
  CHECK(coded<compat::ggml_mxfp4>({from(0x00FFFFFFu)}).scale == 0);
  CHECK(coded<compat::ggml_mxfp4>({0x1p-149f}).scale == 0);
  CHECK(coded<compat::ggml_mxfp4>({0x1p-149f}).codes == codes{0});
}

TEST_CASE("ggml_mxfp4's scale is floor of the binary32 log2 for every float near every power of two") {
  std::uint32_t wrong = 0;
  for (std::uint32_t exponent = 3; exponent < 255; ++exponent)
    for (std::uint32_t back = 1; back <= 100; ++back) {
      const float amax = from(((exponent + 1) << 23) - back);
      const auto log = static_cast<float>(std::log2(static_cast<long double>(amax)));
      wrong += compat::detail::floor_rounded_log2(amax) != static_cast<int>(std::floor(log));
    }
  CHECK(wrong == 0);
}

TEST_CASE("ggml_nvfp4: its scale rounding and its search") {
  const auto scale = [](float u) { return coded<compat::ggml_nvfp4>({6 * u}).scale; };
  CHECK(scale(0x1p-10f) == 1);  // half up; e4m3 rounds to even: 0
  CHECK(e4m3(0x1p-10f).bits() == 0);
  CHECK(coded<compat::ggml_nvfp4>({from(0x3BBFFFFFu)}).scale == 1);  // an ulp below: the + 0.5 rounds up
  CHECK(coded<compat::ggml_nvfp4>({from(0x3BBFFFFEu)}).scale == 0);
  CHECK(scale(7.5f * 0x1p-9f) == 7);  // the last subnormal is a wall; e4m3 gives 8
  CHECK(e4m3(7.5f * 0x1p-9f).bits() == 8);
  CHECK(scale(0x1p-6f) == 8);
  CHECK(scale(1.0625f) == 0x39);  // half away; e4m3 gives 0x38
  CHECK(e4m3(1.0625f).bits() == 0x38);
  CHECK(scale(240) == 0x77);
  CHECK(scale(248) == 0x7E);  // the top binade is skipped: 0x78 .. 0x7D never come out
  CHECK(scale(256) == 0x7E);
  CHECK(scale(1e9f) == 0x7E);
  CHECK(coded<compat::ggml_nvfp4>({6, 0.25f, 0.75f, 5, -0.0f, -0.1f, -5}).codes == codes{7, 0, 1, 6, 0, 0, 14});
  // From about 2^34 on the distance loses the small term, and the lower code wins.
  CHECK(coded<compat::ggml_nvfp4>({1.1f * 0x1p34f}).codes == codes{5});
  CHECK(coded<compat::ggml_nvfp4>({1.1f * 0x1p36f}).codes == codes{0});
  CHECK(coded<compat::ggml_nvfp4>({1e-4f, -1e-4f}).codes == codes{0, 0});  // scale 0
}

TEST_CASE("torchao_nvfp4: a floor under the scale, two divisions, a factor of its own, another tensor scale") {
  const float P = 1.0f / 2688;
  CHECK(coded<compat::torchao_nvfp4>({-0.0f, 0.0f}, tensor_amax{1}).scale == 0x08);
  CHECK(coded<compat::torchao_nvfp4>({-0.0f, 0.0f}, tensor_amax{1}).codes == codes{8, 0});
  CHECK(coded<nvfp4>({-0.0f, 0.0f}, tensor_amax{1}).scale == 0x00);
  CHECK(coded<compat::torchao_nvfp4>({6 * P * 0x1p-7f}, tensor_amax{1}).scale == 0x08);
  CHECK(coded<nvfp4>({6 * P * 0x1p-7f}, tensor_amax{1}).scale == 0x04);
  CHECK(coded<compat::torchao_nvfp4>({from(0x3F76DB6Du)}, tensor_amax{1}).scale == 0x7E);
  CHECK(coded<nvfp4>({from(0x3F76DB6Du)}, tensor_amax{1}).scale == 0x7D);
  const float amax = 0.8571f, near_tie = from(0x3F36DB6Fu);
  CHECK(coded<compat::torchao_nvfp4>({amax, near_tie}, tensor_amax{1}).scale == 0x7C);
  CHECK(coded<nvfp4>({amax, near_tie}, tensor_amax{1}).scale == 0x7C);
  CHECK(coded<compat::torchao_nvfp4>({amax, near_tie}, tensor_amax{1}).codes == codes{7, 7});
  CHECK(coded<nvfp4>({amax, near_tie}, tensor_amax{1}).codes == codes{7, 6});
  CHECK(model::bits_of(coded<compat::torchao_nvfp4>({0.7f}).tensor_scale) == 0x39888888u);
  CHECK(model::bits_of(coded<nvfp4>({0.7f}).tensor_scale) == 0x39888889u);
  // Where torchao makes NaNs (P = 0, or 0 * Inf) we give its scale floor and signed zeros, or the largest codes.
  const auto zeros = coded<compat::torchao_nvfp4>({-0.0f, 0.0f});
  CHECK((zeros.scale == 0x08 && zeros.codes == codes{8, 0} && model::bits_of(zeros.tensor_scale) == 0));
  const auto tiny = coded<compat::torchao_nvfp4>({1e-37f, -1e-37f, 0.0f, -0.0f});
  CHECK(tiny.codes == codes{7, 15, 0, 8});
}

TEST_CASE("te_nvfp4: codes under a scale of 0 are those of x * FLT_MAX") {
  const auto theirs = coded<compat::te_nvfp4>({1e-7f, -1e-7f, 0.0f, -0.0f, 1e-40f}, tensor_amax{3});
  CHECK((theirs.scale == 0 && theirs.codes == codes{7, 15, 0, 8, 0}));
  const auto ours = coded<nvfp4>({1e-7f, -1e-7f, 0.0f, -0.0f, 1e-40f}, tensor_amax{3});
  CHECK((ours.scale == 0 && ours.codes == codes{0, 0, 0, 0, 0}));
}

namespace {

template <class Preset>
void check_nonfinite(std::uint32_t nan_scale) {
  using F = ufp4::detail::format_of<Preset>;
  for (const std::uint32_t bad : {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFFFFFFFu}) {
    std::vector<float> x(3 * F::block_size, 1.0f);
    x[F::block_size + 3] = from(bad);
    quantize_report seen;
    const auto q = quantize<Preset>(matrix_view<const float>{x.data(), 3, F::block_size}, count_into{seen}, one_thread);
    CHECK(seen.nonfinite_blocks == 1);
    CHECK(q.scales()[1].bits() == nan_scale);
    for (std::size_t k = 0; k < F::block_size; ++k)
      REQUIRE(ufp4::detail::code_at(q.codes().data() + F::block_size / 2, k) == 0);
    std::vector<float> finite(x.begin(), x.begin() + F::block_size);
    const auto alone = quantize<Preset>(matrix_view<const float>{finite.data(), 1, F::block_size}, one_thread);
    CHECK(q.scales()[0].bits() == alone.scales()[0].bits());  // the neighbours, and the tensor scale, do not notice
    CHECK(model::bits_of(q.tensor_scale()) == model::bits_of(alone.tensor_scale()));
    CHECK(std::equal(alone.codes().begin(), alone.codes().end(), q.codes().begin()));
  }
}

}  // namespace

TEST_CASE("non-finite input: every preset follows ufp4's policy, not its project's") {
  check_nonfinite<compat::torchao_mx_floor>(0xFF);
  check_nonfinite<compat::torchao_mx_even>(0xFF);
  check_nonfinite<compat::torchao_mx_ceil>(0xFF);
  check_nonfinite<compat::torchao_mx_rceil>(0xFF);
  check_nonfinite<compat::ggml_mxfp4>(0xFF);
  check_nonfinite<compat::ggml_nvfp4>(0x7F);
  check_nonfinite<compat::te_nvfp4>(0x7F);
  check_nonfinite<compat::torchao_nvfp4>(0x7F);
}

namespace {

template <class Preset>
quantize_report report_of(std::vector<float> values, float global_amax) {
  quantize_report seen;
  values.resize(ufp4::detail::format_of<Preset>::block_size, 0.0f);
  support::with_amax<Preset>(tensor_amax{global_amax}, [&](auto... amax) {
    return quantize<Preset>(matrix_view<const float>{values.data(), 1, values.size()}, amax..., count_into{seen},
                            one_thread);
  });
  return seen;
}

}  // namespace

TEST_CASE("the presets count what lies beyond 6 and the scales that became 0") {
  CHECK(report_of<compat::torchao_mx_floor>({7.5f, -6.5f, 6, 1}, 0) == quantize_report{0, 2, 0});
  CHECK(report_of<compat::ggml_mxfp4>({7.5f, -6.5f, 6, 1}, 0) == quantize_report{0, 2, 0});
  CHECK(report_of<compat::ggml_nvfp4>({6 * 448 * 2.0f, -6 * 448.0f, 5}, 0) == quantize_report{0, 1, 0});
  CHECK(report_of<compat::ggml_nvfp4>({1e-6f}, 0) == quantize_report{0, 0, 1});
  CHECK(report_of<compat::te_nvfp4>({1e-7f, -1e-7f}, 3) == quantize_report{0, 2, 1});
  CHECK(report_of<compat::te_nvfp4>({0.0f, -0.0f}, 3) == quantize_report{0, 0, 0});
  CHECK(report_of<compat::torchao_nvfp4>({4, -4, 1}, 2) == quantize_report{0, 2, 0});
}

TEST_CASE("a preset takes no rounding and no scale rule beside it") {
  const std::vector<float> x(32, 1.0f);
  const matrix_view<const float> view{x.data(), 1, 32};
  const auto message = [&](const auto& policy) {
    try {
      quantize<compat::ggml_mxfp4>(view, policy);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(message(stochastic{}) == "quantize: a compat preset has a rounding of its own; leave the rounding policy out");
  CHECK(message(toward_zero{}) == "quantize: a compat preset has a rounding of its own; leave the rounding policy out");
  CHECK(message(mx_even{}) == "quantize: a compat preset has a scale rule of its own; leave the scale rule out");
  CHECK(message(mse_search{}) == "quantize: a compat preset has a scale rule of its own; leave the scale rule out");
  CHECK(message(nearest_even{}).empty());
}

TEST_CASE("ggml's structs are our codes in split halves beside our scales") {
  const std::size_t n = cv::ggml_mxfp4_blocks;
  const std::vector<float> x = floats(std::span(cv::mx_inputs).first(32 * n));
  const auto q = quantize<compat::ggml_mxfp4>(matrix_view<const float>{x.data(), 1, 32 * n});
  std::vector<std::uint8_t> split(16 * n);
  compat::split_halves(q.codes().data(), n, 32, split.data());
  for (std::size_t b = 0; b < n; ++b) {  // block_mxfp4: e, then qs[j] = codes j and j + 16
    REQUIRE(q.scales()[b].bits() == cv::ggml_mxfp4_scales[b]);
    for (std::size_t j = 0; j < 16; ++j)
      REQUIRE(split[16 * b + j] == (cv::ggml_mxfp4_codes[32 * b + j] | cv::ggml_mxfp4_codes[32 * b + j + 16] << 4));
  }
  const std::vector<float> y = floats(cv::one_level_inputs);
  const auto p = quantize<compat::ggml_nvfp4>(matrix_view<const float>{y.data(), 1, y.size()});
  std::vector<std::uint8_t> halves(y.size() / 2);
  compat::split_halves(p.codes().data(), y.size() / 16, 16, halves.data());
  for (std::size_t s = 0; s < y.size() / 64; ++s)  // block_nvfp4: d[4], then qs[8 i + j] = codes 16 i + j and + 8
    for (std::size_t i = 0; i < 4; ++i) {
      REQUIRE(p.scales()[4 * s + i].bits() == cv::ggml_nvfp4_scales[4 * s + i]);
      for (std::size_t j = 0; j < 8; ++j) {
        const std::uint8_t* code = cv::ggml_nvfp4_codes + 64 * s + 16 * i + j;
        REQUIRE(halves[32 * s + 8 * i + j] == (code[0] | code[8] << 4));
      }
    }
}

TEST_CASE("torchao's blocked scales are the 128x4 swizzle of ours") {
  const std::size_t rows = 131, cols = 6;  // of scales
  std::vector<float> x(rows * 32 * cols);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c)
      x[(r * cols + c) * 32] = std::ldexp(1.0f, static_cast<int>((r * 7 + c * 13) % 200) - 90);
  const auto q = quantize<compat::torchao_mx_floor>(matrix_view<const float>{x.data(), rows, 32 * cols});
  std::vector<e8m0> blocked(compat::swizzled_size(rows, cols));
  REQUIRE(blocked.size() == 256 * 8);  // rows to a multiple of 128, columns to a multiple of 4
  compat::swizzle_scales(q.scales().data(), rows, cols, blocked.data());
  for (std::size_t r = 0; r < 256; ++r)
    for (std::size_t c = 0; c < 8; ++c) {
      const std::size_t at = ((r / 128) * 2 + c / 4) * 512 + (r % 32) * 16 + (r % 128 / 32) * 4 + c % 4;
      const int want = r < rows && c < cols ? static_cast<int>((r * 7 + c * 13) % 200) - 90 + 125 : 0;
      REQUIRE(blocked[at].bits() == want);
    }
}
