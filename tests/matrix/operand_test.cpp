// ufp4 - operand and unquantized: what a GEMM is told to do later is what quantize does now.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/matrix/operand.hpp>

#include <vector>

#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"

using namespace ufp4;

TEST_CASE("an operand remembers its view and policies and copies no data") {
  const std::vector<float> x(64, 1.0f);
  const matrix_view<const float> view{x.data(), 2, 32};
  const auto request = operand<nvfp4>(view, stochastic{.seed = 3}, hadamard<16>{}, scale_up{});
  CHECK((request.x.data() == x.data() && request.x.rows() == 2 && request.x.cols() == 32));
  CHECK((request.options.transform.n == 16 && request.options.rounding.random_bits.seed == 3));
  CHECK(request.options.rule == scale_up{}.spec());
  CHECK(unquantized(view).transform.n == 1);
  CHECK(unquantized(view, hadamard<64>{}).transform.n == 64);
  CHECK(unquantized(view).x.data() == x.data());
}

namespace {

/// C by operands quantized on the fly, and by quantizing first.
template <class A, class B, class... Policies>
void check_on_the_fly(const Policies&... policies) {
  support::hostile source(support::seed());
  const std::vector<float> a = source.values(5 * 70, false, false), b = source.values(3 * 70, false, false);
  const matrix_view<const float> left{a.data(), 5, 70}, right{b.data(), 3, 70};
  const gemm_options exact{.accumulate = accumulate::exact_blocks};
  std::vector<float> later(15), now(15), mixed(15);
  quantized_gemm(operand<A>(left, policies...), operand<B>(right, policies...), matrix_view<float>{later.data(), 5, 3},
                 exact);
  const auto qa = quantize<A>(left, policies...);
  const auto qb = quantize<B>(right, policies...);
  quantized_gemm(qa, qb, matrix_view<float>{now.data(), 5, 3}, exact);
  quantized_gemm(operand<A>(left, policies...), qb.view(), matrix_view<float>{mixed.data(), 5, 3}, exact);
  CHECK(support::same_numbers(later, now));
  CHECK(support::same_numbers(mixed, now));
}

}  // namespace

TEST_CASE("a GEMM of operands is the GEMM of what quantize gives") {
  INFO(support::seed_note());
  check_on_the_fly<nvfp4, nv_e1m2>(random_hadamard<32>{5});
  check_on_the_fly<e1m2_f32, int4_f32>(toward_zero{}, mse_search{});
  check_on_the_fly<mxfp4, compat::ggml_mxfp4>();
}
