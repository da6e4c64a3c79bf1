// ufp4 - formats with outer scales of rows, several grids or one-bit exponents: dequantize and products on every tier.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/explain.hpp>
#include <ufp4/gemm.hpp>

#include <cstring>
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
using support::layout;
using support::strided;

const cpu::context portable{.threads = 1, .isa = cpu::isa::scalar};

/// Every part of such formats with every scale kind; blocks of one and of several rows.
const std::vector<format_spec>& formats() {
  static const std::vector<format_spec> list = [] {
    std::vector<format_spec> all = {
        spec_of<block_format<fp4<E2M1>, e4m3, 16, per_row<float>>>,
        spec_of<block_format<int4, ue5m3, block_shape{4, 16}, per_segment<64, bf16>>>,
        spec_of<block_format<fp4<E2M1>, e4m3, 16, per_segment<48, float>>>,
        spec_of<block_format<one_of<fp4<E2M1>, int4>, ue5m3, 32, per_segment<96, bf16>>>,
        spec_of<block_format<one_of<fp4<E2M1>, fp4<E1M2>, scaled<int4, 3>, int4>, ue5m3, 16>>,
        spec_of<block_format<one_of<int4, scaled<fp4<E2M1>, 5, 3>>, float, 32>>,
        spec_of<block_format<one_of<fp4<E1M2>, int4>, e8m0, square(32)>>,
        spec_of<block_format<one_of<fp4<E2M1>, int4, fp4<E1M2>>, e4m3, 64, per_segment<128, bf16>>>,
        spec_of<block_format<one_of<int4, fp4<E2M1>>, bf16, 16>>,
        spec_of<block_format<fp4<E2M1>, e6m2, 16>>,
        spec_of<block_format<int4, e6m2, grouped(32, 16)>>,
        spec_of<block_format<fp4<E2M1>, e4m3, grouped(16, 2), float>>,
        spec_of<block_format<int4, e8m0, grouped(256, 64, 16)>>,
        spec_of<block_format<fp4<E1M2>, ue5m3, grouped(32, 8, 2), per_segment<64, float>>>,
        spec_of<block_format<fp4<E1M2>, e6m2, grouped(16, 2, 1)>>,
        spec_of<block_format<one_of<fp4<E2M1>, nf4>, e4m3, 16, float>>,
        spec_of<block_format<one_of<fp4<E2M1>, int4, fp4<E1M2>, scaled<int4, 6, 7>>, e4m3, 16, per_row<float>>>,
        spec_of<block_format<one_of<int4, fp4<E2M1>, fp4<E1M2>>, e8m0, 32>>,
    };
    ufp4::detail::for_each_row(ufp4::detail::extended_presets{}, [&all](auto preset) { all.push_back(preset.spec); });
    return all;
  }();
  return list;
}

/// A quantized matrix of hostile values; often with any codes, and here and there any bits of scales.
any_quantized random_quantized(support::hostile& numbers, const format_spec& format, std::size_t rows,
                               std::size_t cols) {
  const std::vector<float> x = numbers.values(rows * cols, numbers.below(4) == 0, numbers.below(4) == 0);
  any_quantized q = quantize(format, matrix_view<const float>(x.data(), rows, cols), portable);
  if (numbers.below(2) == 0)
    for (std::uint8_t& byte : q.codes()) byte = static_cast<std::uint8_t>(numbers.below(256));
  if (numbers.below(3) == 0)
    for (std::byte& byte : q.scale_bytes())
      if (numbers.below(60) == 0) byte = static_cast<std::byte>(numbers.below(256));
  return q;
}

/// Elements of one byte with outer scales of segments, and floats of one byte: portable kernels alone have them.
const std::vector<format_spec>& wide_formats() {
  static const std::vector<format_spec> list = {spec_of<block_format<ufp4::int8, e4m3, 16, per_segment<64, float>>>,
                                                spec_of<block_format<ufp4::int8, e4m3, 16, per_segment<80, float>>>,
                                                spec_of<block_format<fp8_e5m2, e4m3, 16, float>>};
  return list;
}

