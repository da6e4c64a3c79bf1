// ufp4 - the kernels that are compiled for what the types of a call show give the portable kernels' bits on every tier.
// SPDX-License-Identifier: Apache-2.0
// ctest: alone
#undef UFP4_EXTERNAL_KERNELS  // the kernels that other tests share are compiled for every call
#include <ufp4/dequantize.hpp>

#include <cstring>
#include <vector>

#include <ufp4/block/presets.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"
#include "support/strided.hpp"
#include "support/threads.hpp"

using namespace ufp4;

namespace {

const cpu::context portable{.threads = 1, .isa = cpu::isa::scalar};

/// The same of any two types of quantized matrices.
bool same(const auto& a, const auto& b) { return a == b; }

template <class F, class T>
void check_quantize(const cpu::context& ctx, const matrix_view<const T>& x) {
  quantize_report counts, all_counts;
  const auto want = quantize<F>(portable, x, transform_spec{}, rounding_spec{}, count_into{all_counts});
  REQUIRE(same(quantize<F>(ctx, x), want));
  REQUIRE(same(quantize<F>(ctx, x, count_into{counts}), want));
  REQUIRE(counts == all_counts);
  REQUIRE(same(quantize(ctx, spec_of<F>, x), want));
  REQUIRE(same(quantize<F>(ctx, x, nearest_away{}), quantize<F>(portable, x, rounding_spec{nearest_away{}})));
  REQUIRE(same(quantize<F>(ctx, x, toward_zero{}), quantize<F>(portable, x, rounding_spec{toward_zero{}})));
}

template <class F>
void check_dequantize(const cpu::context& ctx, const quantized_matrix<F>& q, support::layout l) {
  support::strided<float> got(q.rows(), q.cols(), l), want(q.rows(), q.cols(), l);
  dequantize(ctx, q, got.view());
  dequantize(portable, q, want.view());
  REQUIRE(got.same_as(want));
}

template <class F, class T>
void check_format(support::hostile& numbers, std::size_t rows, std::size_t cols, support::layout l) {
  support::strided<T> x(rows, cols, l);
  x.fill(support::elements<T>(numbers.values(rows * cols, numbers.below(2) != 0)));
  const matrix_view<const T> view = x.view();
  for (const cpu::isa tier : support::runnable_isas()) {
    CAPTURE(cpu::name(tier), rows, cols, static_cast<int>(l));
    check_quantize<F>({.threads = 1, .isa = tier}, view);
    check_dequantize({.threads = 1, .isa = tier}, quantize<F>(portable, view), l);
  }
}

/// Every needs of quantize: scales that multiply and that divide; blocks of one row and square ones.
template <class Check>
void each_format(const Check& check) {
  const auto one = [&](auto row) { check.template operator()<typename decltype(row)::format>(row.name); };
  for_each_preset(one);
  for_each_wide_preset(one);
  for_each_extended_preset(one);
  check.template operator()<block_format<fp4<E2M1>, e4m3, square(16), float>>("16x16 blocks with a tensor scale");
  check.template operator()<block_format<nf4, float, 32>>("nf4");
}

}  // namespace

TEST_CASE("a call without a transform and stochastic rounding gives the portable kernels' bits on every tier",
          "[cpu]") {
  INFO(support::seed_note());
  support::hostile numbers(support::seed(1));
  each_format([&]<class F>(const char* name) {
    CAPTURE(name);
    for (int i = 0; i < 24; ++i) {
      const std::size_t rows = 1 + numbers.below(i % 8 == 0 ? 150 : 20), cols = numbers.below(i % 8 == 0 ? 700 : 330);
      const support::layout l = support::all_layouts[numbers.below(6)];
      switch (i % 3) {
        case 0: check_format<F, float>(numbers, rows, cols, l); break;
        case 1: check_format<F, bf16>(numbers, rows, cols, l); break;
        default: check_format<F, fp16>(numbers, rows, cols, l);
      }
    }
  });
}
