// ufp4 - quantized_gemm where an intermediate value leaves the range of binary32 and the result does not.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/gemm.hpp>
#include <ufp4/gemm_grouped.hpp>

#include "support/catch.hpp"
#include "support/fast_cases.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

using e1m2_bf16 = block_format<fp4<E1M2>, ufp4::bf16, 16>;
using nf4_f32 = block_format<nf4, float, 16>;

/// Judges C, rows x cols: the bits of exact_blocks, or the bound of the fast modes.
class expected_product {
 public:
  expected_product(const model::side& a, const model::side& b, const gemm_options& options)
      : options_(options), bounded_(model::extended(a, b)), padded_(static_cast<long double>(a.padded)) {
    exact_ = model::exact_blocks(a, b, options.alpha);
    tensors_ = static_cast<long double>(a.tensor) * static_cast<long double>(b.tensor);
    for (std::size_t i = 0; i < a.rows; ++i)
      for (std::size_t j = 0; j < b.rows; ++j) {
        vanishes_.push_back(has_subnormal(a, i) || has_subnormal(b, j));
        plain_term_.push_back(is_plain(a) ? scale_sum(b, j) : is_plain(b) ? scale_sum(a, i) : 0);
      }
  }

  std::string wrong_in(const std::vector<float>& c) const {
    for (std::size_t i = 0; i < c.size(); ++i)
      if (!right(i, c[i])) {
        const double want = options_.accumulate == accumulate::exact_blocks ? static_cast<double>(exact_[i])
                                                                            : static_cast<double>(bounded_.value[i]);
        return "element " + std::to_string(i) + " is " + std::to_string(c[i]) + ", expected " + std::to_string(want);
      }
    return "";
  }

 private:
  bool right(std::size_t i, float c) const {
    if (options_.accumulate == accumulate::exact_blocks) return support::same_number(c, exact_[i]);
    if (std::isnan(bounded_.value[i])) return std::isnan(c);
    const auto alpha = static_cast<long double>(options_.alpha);
    const long double magnitude = std::abs(alpha) * bounded_.magnitude[i];
    if (magnitude >= FLT_MAX / 2) return true;
    if (options_.accumulate == accumulate::folded_bf16 && vanishes_[i]) return std::isfinite(c);
    const long double folding = options_.accumulate == accumulate::folded_bf16 ? 0x1p-7L + 0x1p-16L : 0;
    return std::abs(static_cast<long double>(c) - alpha * bounded_.value[i]) <=
           (folding + (padded_ + 6) * 0x1p-24L) * magnitude +
               std::abs(alpha) * tensors_ * (padded_ * 0x1p-126L + plain_term_[i]) + 0x1p-150L;
  }

  /// Whether value * scale is below 2^-126 somewhere in a row: there folded_bf16 promises nothing.
  static bool has_subnormal(const model::side& s, std::size_t row) {
    for (std::size_t k = row * s.padded; k < (row + 1) * s.padded; ++k) {
      const long double x =
          std::abs(static_cast<long double>(s.value[k]) * static_cast<long double>(s.scale[k / s.block]));
      if (x != 0 && x < 0x1p-126L) return true;
    }
    return false;
  }

  /// Section 6, "Operands that are not quantized": the term of products that are subnormal before they are scaled.
  static bool is_plain(const model::side& s) {
    return !s.exact && std::all_of(s.scale.begin(), s.scale.end(), [](float scale) { return scale == 1; });
  }
  static long double scale_sum(const model::side& s, std::size_t row) {
    long double sum = 0;
    for (std::size_t k = 0; k < s.padded; ++k)
      sum += std::abs(static_cast<long double>(s.scale[(row * s.padded + k) / s.block])) * 0x1p-149L;
    return sum;
  }

  gemm_options options_;
  std::vector<float> exact_;
  std::vector<bool> vanishes_;
  model::bounded bounded_;
  std::vector<long double> plain_term_;
  long double padded_, tensors_ = 1;
};

constexpr accumulate every_mode[] = {accumulate::exact_blocks, accumulate::fast, accumulate::folded_bf16};

/// C as the caller's matrix has it: packed, or with gaps between its columns.
template <class A, class B>
std::vector<float> product(const cpu::context& ctx, const A& a, const B& b, const gemm_options& options,
                           std::ptrdiff_t gap = 1) {
  const std::size_t m = detail::shape_of(a).rows, n = detail::shape_of(b).rows;
  std::vector<float> memory(m * n * static_cast<std::size_t>(gap), -7.0f), c;
  quantized_gemm(a, b, matrix_view<float>{memory.data(), m, n, static_cast<std::ptrdiff_t>(n) * gap, gap}, options,
                 ctx);
  for (std::size_t i = 0; i < m * n; ++i) c.push_back(memory[i * static_cast<std::size_t>(gap)]);
  return c;
}