template <class T>
void compare_decoded(const any_quantized& q, layout shape) {
  strided<T> want(q.rows(), q.cols(), shape);
  dequantize(q, want.view(), portable);
  for (const cpu::isa tier : support::runnable_isas()) {
    strided<T> got(q.rows(), q.cols(), shape);
    dequantize(q, got.view(), cpu::context{.threads = 1, .isa = tier});
    CAPTURE(cpu::name(tier), q.rows(), q.cols(), static_cast<int>(shape));
    REQUIRE(got.same_as(want));
  }
}

/// C of a call on one thread, its guards checked.
template <class B>
std::vector<float> product(cpu::isa tier, const any_quantized& a, const B& b, const gemm_options& options) {
  support::guarded<float> c(a.rows() * b.rows());
  quantized_gemm(a, b, matrix_view<float>{c.data(), a.rows(), b.rows()}, options,
                 cpu::context{.threads = 1, .isa = tier});
  REQUIRE(c.guards_intact());
  return {c.begin(), c.end()};
}

void compare_products(const any_quantized& a, const any_quantized& b) {
  const gemm_options exact{.alpha = 0.75f, .accumulate = accumulate::exact_blocks};
  const std::vector<float> want = product(cpu::isa::scalar, a, b, exact);
  const any_prepacked packed = prepack(b, portable);
  for (const cpu::isa tier : support::runnable_isas()) {
    CAPTURE(cpu::name(tier), a.rows(), b.rows(), a.cols());
    REQUIRE(support::same_numbers(product(tier, a, b, exact), want));
    REQUIRE(support::same_numbers(product(tier, a, packed, exact), want));
  }
}

/// A format of the list, or a format without such parts, with blocks of the same length.
format_spec other_side(support::hostile& numbers, int length) {
  const std::vector<format_spec>& all = formats();
  const format_spec& one = all[numbers.below(static_cast<std::uint32_t>(all.size()))];
  if (one.block.cols == length) return one;
  const format_spec usual[] = {spec_of<nvfp4>, spec_of<mxint4>, spec_of<int8_f32>, spec_of<mxint8>};
  format_spec f = usual[numbers.below(4)];
  f.block = length;
  return f;
}

}  // namespace

TEST_CASE("every tier decodes any codes and scales of such formats as the portable kernel does", "[cpu]") {
  INFO(support::seed_note());
  support::hostile numbers(support::seed(1));
  for (const format_spec& format : formats())
    for (std::size_t i = 0; i < 40; ++i) {
      const std::size_t rows = 1 + numbers.below(6), cols = i < 36 ? numbers.below(400) : 4000 + numbers.below(300);
      const any_quantized q = random_quantized(numbers, format, rows, cols);
      const layout shape = support::all_layouts[numbers.below(6)];
      CAPTURE(format.block.cols, format.choice.count, format.block.group.wide, static_cast<int>(format.scale));
      compare_decoded<float>(q, shape);
      compare_decoded<bf16>(q, shape);
      compare_decoded<fp16>(q, shape);
    }
}

TEST_CASE("every tier gives the portable kernel's bits for products of such formats, prepacked ones too", "[cpu]") {
  INFO(support::seed_note());
  support::hostile numbers(support::seed(2));
  for (const format_spec& format : formats())
    for (int i = 0; i < 24; ++i) {
      const format_spec other = other_side(numbers, format.block.cols);
      const std::size_t m = 1 + numbers.below(i % 4 == 0 ? 40 : 10), n = 1 + numbers.below(40);
      const std::size_t k = 1 + numbers.below(i % 6 == 0 ? 2300 : 500);
      CAPTURE(format.block.cols, format.choice.count, format.block.group.wide, static_cast<int>(format.scale),
              static_cast<int>(other.scale), other.has_bytes());
      const any_quantized a = random_quantized(numbers, format, m, k), b = random_quantized(numbers, other, n, k);
      if (!other.has_bytes()) compare_products(a, b);
      if (other.has_bytes()) {
        const gemm_options exact{.accumulate = accumulate::exact_blocks};
        for (const cpu::isa tier : support::runnable_isas())
          REQUIRE(support::same_numbers(product(tier, a, b, exact), product(cpu::isa::scalar, a, b, exact)));
      }
      compare_products(b, a);
    }
}

