// ufp4 - fast products of bf16 and fp16 matrices that are not quantized with weights in 4 bits, on bf16 units.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/explain.hpp>
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"
#include "support/unmapped_page.hpp"
#include "support/unquantized_rows.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

using e2m1_of_8 = block_format<fp4<E2M1>, ufp4::bf16, 8>;
using e3m0_of_64 = block_format<fp4<E3M0>, ue5m3, 64>;
using int4_of_256 = block_format<ufp4::int4, e4m3, 256>;
using squares_of_16 = block_format<fp4<E2M1>, e4m3, square(16), float>;

/// The kernel that a product of m rows of bf16 runs, with weights of 8-bit scales.
const char* kernel_of(cpu::isa tier, std::size_t m) {
  switch (tier) {
    case cpu::isa::scalar: return "gemm_scalar";
    case cpu::isa::avx2:
    case cpu::isa::avx_vnni: return "gemm_f32_avx2";
    case cpu::isa::avx512: return "gemm_f32_avx512";
    case cpu::isa::avx512_bf16: return m == 1 ? "gemv_mixed_avx512" : m < 5 ? "gemm_f32_avx512" : "gemm_mixed_avx512";
    case cpu::isa::amx: return m == 1 ? "gemv_mixed_avx512" : m < 4 ? "gemm_f32_avx512" : "gemm_bf16_amx";
    case cpu::isa::neon_bf16: return "gemm_bf16_neon";
    default: return "gemm_f32_neon";
  }
}

using support::plain;
using support::plain_bound;

template <class A, class B>
std::vector<float> product(const cpu::context& ctx, const A& a, const B& b, std::size_t n,
                           const gemm_options& options = {}) {
  support::guarded<float> c(a.rows() * n);
  quantized_gemm(a, b, matrix_view<float>{c.data(), a.rows(), n}, options, ctx);
  REQUIRE(c.guards_intact());
  return {c.begin(), c.end()};
}

/// Products of the first rows of x and the first rows of w.
template <class F, class T>
void check(const plain<T>& x, const quantized_matrix<F>& w, const std::vector<std::size_t>& heights,
           const std::vector<std::size_t>& widths) {
  const plain_bound bound(model::unquantized_side(x.values, x.rows, x.cols, F::block_size), model::side_of(w));
  for (const std::size_t n : widths) {
    const auto columns = row_range(w.view(), 0, n);
    const auto packed = prepack(columns);
    for (const std::size_t m : heights)
      for (const cpu::isa tier : support::runnable_isas()) {
        CAPTURE(cpu::name(tier), m, n, w.cols());
        const matrix_view<const T> rows = row_range(x.view(), 0, m);
        const cpu::context one{.threads = 1, .isa = tier};
        const std::vector<float> c = product(one, rows, columns, n);
        REQUIRE(bound.broken_by(c, n) == "");
        REQUIRE(product(one, rows, packed, n) == c);
        if (m == heights.back()) REQUIRE(product(cpu::context{.threads = 3, .isa = tier}, rows, columns, n) == c);
      }
  }
}

template <class F, class T>
void check_shapes() {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(F::block_size + sizeof(typename F::scale_type))};
  for (const std::size_t k : {std::size_t{1}, F::block_size, std::size_t{130}, std::size_t{600}}) {
    const auto w = model::random_quantized<F>(gen, 50, k, model::scales::ordinary, 0x1.3p-3f);
    check(plain<T>(model::wide_floats(gen, 40 * k, 6), 40, k), w, {1, 2, 3, 8, 13, 40}, {1, 15, 16, 50});
  }
}

}  // namespace

TEST_CASE("bf16 and fp16 rows stay within the bound of fast at every shape, prepacked with the same bits", "[gemm]") {
  SECTION("bf16 x nvfp4") { check_shapes<nvfp4, ufp4::bf16>(); }
  SECTION("fp16 x nvfp4") { check_shapes<nvfp4, ufp4::fp16>(); }
  SECTION("bf16 x mxfp4") { check_shapes<mxfp4, ufp4::bf16>(); }
  SECTION("bf16 x e1m2_f32") { check_shapes<e1m2_f32, ufp4::bf16>(); }
  SECTION("fp16 x int4_f32") { check_shapes<int4_f32, ufp4::fp16>(); }
  SECTION("bf16 x blocks of 8 with bf16 scales") { check_shapes<e2m1_of_8, ufp4::bf16>(); }
  SECTION("fp16 x E3M0 in blocks of 64") { check_shapes<e3m0_of_64, ufp4::fp16>(); }
  SECTION("bf16 x blocks of 256") { check_shapes<int4_of_256, ufp4::bf16>(); }
  SECTION("bf16 x square blocks") { check_shapes<squares_of_16, ufp4::bf16>(); }
}

