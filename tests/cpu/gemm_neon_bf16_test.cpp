// ufp4 - the BFMMLA kernel of quantized_gemm: what it takes, and its bound with nothing for the rounding of operands.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/explain.hpp>
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

#include <string>
#include <vector>

using namespace ufp4;

namespace {

constexpr const char* no_bfmmla = "this machine has no bf16 matrix instructions";
bool runs_here() { return cpu::available().has(cpu::isa::neon_bf16); }
const cpu::context here{.threads = 1, .isa = cpu::isa::neon_bf16};

using e2m1_of_8 = block_format<fp4<E2M1>, e4m3, 8>;
using int4_of_8 = block_format<ufp4::int4, ue5m3, 8>;
using e3m0_of_64 = block_format<fp4<E3M0>, ufp4::bf16, 64>;
using nf4_f32 = block_format<nf4, float, 16>;

/// The elements as BFMMLA gets them: fl(value * scale) as bf16.
std::vector<double> folded(const model::side& s) {
  std::vector<double> out;
  for (std::size_t i = 0; i < s.value.size(); ++i)
    out.push_back(model::from_bf16(model::bf16_bits(model::mul(s.value[i], s.scale[i / s.block]))));
  return out;
}

template <class A, class B>
std::vector<float> product(const A& a, const B& b, std::size_t m, std::size_t n, accumulate mode) {
  support::guarded<float> c(m * n);
  const matrix_view<float> out{c.data(), m, n};
  CHECK(cpu::explain(a, b, out, {.accumulate = mode}, here).kernel == std::string("gemm_bf16_neon"));
  quantized_gemm(a, b, out, {.accumulate = mode}, here);
  REQUIRE(c.guards_intact());
  return {c.begin(), c.end()};
}
template <class A, class B>
std::vector<float> product(const A& a, const B& b, accumulate mode) {
  return product(a, b, a.rows(), b.rows(), mode);
}

/// |C - E| <= (Kp + 6) 2^-24 S + Kp 2^-126 of the elements given. The largest error, as a part of that.
double worst(const std::vector<float>& c, const std::vector<double>& a, const std::vector<double>& b, std::size_t k) {
  const std::size_t m = a.size() / k, n = b.size() / k;
  double most = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      long double sum = 0, magnitude = 0;
      for (std::size_t e = 0; e < k; ++e) {
        const long double term = static_cast<long double>(a[i * k + e]) * static_cast<long double>(b[j * k + e]);
        sum += term;
        magnitude += std::abs(term);
      }
      const auto length = static_cast<long double>(k);
      const long double error = std::abs(static_cast<long double>(c[i * n + j]) - sum);
      const long double bound = (length + 6) * 0x1p-24L * magnitude + length * 0x1p-126L;
      most = std::max(most, error == 0 ? 0.0 : error <= bound ? static_cast<double>(error / bound) : 2.0);
    }
  return most;
}

template <class A, class B>
void check(const quantized_matrix<A>& a, const quantized_matrix<B>& b, accumulate mode) {
  CAPTURE(a.rows(), b.rows(), a.padded_cols(), static_cast<int>(mode));
  const std::vector<float> c = product(a, b, mode);
  REQUIRE(worst(c, folded(model::side_of(a)), folded(model::side_of(b)), a.padded_cols()) <= 1);
  REQUIRE(product(a, prepack(b), mode) == c);
}

template <class A, class B>
void check_shapes(accumulate mode) {
  std::mt19937_64 gen{support::seed(A::block_size + B::block_size)};
  for (const std::size_t m : {1u, 2u, 3u, 4u, 5u, 8u, 9u, 17u})
    for (const std::size_t n : {1u, 2u, 7u, 8u, 9u, 18u})
      for (const std::size_t k : {16u, 72u, 300u})
        check(model::random_quantized<A>(gen, m, k), model::random_quantized<B>(gen, n, k), mode);
  for (const std::size_t k : {1024u, 1032u, 2100u})
    check(model::random_quantized<A>(gen, 9, k), model::random_quantized<B>(gen, 9, k), mode);
}

}  // namespace

TEST_CASE("operands rounded to bf16 are multiplied within the bound of fast, at every shape of tile", "[neon_bf16]") {
  if (!runs_here()) return support::skip(no_bfmmla);
  INFO(support::seed_note());
  check_shapes<e1m2_f32, e2m1_f32>(accumulate::folded_bf16);
  check_shapes<nf4_f32, nvfp4>(accumulate::folded_bf16);
  check_shapes<block_format<fp4<E2M1>, float, 8>, int4_of_8>(accumulate::folded_bf16);
  check_shapes<e3m0_of_64, e3m0_of_64>(accumulate::folded_bf16);
}