/// Every tier of this machine and mode; `also` adds other ways to the same product.
template <class A, class B, class Also>
void check_on_all_tiers(const A& a, const B& b, const model::side& left, const model::side& right, float alpha,
                        const Also& also) {
  for (const accumulate mode : every_mode) {
    const gemm_options options{.alpha = alpha, .accumulate = mode};
    const expected_product expected(left, right, options);
    for (const cpu::isa tier : support::runnable_isas()) {
      const cpu::context ctx{.threads = 1, .isa = tier};
      CAPTURE(cpu::name(tier), ufp4::detail::name(mode), left.rows, right.rows, left.padded, alpha);
      REQUIRE(expected.wrong_in(product(ctx, a, b, options)) == "");
      REQUIRE(expected.wrong_in(product(ctx, a, b, options, 2)) == "");
      also(ctx, options, expected);
    }
  }
}

template <class A, class B>
void check(const quantized_matrix<A>& a, const quantized_matrix<B>& b, float alpha = 1) {
  check_on_all_tiers(a, b, model::side_of(a), model::side_of(b), alpha,
                     [&](const cpu::context& ctx, const gemm_options& options, const expected_product& expected) {
                       REQUIRE(expected.wrong_in(product(ctx, a, prepack(b), options)) == "");
                       std::vector<float> c(a.rows() * b.rows());
                       const std::array<quantized_view<A>, 1> as{a.view()};
                       const std::array<quantized_view<B>, 1> bs{b.view()};
                       const std::array<matrix_view<float>, 1> cs{matrix_view<float>{c.data(), a.rows(), b.rows()}};
                       quantized_gemm_grouped(as, bs, cs, options, ctx);
                       REQUIRE(expected.wrong_in(c) == "");
                     });
}

template <class A, class B>
void check_exact_blocks(const quantized_matrix<A>& a, const quantized_matrix<B>& b) {
  const gemm_options exactly{.accumulate = accumulate::exact_blocks};
  const expected_product expected(model::side_of(a), model::side_of(b), exactly);
  for (const cpu::isa tier : support::runnable_isas()) {
    CAPTURE(cpu::name(tier), a.rows(), b.rows());
    REQUIRE(expected.wrong_in(product({.threads = 1, .isa = tier}, a, b, exactly)) == "");
  }
}

/// Shapes that reach the kernels of one row, of few rows, of many, and those of few columns and many rows.
constexpr std::array<std::size_t, 2> shapes[] = {{1, 1}, {1, 40}, {4, 17}, {9, 66}, {40, 3}, {21, 1}};

/// Scales from all of the type's range: the product of two may overflow, and so may sums.
template <class A, class B>
void check_hostile(std::size_t k) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(k)};
  for (const auto& [m, n] : shapes) {
    auto a = model::random_quantized<A>(gen, m, k, model::scales::hostile, 0x1p-40f);
    auto b = model::random_quantized<B>(gen, n, k, model::scales::hostile, 0x1p-30f);
    for (std::size_t i = 0; i < a.codes().size(); ++i)  // dot products of 0, and small ones
      if (gen() % 4 != 0) a.codes()[i] = 0;
    check(a, b);
    check(a, b, 0x1p-100f);
  }
}

/// Every block of a row is `scale` and holds `code` at `place`, zeros elsewhere.
template <class F>
quantized_matrix<F> one_code(std::size_t rows, std::size_t cols, std::size_t place, std::uint8_t code,
                             typename F::scale_type scale) {
  quantized_matrix<F> q(rows, cols);
  std::fill(q.codes().begin(), q.codes().end(), std::uint8_t{0});
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = place; k < q.padded_cols(); k += F::block_size)
      q.codes()[(i * q.padded_cols() + k) / 2] = static_cast<std::uint8_t>(k % 2 == 0 ? code : code << 4);
  for (auto& s : q.scales()) s = scale;
  return q;
}

}  // namespace

