// ufp4 - quantized_gemm, fast and folded_bf16: within the bounds of numerics 6, worked out in extended precision.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <cfloat>
#include <vector>

using namespace ufp4;

namespace {

static_assert(LDBL_MANT_DIG >= 64, "the bounds are checked in a type of at least 64 bits");

/// What rounding to bf16 may add for each side whose value * scale has more bits than bf16's eight: half a step of 2^-7.
template <class F>
constexpr long double folding_of() {
  return std::is_same_v<typename F::scale_type, float> || !F::element_type::exact_products ? 0x1p-8L : 0.0L;
}

/// |C - E| <= (folding + (Kp + 6) 2^-24) |alpha| sum|a||b| + (Kp + 6) 2^-24 |beta C| + |alpha| TA TB Kp 2^-126 (numerics 6).
template <class A, class B>
void check(const quantized_matrix<A>& a, const quantized_matrix<B>& b, std::initializer_list<accumulate> modes,
           std::initializer_list<float> alphas = {1.0f}) {
  const std::size_t m = a.rows(), n = b.rows();
  const auto padded = static_cast<long double>(a.padded_cols());
  const model::side left = model::side_of(a), right = model::side_of(b);
  const model::bounded exact = model::extended(left, right);
  const long double tensors = static_cast<long double>(left.tensor) * static_cast<long double>(right.tensor);
  const long double relative = (padded + 6) * 0x1p-24L;
  for (const cpu::isa tier : support::runnable_isas())
    for (const accumulate mode : modes)
      for (const float alpha : alphas)
        for (const float beta : {0.0f, 1.3f}) {
          CAPTURE(cpu::name(tier), static_cast<int>(mode), m, n, a.cols(), alpha, beta);
          const auto factor = static_cast<long double>(alpha), kept = static_cast<long double>(beta);
          const long double folding = mode == accumulate::folded_bf16 ? folding_of<A>() + folding_of<B>() : 0;
          support::guarded<float> c(m * n);
          if (beta != 0)
            for (std::size_t i = 0; i < m * n; ++i) c[i] = static_cast<float>(i % 101) - 50.0f;
          quantized_gemm(cpu::context{.threads = 1, .isa = tier}, a, b, matrix_view<float>{c.data(), m, n},
                         {.alpha = alpha, .beta = beta, .accumulate = mode});
          std::size_t outside = 0;
          for (std::size_t i = 0; i < m * n; ++i) {
            const long double added = beta == 0 ? 0 : kept * (static_cast<long double>(i % 101) - 50);
            const long double magnitude = std::abs(factor) * exact.magnitude[i];
            const long double error = std::abs(static_cast<long double>(c[i]) - (factor * exact.value[i] + added));
            const long double bound = relative * (magnitude + std::abs(added)) + folding * magnitude +
                                      std::abs(factor) * tensors * padded * 0x1p-126L;
            if (!(error <= bound) && outside++ == 0) {
              CAPTURE(i, c[i], error, bound);
              CHECK(false);
            }
          }
          REQUIRE(outside == 0);
          REQUIRE(c.guards_intact());
        }
}

template <class A, class B>
void check_pair() {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(sizeof(typename A::scale_type) * 16 + sizeof(typename B::scale_type))};
  for (const std::size_t k : {1u, 16u, 48u, 64u, 300u, 1040u})
    check(model::random_quantized<A>(gen, 21, k, model::scales::ordinary, 0x1.8p-7f),
          model::random_quantized<B>(gen, 66, k, model::scales::ordinary, 0x1.333334p+3f),
          {accumulate::fast, accumulate::folded_bf16}, {1.0f, -2.7f});
}

/// Codes of +0 but for a few places, scale 1.
template <class F>
quantized_matrix<F> sparse(std::size_t rows, std::size_t cols) {
  quantized_matrix<F> q(rows, cols);
  for (auto& byte : q.codes()) byte = 0;
  for (auto& s : q.scales()) s = typename F::scale_type(1.0f);
  return q;
}

}  // namespace

TEST_CASE("fast and folded_bf16 keep their bounds", "[gemm]") {
  SECTION("e1m2_f32") { check_pair<e1m2_f32, e1m2_f32>(); }
  SECTION("int4_f32 x e2m1_f32") { check_pair<int4_f32, e2m1_f32>(); }
  SECTION("nvfp4") { check_pair<nvfp4, nvfp4>(); }
  SECTION("nv_e1m2 x nvint4") { check_pair<nv_e1m2, nvint4>(); }
  SECTION("nvfp4 x e1m2_f32") { check_pair<nvfp4, e1m2_f32>(); }
  SECTION("mxfp4") { check_pair<mxfp4, mxfp4>(); }
  SECTION("mx_e1m2 x mxint4") { check_pair<mx_e1m2, mxint4>(); }
  SECTION("nf4 x nvfp4") { check_pair<block_format<nf4, float, 16>, nvfp4>(); }
}

TEST_CASE("fast keeps its bound over the whole range of 8-bit scales", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  for (const std::size_t k : {16u, 64u, 200u}) {
    check(model::random_quantized<nvfp4>(gen, 20, k, model::scales::hostile, 0x1p-30f),
          model::random_quantized<nv_e1m2>(gen, 21, k, model::scales::hostile, 0x1p+20f), {accumulate::fast});
    check(model::random_quantized<block_format<fp4<E2M1>, ue5m3, 16>>(gen, 20, k, model::scales::hostile),
          model::random_quantized<block_format<ufp4::int4, ue5m3, 16>>(gen, 21, k, model::scales::hostile),
          {accumulate::fast});
  }
}

