// ufp4 - no operation depends on the caller's floating-point environment, and each restores it, flags included.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cpu/fp_environment.hpp>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <ufp4/dequantize.hpp>
#include <ufp4/format/table_element.hpp>
#include <ufp4/gemm.hpp>
#include <ufp4/gemm_zero_points.hpp>
#include <ufp4/hadamard.hpp>
#include <ufp4/recipe/linear.hpp>
#include <ufp4/recipe/recipes.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

namespace {

using namespace ufp4;

// The control register, read and written without the library's functions.
#if defined(__x86_64__)
using control = std::uint32_t;
control current() { return __builtin_ia32_stmxcsr(); }
void set(control w) { __builtin_ia32_ldmxcsr(w); }
// MXCSR: DAZ bit 6, exception masks 7 .. 12, rounding 13 and 14, FTZ bit 15; flags 0 .. 5.
struct named_environment {
  const char* name;
  control word;
};
constexpr named_environment environments[] = {
    {"FTZ", 0x9F80},
    {"DAZ", 0x1FC0},
    {"FTZ and DAZ", 0x9FC0},
    {"downward", 0x3F80},
    {"upward", 0x5F80},
    {"toward zero", 0x7F80},
    {"upward with FTZ and DAZ", 0xDFC0},
    {"all exceptions unmasked", 0x0000},
    {"all exceptions unmasked, toward zero, DAZ", 0x6040},
    {"all flags set", 0x1FBF},
};
#define UFP4_TEST_HAS_CONTROL 1
#elif defined(__aarch64__)
using control = std::uint64_t;
control current() {
  control w;
  asm volatile("mrs %0, fpcr" : "=r"(w));
  return w;
}
void set(control w) { asm volatile("msr fpcr, %0" : : "r"(w)); }
// FPCR: rounding bits 22 and 23 (up, down, zero), FZ bit 24.
struct named_environment {
  const char* name;
  control word;
};
constexpr named_environment environments[] = {
    {"upward", 1ull << 22}, {"downward", 2ull << 22}, {"toward zero", 3ull << 22}, {"FZ", 1ull << 24}};
#define UFP4_TEST_HAS_CONTROL 1
#endif

#if defined(UFP4_TEST_HAS_CONTROL)

/// Runs a call under an environment and returns the environment right after the call; the test computes nothing
/// between.
[[gnu::noinline]] control run_under(control word, const std::function<void()>& call) {
  const control before = current();
  set(word);
  call();
  const control after = current();
  set(before);
  return after;
}

/// Everything a call wrote, as bytes.
using bytes = std::vector<std::uint8_t>;
template <class T>
void append(bytes& to, const T* data, std::size_t n) {
  const std::size_t at = to.size();
  to.resize(at + n * sizeof(T));
  if (n != 0) std::memcpy(to.data() + at, data, n * sizeof(T));
}
template <class Q>
void append(bytes& to, const Q& q) {
  const float tensor_scale = q.tensor_scale();
  append(to, q.codes().data(), q.codes().size());
  append(to, q.scales().data(), q.scales().size());
  append(to, &tensor_scale, 1);
}

/// Compares the bytes of a call in the default environment with those in all others, on one thread and on three.
void check_everywhere(const std::function<bytes(const cpu::context&)>& call) {
  const bytes want = call(cpu::context{.threads = 1});
  REQUIRE(!want.empty());
  for (const named_environment& e : environments)
    for (const int threads : {1, 3}) {
      bytes got;
      const control after = run_under(e.word, [&] { got = call(cpu::context{.threads = threads}); });
      CAPTURE(e.name, threads);
      REQUIRE(after == e.word);
      REQUIRE(got == want);
    }
}

constexpr std::size_t T = 70, K = 96, N = 40;

/// Subnormals, values whose scales and products are subnormal, and values that every rounding mode rounds differently.
std::vector<float> sensitive(std::size_t n, std::uint64_t k) {
  support::hostile source(support::seed(k));
  std::vector<float> x = source.values(n, true, false);
  for (std::size_t i = 0; i < n; ++i)
    if (i / 16 % 3 == 0) x[i] *= 0x1p-120f;
  return x;
}

#endif

}  // namespace

#if !defined(UFP4_TEST_HAS_CONTROL)
TEST_CASE("no operation depends on the caller's floating-point environment") {
  support::skip("no control register is known on this machine");
}
#else