TEST_CASE("the bf16 kernels take bf16 and fp16 in fast mode, and nothing that they would round", "[gemm]") {
  std::mt19937_64 gen{support::seed(1)};
  const auto w = model::random_quantized<nvfp4>(gen, 40, 64);
  const auto nf = model::random_quantized<block_format<nf4, e4m3, 16>>(gen, 40, 64);
  for (const cpu::isa tier : support::runnable_isas())
    for (const std::size_t m : {1u, 2u, 40u}) {
      CAPTURE(cpu::name(tier), m);
      const std::vector<float> x(m * 64, 1.0f);
      const plain<ufp4::bf16> narrow(x, m, 64);
      const plain<ufp4::fp16> half(x, m, 64);
      const matrix_view<const float> wide{x.data(), m, 64};
      std::vector<float> out(m * 40);
      const matrix_view<float> c{out.data(), m, 40};
      const cpu::context on{.isa = tier};
      const auto kernel = [&](const auto& a, const auto& b, accumulate mode) {
        return std::string(cpu::explain(a, b, c, {.accumulate = mode}, on).kernel);
      };
      const std::string in_binary32 = kernel(wide, w, accumulate::fast);
      CHECK(in_binary32.find("plain") == std::string::npos);
      CHECK(kernel(narrow.view(), w, accumulate::fast) == kernel_of(tier, m));
      if (tier == cpu::isa::neon_bf16) CHECK(kernel(half.view(), w, accumulate::fast) == in_binary32);
      CHECK(kernel(narrow.view(), w, accumulate::exact_blocks) == in_binary32);
      CHECK(kernel(narrow.view(), nf, accumulate::fast) == in_binary32);
      const hadamard<16> h;
      CHECK(std::string(cpu::explain(unquantized(narrow.view(), h),
                                     operand<nvfp4>(matrix_view<const float>{x.data(), 1, 64}, h), c, on)
                            .kernel) == in_binary32);
    }
}

TEST_CASE("sums of small integers are exact: the bits of exact_blocks", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const auto each = [&]<class F, class T>(F, T) {
    for (const std::size_t k : {16u, 200u, 1040u}) {
      auto w = model::random_quantized<F>(gen, 35, k);
      for (auto& s : w.scales()) s = typename F::scale_type(static_cast<float>(1u << gen() % 3));
      for (const std::size_t m : {1u, 5u, 37u}) {
        std::vector<float> x(m * k);
        for (float& v : x) v = static_cast<float>(static_cast<int>(gen() % 15) - 7);
        const plain<T> a(x, m, k);
        const auto want =
            product(cpu::context{.isa = cpu::isa::scalar}, a.view(), w, 35, {.accumulate = accumulate::exact_blocks});
        for (const cpu::isa tier : support::runnable_isas()) {
          CAPTURE(cpu::name(tier), m, k);
          REQUIRE(product(cpu::context{.isa = tier}, a.view(), w, 35) == want);
        }
      }
    }
  };
  each(nvfp4{}, ufp4::bf16{});
  each(mxfp4{}, ufp4::fp16{});
  each(e1m2_f32{}, ufp4::fp16{});
  each(int4_f32{}, ufp4::bf16{});
}

TEST_CASE("every bit of a binary16 element counts", "[gemm]") {
  // 2049 has 12 bits and is none; 2047 has 11: eight of them are in one bf16 number, three in another.
  for (const std::size_t m : {1u, 2u, 40u}) {
    std::vector<float> x(m * 32, 0.0f);
    for (std::size_t i = 0; i < m; ++i) x[i * 32 + 5] = 2047, x[i * 32 + 21] = -0x1.ffcp-14f, x[i * 32 + 30] = 0x1p-24f;
    const plain<ufp4::fp16> a(x, m, 32);
    quantized_matrix<int4_f32> w(3, 32);
    for (std::uint8_t& byte : w.codes()) byte = 0;
    for (float& s : w.scales()) s = 1;
    const auto set = [&](std::size_t row, std::size_t k) {
      w.codes()[row * 16 + k / 2] |= static_cast<std::uint8_t>(1u << k % 2 * 4);
    };
    set(0, 5), set(1, 21), set(2, 30);
    for (const cpu::isa tier : support::runnable_isas()) {
      CAPTURE(cpu::name(tier), m);
      const std::vector<float> c = product(cpu::context{.isa = tier}, a.view(), w, 3);
      CHECK(c[0] == 2047);
      CHECK(c[1] == -0x1.ffcp-14f);
      CHECK(c[2] == 0x1p-24f);
    }
  }
}

