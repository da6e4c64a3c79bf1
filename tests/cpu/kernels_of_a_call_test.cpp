// ufp4 - the kernels that are compiled for what the types of a call show give the portable kernels' bits on every tier.
// SPDX-License-Identifier: Apache-2.0
// ctest: alone full
#undef UFP4_EXTERNAL_KERNELS  // the kernels that other tests share are compiled for every call
#include <ufp4/analysis/measure.hpp>
#include <ufp4/gemm.hpp>

#include <bit>
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
  const auto want = quantize<F>(x, transform_spec{}, rounding_spec{}, count_into{all_counts}, portable);
  REQUIRE(same(quantize<F>(x, ctx), want));
  REQUIRE(same(quantize<F>(x, count_into{counts}, ctx), want));
  REQUIRE(counts == all_counts);
  REQUIRE(same(quantize(spec_of<F>, x, ctx), want));
  REQUIRE(same(quantize<F>(x, nearest_away{}, ctx), quantize<F>(x, rounding_spec{nearest_away{}}, portable)));
  REQUIRE(same(quantize<F>(x, toward_zero{}, ctx), quantize<F>(x, rounding_spec{toward_zero{}}, portable)));
}

/// Transforms, stochastic rounding and searches, each alone and together.
template <class F, class T>
void check_policies(const cpu::context& ctx, const matrix_view<const T>& x, std::uint64_t seed) {
  const random_hadamard<16> rht{seed};
  const stochastic random_bits{seed + 1};
  const ufp4::scale_rule_spec search = mse_search{}.spec();
  REQUIRE(same(quantize<F>(x, rht, ctx), quantize(spec_of<F>, x, rht, portable)));
  REQUIRE(same(quantize<F>(x, random_bits, ctx), quantize(spec_of<F>, x, rounding_spec{random_bits}, portable)));
  REQUIRE(same(quantize<F>(x, mse_search{}, ctx), quantize(spec_of<F>, x, search, portable)));
  REQUIRE(same(quantize<F>(x, percentile{800}, ctx), quantize(spec_of<F>, x, percentile{800}.spec(), portable)));
  REQUIRE(same(quantize<F>(x, random_bits, mae_search{}, hadamard<32>{}, ctx),
               quantize(spec_of<F>, x, hadamard<32>{}, mae_search{}.spec(), rounding_spec{random_bits}, portable)));
}

bool same_report(const analysis::report& a, const analysis::report& b) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x != x ? 0.0 : x); };  // any NaN is one
  return bits(a.sqnr_db) == bits(b.sqnr_db) && bits(a.attenuation) == bits(b.attenuation) &&
         a.histogram == b.histogram && a.nonfinite_blocks == b.nonfinite_blocks;
}
template <class F, class T>
void check_measure(const cpu::context& ctx, const matrix_view<const T>& x) {
  REQUIRE(same_report(analysis::measure<F>(x, ctx), analysis::measure(spec_of<F>, x, portable)));
  REQUIRE(same_report(analysis::measure<F>(x, hadamard<16>{}, ctx),
                      analysis::measure(spec_of<F>, x, hadamard<16>{}, portable)));
}

template <class F, class T>
void check_dequantize(const cpu::context& ctx, const quantized_matrix<F>& q, support::layout l) {
  support::strided<T> got(q.rows(), q.cols(), l), want(q.rows(), q.cols(), l);
  dequantize(q, got.view(), ctx);
  dequantize(any_quantized_view(q), want.view(), portable);
  REQUIRE(got.same_as(want));
  support::strided<T> decoded(q.rows(), q.cols(), l);
  const matrix<float> x = dequantize<float>(q);
  fake_quantize<F>(x, decoded.view(), hadamard<16>{}, undo_transform{}, ctx);
  fake_quantize(spec_of<F>, x, want.view(), hadamard<16>{}, undo_transform{}, portable);
  REQUIRE(decoded.same_as(want));
}