TEST_CASE("orthogonal blocks give +0 where the product of their scales overflows", "[gemm]") {
  for (const auto& [m, n] : shapes) {
    std::vector<float> x(m * 32, 0.0f), w(n * 32, 0.0f);
    for (std::size_t i = 0; i < m; ++i) x[i * 32] = 1e20f;
    for (std::size_t j = 0; j < n; ++j) w[j * 32 + 1] = 1e20f;
    const auto a = quantize<e1m2_f32>(matrix_view<const float>{x.data(), m, 32});
    const auto b = quantize<e1m2_f32>(matrix_view<const float>{w.data(), n, 32});
    check(a, b);
    for (const accumulate mode : every_mode)
      for (const cpu::isa tier : support::runnable_isas()) {
        CAPTURE(cpu::name(tier), ufp4::detail::name(mode), m, n);
        for (const float c : product({.threads = 1, .isa = tier}, a, b, {.accumulate = mode}))
          REQUIRE(model::bits_of(c) == 0);
      }
  }
}

TEST_CASE("a plain operand of large numbers times small weights is finite", "[gemm]") {
  for (const auto& [m, n] : shapes) {
    const std::vector<float> x(m * 16, 1e38f), w(n * 16, 1e-30f);
    const matrix_view<const float> plain{x.data(), m, 16};
    const auto b = quantize<nvfp4>(matrix_view<const float>{w.data(), n, 16});
    const model::side left = model::unquantized_side(x, m, 16, 16), right = model::side_of(b);
    const auto nothing_else = [](const auto&...) {};
    check_on_all_tiers(plain, b, left, right, 1, nothing_else);
    check_on_all_tiers(b, plain, right, left, 1, nothing_else);
    for (const cpu::isa tier : support::runnable_isas())
      for (const float c : product({.threads = 1, .isa = tier}, plain, b, {})) REQUIRE((c > 1.5e9f && c < 1.7e9f));
  }
}

TEST_CASE("a plain operand of subnormal numbers times large block scales keeps the bound of its section", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  for (const auto& [m, n] : shapes) {
    std::vector<float> x(m * 64), w(n * 64);
    for (float& v : x)
      v = std::ldexp(static_cast<float>(model::uniform(gen) - 0.5), -148 + static_cast<int>(gen() % 30));
    for (float& v : w)
      v = std::ldexp(static_cast<float>(model::uniform(gen) - 0.5), 10 + static_cast<int>(gen() % 110));
    const matrix_view<const float> plain{x.data(), m, 64};
    const auto b = quantize<e1m2_f32>(matrix_view<const float>{w.data(), n, 64});
    const model::side left = model::unquantized_side(x, m, 64, 16), right = model::side_of(b);
    check_on_all_tiers(plain, b, left, right, 1, [](const auto&...) {});
    check_on_all_tiers(b, plain, right, left, 1, [](const auto&...) {});
  }
}

TEST_CASE("a plain operand keeps its bits and bounds where its transform nearly overflows", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  const auto transform = random_hadamard<32>{7};
  std::vector<float> x(5 * 80), w(18 * 80);
  for (float& v : x) v = static_cast<float>((model::uniform(gen) - 0.5) * 2e37);
  for (float& v : w) v = static_cast<float>((model::uniform(gen) - 0.5) * 1e-20);
  const auto b = quantize<nvfp4>(matrix_view<const float>{w.data(), 18, 80}, transform);
  const model::side left = model::unquantized_side(x, 5, 80, 16, model::transform_of(b.transform()));
  check_on_all_tiers(unquantized(matrix_view<const float>{x.data(), 5, 80}, transform), b, left, model::side_of(b), 1,
                     [](const auto&...) {});
}

TEST_CASE("hostile scales keep the bits of exact_blocks and the bounds of the fast modes", "[gemm]") {
  SECTION("e1m2_f32 x int4_f32") { check_hostile<e1m2_f32, int4_f32>(80); }
  SECTION("e1m2_f32 x nvfp4") { check_hostile<e1m2_f32, nvfp4>(300); }
  SECTION("mxfp4 x mx_e1m2") { check_hostile<mxfp4, mx_e1m2>(96); }
  SECTION("bf16 scales") { check_hostile<e1m2_bf16, e1m2_bf16>(64); }
  SECTION("nf4, whose products are not exact") { check_hostile<nf4_f32, e1m2_f32>(48); }
}

TEST_CASE("a result of tensor scales that each leave the range is finite", "[gemm]") {
  for (const auto& [m, n] : shapes) {
    auto a = one_code<nvfp4>(m, 64, 0, 7, e4m3(448.0f)), b = one_code<nvfp4>(n, 64, 0, 7, e4m3(448.0f));
    a.set_tensor_scale(0x1p+110f), b.set_tensor_scale(0x1p+110f);
    check(a, b, 0x1p-125f);
    a.set_tensor_scale(0x1p-149f), b.set_tensor_scale(0x1p+120f);
    check(a, b, 1);
  }
}

