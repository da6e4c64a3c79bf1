// ufp4 - gemm_bf16_sm80, fast and folded_bf16: within the bounds of numerics 6, worked out in extended precision.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.hpp"

#include <ufp4/cuda/gemm_bf16_sm80.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"

#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

using namespace ufp4;

namespace {

struct ascending_levels {  // code 0 is not 0
  static constexpr float values[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  static constexpr bool exact_products = true;
};
using ascending = block_format<table_element<ascending_levels>, e4m3, 16>;

static_assert(LDBL_MANT_DIG >= 64, "the bounds are checked in a type of at least 64 bits");

template <class A, class B>
gpu::gemm_job job_of(const gpu::quantized_matrix<A>& a, const gpu::quantized_matrix<B>& b,
                     const ufp4::detail::sink& out, const gemm_options& options) {
  return gpu::detail::call_of(a.view(), b.view(), out, options, {}).job;
}
gpu::device_facts device() {
  gpu::device_facts facts;
  REQUIRE(gpu::facts(facts) == gpu::success);
  return facts;
}

/// C by the kernel of this file, whichever kernel the verb would choose; between guards.
template <class A, class B>
std::vector<float> product(const quantized_matrix<A>& a, const quantized_matrix<B>& b, const gemm_options& options,
                           std::vector<float> c = {}, int processors = 0) {
  const gpu::quantized_matrix<A> left{a.view()};
  const gpu::quantized_matrix<B> right{b.view()};
  const std::size_t m = a.rows(), n = b.rows(), guard = 16;
  std::vector<float> all(m * n + 2 * guard, -77.0f);
  if (!c.empty()) std::memcpy(all.data() + guard, c.data(), m * n * sizeof(float));
  const gpu::buffer<float> out{std::span<const float>(all)}, bias{options.bias};
  gemm_options there = options;
  if (!options.bias.empty()) there.bias = bias.span();
  const gpu::gemm_job job =
      job_of(left, right, ufp4::detail::sink_of(matrix_view<float>{out.data() + guard, m, n}), there);
  gpu::device_facts facts = device();
  REQUIRE(gpu::kernels::gemm_bf16_sm80.takes(job, facts));
  if (processors != 0) facts.processors = processors;
  REQUIRE(gpu::kernels::gemm_bf16_sm80.run(job, facts, {}, gpu::stream{}) == gpu::success);
  all = support::on_host(out);
  for (std::size_t i = 0; i < guard; ++i) REQUIRE((all[i] == -77.0f && all[guard + m * n + i] == -77.0f));
  return {all.begin() + guard, all.end() - guard};
}

/// What rounding to bf16 may add for each side whose value * scale has more bits than bf16's eight.
template <class F>
constexpr long double folding_of() {
  return std::is_same_v<typename F::scale_type, float> || std::is_same_v<typename F::scale_type, bf16> ? 0x1p-8L : 0.0L;
}

/// work() under both ways in which the executor's tensor cores add up; a device has its own.
template <class Work>
void with_every_sum(Work work) {
#if defined(UFP4_SIMT_HEADER)
  for (const auto sums : {ufp4::simt::mma_sums::nearest, ufp4::simt::mma_sums::truncated}) {
    struct restorer {
      ufp4::simt::executor_settings before = ufp4::simt::settings();
      ~restorer() { ufp4::simt::settings() = before; }
    } const restore;
    ufp4::simt::settings().sums = sums;
    work();
  }
#else
  work();
#endif
}

/// |C - E| <= (folding + (Kp + 6) 2^-24) |alpha| sum|a||b| + (Kp + 6) 2^-24 |beta C| + |alpha| TA TB Kp 2^-126:
/// numerics 6.
template <class A, class B>
void check(const quantized_matrix<A>& a, const quantized_matrix<B>& b, accumulate mode, float alpha = 1, float beta = 0,
           int processors = 0) {
  const std::size_t m = a.rows(), n = b.rows();
  CAPTURE(static_cast<int>(mode), m, n, a.cols(), alpha, beta);
  const auto padded = static_cast<long double>(a.padded_cols());
  const model::side left = model::side_of(a), right = model::side_of(b);
  const model::bounded exact = model::extended(left, right);
  const long double tensors = static_cast<long double>(left.tensor) * static_cast<long double>(right.tensor);
  const long double relative = (padded + 6) * 0x1p-24L;
  const long double folding = mode == accumulate::folded_bf16 ? folding_of<A>() + folding_of<B>() : 0;
  std::vector<float> old;
  if (beta != 0)
    for (std::size_t i = 0; i < m * n; ++i) old.push_back(static_cast<float>(i % 101) - 50.0f);
  const auto inside = [&] {
    const auto c = product(a, b, {.alpha = alpha, .beta = beta, .accumulate = mode}, old, processors);
    const auto factor = static_cast<long double>(alpha), kept = static_cast<long double>(beta);
    std::size_t outside = 0;
    for (std::size_t i = 0; i < m * n; ++i) {
      const long double added = beta == 0 ? 0 : kept * static_cast<long double>(old[i]);
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
  };
  with_every_sum(inside);
}

/// Both tiles: `processors` decides between them.
template <class A, class B>
void check_pair(accumulate mode) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(sizeof(typename A::scale_type) * 16 + sizeof(typename B::scale_type))};
  for (const std::size_t k : {1u, 48u, 64u, 300u})
    check(model::random_quantized<A>(gen, 21, k, model::scales::ordinary, 0x1.8p-7f),
          model::random_quantized<B>(gen, 70, k, model::scales::ordinary, 0x1.333334p+3f), mode, -2.7f,
          k == 48 ? 1.3f : 0.0f);
  check(model::random_quantized<A>(gen, 131, 200, model::scales::ordinary, 0x1.8p-7f),
        model::random_quantized<B>(gen, 71, 200, model::scales::ordinary, 0x1.333334p+3f), mode, 1, 0, 1);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("fast keeps its bound for every preset of 8-bit scales", "[gpu]") {
  SECTION("nvfp4") { check_pair<nvfp4, nvfp4>(accumulate::fast); }
  SECTION("nv_e1m2 x nvint4") { check_pair<nv_e1m2, nvint4>(accumulate::fast); }
  SECTION("mxfp4") { check_pair<mxfp4, mxfp4>(accumulate::fast); }
  SECTION("mx_e1m2 x mxint4") { check_pair<mx_e1m2, mxint4>(accumulate::fast); }
  SECTION("squares") { check_pair<block_format<fp4<E2M1>, e4m3, square(16), float>, nvfp4>(accumulate::fast); }
  SECTION("long blocks, E3M0, ue5m3") {
    check_pair<block_format<fp4<E3M0>, ue5m3, 128>, block_format<fp4<E1M2>, e8m0, 128>>(accumulate::fast);
  }
}

TEST_CASE("folded_bf16 keeps its bound for any scale", "[gpu]") {
  SECTION("e1m2_f32 x e2m1_f32") { check_pair<e1m2_f32, e2m1_f32>(accumulate::folded_bf16); }
  SECTION("nvfp4 x int4_f32") { check_pair<nvfp4, int4_f32>(accumulate::folded_bf16); }
  SECTION("bf16 scales") { check_pair<block_format<fp4<E2M1>, bf16, 16>, nvint4>(accumulate::folded_bf16); }
}

TEST_CASE("fast keeps its bound over the whole range of 8-bit scales", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  for (const std::size_t k : {16u, 200u}) {
    check(model::random_quantized<nvfp4>(gen, 20, k, model::scales::hostile, 0x1p-30f),
          model::random_quantized<nv_e1m2>(gen, 21, k, model::scales::hostile, 0x1p+20f), accumulate::fast);
    check(model::random_quantized<block_format<fp4<E2M1>, ue5m3, 16>>(gen, 20, k, model::scales::hostile),
          model::random_quantized<block_format<ufp4::int4, ue5m3, 16>>(gen, 21, k, model::scales::hostile),
          accumulate::fast);
  }
}

TEST_CASE("fast keeps its bound where a decoded operand is no normal bf16 number", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  auto a = model::random_quantized<mxfp4>(gen, 9, 96);
  auto b = model::random_quantized<mxint4>(gen, 10, 96);
  for (auto& s : a.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(gen() % 3));        // 2^-127 .. 2^-125
  for (auto& s : b.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(247 + gen() % 3));  // 2^120 .. 2^122
  check(a, b, accumulate::fast);
  for (auto& s : a.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(20 + gen() % 3));
  for (auto& s : b.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(254 - gen() % 2));  // 7 * 2^127
  check(a, b, accumulate::fast);
  auto c = model::random_quantized<e1m2_f32>(gen, 9, 96);
  auto d = model::random_quantized<int4_f32>(gen, 10, 96);
  for (float& s : c.scales()) s = model::float_of(1 + static_cast<std::uint32_t>(gen() % 20));
  for (float& s : d.scales()) s = 0x1p+121f * static_cast<float>(1 + gen() % 3);
  check(c, d, accumulate::folded_bf16);
}

TEST_CASE("one block out of range is enough, and no tile but its own is made anew", "[gpu]") {
  std::mt19937_64 gen{support::seed(13)};
  auto a = model::random_quantized<mxfp4>(gen, 70, 64), b = model::random_quantized<mxfp4>(gen, 66, 64);
  for (std::size_t j = 0; j < 66; ++j) b.scales()[2 * j] = e8m0::from_bits(27);  // 2^-100
  const auto before = product(a, b, {});
  a.scales()[2 * 69] = e8m0::from_bits(254);  // 2^127: products within the row's reach, but no bf16 number
  support::in_every_order([&](const char* order) {
    CAPTURE(order);
    check(a, b, accumulate::fast);
    const auto c = product(a, b, {});
    for (std::size_t i = 0; i < 64; ++i)
      for (std::size_t j = 1; j < 66; ++j)
        REQUIRE(std::memcmp(&c[i * 66 + j], &before[i * 66 + j], sizeof(float)) == 0);
  });
}

TEST_CASE("fast keeps its bound where a tensor scale or alpha alone leaves the range of binary32", "[gpu]") {
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
    check(a, b, accumulate::fast, f.alpha);
  }
}

TEST_CASE("products that vanish cost no more than Kp * 2^-126", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  auto a = model::random_quantized<mxfp4>(gen, 9, 96), b = model::random_quantized<mxfp4>(gen, 10, 96);
  for (auto& s : a.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(50 + gen() % 20));
  for (auto& s : b.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(50 + gen() % 20));
  check(a, b, accumulate::fast);
}

TEST_CASE("where every partial sum is exact, fast gives the bits of exact_blocks", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const auto check_exact = [&]<class A, class B>(quantized_matrix<A> a, quantized_matrix<B> b, accumulate mode,
                                                 auto scale) {
    for (auto& s : a.scales()) s = typename A::scale_type(scale());
    for (auto& s : b.scales()) s = typename B::scale_type(scale());
    const std::vector<float> expected = model::exact_blocks(model::side_of(a), model::side_of(b), -2.5f);
    for (const int processors : {1, 100}) {
      CAPTURE(static_cast<int>(mode), a.cols(), processors);
      REQUIRE(same_bits(product(a, b, {.alpha = -2.5f, .accumulate = mode}, {}, processors), expected));
    }
  };
  // Sums of products of small integers and scales of 1, 2 or 4: below 2^24 units at every K here.
  const auto power = [&] { return static_cast<float>(1u << gen() % 3); };
  for (const std::size_t k : {1u, 33u, 64u, 530u}) {
    check_exact(model::random_quantized<nvfp4>(gen, 70, k), model::random_quantized<nvint4>(gen, 66, k),
                accumulate::fast, power);
    check_exact(model::random_quantized<mxfp4>(gen, 66, k), model::random_quantized<mx_e1m2>(gen, 7, k),
                accumulate::fast, power);
    check_exact(model::random_quantized<e1m2_f32>(gen, 3, k), model::random_quantized<e2m1_f32>(gen, 130, k),
                accumulate::folded_bf16, power);
  }
}

TEST_CASE("what lies beyond K, M and N counts for nothing even if code 0 does not mean 0", "[gpu]") {
  std::mt19937_64 gen{support::seed(12)};
  quantized_matrix<ascending> a(5, 80), b(7, 80);
  for (auto* q : {&a, &b}) {
    for (auto& byte : q->codes()) byte = static_cast<std::uint8_t>(gen() % 256);
    for (auto& s : q->scales()) s = e4m3(static_cast<float>(1u << gen() % 3));  // every sum is exact
  }
  std::vector<float> want(35);
  quantized_gemm(a, b, matrix_view<float>{want.data(), 5, 7}, {.accumulate = accumulate::exact_blocks});
  REQUIRE(same_bits(product(a, b, {}), want));
}

TEST_CASE("K = 0 leaves beta * C", "[gpu]") {
  const quantized_matrix<nvfp4> a(3, 0), b(18, 0);
  std::vector<float> old(54, 1.5f), want = old;
  quantized_gemm(a, b, matrix_view<float>{want.data(), 3, 18}, {.alpha = -1, .beta = 3});
  REQUIRE(same_bits(product(a, b, {.alpha = -1, .beta = 3}, old), want));
  quantized_gemm(a, b, matrix_view<float>{want.data(), 3, 18}, {.alpha = -1});
  REQUIRE(same_bits(product(a, b, {.alpha = -1}, old), want));
}

TEST_CASE("the order in which threads and blocks run changes no bit of fast", "[gpu]") {
  std::mt19937_64 gen{support::seed(10)};
  const auto a = model::random_quantized<nvfp4>(gen, 130, 400);
  const auto b = model::random_quantized<nv_e1m2>(gen, 70, 400);
  for (const int processors : {1, 100}) {
    const auto want = product(a, b, {}, {}, processors);
    support::in_every_order([&](const char* order) {
      CAPTURE(order, processors);
      REQUIRE(same_bits(product(a, b, {}, {}, processors), want));
    });
  }
}

TEST_CASE("the tile that a device's size asks for changes no bit of fast", "[gpu]") {
  std::mt19937_64 gen{support::seed(11)};
  const auto a = model::random_quantized<nvfp4>(gen, 130, 400);
  const auto b = model::random_quantized<nv_e1m2>(gen, 70, 400);
  REQUIRE(same_bits(product(a, b, {}, {}, 1), product(a, b, {}, {}, 100)));
}

TEST_CASE("a mx block of zeros with the smallest scale does not count as out of range", "[gpu]") {
  std::mt19937_64 gen{support::seed(5)};
  auto a = model::random_quantized<mxfp4>(gen, 9, 96), b = model::random_quantized<mxfp4>(gen, 10, 96);
  for (std::size_t i = 0; i < 9; ++i) {
    std::memset(a.codes().data() + i * 48, 0, 16);
    a.scales()[i * 3] = e8m0::from_bits(0);
  }
  check(a, b, accumulate::fast);
}

TEST_CASE("a NaN scale makes NaN of its row or column, and of nothing else", "[gpu]") {
  std::mt19937_64 gen{support::seed(7)};
  auto a = model::random_quantized<nvfp4>(gen, 70, 150), b = model::random_quantized<nvfp4>(gen, 67, 150);
  const std::size_t blocks = a.padded_cols() / 16;
  a.scales()[5 * blocks + 9] = e4m3::from_bits(0x7F);
  b.scales()[66 * blocks] = e4m3::from_bits(0x7F);
  const auto c = product(a, b, {});
  for (std::size_t i = 0; i < 70; ++i)
    for (std::size_t j = 0; j < 67; ++j) REQUIRE(std::isnan(c[i * 67 + j]) == (i == 5 || j == 66));
}

TEST_CASE("folded_bf16 rounds value * scale to bf16, once", "[gpu]") {
  quantized_matrix<int4_f32> a(1, 16), b(1, 16);
  for (auto* q : {&a, &b}) {
    for (auto& byte : q->codes()) byte = 0;
    for (float& s : q->scales()) s = 1;
  }
  a.codes()[0] = 3;
  a.scales()[0] = 0x1.02p0f;  // 3 * (1 + 2^-7) needs 9 bits: bf16 has 8; a tie, and to even
  b.codes()[0] = 1;
  CHECK(product(a, b, {.accumulate = accumulate::folded_bf16})[0] == 0x1.84p1f);
}

TEST_CASE("bias and beta come after the scaling, and C's type is rounded to", "[gpu]") {
  std::mt19937_64 gen{support::seed(8)};
  auto a = model::random_quantized<nvfp4>(gen, 17, 64);
  auto b = model::random_quantized<nvint4>(gen, 33, 64);
  for (auto& s : a.scales()) s = e4m3(1.0f);
  for (auto& s : b.scales()) s = e4m3(1.0f);
  std::vector<float> bias(33), old(17 * 33);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) * 0.25f;
  for (std::size_t i = 0; i < old.size(); ++i) old[i] = static_cast<float>(i % 13);
  const auto plain = model::exact_blocks(model::side_of(a), model::side_of(b));
  const auto c = product(a, b, {.beta = 0.5f, .bias = bias}, old);
  for (std::size_t i = 0; i < c.size(); ++i) REQUIRE(c[i] == plain[i] + bias[i % 33] + 0.5f * old[i]);

