// ufp4 - dequantize: fl(value * fl(block scale * tensor scale)), rounded once more to the output's type.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/dequantize.hpp>

#include <cmath>
#include <vector>

#include <ufp4/block/presets.hpp>
#include <ufp4/format/table_element.hpp>

#include "support/catch.hpp"
#include "support/formats.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"

namespace {

using namespace ufp4;

const cpu::context one_thread{.threads = 1};

/// Every code under every finite scale of an 8-bit type, and under hostile scales of the others.
template <class F>
std::vector<typename F::scale_type> all_scales() {
  using scale_type = typename F::scale_type;
  std::vector<scale_type> scales;
  const model::scale s = model::scale_kind_of<scale_type>();
  if constexpr (sizeof(scale_type) == 1) {
    for (std::uint32_t c = 0; c <= model::largest_code(s); ++c)
      scales.push_back(scale_type::from_bits(static_cast<std::uint8_t>(c)));
  } else {
    for (std::uint32_t c = 0; c < 0x7F80u; c += 17) {
      const std::uint32_t bits = c << 16 | (c * 0x9E37u & 0xFFFFu);
      if constexpr (sizeof(scale_type) == 4)
        scales.push_back(model::float_of(bits));
      else
        scales.push_back(scale_type::from_bits(static_cast<std::uint16_t>(c)));
    }
  }
  return scales;
}

template <class F>
void check_every_code(float tensor_scale) {
  const auto scales = all_scales<F>();
  const model::format f = model::format_of<F>();
  constexpr std::size_t length = F::block_size;
  std::vector<std::uint8_t> codes(scales.size() * length / 2);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(2 * i % 16 + (2 * i + 1) % 16 * 16);
  const quantized_view<F> q(codes, scales, tensor_scale, scales.size(), length);
  support::guarded<float> out(scales.size() * length);
  dequantize(q, matrix_view<float>{out.data(), scales.size(), length}, one_thread);
  REQUIRE(out.guards_intact());
  for (std::size_t b = 0; b < scales.size(); ++b) {
    const float s = model::fl(model::value_of(f.s, support::scale_bits(scales[b])));
    const float effective = model::mul(s, tensor_scale);
    for (std::size_t k = 0; k < length; ++k) {
      const std::uint8_t code = codes[(b * length + k) / 2] >> (4 * (k % 2)) & 15;
      CAPTURE(b, k, s, tensor_scale);
      REQUIRE(model::bits_of(out[b * length + k]) == model::bits_of(model::mul(f.g.value[code], effective)));
    }
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("every code under every scale decodes to one product, int4's -8 included", "",
                        support::one_level_presets) {
  check_every_code<TestType>(1);
}
TEMPLATE_LIST_TEST_CASE("the tensor scale multiplies the block scale first", "", support::two_level_presets) {
  for (const std::uint32_t bits :
       {0x3F800000u, 0x39C30C31u, 0x00200000u, 0x00000001u, 0x79C30C30u, 0x3F333333u, 0x2EAAAAABu})
    check_every_code<TestType>(model::float_of(bits));
}
TEST_CASE("other scale types and blocks decode the same way") {
  check_every_code<block_format<fp4<E3M0>, ue5m3, 8>>(1);
  check_every_code<block_format<fp4<E2M1>, bf16, 64>>(1);
  check_every_code<block_format<nf4, e4m3, 32, float>>(0.37f);
  check_every_code<block_format<nf4, e8m0, 16>>(1);
}

namespace {

/// RNE to a 16-bit type by trying both neighbours with exact distances; overflow to infinity.
template <class T>
std::uint16_t nearest_bits(float x) {
  if (x != x) return 0x7FFF;
  const auto value = [](std::uint32_t magnitude) {
    return static_cast<long double>(support::holds_bf16<T> ? model::from_bf16(static_cast<std::uint16_t>(magnitude))
                                                           : model::from_fp16(static_cast<std::uint16_t>(magnitude)));
  };
  const std::uint32_t infinity = support::holds_bf16<T> ? 0x7F80 : 0x7C00, sign = model::negative(x) ? 0x8000u : 0u;
  const auto magnitude = static_cast<long double>(model::absolute(x));
  std::uint32_t low = 0, high = infinity;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (value(middle) <= magnitude ? low : high) = middle;
  }
  // One past the largest finite number stands for 2^(emax + 1): IEEE rounds to infinity from halfway on.
  const long double up = high == infinity ? value(low) + (value(low) - value(low - 1)) : value(high);
  const long double below = magnitude - value(low), above = up - magnitude;
  const bool rises = below > above || (below == above && low % 2 != 0);
  return static_cast<std::uint16_t>(sign | (rises ? high : low));
}

template <class T>
void check_output() {
  INFO(support::seed_note());
  support::hostile source(support::seed(sizeof(T) + support::holds_bf16<T>));
  for (std::size_t cols = 0; cols <= 67; ++cols) {
    CAPTURE(cols);
    const std::vector<float> x = source.values(3 * cols, cols % 2 == 0);
    const matrix_view<const float> view{x.data(), 3, cols};
    const auto q = quantize<e1m2_f32>(view, one_thread);
    std::vector<float> exact(3 * cols);
    dequantize(q, matrix_view<float>{exact.data(), 3, cols}, one_thread);
    support::guarded<T> out(3 * cols, 1), fake(3 * cols, 1);
    dequantize(q, matrix_view<T>{out.data(), 3, cols}, one_thread);
    fake_quantize<e1m2_f32>(view, matrix_view<T>{fake.data(), 3, cols}, one_thread);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const auto got = std::bit_cast<std::uint16_t>(out[i]), want = nearest_bits<T>(exact[i]);
      CAPTURE(exact[i]);
      if (exact[i] != exact[i])
        REQUIRE(support::numbers<T>(out.span())[i] != support::numbers<T>(out.span())[i]);
      else
        REQUIRE(got == want);
      REQUIRE(std::bit_cast<std::uint16_t>(fake[i]) == got);
    }
    REQUIRE((out.guards_intact() && fake.guards_intact()));
  }
}

}  // namespace

TEST_CASE("16-bit outputs are the binary32 result rounded once, ties to even, overflow to infinity") {
  check_output<bf16>();
  check_output<fp16>();
  check_output<their_bf16>();
  check_output<their_half>();
}

TEST_CASE("a NaN scale gives NaN for the whole block and for nothing else") {
  std::vector<float> x(2 * 48, 1.0f);
  x[16 + 5] = model::float_of(0x7F800000u);
  const auto q = quantize<nvfp4>(matrix_view<const float>{x.data(), 2, 48});
  std::vector<float> out(2 * 48);
  dequantize(q, matrix_view<float>{out.data(), 2, 48});
  for (std::size_t i = 0; i < out.size(); ++i) REQUIRE((out[i] != out[i]) == (i >= 16 && i < 32));
}

TEST_CASE("a quantized_view of copied bytes decodes as the matrix it was copied from") {
  INFO(support::seed_note());
  support::hostile source(support::seed());
  const std::vector<float> x = source.values(7 * 50);
  const auto q = quantize<mxfp4>(matrix_view<const float>{x.data(), 7, 50}, random_hadamard<64>{2});
  const std::vector<std::uint8_t> codes(q.codes().begin(), q.codes().end());
  const std::vector<e8m0> scales(q.scales().begin(), q.scales().end());
  std::vector<float> a(7 * 50), b(7 * 50);
  dequantize(q, matrix_view<float>{a.data(), 7, 50});
  dequantize(quantized_view<mxfp4>(codes, scales, 1.0f, 7, 50, q.transform()), matrix_view<float>{b.data(), 7, 50});
  CHECK(support::same_numbers(a, b));
}

TEST_CASE("in a square every row of the square has its scale") {
  using square = block_format<fp4<E2M1>, float, ufp4::square(4)>;
  std::vector<std::uint8_t> codes(6 * 4, 0x22);  // code 2 is the value 1
  const std::vector<float> scales{1, 2, 3, 4};   // 2 x 2 squares over 6 x 8 elements, 6 columns of them in use
  std::vector<float> out(6 * 6);
  dequantize(quantized_view<square>(codes, scales, 1.0f, 6, 6), matrix_view<float>{out.data(), 6, 6});
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t k = 0; k < 6; ++k) REQUIRE(out[i * 6 + k] == scales[i / 4 * 2 + k / 4]);
}