TEST_CASE("fast takes blocks of 8 whose products are bf16 numbers, and reports that it is fast", "[neon_bf16]") {
  if (!runs_here()) return support::skip(no_bfmmla);
  INFO(support::seed_note());
  check_shapes<e2m1_of_8, int4_of_8>(accumulate::fast);
  std::mt19937_64 gen{support::seed(2)};
  const auto a = model::random_quantized<e2m1_of_8>(gen, 4, 64);
  const auto kernel = [&](const auto& x, const auto& w, accumulate mode) {
    cpu::detail::gemm_job_place place;
    return cpu::detail::plan_gemm(cpu::detail::kernels::gemm<ufp4::detail::features::all>,
                                  detail::gemm_job_of(x, w, {}, {.accumulate = mode}), cpu::isa::neon_bf16, place)
        .kernel;
  };
  CHECK(kernel(a, a, accumulate::fast)->made_as(accumulate::fast) == accumulate::fast);
  CHECK(kernel(a, a, accumulate::exact_blocks)->name == std::string("gemm_f32_neon"));
  // Scales whose products may leave bf16's range, grids whose products have more bits, and binary32 operands stay away.
  const auto mx = model::random_quantized<block_format<fp4<E2M1>, e8m0, 8>>(gen, 4, 64);
  const auto wide = model::random_quantized<block_format<fp4<E2M1>, float, 8>>(gen, 4, 64);
  const auto nf = model::random_quantized<block_format<nf4, e4m3, 8>>(gen, 4, 64);
  CHECK(kernel(a, mx, accumulate::fast)->name == std::string("gemm_f32_neon"));
  CHECK(kernel(wide, a, accumulate::fast)->name == std::string("gemm_f32_neon"));
  CHECK(kernel(nf, a, accumulate::fast)->name == std::string("gemm_f32_neon"));
  const std::vector<float> x(4 * 64, 1.0f);
  CHECK(kernel(unquantized(matrix_view<const float>{x.data(), 4, 64}), a, accumulate::fast)->name ==
        std::string("gemm_f32_neon"));
}

TEST_CASE("a sum whose every addition loses nearly a last place uses up most of the bound and no more", "[neon_bf16]") {
  if (!runs_here()) return support::skip(no_bfmmla);
  // 1 and then pairs of 0.99 * 2^-23: 1 + 2^-23 after the first, where rounding to odd leaves it.
  for (const std::size_t k : {16u, 256u, 1024u, 4096u}) {
    quantized_matrix<e2m1_f32> a(8, k), b(8, k);
    for (std::uint8_t& byte : a.codes()) byte = 0x22;  // 1, 1
    for (std::uint8_t& byte : b.codes()) byte = 0x22;
    for (float& s : a.scales()) s = 0x1.fap-12f;
    for (float& s : b.scales()) s = 0x1p-13f;
    for (std::size_t i = 0; i < 8; ++i) {
      a.scales()[i * (k / 16)] = 1;
      b.scales()[i * (k / 16)] = 1;
      for (std::size_t e = 0; e < 8; ++e) a.codes()[i * k / 2 + e] = e == 0 ? 0x02 : 0;  // the first block is a 1
    }
    CAPTURE(k);
    const double part =
        worst(product(a, b, accumulate::folded_bf16), folded(model::side_of(a)), folded(model::side_of(b)), k);
    CHECK(part <= 1);
    if (k == 1024) CHECK(part > 0.9);
  }
}

TEST_CASE("subnormal operands count, on either side, and nothing else is lost beside them", "[neon_bf16]") {
  if (!runs_here()) return support::skip(no_bfmmla);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  for (const std::size_t k : {16u, 64u, 528u, 1200u})
    for (const float small : {0x1p-126f, 0x1.8p-127f, 0x1p-130f, 0x1p-140f}) {
      auto a = model::random_quantized<e2m1_f32>(gen, 9, k);
      auto b = model::random_quantized<e1m2_f32>(gen, 9, k);
      for (float& s : b.scales()) s = 0x1.4p+118f;
      for (float& s : a.scales()) s = gen() % 3 == 0 ? small : gen() % 2 == 0 ? 0.0f : 0x1.9p-120f;
      CAPTURE(small);
      check(a, b, accumulate::folded_bf16);
      check(b, a, accumulate::folded_bf16);
    }
}