TEST_CASE("fast keeps its bound where a decoded operand is subnormal", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  auto a = model::random_quantized<mxfp4>(gen, 9, 96);
  auto b = model::random_quantized<mxint4>(gen, 10, 96);
  for (auto& s : a.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(gen() % 3));        // 2^-127 .. 2^-125
  for (auto& s : b.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(247 + gen() % 3));  // 2^120 .. 2^122
  check(a, b, {accumulate::fast});
  auto c = model::random_quantized<e1m2_f32>(gen, 9, 96);
  auto d = model::random_quantized<int4_f32>(gen, 10, 96);
  for (float& s : c.scales()) s = model::float_of(1 + static_cast<std::uint32_t>(gen() % 20));
  for (float& s : d.scales()) s = 0x1p+121f * static_cast<float>(1 + gen() % 3);
  check(c, d, {accumulate::fast});
}

TEST_CASE("fast keeps its bound where a tensor scale or alpha alone leaves the range of binary32", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(6)};
  struct factors {
    float left, right, alpha;
  };
  for (const factors& f : {factors{0x1p-128f, 0x1.3p+100f, 1}, factors{0x1.7p+99f, 0x1p-128f, 0x1.1p-10f},
                           factors{0x1.1p-100f, 0x1.8p+90f, 0x1p+60f}, factors{0x1p-60f, 0x1p-60f, 0x1p+127f}}) {
    auto a = model::random_quantized<nvfp4>(gen, 9, 64, model::scales::ordinary, f.left);
    auto b = model::random_quantized<nv_e1m2>(gen, 10, 64, model::scales::ordinary, f.right);
    for (auto& s : a.scales()) s = e4m3::from_bits(1);  // 2^-9
    for (auto& s : b.scales()) s = e4m3::from_bits(1);
    check(a, b, {accumulate::fast}, {f.alpha});
  }
}

TEST_CASE("products that vanish cost no more than Kp * 2^-126", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  auto a = model::random_quantized<mxfp4>(gen, 9, 96), b = model::random_quantized<mxfp4>(gen, 10, 96);
  for (auto& s : a.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(50 + gen() % 20));
  for (auto& s : b.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(50 + gen() % 20));
  check(a, b, {accumulate::fast});
}

TEST_CASE("where every partial sum is exact, every mode gives the bits of exact_blocks", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const auto check_exact = [&]<class A, class B>(quantized_matrix<A> a, quantized_matrix<B> b, auto scale) {
    for (auto& s : a.scales()) s = typename A::scale_type(scale());
    for (auto& s : b.scales()) s = typename B::scale_type(scale());
    const std::size_t m = a.rows(), n = b.rows();
    const std::vector<float> expected = model::exact_blocks(model::side_of(a), model::side_of(b), -2.5f);
    for (const cpu::isa tier : support::runnable_isas())
      for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks, accumulate::folded_bf16}) {
        CAPTURE(cpu::name(tier), static_cast<int>(mode), a.cols());
        support::guarded<float> c(m * n);
        quantized_gemm(cpu::context{.isa = tier}, a, b, matrix_view<float>{c.data(), m, n},
                       {.alpha = -2.5f, .accumulate = mode});
        REQUIRE(c.same_bytes(expected));
      }
  };
  // Sums of products of small integers and scales of 1, 2 or 4: below 2^24 units at every K here.
  const auto power = [&] { return static_cast<float>(1u << gen() % 3); };
  const auto one = [] { return 1.0f; };
  for (const std::size_t k : {1u, 16u, 33u, 64u, 530u}) {
    check_exact(model::random_quantized<nvfp4>(gen, 70, k), model::random_quantized<nvint4>(gen, 66, k), power);
    check_exact(model::random_quantized<mxfp4>(gen, 70, k), model::random_quantized<mx_e1m2>(gen, 66, k), power);
    check_exact(model::random_quantized<e1m2_f32>(gen, 3, k), model::random_quantized<e2m1_f32>(gen, 130, k), power);
    check_exact(model::random_quantized<block_format<fp4<E3M0>, float, 16>>(gen, 5, k),
                model::random_quantized<int4_f32>(gen, 5, k), one);
  }
}

TEST_CASE("fast does not round value * scale to bf16; folded_bf16 does", "[gemm]") {
  auto a = sparse<int4_f32>(1, 16), b = sparse<int4_f32>(1, 16);
  a.codes()[0] = 3;
  a.scales()[0] = 0x1.02p0f;  // 3 * (1 + 2^-7) = 3 + 3 * 2^-7 needs 9 bits: bf16 has 8
  b.codes()[0] = 1;
  float c = 0;
  const auto product = [&](accumulate mode) {
    quantized_gemm(a, b, matrix_view<float>{&c, 1, 1}, {.accumulate = mode});
    return c;
  };
  CHECK(product(accumulate::fast) == 3 * 0x1.02p0f);
  CHECK(product(accumulate::exact_blocks) == 3 * 0x1.02p0f);
  CHECK(product(accumulate::folded_bf16) == 0x1.84p1f);  // 3.0234375 lies between 3.015625 and 3.03125, a tie: to even
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
      quantized_gemm(cpu::context{.threads = 1, .isa = context.isa}, a, b, matrix_view<float>{alone.data(), m, n},
                     {.accumulate = mode});
      quantized_gemm(context, a, b, matrix_view<float>{together.data(), m, n}, {.accumulate = mode});
      REQUIRE(together.same_bytes(alone.span()));
    });
}
