// ufp4 - GEMM kernels of every tier of the machine against the scalar ones: bits of exact_blocks, bounds of fast modes.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/format_pairs.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"
#include "support/unmapped_page.hpp"

#include <cstring>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

using model::scales;

template <class F>
constexpr std::size_t length_of = F::block_size;
using support::nf4_f32;

/// Rows [0, rows) of a quantized matrix.
template <class F>
quantized_view<F> first_rows(const quantized_matrix<F>& q, std::size_t rows) {
  const std::size_t height = static_cast<std::size_t>(F::block.rows), blocks = q.padded_cols() / F::block_size;
  return {q.codes().first(rows * q.padded_cols() / 2), q.scales().first((rows + height - 1) / height * blocks),
          q.tensor_scale(), rows, q.cols()};
}

/// C of one call on one thread, its guards checked.
template <class A, class B>
std::vector<float> product(cpu::isa tier, const A& a, const B& b, const gemm_options& options) {
  support::guarded<float> c(a.rows() * b.rows());
  const matrix_view<float> out{c.data(), a.rows(), b.rows()};
  quantized_gemm(a, b, out, options, cpu::context{.threads = 1, .isa = tier});
  REQUIRE(c.guards_intact());
  return {c.begin(), c.end()};
}

/// Whether `part`, m x n, is the upper left corner of `whole`, whose rows have `width` elements.
bool is_corner(const std::vector<float>& part, std::size_t m, std::size_t n, const std::vector<float>& whole,
               std::size_t width) {
  bool same = true;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) same = same && support::same_number(part[i * n + j], whole[i * width + j]);
  return same;
}

constexpr gemm_options exactly{.accumulate = accumulate::exact_blocks};

template <class A, class B>
void check_tails(std::size_t k) {
  std::mt19937_64 gen{support::seed(k)};
  const auto a = model::random_quantized<A>(gen, 17, k, scales::hostile);
  const auto b = model::random_quantized<B>(gen, 49, k);
  const std::vector<float> whole = product(cpu::isa::scalar, a, b, exactly);
  for (const cpu::isa tier : support::runnable_isas())
    for (std::size_t m = 1; m <= 17; ++m)
      for (std::size_t n = 1; n <= 49; n += n % 16 < 2 || n % 16 > 13 ? 1 : 3) {
        CAPTURE(cpu::name(tier), m, n, k);
        REQUIRE(is_corner(product(tier, first_rows(a, m), first_rows(b, n), exactly), m, n, whole, 49));
      }
}

/// NaN scales here and there.
template <class F>
void poison_scales(quantized_matrix<F>& q, std::mt19937_64& gen) {
  for (auto& s : q.scales())
    if (gen() % 61 == 0) s = detail::scale_as<typename F::scale_type>(detail::nan_scale(spec_of<F>.scale));
}

template <class A, class B>
void check_pair() {
  INFO((support::pair_text<A, B>()));
  std::mt19937_64 gen{support::seed(length_of<A>)};
  const std::size_t b = length_of<A>;
  for (const std::size_t k : {b, 3 * b, 5 * b + 1, std::size_t{1100}})
    for (const scales kind : {scales::ordinary, scales::hostile}) {
      auto x = model::random_quantized<A>(gen, 19, k, kind, 0x1.8p-7f);
      auto w = model::random_quantized<B>(gen, 37, k, kind, 0x1.333334p+3f);
      if (kind == scales::hostile) poison_scales(x, gen), poison_scales(w, gen);
      for (const std::size_t rows : {std::size_t{1}, x.rows()}) {
        const auto left = first_rows(x, rows);
        const std::vector<float> expected = product(cpu::isa::scalar, left, w, exactly);
        const std::vector<float> transposed = product(cpu::isa::scalar, w, left, exactly);
        for (const cpu::isa tier : support::runnable_isas()) {
          CAPTURE(cpu::name(tier), rows, k, static_cast<int>(kind));
          REQUIRE(support::same_numbers(product(tier, left, w, exactly), expected));
          REQUIRE(support::same_numbers(product(tier, w, left, exactly), transposed));
        }
      }
    }
}