TEST_CASE("one to eight rows by weights of such formats have the portable kernel's bits, whatever bytes are stored",
          "[cpu]") {
  INFO(support::seed_note());
  support::hostile numbers(support::seed(4));
  const std::size_t step = cpu::available().has(cpu::isa::avx512) ? 1 : 7;  // below, each of them is portable code
  for (const format_spec& format : formats())
    for (std::size_t m = 1; m <= 8; m += step)
      for (const std::size_t k : {1 + numbers.below(300), 900 + numbers.below(1500)}) {
        const std::size_t n = 1 + numbers.below(70);
        const format_spec other = other_side(numbers, format.block.cols);
        any_quantized b = random_quantized(numbers, format, n, k);
        if (m % 2 == 1)  // numbers of grids that do not exist, any exponents
          for (std::byte& byte : b.scale_bytes())
            if (numbers.below(4) == 0) byte = static_cast<std::byte>(numbers.below(256));
        CAPTURE(m, format.block.cols, format.choice.count, format.block.group.wide, static_cast<int>(format.scale));
        compare_products(random_quantized(numbers, other, m, k), b);
        compare_products(random_quantized(numbers, format, m, k), b);
      }
}

TEST_CASE("elements of one byte with outer scales or exponents give the portable kernel's bits on every tier",
          "[cpu]") {
  INFO(support::seed_note());
  support::hostile numbers(support::seed(3));
  for (const format_spec& format : wide_formats())
    for (int i = 0; i < 10; ++i) {
      const std::size_t k = 1 + numbers.below(300);
      const any_quantized a = random_quantized(numbers, format, 1 + numbers.below(9), k);
      compare_decoded<float>(a, layout::packed);
      compare_decoded<bf16>(a, layout::wide);
      for (const format_spec& other : {spec_of<nvfp4>, spec_of<tetrajet2>, spec_of<if4>}) {
        const any_quantized b = random_quantized(numbers, other, 1 + numbers.below(20), k);
        const gemm_options exact{.accumulate = accumulate::exact_blocks};
        for (const cpu::isa tier : support::runnable_isas()) {
          CAPTURE(cpu::name(tier), k, format.outer.segment, other.choice.count);
          REQUIRE(support::same_numbers(product(tier, a, b, exact), product(cpu::isa::scalar, a, b, exact)));
          REQUIRE(support::same_numbers(product(tier, b, a, exact), product(cpu::isa::scalar, b, a, exact)));
        }
      }
    }
}

TEST_CASE("products of presets with such parts run on AVX-512 VNNI where the machine has it, folded ones do not",
          "[cpu]") {
  std::vector<float> x(64, 1.0f), c(1);
  const matrix_view<const float> row(x.data(), 1, 64);
  const matrix_view<float> out(c.data(), 1, 1);
  for (const cpu::isa tier : support::runnable_isas()) {
    const cpu::context ctx{.threads = 1, .isa = tier};
    const bool has_kernel = tier >= cpu::isa::avx512 && tier <= cpu::isa::amx;
    ufp4::detail::for_each_row(ufp4::detail::extended_presets{}, [&](auto preset) {
      CAPTURE(cpu::name(tier), preset.name);
      const any_quantized q = quantize(preset.spec, row, portable);
      const auto kernel_of = [&](accumulate mode) {
        return std::string(cpu::explain(q, q, out, {.accumulate = mode}, ctx).kernel);
      };
      CHECK(kernel_of(accumulate::exact_blocks) == (has_kernel ? "gemv_extended_avx512" : "gemm_scalar"));
      CHECK(kernel_of(accumulate::fast) == (has_kernel ? "gemv_extended_avx512" : "gemm_scalar"));
      CHECK(kernel_of(accumulate::folded_bf16) == "gemm_scalar");
    });
  }
}