TEST_CASE("products and sums that become zeros stay within the bound's absolute part", "[neon_bf16]") {
  if (!runs_here()) return support::skip(no_bfmmla);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  for (const std::size_t k : {16u, 64u, 1200u}) {
    auto a = model::random_quantized<e2m1_f32>(gen, 9, k);
    auto b = model::random_quantized<e1m2_f32>(gen, 9, k);
    for (float& s : b.scales()) s = gen() % 2 == 0 ? 0x1.7p-62f : 0x1.1p-60f;
    for (float& s : a.scales()) s = gen() % 2 == 0 ? 0x1.3p-65f : 0x1.dp-64f;
    check(a, b, accumulate::folded_bf16);
  }
}

TEST_CASE("a NaN scale reaches its row or column and no other", "[neon_bf16]") {
  if (!runs_here()) return support::skip(no_bfmmla);
  std::mt19937_64 gen{support::seed(5)};
  auto a = model::random_quantized<e2m1_f32>(gen, 9, 300);
  auto b = model::random_quantized<e1m2_f32>(gen, 10, 300);
  a.scales()[3 * 19 + 18] = NAN;
  b.scales()[9 * 19] = INFINITY;  // times a code of 0 somewhere in the block
  for (std::size_t e = 0; e < 8; ++e) b.codes()[9 * 152 + e] = 0x70;
  const std::vector<float> c = product(a, b, accumulate::folded_bf16);
  for (std::size_t i = 0; i < 9; ++i)
    for (std::size_t j = 0; j < 10; ++j) {
      CAPTURE(i, j);
      CHECK((c[i * 10 + j] != c[i * 10 + j]) == (i == 3 || j == 9));
    }
}

TEST_CASE("a plain operand is rounded to bf16 after its transform, on either side", "[neon_bf16]") {
  if (!runs_here()) return support::skip(no_bfmmla);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(6)};
  const random_hadamard<64> transform{5};
  for (const std::size_t k : {40u, 300u, 1100u}) {
    std::vector<float> x = model::wide_floats(gen, 9 * k), w = model::wide_floats(gen, 10 * k);
    const matrix_view<const float> left{x.data(), 9, k};
    const auto right = quantize<e2m1_of_8>(matrix_view<const float>{w.data(), 10, k}, transform);
    const auto rounded_rows = [&](const model::transform& t) {
      const model::side s = model::unquantized_side(x, 9, k, 8, t);
      return folded(s);
    };
    const std::vector<double> a = rounded_rows(model::transform_of(transform.spec())),
                              b = folded(model::side_of(right));
    CAPTURE(k);
    CHECK(worst(product(unquantized(left, transform), right, 9, 10, accumulate::folded_bf16), a, b,
                right.padded_cols()) <= 1);
    CHECK(worst(product(right, unquantized(left, transform), 10, 9, accumulate::folded_bf16), b, a,
                right.padded_cols()) <= 1);
  }
  for (const float tiny : {0x1p-126f, 0x1.fp-127f, 0x1p-133f}) {  // the same of subnormal elements
    std::vector<float> x(8 * 16, tiny);
    quantized_matrix<e2m1_f32> w(8, 16);
    for (std::uint8_t& byte : w.codes()) byte = 0x22;
    for (float& s : w.scales()) s = 0x1p+120f;
    for (const float v :
         product(unquantized(matrix_view<const float>{x.data(), 8, 16}), w, 8, 8, accumulate::folded_bf16))
      CHECK(v == 16 * tiny * 0x1p+120f);
  }
}

TEST_CASE("many parts, threads and a grouped call change no bit", "[neon_bf16]") {
  if (!runs_here()) return support::skip(no_bfmmla);
  std::mt19937_64 gen{support::seed(7)};
  const auto a = model::random_quantized<e1m2_f32>(gen, 261, 80);
  const auto b = model::random_quantized<nvfp4>(gen, 140, 80);
  const std::vector<float> alone = product(a, b, accumulate::folded_bf16);
  REQUIRE(worst(alone, folded(model::side_of(a)), folded(model::side_of(b)), 80) <= 2);
  support::guarded<float> c(261 * 140);
  quantized_gemm(a, b, matrix_view<float>{c.data(), 261, 140}, {.accumulate = accumulate::folded_bf16},
                 cpu::context{.threads = 3, .isa = cpu::isa::neon_bf16});
  CHECK(c.same_bytes(alone));
}