/// |C - E| within numerics 6.
template <class A, class B>
void check_bound(const quantized_matrix<A>& a, const quantized_matrix<B>& b, accumulate mode, long double folding) {
  const model::side left = model::side_of(a), right = model::side_of(b);
  const model::bounded exact = model::extended(left, right);
  const auto padded = static_cast<long double>(a.padded_cols());
  const long double tensors = static_cast<long double>(left.tensor) * static_cast<long double>(right.tensor);
  for (const cpu::isa tier : support::runnable_isas()) {
    const std::vector<float> c = product(tier, a, b, {.accumulate = mode});
    CAPTURE(cpu::name(tier), static_cast<int>(mode), a.rows(), b.rows(), a.cols());
    for (std::size_t i = 0; i < c.size(); ++i) {
      const long double error = std::abs(static_cast<long double>(c[i]) - exact.value[i]);
      const long double bound = (folding + (padded + 6) * 0x1p-24L) * exact.magnitude[i] + tensors * padded * 0x1p-126L;
      if (!(error <= bound)) {
        CAPTURE(i, c[i], error, bound);
        REQUIRE(false);
      }
    }
  }
}
template <class A, class B>
void check_bounds() {
  std::mt19937_64 gen{support::seed(7)};
  for (const std::size_t rows : {1u, 5u, 18u})
    for (const std::size_t k : {1u, 32u, 64u, 300u}) {
      const auto a = model::random_quantized<A>(gen, rows, k, scales::ordinary, 0x1.8p-7f);
      const auto b = model::random_quantized<B>(gen, 35, k, scales::ordinary, 0x1.333334p+3f);
      check_bound(a, b, accumulate::fast, 0);
      check_bound(a, b, accumulate::folded_bf16, 0x1p-7L + 0x1p-16L);
    }
}

/// Values of every kind that an unquantized matrix may hold: chains of fma see them all.
template <class T>
std::vector<T> plain_values(std::mt19937_64& gen, std::size_t n, bool with_special_values) {
  std::vector<T> out;
  for (const float v : model::wide_floats(gen, n, 6)) out.push_back(T(v));
  constexpr float special[] = {0.0f, -0.0f, 0x1p-149f, -0x1.8p-130f, 0x1.fffffep127f, 3e38f};
  for (std::size_t i = 0; with_special_values && i < n; i += 7) out[i] = T(special[gen() % 6]);
  if (with_special_values && n > 40) out[n / 2] = T(INFINITY), out[n / 3] = T(NAN);
  return out;
}

template <class F, class T>
void check_plain() {
  std::mt19937_64 gen{support::seed(sizeof(T) + F::block_size)};
  for (const std::size_t k : {F::block_size, 3 * F::block_size - 5, std::size_t{700}})
    for (const std::size_t m : {1u, 3u, 8u, 20u})
      for (const bool with_special_values : {false, true}) {
        CAPTURE(m, k, with_special_values);
        const auto w = model::random_quantized<F>(gen, 35, k, with_special_values ? scales::hostile : scales::ordinary);
        const std::vector<T> values = plain_values<T>(gen, m * (k + 3), with_special_values);
        const matrix_view<const T> x{values.data(), m, k, static_cast<std::ptrdiff_t>(k + 3)};
        for (const accumulate mode : {accumulate::exact_blocks, accumulate::fast, accumulate::folded_bf16}) {
          if (mode != accumulate::exact_blocks && with_special_values) continue;
          const gemm_options how{.accumulate = mode};
          std::vector<float> c[2], transposed[2];
          for (const cpu::isa tier : support::runnable_isas()) {
            const bool first = tier == cpu::isa::scalar;
            support::guarded<float> left(m * 35), right(35 * m);
            const cpu::context on{.threads = 1, .isa = tier};
            quantized_gemm(x, w, matrix_view<float>{left.data(), m, 35}, how, on);
            quantized_gemm(w, x, matrix_view<float>{right.data(), 35, m}, how, on);
            c[!first].assign(left.begin(), left.end()), transposed[!first].assign(right.begin(), right.end());
            CAPTURE(cpu::name(tier), static_cast<int>(mode));
            REQUIRE((left.guards_intact() && right.guards_intact()));
            if (first) continue;
            if (mode == accumulate::exact_blocks) {
              REQUIRE(support::same_numbers(c[1], c[0]));
              REQUIRE(support::same_numbers(transposed[1], transposed[0]));
              continue;
            }
            // Both are within their bound of the same sum: its magnitude is at most the amax |x| times those of w.
            double amax = 0, sum = 0;
            const model::side s = model::side_of(w);
            for (const T v : values) amax = std::max(amax, std::abs(double(model::output_value(v))));
            for (std::size_t j = 0; j < 35; ++j) {
              double row = 0;
              for (std::size_t e = 0; e < s.padded; ++e)
                row += std::abs(double(s.value[j * s.padded + e]) * double(s.scale[(j * s.padded + e) / s.block]));
              sum = std::max(sum, row);
            }
            const double bound = 2 * (double(s.padded) + 6) * 0x1p-24 * amax * sum;
            for (std::size_t i = 0; i < c[0].size(); ++i) {
              REQUIRE(std::abs(double(c[1][i]) - double(c[0][i])) <= bound);
              REQUIRE(std::abs(double(transposed[1][i]) - double(transposed[0][i])) <= bound);
            }
          }
        }
      }
}

}  // namespace