TEST_CASE("small and subnormal elements count in full, alone and beside others", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  const std::size_t k = 300;
  for (const float small : {0x1.fep-96f, 0x1p-110f, 0x1.2p-126f, 0x1p-130f, 0x1p-133f})
    for (const bool alone : {false, true}) {
      CAPTURE(small, alone);
      std::vector<float> x = model::wide_floats(gen, 40 * k);
      for (float& v : x) {
        if (alone) v = 0;
        if (gen() % 40 == 0) v = small;
      }
      auto w = model::random_quantized<e1m2_f32>(gen, 19, k);
      for (float& s : w.scales()) s = 0x1.3p90f;
      const plain<ufp4::bf16> a(x, 40, k);
      check(a, w, {1, 3, 40}, {19});
      check(a, model::random_quantized<nvfp4>(gen, 19, k, model::scales::hostile), {1, 3, 40}, {19});
    }
}

TEST_CASE("scales at the ends of every range keep the bound", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const auto values = [&](std::size_t k) {
    std::vector<float> x = model::wide_floats(gen, 36 * k);
    for (float& v : x) v *= 0x1p-10f;
    return x;
  };
  const auto each = [&]<class F>(F) {
    for (const std::size_t k : {32u, 290u}) {
      const auto w = model::random_quantized<F>(gen, 35, k, model::scales::hostile);
      check(plain<ufp4::bf16>(values(k), 36, k), w, {1, 4, 36}, {35});
      check(plain<ufp4::fp16>(values(k), 36, k), w, {1, 4, 36}, {35});
    }
  };
  each(nvfp4{});
  each(e3m0_of_64{});
  auto w = model::random_quantized<mxfp4>(gen, 35, 300);  // e8m0: from the smallest scale to 2^100
  for (auto& s : w.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(gen() % 4 == 0 ? gen() % 3 : gen() % 228));
  check(plain<ufp4::bf16>(model::wide_floats(gen, 36 * 300), 36, 300), w, {1, 4, 36}, {35});
}

namespace {

/// 0 for a finite number, 1 or -1 for an infinity, 2 for NaN.
int kind_of(float x) { return std::isnan(x) ? 2 : std::isinf(x) ? (x > 0 ? 1 : -1) : 0; }

template <class F, class T>
void check_special() {
  std::mt19937_64 gen{support::seed(5)};
  const float special[] = {0.0f, -0.0f, 0x1p-149f, 3e38f, -3e38f, 60000.0f};
  for (const std::size_t m : {1u, 5u, 40u})
    for (const bool infinite : {false, true}) {
      auto w = model::random_quantized<F>(gen, 33, 500);
      for (std::size_t i = 0; i < w.scales().size(); i += 97)
        w.scales()[i] = detail::scale_as<typename F::scale_type>(detail::nan_scale(spec_of<F>.scale));
      for (std::size_t k = 0; k < 16; ++k) w.codes()[5 * w.padded_cols() / 2 + k] = 0;  // blocks of zeros
      std::vector<float> x = model::wide_floats(gen, m * 500);
      for (float& v : x)
        if (gen() % 50 == 0) v = special[gen() % 6];
      if (infinite) x[7] = INFINITY, x[(m - 1) * 500 + 33] = -INFINITY, x[(m - 1) * 500 + 400] = NAN;
      const plain<T> a(x, m, 500);
      const std::vector<float> want = product(cpu::context{.isa = cpu::isa::scalar}, a.view(), w, 33);
      for (const cpu::isa tier : support::runnable_isas()) {
        CAPTURE(cpu::name(tier), m, infinite);
        const std::vector<float> c = product(cpu::context{.isa = tier}, a.view(), w, 33);
        for (std::size_t i = 0; i < c.size(); ++i) REQUIRE(kind_of(c[i]) == kind_of(want[i]));
      }
    }
}

}  // namespace