/// Products of matrices whose types tell their formats, in the mode of equal bits.
template <class F, class T>
void check_gemm(const cpu::context& ctx, const quantized_matrix<F>& a, const quantized_matrix<F>& b) {
  const gemm_options exact{.accumulate = accumulate::exact_blocks};
  matrix<T> got(a.rows(), b.rows()), want(a.rows(), b.rows());
  quantized_gemm(any_quantized_view(a), any_quantized_view(b), want, exact, portable);
  const auto check = [&](const auto& left, const auto& right) {
    quantized_gemm(left, right, got, exact, ctx);
    bool same_elements = true;
    for (std::size_t i = 0; i < got.rows(); ++i)
      for (std::size_t j = 0; j < got.cols(); ++j)
        same_elements =
            same_elements && support::same_number(static_cast<float>(got(i, j)), static_cast<float>(want(i, j)));
    REQUIRE(same_elements);
  };
  check(a, b);
  if constexpr (!F::has_bytes) check(a, prepack(b));
  const matrix<float> x = dequantize<float>(a);
  quantized_gemm(unquantized(x), any_quantized_view(b), want, exact, portable);
  check(unquantized(x), b);
}

template <class F, class T>
void check_operations(const cpu::context& ctx, support::hostile& numbers, std::size_t rows, std::size_t cols,
                      support::layout l) {
  support::strided<T> x(rows, cols, l), w(1 + numbers.below(40), cols, l);
  x.fill(support::elements<T>(numbers.values(rows * cols, numbers.below(2) != 0)));
  w.fill(support::elements<T>(numbers.values(w.view().rows() * cols, true)));
  const matrix_view<const T> view = x.view(), weights = w.view();
  check_policies<F>(ctx, view, numbers.below(1000));
  check_measure<F>(ctx, view);
  check_dequantize<F, bf16>(ctx, quantize<F>(view, portable), l);
  check_dequantize<F, fp16>(ctx, quantize<F>(view, portable), l);
  check_gemm<F, T>(ctx, quantize<F>(view, portable), quantize<F>(weights, portable));
}

template <class F, class T>
void check_format(support::hostile& numbers, std::size_t rows, std::size_t cols, support::layout l) {
  support::strided<T> x(rows, cols, l);
  x.fill(support::elements<T>(numbers.values(rows * cols, numbers.below(2) != 0)));
  const matrix_view<const T> view = x.view();
  for (const cpu::isa tier : support::runnable_isas()) {
    CAPTURE(cpu::name(tier), rows, cols, static_cast<int>(l));
    check_quantize<F>({.threads = 1, .isa = tier}, view);
    check_dequantize<F, float>({.threads = 1, .isa = tier}, quantize<F>(view, portable), l);
  }
}

/// Every needs of quantize: scales that multiply and that divide; blocks of one row and square ones.
template <class Check>
void each_format(const Check& check) {
  const auto one = [&](auto row) { check.template operator()<typename decltype(row)::format>(row.name); };
  ufp4::detail::for_each_row(ufp4::detail::presets{}, one);
  ufp4::detail::for_each_row(ufp4::detail::byte_presets{}, one);
  ufp4::detail::for_each_row(ufp4::detail::extended_presets{}, one);
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

TEST_CASE("what the types of a call leave out changes no bit of quantize, measure, dequantize and quantized_gemm",
          "[cpu]") {
  INFO(support::seed_note());
  support::hostile numbers(support::seed(2));
  const auto check = [&]<class F>(const char* name) {
    for (const cpu::isa tier : support::runnable_isas()) {
      CAPTURE(name, cpu::name(tier));
      const support::layout l = support::all_layouts[numbers.below(6)];
      const std::size_t rows = 1 + numbers.below(40), cols = 1 + numbers.below(300);
      check_operations<F, float>({.threads = 1, .isa = tier}, numbers, rows, cols, l);
      check_operations<F, bf16>({.threads = 1, .isa = tier}, numbers, cols, rows, l);
    }
  };
  check.operator()<nvfp4>("nvfp4");
  check.operator()<mxfp4>("mxfp4");
  check.operator()<e1m2_f32>("e1m2_f32");
  check.operator()<block_format<int4, bf16, 32>>("int4, bf16 scales");
  check.operator()<block_format<nf4, ue5m3, square(16), float>>("nf4, square blocks");
  check.operator()<block_format<int8, e8m0, 32>>("int8");
  check.operator()<block_format<fp8_e4m3, e8m0, 32>>("fp8");
  check.operator()<block_format<one_of<fp4<E2M1>, scaled<fp4<E1M2>, 1, 4>>, e4m3, 16, per_row<float>>>("two grids");
}