TEST_CASE("a sum that overflows on the way is stored as its true value in the fast modes", "[gemm]") {
  for (const auto& [m, n] : shapes) {
    auto a = one_code<e1m2_f32>(m, 64, 3, 7, 0x1p+64f), b = one_code<e1m2_f32>(n, 64, 3, 7, 0x1p+64f);
    for (std::size_t i = 0; i < b.scales().size(); ++i) b.scales()[i] = i % 4 < 2 ? 0x1p+64f : -0x1p+64f;
    check(a, b, 1);         // the sum of magnitudes is out of range; exact_blocks gives NaN by its formula
    check(a, b, 0x1p-20f);  // now it is in range
  }
}

TEST_CASE("large values of a grid do not multiply the error of scales whose product underflows", "[gemm]") {
  float large[16], small[16];
  for (int c = 0; c < 16; ++c) large[c] = std::ldexp(static_cast<float>(c - 8), 30), small[c] = static_cast<float>(c);
  const format_spec a{grid4::of(small), scale_kind::f32, 16, {}}, b{grid4::of(large), scale_kind::f32, 16, {}};
  const std::vector<float> x(16, 0x1p-100f), w(16, 0x1p-20f);  // w saturates at 7/8 of its numbers
  const any_quantized left = quantize(a, matrix_view<const float>(x.data(), 1, 16));
  const any_quantized right = quantize(b, matrix_view<const float>(w.data(), 1, 16));
  for (const cpu::isa isa : support::runnable_isas()) {
    float c = 0;
    quantized_gemm(left, right, matrix_view<float>(&c, 1, 1), {.alpha = 0x1p100f}, {.isa = isa});
    CHECK(std::fabs(c - 0x1.cp-17f) <= 0x1p-21f);  // 2^100 * 16 * 2^-126, and the rounding of 16 products
  }
}

TEST_CASE("a NaN block scale makes its row or column NaN and nothing else", "[gemm]") {
  for (const auto& [m, n] : shapes)
    for (const bool overflows : {false, true}) {
      const float scale = overflows ? 1e20f : 1.0f;
      auto a = one_code<e1m2_f32>(m, 96, 0, 5, scale), b = one_code<e1m2_f32>(n, 96, 1, 5, scale);
      a.scales()[(m - 1) * 6 + 5] = NAN;
      check(a, b);
      a.scales()[(m - 1) * 6 + 5] = scale;
      b.scales()[(n - 1) * 6] = NAN;
      check(a, b);
    }
}

TEST_CASE("an infinite block scale counts where its dot product is not 0", "[gemm]") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const auto& [m, n] : shapes) {
    auto a = one_code<e1m2_f32>(m, 48, 0, 5, 1.0f), b = one_code<e1m2_f32>(n, 48, 1, 5, 1.0f);
    a.scales()[0] = infinity, b.scales()[1] = infinity;
    check_exact_blocks(a, b);  // every dot product is 0
    b = one_code<e1m2_f32>(n, 48, 0, 13, 1.0f);
    check_exact_blocks(a, b);
    b.scales()[0] = 0;  // infinity times 0
    check_exact_blocks(a, b);
  }
}

TEST_CASE("bias and beta are added to results that were computed again", "[gemm]") {
  std::vector<float> x(3 * 16, 0.0f), w(20 * 16, 0.0f), bias(20);
  for (std::size_t i = 0; i < 3; ++i) x[i * 16] = 1e20f;
  for (std::size_t j = 0; j < 20; ++j) w[j * 16 + 1] = 1e20f, bias[j] = static_cast<float>(j);
  const auto a = quantize<e1m2_f32>(matrix_view<const float>{x.data(), 3, 16});
  const auto b = quantize<e1m2_f32>(matrix_view<const float>{w.data(), 20, 16});
  for (const accumulate mode : every_mode)
    for (const cpu::isa tier : support::runnable_isas()) {
      std::vector<float> c(60, 3.0f);
      quantized_gemm(a, b, matrix_view<float>{c.data(), 3, 20}, {.beta = 2.0f, .accumulate = mode, .bias = bias},
                     {.threads = 1, .isa = tier});
      for (std::size_t i = 0; i < c.size(); ++i) REQUIRE(c[i] == static_cast<float>(i % 20) + 6.0f);
    }
}