TEST_CASE("every number of rows, columns and k gives the scalar kernel's bits", "[gemm]") {
  INFO(support::seed_note());
  SECTION("nvfp4 x nv_e1m2") {
    for (const std::size_t k : {16u, 48u, 176u}) check_tails<nvfp4, nv_e1m2>(k);
  }
  SECTION("mxfp4 x mxint4") {
    for (const std::size_t k : {32u, 160u}) check_tails<mxfp4, mxint4>(k);
  }
  SECTION("nf4 x e1m2_f32") { check_tails<nf4_f32, e1m2_f32>(80); }
}

TEST_CASE("mixed formats, all scale kinds and squares give the scalar kernel's bits, for hostile scales too",
          "[gemm]") {
  INFO(support::seed_note());
  support::all_kinds_of_pairs([]<class Pair>(Pair) { check_pair<typename Pair::left, typename Pair::right>(); });
}

TEST_CASE("fast and folded_bf16 stay within their bounds, short sums too", "[gemm]") {
  INFO(support::seed_note());
  check_bounds<nvfp4, nvint4>();
  check_bounds<e1m2_f32, e2m1_f32>();
  check_bounds<mxfp4, mx_e1m2>();
  check_bounds<nf4_f32, e1m2_f32>();
}

TEST_CASE("folded_bf16 keeps operands that fold to subnormal numbers", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(8)};
  auto small = model::random_quantized<e2m1_f32>(gen, 19, 600);
  auto large = model::random_quantized<int4_f32>(gen, 34, 600);
  for (float& s : small.scales()) s = gen() % 50 == 0 ? 0x1.5p-130f : 0x1.3p-100f;
  for (float& s : large.scales()) s = 0x1p+100f;
  // Subnormals of bf16 have fewer bits: their roundings, 2^-134 at most, times the amax of the other operand,
  // are added.
  const model::bounded exact = model::extended(model::side_of(small), model::side_of(large));
  for (const cpu::isa tier : support::runnable_isas()) {
    CAPTURE(cpu::name(tier));
    const std::vector<float> c = product(tier, small, large, {.accumulate = accumulate::folded_bf16});
    const std::vector<float> transposed = product(tier, large, small, {.accumulate = accumulate::folded_bf16});
    for (std::size_t i = 0; i < 19; ++i)
      for (std::size_t j = 0; j < 34; ++j) {
        const long double bound = 0x1.02p-7L * exact.magnitude[i * 34 + j] + 600 * 0x1p-134L * 8 * 0x1p+100L;
        REQUIRE(std::abs(static_cast<long double>(c[i * 34 + j]) - exact.value[i * 34 + j]) <= bound);
        REQUIRE(std::abs(static_cast<long double>(transposed[j * 19 + i]) - exact.value[i * 34 + j]) <= bound);
      }
  }
  for (auto& byte : small.codes()) byte = 0x22;  // 1 and 1: every product is 2^-130 times an integer times 2^100
  for (float& s : small.scales()) s = 0x1p-130f;
  const std::vector<float> expected = product(cpu::isa::scalar, small, large, exactly);
  const std::vector<float> transposed = product(cpu::isa::scalar, large, small, exactly);
  for (const cpu::isa tier : support::runnable_isas()) {
    REQUIRE(product(tier, small, large, {.accumulate = accumulate::folded_bf16}) == expected);
    REQUIRE(product(tier, large, small, {.accumulate = accumulate::folded_bf16}) == transposed);
  }
}

