// ufp4 - the dequantize kernels of every tier give the scalar kernel's bits and write nothing else.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/dequantize.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include <ufp4/block/presets.hpp>
#include <ufp4/format/table_element.hpp>

#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/strided.hpp"
#include "support/threads.hpp"

namespace {

using namespace ufp4;
using support::layout;
using support::strided;

/// Random codes under scales of every kind: any byte of an 8-bit type, any bits of a wider one or, often, of usual
/// size.
template <class F>
struct random_quantized {
  std::size_t rows, cols, padded;
  float tensor_scale;
  support::guarded<std::uint8_t> codes;
  support::guarded<typename F::scale_type> scales;

  static constexpr std::size_t length = F::block_size, height = static_cast<std::size_t>(F::block.rows);

  random_quantized(std::size_t r, std::size_t c, std::uint64_t seed, float t = 1)
      : rows(r),
        cols(c),
        padded((c + length - 1) / length * length),
        tensor_scale(t),
        codes(ufp4::detail::code_bytes(spec_of<F>, r * padded), 1),
        scales((r + height - 1) / height * (padded / length), 1) {
    std::mt19937_64 gen{seed};
    for (auto& byte : codes) byte = static_cast<std::uint8_t>(gen());
    for (auto& scale : scales) scale = random_scale(static_cast<std::uint32_t>(gen()), gen() % 4 == 0);
  }

  quantized_view<F> view() const { return {codes.span(), scales.span(), tensor_scale, rows, cols}; }

 private:
  static typename F::scale_type random_scale(std::uint32_t bits, bool any_bits) {
    using scale = typename F::scale_type;
    if constexpr (sizeof(scale) == 1)
      return scale::from_bits(static_cast<std::uint8_t>(bits));
    else {
      const std::uint32_t chosen = any_bits ? bits : (bits & 0x87FFFFFFu) | 0x38000000u;
      if constexpr (sizeof(scale) == 4)
        return std::bit_cast<float>(chosen);
      else
        return scale::from_bits(static_cast<std::uint16_t>(chosen >> 16));
    }
  }
};

template <class F, class T>
void compare(const random_quantized<F>& q, layout shape) {
  strided<T> want(q.rows, q.cols, shape);
  dequantize(q.view(), want.view(), cpu::context{.threads = 1, .isa = cpu::isa::scalar});
  for (const cpu::isa tier : support::runnable_isas()) {
    strided<T> got(q.rows, q.cols, shape);
    dequantize(q.view(), got.view(), cpu::context{.threads = 1, .isa = tier});
    CAPTURE(cpu::name(tier), q.rows, q.cols, q.tensor_scale, static_cast<int>(shape));
    REQUIRE(got.same_as(want));
  }
}

template <class F>
void compare_types(const random_quantized<F>& q, layout shape) {
  compare<F, float>(q, shape);
  compare<F, bf16>(q, shape);
  compare<F, fp16>(q, shape);
}

const float tensor_scales[] = {
    1.0f, 0.37f, 0x1p-40f, 0x1.8p-130f, 0x1p-149f, 0x1p60f, 0x1p96f, -3.0f, std::bit_cast<float>(0x7F800000u)};

/// Every width up to two blocks, and some that exceed a stretch of the kernels, as every type.
template <class F>
void compare_widths() {
  INFO(support::seed_note());
  constexpr std::size_t length = F::block_size;
  for (std::size_t cols = 0; cols <= 600; ++cols) {
    if (cols > 70 && (cols + 1) % 16 > 2 && cols % 13 != 0) continue;
    const random_quantized<F> q(1 + cols % 3, cols, support::seed(cols), tensor_scales[cols % (F::two_level ? 9 : 1)]);
    compare_types(q, cols % 2 == 0 ? layout::packed : layout::wide);
  }
  for (const std::size_t cols : {1025u, 4095u, 4096u, 4097u, 4111u, 4112u, 8200u}) {
    const random_quantized<F> q(2, cols + length / 2, support::seed(cols + length));
    compare_types(q, layout::packed);
  }
}

using e3m0_ue5m3 = block_format<fp4<E3M0>, ue5m3, 16>;
using nf4_bf16 = block_format<nf4, bf16, 64>;
using int8_e4m3 = block_format<ufp4::int8, e4m3, 64, float>;

}  // namespace

TEMPLATE_TEST_CASE("every tier decodes rows of every width as the scalar kernel does", "[cpu]", e1m2_f32, int4_f32,
                   nvfp4, mxfp4, e3m0_ue5m3, nf4_bf16, int8_f32, mxint8, int8_e4m3) {
  compare_widths<TestType>();
}

namespace {

template <int block, class Scale>
void compare_block() {
  INFO(support::seed_note());
  CAPTURE(block);
  for (const std::size_t cols : {1u, 31u, 256u, 300u, 1100u}) {
    compare_types(random_quantized<block_format<fp4<E2M1>, Scale, block>>(3, cols, support::seed(cols + 1)),
                  layout::packed);
    if constexpr (block <= 64)
      compare_types(random_quantized<block_format<int4, Scale, square(block)>>(block + 3, cols, support::seed(cols)),
                    layout::wide);
  }
}

template <class Scale>
void compare_blocks() {
  compare_block<2, Scale>();
  compare_block<4, Scale>();
  compare_block<8, Scale>();
  compare_block<16, Scale>();
  compare_block<32, Scale>();
  compare_block<64, Scale>();
  compare_block<128, Scale>();
  compare_block<256, Scale>();
}

}  // namespace

TEST_CASE("every tier decodes blocks and squares of every length", "[cpu]") {
  compare_blocks<float>();
  compare_blocks<e4m3>();
  compare_blocks<e8m0>();
}

TEMPLATE_TEST_CASE("every tier decodes every code of a scale as the scalar kernel does", "[cpu]", bf16, e4m3, ue5m3,
                   e8m0) {
  constexpr std::size_t codes = sizeof(TestType) == 1 ? 256 : 65536;
  using format = block_format<fp4<E1M2>, TestType, 16>;
  random_quantized<format> q(4, codes * 4, 1);
  for (std::size_t b = 0; b < q.scales.size(); ++b)
    q.scales[b] =
        std::bit_cast<TestType>(static_cast<std::conditional_t<sizeof(TestType) == 1, std::uint8_t, std::uint16_t>>(b));
  compare_types(q, layout::packed);
}

TEMPLATE_TEST_CASE("every tier writes strided, reversed and transposed matrices", "[cpu]", nvfp4, mxint4) {
  INFO(support::seed_note());
  for (const layout shape : support::all_layouts)
    for (const std::size_t cols : {1u, 16u, 47u, 4200u})
      compare_types(random_quantized<TestType>(5, cols, support::seed(cols), 0.7f), shape);
}

TEST_CASE("16-bit results are rounded once on every tier: ties, subnormals, overflow and NaN", "[cpu]") {
  // The value 1.5 times scales that run over all roundings of a few binades; hostile NaNs among the scales.
  using format = block_format<fp4<E2M1>, float, 16>;
  for (const std::uint32_t base : {0x3F800000u, 0x00000000u, 0x007F0000u, 0x33000000u, 0x387F0000u, 0x477FC000u,
                                   0x7F7F0000u, 0x7FFFF000u, 0xFFFFF000u, 0x7F800000u}) {
    random_quantized<format> q(1, 16 * 0x1000, base);
    for (std::size_t b = 0; b < q.scales.size(); ++b)
      q.scales[b] = std::bit_cast<float>(base + static_cast<std::uint32_t>(b * 16 + b % 2));
    compare_types(q, layout::packed);
  }
}