  const gpu::quantized_matrix<nvfp4> left{a.view()};
  const gpu::quantized_matrix<nvint4> right{b.view()};
  const gpu::buffer<fp16> out(17 * 40);  // rows of 40, read the other way round
  const matrix_view<fp16> down{out.data(), 17, 33, 1, 17};
  REQUIRE(gpu::kernels::gemm_bf16_sm80.run(job_of(left, right, ufp4::detail::sink_of(down), {}), device(), {},
                                           gpu::stream{}) == gpu::success);
  const auto halves = support::on_host(out);
  for (std::size_t i = 0; i < 17; ++i)
    for (std::size_t j = 0; j < 33; ++j) REQUIRE(halves[j * 17 + i].bits() == fp16(plain[i * 33 + j]).bits());
}

TEST_CASE("codes may lie on any byte", "[gpu]") {
  std::mt19937_64 gen{support::seed(9)};
  const auto a = model::random_quantized<nvfp4>(gen, 19, 208), b = model::random_quantized<nvfp4>(gen, 21, 208);
  const gpu::quantized_matrix<nvfp4> left{a.view()}, right{b.view()};
  const auto want = product(a, b, {});
  for (const std::size_t shift : {1u, 4u, 8u}) {
    std::vector<std::uint8_t> moved(shift + a.codes().size());
    std::memcpy(moved.data() + shift, a.codes().data(), a.codes().size());
    const gpu::buffer<std::uint8_t> codes{std::span<const std::uint8_t>(moved)};
    const gpu::quantized_view<nvfp4> there{codes.span().subspan(shift), left.view().scales(),
                                           left.view().tensor_scale(), 19, 208};
    const gpu::buffer<float> out(19 * 21);
    const auto sink = ufp4::detail::sink_of(matrix_view<float>{out.data(), 19, 21});
    const gpu::gemm_job job = gpu::detail::call_of(there, right.view(), sink, {}, {}).job;
    REQUIRE(gpu::kernels::gemm_bf16_sm80.run(job, device(), {}, gpu::stream{}) == gpu::success);
    REQUIRE(same_bits(support::on_host(out), want));
  }
}