TEST_CASE("where every partial sum is exact the fast modes give the bits of exact_blocks", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(9)};
  const auto check = [&]<class A, class B>(quantized_matrix<A> a, quantized_matrix<B> b) {
    for (auto& s : a.scales()) s = typename A::scale_type(static_cast<float>(1u << gen() % 3));
    for (auto& s : b.scales()) s = typename B::scale_type(static_cast<float>(1u << gen() % 3));
    const std::vector<float> expected = product(cpu::isa::scalar, a, b, exactly);
    for (const cpu::isa tier : support::runnable_isas())
      for (const accumulate mode : {accumulate::fast, accumulate::folded_bf16, accumulate::exact_blocks}) {
        CAPTURE(cpu::name(tier), static_cast<int>(mode), a.rows(), a.cols());
        REQUIRE(product(tier, a, b, {.accumulate = mode}) == expected);
      }
  };
  for (const std::size_t rows : {1u, 7u, 21u})
    for (const std::size_t k : {16u, 64u, 530u}) {
      check(model::random_quantized<nvfp4>(gen, rows, k), model::random_quantized<nvint4>(gen, 34, k));
      check(model::random_quantized<mxfp4>(gen, rows, k), model::random_quantized<mxint4>(gen, 34, k));
      check(model::random_quantized<e1m2_f32>(gen, rows, k), model::random_quantized<e2m1_f32>(gen, 34, k));
    }
}

TEST_CASE("a plain operand on either side is multiplied as the scalar kernel does", "[gemm]") {
  INFO(support::seed_note());
  SECTION("float, nvfp4") { check_plain<nvfp4, float>(); }
  SECTION("bf16, mxfp4") { check_plain<mxfp4, ufp4::bf16>(); }
  SECTION("fp16, blocks of 8") { check_plain<block_format<fp4<E2M1>, float, 8>, ufp4::fp16>(); }
  SECTION("float, nf4") { check_plain<nf4_f32, float>(); }
}

TEST_CASE("a plain operand is transformed as it is packed", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(10)};
  const random_hadamard<64> transform{5};
  const std::vector<float> x = model::wide_floats(gen, 9 * 300), w = model::wide_floats(gen, 20 * 300);
  const matrix_view<const float> left{x.data(), 9, 300};
  const auto right = quantize<nvfp4>(matrix_view<const float>{w.data(), 20, 300}, transform);
  std::vector<float> expected;
  for (const cpu::isa tier : support::runnable_isas()) {
    CAPTURE(cpu::name(tier));
    support::guarded<float> c(9 * 20);
    quantized_gemm(unquantized(left, transform), right, matrix_view<float>{c.data(), 9, 20}, exactly,
                   cpu::context{.isa = tier});
    REQUIRE(c.guards_intact());
    if (expected.empty()) expected.assign(c.begin(), c.end());
    REQUIRE(c.same_bytes(expected));
  }
}

namespace {

/// C in a larger matrix: elements beside it keep their value.
template <class T>
void check_output(std::ptrdiff_t down, std::ptrdiff_t across) {
  std::mt19937_64 gen{support::seed(11)};
  const std::size_t m = 10, n = 37;
  const auto a = model::random_quantized<nvfp4>(gen, m, 80, scales::ordinary, 0x1.7p-3f);
  const auto b = model::random_quantized<nvint4>(gen, n, 80, scales::ordinary, 0x1.1p-1f);
  const auto size = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(m - 1) * down +
                                             static_cast<std::ptrdiff_t>(n - 1) * across) +
                    1;
  for (const gemm_options& how : {exactly, gemm_options{-1.7f, 0.3f, accumulate::exact_blocks}}) {
    std::vector<T> expected;
    for (const cpu::isa tier : support::runnable_isas()) {
      CAPTURE(cpu::name(tier), down, across, how.beta);
      support::guarded<T> c(size);
      for (std::size_t i = 0; i < c.size(); ++i) c[i] = T(static_cast<float>(i % 7) * 1.37f - 2.7f);
      quantized_gemm(a, b, matrix_view<T>{c.data(), m, n, down, across}, how, cpu::context{.isa = tier});
      REQUIRE(c.guards_intact());
      if (expected.empty()) expected.assign(c.begin(), c.end());
      REQUIRE(c.same_bytes(expected));
    }
  }
}

}  // namespace

