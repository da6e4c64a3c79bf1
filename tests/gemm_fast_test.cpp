// ufp4 - quantized_gemm, fast and folded_bf16: within the bounds of numerics 6, worked out in extended precision.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/fast_cases.hpp"
#include "support/format_pairs.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <algorithm>
#include <vector>

using namespace ufp4;

namespace {

/// On every tier of the machine, alpha and beta as given or none.
template <class A, class B>
void check(const quantized_matrix<A>& a, const quantized_matrix<B>& b, const gemm_options& given) {
  const std::size_t m = a.rows(), n = b.rows();
  const support::product_bound bound(a, b);
  const std::vector<float> old = support::old_values(m * n);
  for (const cpu::isa tier : support::runnable_isas())
    for (const float beta : {0.0f, 1.3f}) {
      gemm_options options = given;
      options.beta = beta;
      CAPTURE(cpu::name(tier), static_cast<int>(options.accumulate), m, n, a.cols(), options.alpha, beta);
      support::guarded<float> c(m * n);
      if (beta != 0) std::copy(old.begin(), old.end(), c.begin());
      quantized_gemm(a, b, matrix_view<float>{c.data(), m, n}, options, cpu::context{.threads = 1, .isa = tier});
      REQUIRE(bound.broken_by({c.data(), c.size()}, options, old) == "");
      REQUIRE(c.guards_intact());
    }
}
constexpr auto check_any = [](const auto& a, const auto& b, const gemm_options& options) { check(a, b, options); };

template <class A, class B>
void check_pair() {
  INFO(support::seed_note());
  INFO((support::pair_text<A, B>()));
  std::mt19937_64 gen{support::seed(sizeof(typename A::scale_type) * 16 + sizeof(typename B::scale_type))};
  for (const std::size_t k : {1u, 16u, 48u, 64u, 300u, 1040u}) {
    const auto a = model::random_quantized<A>(gen, 21, k, model::scales::ordinary, 0x1.8p-7f);
    const auto b = model::random_quantized<B>(gen, 66, k, model::scales::ordinary, 0x1.333334p+3f);
    for (const accumulate mode : {accumulate::fast, accumulate::folded_bf16})
      for (const float alpha : {1.0f, -2.7f}) check(a, b, {.alpha = alpha, .accumulate = mode});
  }
}

}  // namespace

TEST_CASE("fast and folded_bf16 keep their bounds", "[gemm]") {
  const auto check_this = []<class Pair>(Pair) { check_pair<typename Pair::left, typename Pair::right>(); };
  SECTION("8-bit scales") { support::pairs_of_8_bit_scales(check_this); }
  SECTION("wider scales") { support::pairs_of_wider_scales(check_this); }
  SECTION("binary32 scales") { check_pair<e1m2_f32, e1m2_f32>(), check_pair<int4_f32, e2m1_f32>(); }
  SECTION("both") { check_pair<nvfp4, e1m2_f32>(), check_pair<block_format<nf4, float, 16>, nvfp4>(); }
}

TEST_CASE("fast keeps its bound over the whole range of 8-bit scales", "[gemm]") {
  support::every_scale({16, 64, 200}, check_any);
}

TEST_CASE("fast keeps its bound where a decoded operand is no normal bf16 number", "[gemm]") {
  support::operands_beyond_bf16(accumulate::fast, check_any);
}

TEST_CASE("fast keeps its bound where a tensor scale or alpha alone leaves the range of binary32", "[gemm]") {
  support::factors_far_apart(check_any);
}

TEST_CASE("products that vanish cost no more than Kp * 2^-126", "[gemm]") { support::underflowing_products(check_any); }

TEST_CASE("subnormal results of steps 5 and 7 cost 2^-150 each", "[gemm]") {
  const float x[32] = {0x1p-55f}, old[] = {0x1p-149f};
  const auto q = quantize<mxfp4>(matrix_view<const float>{x, 1, 32});
  const support::product_bound bound(q, q);
  const gemm_options options{.alpha = 0x1p-40f, .beta = 0.5f};  // 2^-150 + 2^-150, each of them rounded to 0
  for (const cpu::isa tier : support::runnable_isas()) {
    CAPTURE(cpu::name(tier));
    float c = old[0];
    quantized_gemm(q, q, matrix_view<float>{&c, 1, 1}, options, cpu::context{.threads = 1, .isa = tier});
    CHECK(c == 0.0f);
    CHECK(bound.broken_by({&c, 1}, options, old) == "");
  }
}

TEST_CASE("where every partial sum is exact, every mode gives the bits of exact_blocks", "[gemm]") {
  support::exact_sums({1, 16, 33, 64, 530}, [](const auto& a, const auto& b, gemm_options options, const auto& want) {
    const std::size_t m = a.rows(), n = b.rows();
    for (const cpu::isa tier : support::runnable_isas())
      for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks, accumulate::folded_bf16}) {
        CAPTURE(cpu::name(tier), static_cast<int>(mode), a.cols());
        options.accumulate = mode;
        support::guarded<float> c(m * n);
        quantized_gemm(a, b, matrix_view<float>{c.data(), m, n}, options, cpu::context{.isa = tier});
        REQUIRE(c.same_bytes(want));
      }
  });
}

TEST_CASE("fast does not round value * scale to bf16; folded_bf16 does", "[gemm]") {
  const support::ninth_bit operands;
  float c = 0;
  const auto product = [&](accumulate mode) {
    quantized_gemm(operands.a, operands.b, matrix_view<float>{&c, 1, 1}, {.accumulate = mode});
    return c;
  };
  CHECK(product(accumulate::fast) == operands.kept);
  CHECK(product(accumulate::exact_blocks) == operands.kept);
  CHECK(product(accumulate::folded_bf16) == operands.rounded);
  CHECK(gemm_options{}.accumulate == accumulate::fast);
}

TEST_CASE("the fast modes give the same bits on every thread count and executor", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(5)};
  const std::size_t m = 130, n = 70, k = 530;
  const auto a = model::random_quantized<e1m2_f32>(gen, m, k);
  const auto b = model::random_quantized<nvfp4>(gen, n, k, model::scales::ordinary, 0x1.3p-4f);
  for (const accumulate mode : {accumulate::fast, accumulate::folded_bf16})
    support::on_every_context([&](const cpu::context& context) {
      support::guarded<float> alone(m * n), together(m * n);
      quantized_gemm(a, b, matrix_view<float>{alone.data(), m, n}, {.accumulate = mode},
                     cpu::context{.threads = 1, .isa = context.isa});
      quantized_gemm(a, b, matrix_view<float>{together.data(), m, n}, {.accumulate = mode}, context);
      REQUIRE(together.same_bytes(alone.span()));
    });
}