TEST_CASE("quantize, tensor constants included, fake_quantize, dequantize and amax ignore the caller's environment") {
  INFO(support::seed_note());
  const std::size_t rows = 350;  // two tasks
  const std::vector<float> values = sensitive(rows * K, 1);
  const matrix_view<const float> x{values.data(), rows, K};
  const auto all = [&]<class F>(F, const auto&... policies) {
    check_everywhere([&](const cpu::context& ctx) {
      bytes out;
      quantize_report seen;
      const auto q = quantize<F>(x, policies..., count_into{seen}, ctx);
      append(out, q);
      append(out, &seen, 1);
      std::vector<float> line(rows * K);
      dequantize(q, matrix_view<float>{line.data(), rows, K}, ctx);
      append(out, line.data(), line.size());
      fake_quantize<F>(x, matrix_view<float>{line.data(), rows, K}, policies..., undo_transform{}, ctx);
      append(out, line.data(), line.size());
      const float g = amax(x, {}, ctx).value;
      append(out, &g, 1);
      return out;
    });
  };
  const random_hadamard<32> t{3};
  const stochastic random_bits{.seed = 9};
  all(nvfp4{}, t, random_bits);
  all(nvfp4{}, tensor_amax{0x1p-140f});
  all(nvfp4{}, four_over_six{}, tensor_amax{3});
  all(e1m2_f32{}, t, mse_search{});
  all(int4_f32{}, random_bits);
  all(mxfp4{}, t.to_bf16(), mx_ceil{});
  all(block_format<nf4, bf16, 16>{}, scale_up{});
  all(compat::te_nvfp4{});
  all(compat::torchao_nvfp4{}, tensor_amax{0.7f});
  all(compat::ggml_nvfp4{});
  all(compat::ggml_mxfp4{});
}

TEST_CASE("hadamard_forward and hadamard_inverse of a matrix ignore the caller's environment") {
  const std::size_t rows = 350;
  const std::vector<float> values = sensitive(rows * K, 8);
  const matrix_view<const float> x{values.data(), rows, K};
  check_everywhere([&](const cpu::context& ctx) {
    std::vector<float> y(rows * K), z(rows * K);
    hadamard_forward(x, matrix_view<float>{y.data(), rows, K}, random_hadamard<32>{6}, ctx);
    hadamard_inverse(x, matrix_view<float>{z.data(), rows, K}, random_hadamard<32>{6}, ctx);
    bytes out;
    append(out, y.data(), y.size());
    append(out, z.data(), z.size());
    return out;
  });
}

TEST_CASE("without the guard, FTZ, DAZ and each rounding mode change bits of the data above") {
  const std::vector<float> values = sensitive(200 * K, 1);
  const auto blocks = [&] {
    bytes out;
    std::uint8_t packed[8];
    float back[16];
    for (std::size_t k = 0; k < values.size(); k += 16) {
      const float scale = quantize_block<e1m2_f32>(values.data() + k, packed);
      dequantize_block<e1m2_f32>(packed, scale, back);
      append(out, packed, 8);
      append(out, &scale, 1);
      append(out, back, 16);
    }
    return out;
  };
  const bytes want = blocks();
  for (const named_environment& e : environments) {
    const std::string name = e.name;
    if (name.find("unmasked") != std::string::npos || name.find("flags") != std::string::npos) continue;
    bytes got;
    run_under(e.word, [&] { got = blocks(); });
    CAPTURE(e.name);
    CHECK(got != want);
  }
}

TEST_CASE("quantized_gemm ignores the caller's environment") {
  INFO(support::seed_note());
  const std::vector<float> a = sensitive(T * K, 2), b = sensitive(N * K, 3);
  const matrix_view<const float> left{a.data(), T, K}, right{b.data(), N, K};
  const auto qa = quantize<e1m2_f32>(left);
  const auto qb = quantize<nvfp4>(right);
  const auto all = [&](const auto& x, const auto& y, gemm_options options) {
    check_everywhere([&](const cpu::context& ctx) {
      std::vector<float> c(T * N, 0x1.234566p-140f);
      quantized_gemm(x, y, matrix_view<float>{c.data(), T, N}, options, ctx);
      bytes out;
      append(out, c.data(), c.size());
      return out;
    });
  };
  const gemm_options exact{.alpha = 0x1.55p-3f, .beta = 0x1p-130f, .accumulate = accumulate::exact_blocks};
  all(qa, qb, exact);
  all(qa, qb, {});
  all(qa, qb, {.accumulate = accumulate::folded_bf16});
  all(operand<nvfp4>(left, hadamard<16>{}), operand<nvfp4>(right, hadamard<16>{}, stochastic{.seed = 1}), exact);
  all(left, qb, exact);
}