TEST_CASE("C's strides and type are kept, with alpha and beta", "[gemm]") {
  check_output<float>(37, 1);
  check_output<float>(64, 1);
  check_output<float>(1, 10);
  check_output<float>(90, 2);
  check_output<ufp4::bf16>(41, 1);
  check_output<ufp4::fp16>(37, 1);
}

TEST_CASE("overflow and NaN reach 16-bit outputs as the scalar kernel rounds them", "[gemm]") {
  std::mt19937_64 gen{support::seed(12)};
  auto a = model::random_quantized<e2m1_f32>(gen, 3, 64), b = model::random_quantized<e2m1_f32>(gen, 33, 64);
  for (float& s : b.scales()) s = gen() % 9 == 0 ? 0x1p120f : gen() % 5 == 0 ? 0x1p-20f : 100.0f;
  b.scales()[7] = NAN;
  const auto check = [&](auto zero) {
    using T = decltype(zero);
    std::vector<float> expected;
    for (const cpu::isa tier : support::runnable_isas()) {
      std::vector<T> c(3 * 33);
      quantized_gemm(a, b, matrix_view<T>{c.data(), 3, 33}, exactly, cpu::context{.isa = tier});
      std::vector<float> values;
      for (const T v : c) values.push_back(model::output_value(v));
      if (expected.empty()) expected = values;
      CAPTURE(cpu::name(tier));
      REQUIRE(support::same_numbers(values, expected));
    }
  };
  check(ufp4::bf16{});
  check(ufp4::fp16{});
}

namespace {

template <class F>
void check_reads() {
  std::mt19937_64 gen{support::seed(14)};
  for (const std::size_t k : {length_of<F>, 5 * length_of<F>, std::size_t{512}, std::size_t{1200}})
    for (const std::size_t n : {1u, 16u, 31u, 48u}) {
      const auto q = model::random_quantized<F>(gen, n, k);
      const auto a = model::random_quantized<F>(gen, 9, k);
      const support::before_unmapped_page codes(q.codes()), scales(q.scales());
      const quantized_view<F> b{codes.as<std::uint8_t>(q.codes().size()),
                                scales.as<typename F::scale_type>(q.scales().size()), 1.0f, n, k};
      for (const cpu::isa tier : support::runnable_isas())
        for (const accumulate mode : {accumulate::exact_blocks, accumulate::folded_bf16})
          for (const std::size_t m : {1u, 9u}) {
            CAPTURE(cpu::name(tier), m, n, k, static_cast<int>(mode));
            const gemm_options how{.accumulate = mode};
            REQUIRE(product(tier, first_rows(a, m), b, how) == product(tier, first_rows(a, m), q, how));
            REQUIRE(product(tier, b, first_rows(a, m), how) == product(tier, q, first_rows(a, m), how));
          }
    }
}

}  // namespace

TEST_CASE("nothing is read beyond the last code and the last scale", "[gemm]") {
  INFO(support::seed_note());  // vector loads of asm statements are not what sanitizers see
  SECTION("e1m2_f32") { check_reads<e1m2_f32>(); }
  SECTION("nvfp4") { check_reads<block_format<fp4<E2M1>, e4m3, 16>>(); }
  SECTION("mxfp4") { check_reads<mxfp4>(); }
  SECTION("nf4") { check_reads<nf4_f32>(); }
  SECTION("e2m1 with bf16 scales, blocks of 8") { check_reads<block_format<fp4<E2M1>, ufp4::bf16, 8>>(); }
}

TEST_CASE("one thread and several give the same bits in every mode on every tier", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(13)};
  const auto a = model::random_quantized<e1m2_f32>(gen, 21, 600);
  const auto b = model::random_quantized<nvfp4>(gen, 530, 600, scales::ordinary, 0x1.3p-4f);
  for (const cpu::isa tier : support::runnable_isas())
    for (const accumulate mode : {accumulate::exact_blocks, accumulate::fast, accumulate::folded_bf16})
      for (const std::size_t m : {1u, 21u}) {
        CAPTURE(cpu::name(tier), static_cast<int>(mode), m);
        const std::vector<float> alone = product(tier, first_rows(a, m), b, {.accumulate = mode});
        for (const int threads : {2, 3}) {
          support::guarded<float> c(m * 530);
          quantized_gemm(first_rows(a, m), b, matrix_view<float>{c.data(), m, 530}, {.accumulate = mode},
                         cpu::context{.threads = threads, .isa = tier});
          REQUIRE(c.same_bytes(alone));
        }
      }
}