TEST_CASE("NaN, infinities, overflows and blocks of zeros give the results of the scalar kernel", "[gemm]") {
  INFO(support::seed_note());
  check_special<nvfp4, ufp4::bf16>();
  check_special<nvfp4, ufp4::fp16>();
  check_special<mxfp4, ufp4::bf16>();
  check_special<e1m2_f32, ufp4::bf16>();
}

TEST_CASE("a product that overflows on the way to a finite result is finite", "[gemm]") {
  for (const std::size_t m : {1u, 40u}) {
    std::vector<float> x(m * 32, 0x1p126f);
    for (std::size_t i = 0; i < x.size(); i += 2) x[i] = -0x1p126f;
    x[3] = 0x1.8p126f;
    auto w = quantized_matrix<e1m2_f32>(2, 32);
    for (auto& byte : w.codes()) byte = 0x77;  // 1.75
    for (float& s : w.scales()) s = 0x1p-20f;
    const plain<ufp4::bf16> a(x, m, 32);
    for (const cpu::isa tier : support::runnable_isas()) {
      CAPTURE(cpu::name(tier), m);
      CHECK(product(cpu::context{.isa = tier}, a.view(), w, 2)[0] == 0x1.cp105f);
    }
  }
}

TEST_CASE("alpha, beta, bias, tensor scales and outputs of 16 bits apply to plain operands", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(6)};
  const std::vector<float> bias = model::wide_floats(gen, 35);
  auto w = model::random_quantized<nvfp4>(gen, 35, 96, model::scales::ordinary, 0.5f);
  for (auto& s : w.scales()) s = e4m3(1.0f);
  for (const std::size_t m : {1u, 6u, 40u}) {
    std::vector<float> x(m * 96);
    for (float& v : x) v = static_cast<float>(gen() % 8);  // exact sums: every tier has the same bits
    const plain<ufp4::bf16> a(x, m, 96);
    std::vector<ufp4::bf16> want;
    for (const cpu::isa tier : support::runnable_isas()) {
      support::guarded<ufp4::bf16> c(m * 40);
      for (std::size_t i = 0; i < m * 40; ++i) c[i] = ufp4::bf16(static_cast<float>(i % 19));
      quantized_gemm(a.view(), w, matrix_view<ufp4::bf16>{c.data(), m, 35, 40},
                     {.alpha = -1.5f, .beta = 0.25f, .bias = bias}, cpu::context{.isa = tier});
      REQUIRE(c.guards_intact());
      if (want.empty()) want.assign(c.begin(), c.end());
      CAPTURE(cpu::name(tier), m);
      REQUIRE(c.same_bytes(want));
    }
  }
}

namespace {

template <class F>
void check_reads() {
  std::mt19937_64 gen{support::seed(7)};
  for (const std::size_t k : {F::block_size, 5 * F::block_size, std::size_t{512}, std::size_t{1200}})
    for (const std::size_t n : {1u, 31u, 48u})
      for (const std::size_t m : {1u, 40u}) {
        const auto q = model::random_quantized<F>(gen, n, k);
        const plain<ufp4::bf16> x(model::wide_floats(gen, m * k), m, k, 0);
        const support::before_unmapped_page codes(q.codes()), scales(q.scales()),
            left(std::span<const ufp4::bf16>(x.data));
        const quantized_view<F> b{codes.as<std::uint8_t>(q.codes().size()),
                                  scales.as<typename F::scale_type>(q.scales().size()), 1.0f, n, k};
        const matrix_view<const ufp4::bf16> a{left.as<ufp4::bf16>(m * k).data(), m, k};
        for (const cpu::isa tier : support::runnable_isas()) {
          CAPTURE(cpu::name(tier), m, n, k);
          const cpu::context on{.threads = 1, .isa = tier};
          REQUIRE(product(on, a, b, n) == product(on, x.view(), q, n));
        }
      }
}

}  // namespace

TEST_CASE("no code, scale or plain element beyond the last is read", "[gemm]") {
  INFO(support::seed_note());  // vector loads of asm statements are not what sanitizers see
  SECTION("e1m2_f32") { check_reads<e1m2_f32>(); }
  SECTION("nvfp4 with one level") { check_reads<block_format<fp4<E2M1>, e4m3, 16>>(); }
  SECTION("mxfp4") { check_reads<mxfp4>(); }
  SECTION("blocks of 8 with bf16 scales") { check_reads<e2m1_of_8>(); }
}