TEST_CASE("the kernel says what it takes", "[gpu]") {
  gpu::device_facts ampere = device();
  const auto takes = [&]<class A, class B>(quantized_matrix<A>, quantized_matrix<B>, accumulate mode) {
    const gpu::quantized_matrix<A> a(128, 64);
    const gpu::quantized_matrix<B> b(128, 64);
    const gpu::buffer<float> c(128 * 128);
    const auto out = ufp4::detail::sink_of(matrix_view<float>{c.data(), 128, 128});
    return gpu::kernels::gemm_bf16_sm80.takes(job_of(a, b, out, {.accumulate = mode}), ampere);
  };
  CHECK(takes(quantized_matrix<nvfp4>{}, quantized_matrix<nvint4>{}, accumulate::fast));
  CHECK_FALSE(takes(quantized_matrix<nvfp4>{}, quantized_matrix<nvint4>{}, accumulate::exact_blocks));
  CHECK_FALSE(takes(quantized_matrix<nvfp4>{}, quantized_matrix<e1m2_f32>{}, accumulate::fast));
  CHECK(takes(quantized_matrix<nvfp4>{}, quantized_matrix<e1m2_f32>{}, accumulate::folded_bf16));
  using nf4_blocks = block_format<nf4, float, 16>;
  CHECK_FALSE(takes(quantized_matrix<nf4_blocks>{}, quantized_matrix<nf4_blocks>{}, accumulate::folded_bf16));
  using short_blocks = block_format<fp4<E2M1>, e4m3, 8>;
  CHECK_FALSE(takes(quantized_matrix<short_blocks>{}, quantized_matrix<short_blocks>{}, accumulate::fast));
  ampere.architecture = ampere.compiled = 75;
  CHECK_FALSE(takes(quantized_matrix<nvfp4>{}, quantized_matrix<nvint4>{}, accumulate::fast));
}