namespace {

void check_layer(const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& dy) {
  const matrix_view<const float> xv{x.data(), T, K}, wv{w.data(), N, K}, dyv{dy.data(), T, N};
  for (recipe::training_recipe r : {recipe::ufp4_recipe(1), recipe::ufp4_recipe<nv_e1m2>(1),
                                    recipe::e2m1_baseline_recipe(1), recipe::nvfp4_recipe(1), recipe::bf16_recipe(1)}) {
    r.accumulate = accumulate::exact_blocks;
    check_everywhere([&](const cpu::context& ctx) {
      std::vector<float> y(T * N, 0.1f), dx(T * K, 0.1f), dw(N * K, 0x1p-149f);
      recipe::saved_activation saved;
      linear_forward(r.at(3, 4), xv, wv, matrix_view<float>{y.data(), T, N}, {.saved = &saved}, ctx);
      linear_backward_input(r.at(3, 4), dyv, wv, matrix_view<float>{dx.data(), T, K}, recipe::write_mode::add, ctx);
      linear_backward_weight(r.at(3, 4), dyv, saved, matrix_view<float>{dw.data(), N, K}, recipe::write_mode::add, ctx);
      bytes out;
      append(out, y.data(), y.size());
      append(out, dx.data(), dx.size());
      append(out, dw.data(), dw.size());
      return out;
    });
  }
}
/// Subnormals only: their global_amax must not be taken for 0.
std::vector<float> subnormals(std::size_t n) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i * i % 11) * 0x1.8p-140f * (i % 2 == 0 ? 1.0f : -1.0f);
  return x;
}

}  // namespace

TEST_CASE("linear_forward and both backward passes ignore it under every recipe, on subnormal data too") {
  INFO(support::seed_note());
  check_layer(sensitive(T * K, 4), sensitive(N * K, 5), sensitive(T * N, 6));
  check_layer(subnormals(T * K), subnormals(N * K), subnormals(T * N));
}

TEST_CASE("the choice of how many threads to use sets no flag and raises no trap") {
  const matrix<float> x(300, K);  // 300 x 300 x 96 products are worth 4.2 threads of eight
  const auto q = quantize<e1m2_f32>(x);
  matrix<float> c(300, 300);
  for (const named_environment& e : environments) {
    CAPTURE(e.name);
    const control after = run_under(
        e.word, [&] { quantized_gemm(q, q, static_cast<const matrix_view<float>&>(c), cpu::context{.threads = 8}); });
    CHECK(after == e.word);
  }
}

TEST_CASE("weights with zero points are made, dequantized and multiplied alike in every environment") {
  INFO(support::seed_note());
  const std::vector<float> values = sensitive(T * K, 8);
  std::vector<float> scales(N * 3);
  std::vector<std::uint8_t> codes(N * K), zeros(N * 3);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i] = (i % 2 == 0 ? 0x1.555556p-130f : 0x1.555556p-4f) * static_cast<float>(i + 1);
    zeros[i] = static_cast<std::uint8_t>(i * 7 % 16);
  }
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i * 11 % 16);
  check_everywhere([&](const cpu::context& ctx) {
    const zero_point_matrix w(N, K, 32, codes, scales, zeros);
    std::vector<float> decoded(N * K), c(T * N);
    dequantize(w, matrix_view<float>{decoded.data(), N, K}, ctx);
    quantized_gemm(matrix_view<const float>{values.data(), T, K}, w, matrix_view<float>{c.data(), T, N}, {}, ctx);
    bytes out;
    append(out, decoded.data(), decoded.size());
    append(out, c.data(), c.size());
    return out;
  });
}

TEST_CASE("a subnormal tensor_amax is not taken for zero and does not trap: arguments are checked by their bits") {
  const std::vector<float> values = sensitive(K, 7);
  const matrix_view<const float> x{values.data(), 1, K};
  const auto want = quantize<nvfp4>(x, tensor_amax{0x1p-140f});
  for (const named_environment& e : environments) {
    CAPTURE(e.name);
    quantized_matrix<nvfp4> got;
    run_under(e.word, [&] { got = quantize<nvfp4>(x, tensor_amax{0x1p-140f}); });
    CHECK(got == want);
    if (std::string(e.name).find("unmasked") != std::string::npos) continue;  // printing a subnormal traps then
    std::string message;
    run_under(e.word, [&] {
      try {
        quantize<nvfp4>(x, tensor_amax{-0x1p-149f});
      } catch (const std::invalid_argument& error) {
        message = error.what();
      }
    });
    CHECK(message.find("tensor_amax must be finite and >= 0, got -") != std::string::npos);
  }
}

namespace {

void note_control(control* seen) { *seen = current(); }
void fail(int) { throw std::runtime_error("inside"); }

}  // namespace

TEST_CASE("inside the guard the environment is the default one, and an exception restores the caller's") {
  for (const named_environment& e : environments) {
    control inside = 0;
    const control after = run_under(e.word, [&] { cpu::detail::in_exact_environment(&note_control, &inside); });
    CAPTURE(e.name);
#if defined(__x86_64__)
    CHECK((inside & ~0x3Fu) == 0x1F80u);
#else
    CHECK(inside == 0);
#endif
    CHECK(after == e.word);
    bool caught = false;
    const control thrown = run_under(e.word, [&] {
      try {
        cpu::detail::in_exact_environment(&fail, 1);
      } catch (const std::runtime_error&) {
        caught = true;
      }
    });
    CHECK(caught);
    CHECK(thrown == e.word);
  }
}

#endif
