// ufp4 - sums whose intermediate values leave the range of binary32, in every kernel that takes them (section 6).
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/gemm_check.hpp"

#include <ufp4/gpu/kernels/gemm_simt.hpp>

#include <cmath>
#include <limits>

using namespace ufp4;

namespace {

constexpr std::size_t rows_a = 18, rows_b = 7;

/// The product that `kernel` computes; empty if it does not take the job.
template <class A, class B>
std::vector<float> run(const gpu::gemm_kernel& kernel, const A& a, const B& b, const gpu::buffer<float>& c,
                       const gemm_options& options) {
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  const auto out = ufp4::detail::sink_of(matrix_view<float>{c.data(), rows_a, rows_b});
  const gpu::gemm_job job = gpu::detail::call_of(a, b, out, options, {}).job;
  if (kernel.experimental || !kernel.takes(job, device)) return {};
  const gpu::buffer<std::byte> workspace(kernel.workspace(job, device));
  REQUIRE(kernel.run(job, device, workspace.span(), gpu::stream{}) == gpu::success);
  return support::on_host(c);
}

/// Every kernel of the table that takes the job, and gemm_simt, which takes all.
template <class A, class B, class Check>
void for_each_kernel(const A& a, const B& b, const gemm_options& options, const Check& check) {
  unsigned ran = 0;
  for (const int architecture : {0, 120}) {  // the device as it is; then, if it is simulated, one of NVIDIA's newest
    gpu::device_facts device;
    REQUIRE(gpu::facts(device) == gpu::success);
    if (architecture != 0 && device.architecture != 80) continue;
    const support::simulated_device now(architecture == 0 ? device.architecture : architecture);
    for (const gpu::gemm_kernel* kernel : gpu::gemm_kernels<>()) {
      const std::string mode = ufp4::detail::name(options.accumulate);
      CAPTURE(kernel->name, mode, architecture);
      const gpu::buffer<float> c(rows_a * rows_b);
      const std::vector<float> got = run(*kernel, a, b, c, options);
      if (got.empty()) continue;
      ++ran;
      check(got);
    }
  }
  CHECK(ran >= 1);
}

/// acc = fma(d, fl(sA sB), acc), where a block with d = 0 contributes +0 unless one of its scales is NaN.
float exact_element(const model::side& a, const model::side& b, std::size_t i, std::size_t j) {
  float acc = 0;
  for (std::size_t block = 0; block < a.padded / a.block; ++block) {
    float d = 0;  // a chain of fma; with exact products no step of it rounds
    for (std::size_t k = block * a.block; k < (block + 1) * a.block; ++k)
      d = std::fma(a.value[i * a.padded + k], b.value[j * b.padded + k], d);
    const float left = a.scale[i * (a.padded / a.block) + block], right = b.scale[j * (b.padded / b.block) + block];
    if (std::isnan(left) || std::isnan(right)) return std::numeric_limits<float>::quiet_NaN();
    if (const float t = left * right; d != 0 || std::isfinite(t)) acc = std::fma(d, t, acc);
  }
  return acc * a.tensor * b.tensor;
}
/// The exact sum and the sum of magnitudes.
struct sum_and_size {
  double sum = 0, size = 0;
};
sum_and_size real_element(const model::side& a, const model::side& b, std::size_t i, std::size_t j) {
  sum_and_size r;
  for (std::size_t k = 0; k < a.padded; ++k) {
    const double left = static_cast<double>(a.scale[i * (a.padded / a.block) + k / a.block]) *
                        static_cast<double>(a.value[i * a.padded + k]);
    const double right = static_cast<double>(b.scale[j * (b.padded / b.block) + k / b.block]) *
                         static_cast<double>(b.value[j * b.padded + k]);
    const double x =
        left == 0 || right == 0 ? 0 : left * right * static_cast<double>(a.tensor) * static_cast<double>(b.tensor);
    r.sum += x;
    r.size += std::abs(x);
  }
  return r;
}

/// Compares with the exact elements: bits in exact_blocks, the bound of numerics 6 in the fast mode.
void check_elements(const model::side& a, const model::side& b, accumulate mode, const std::vector<float>& got) {
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < b.rows; ++j) {
      CAPTURE(i, j);
      const float c = got[i * b.rows + j];
      if (mode == accumulate::exact_blocks) {
        REQUIRE(support::same_number(c, exact_element(a, b, i, j)));
      } else {
        const sum_and_size want = real_element(a, b, i, j);
        const double bound =
            static_cast<double>(a.padded + 6) * 0x1p-24 * want.size + static_cast<double>(a.padded) * 0x1p-126;
        REQUIRE(std::abs(static_cast<double>(c) - want.sum) <= bound);
      }
    }
}

/// Rows whose first block of 32 has `amax` in one column of its own and, where `small` is not 0, that in column 2; then
/// a block of small numbers.
template <class F>
quantized_matrix<F> with_large_block(std::size_t rows, std::size_t column, float amax, float small) {
  std::vector<float> x(rows * 64);
  for (std::size_t i = 0; i < rows; ++i) {
    x[i * 64 + column] = i % 3 == 2 ? 1.0f : amax;
    x[i * 64 + 2] = small;
    for (std::size_t k = 32; k < 64; ++k) x[i * 64 + k] = static_cast<float>((i * 5 + k * 3) % 7) - 3.0f;
  }
  return quantize<F>(matrix_view<const float>{x.data(), rows, 64});
}

template <class F>
void check_zero_dot(float amax) {
  const auto a = with_large_block<F>(rows_a, 0, amax, 0), b = with_large_block<F>(rows_b, 1, amax, 0);
  const gpu::quantized_matrix<F> da{a.view()}, db{b.view()};
  for (const accumulate mode : {accumulate::exact_blocks, accumulate::fast})
    for_each_kernel(da.view(), db.view(), {.accumulate = mode}, [&](const std::vector<float>& got) {
      check_elements(model::side_of(a), model::side_of(b), mode, got);
    });
}

template <class F>
void check_small_dot(float amax, float small) {
  const auto a = with_large_block<F>(rows_a, 0, amax, small), b = with_large_block<F>(rows_b, 1, amax, small);
  const gpu::quantized_matrix<F> da{a.view()}, db{b.view()};
  REQUIRE(std::isinf(model::side_of(a).scale[0] * model::side_of(b).scale[0]));
  REQUIRE(real_element(model::side_of(a), model::side_of(b), 0, 0).size > 1e30);
  REQUIRE(real_element(model::side_of(a), model::side_of(b), 0, 0).size < 0x1p127);
  for_each_kernel(da.view(), db.view(), {.accumulate = accumulate::fast}, [&](const std::vector<float>& got) {
    check_elements(model::side_of(a), model::side_of(b), accumulate::fast, got);
  });
}

template <class F>
void check_plain_with_tiny(float large, float tiny) {
  const std::vector<float> x(rows_a * 16, large), w(rows_b * 16, tiny);
  const auto b = quantize<F>(matrix_view<const float>{w.data(), rows_b, 16});
  const gpu::buffer<float> dx{std::span<const float>(x)};
  const gpu::quantized_matrix<F> db{b.view()};
  const auto plain = model::unquantized_side(x, rows_a, 16, F::block_size, {});
  for_each_kernel(matrix_view<const float>{dx.data(), rows_a, 16}, db.view(), {}, [&](const std::vector<float>& got) {
    check_elements(plain, model::side_of(b), accumulate::fast, got);
  });
}

}  // namespace

TEST_CASE("a block whose dot product is 0 contributes +0 although the product of its scales overflows", "[gpu]") {
  check_zero_dot<e1m2_f32>(1e20f);
  check_zero_dot<int4_f32>(1e20f);
  check_zero_dot<e2m1_f32>(1e20f);
  check_zero_dot<mx_e1m2>(0x1p68f);
  check_zero_dot<mxint4>(0x1p68f);
  check_zero_dot<mxfp4>(0x1p68f);
  check_zero_dot<block_format<nf4, float, 16>>(1e20f);
}

TEST_CASE("fast gives the finite sum where only the product of two scales overflows", "[gpu]") {
  check_small_dot<e1m2_f32>(3.3e19f, 5e18f);
  check_small_dot<mx_e1m2>(0x1.cp64f, 0x1p62f);
  check_small_dot<mxfp4>(0x1.8p66f, 0x1p63f);
}

TEST_CASE("fast gives the finite product of a plain operand and one so small that its dot products overflow", "[gpu]") {
  check_plain_with_tiny<nvfp4>(1e38f, 1e-30f);
  check_plain_with_tiny<e1m2_f32>(1e38f, 1e-30f);
  check_plain_with_tiny<mxfp4>(3e38f, 1e-36f);
}

TEST_CASE("a block scale of NaN makes the element NaN where the dot product of the block is 0", "[gpu]") {
  auto a = with_large_block<e1m2_f32>(rows_a, 0, 1e20f, 0);
  const auto b = with_large_block<e1m2_f32>(rows_b, 1, 1e20f, 0);
  for (std::size_t row = 0; row < rows_a; row += 2)
    a.scales()[row * (64 / e1m2_f32::block_size)] = std::numeric_limits<float>::quiet_NaN();
  const gpu::quantized_matrix<e1m2_f32> da{a.view()}, db{b.view()};
  for (const accumulate mode : {accumulate::exact_blocks, accumulate::fast})
    for_each_kernel(da.view(), db.view(), {.accumulate = mode}, [&](const std::vector<float>& got) {
      for (std::size_t at = 0; at < got.size(); ++at) {
        CAPTURE(at);
        REQUIRE(std::isnan(got[at]) == (at / rows_b % 2 == 0));
      }
    });
}

TEST_CASE("a recomputed element has its bias, beta, alpha and tensor scales", "[gpu]") {
  const auto a = with_large_block<e1m2_f32>(rows_a, 0, 1e20f, 0), b = with_large_block<e1m2_f32>(rows_b, 1, 1e20f, 0);
  const gpu::quantized_matrix<e1m2_f32> da{a.view()}, db{b.view()};
  std::vector<float> bias(rows_b, 0.5f);
  const gpu::buffer<float> there{std::span<const float>(bias)};
  const gemm_options options{.alpha = -2, .accumulate = accumulate::exact_blocks, .bias = there.span()};
  for_each_kernel(da.view(), db.view(), options, [&](const std::vector<float>& got) {
    for (std::size_t i = 0; i < rows_a; ++i)
      for (std::size_t j = 0; j < rows_b; ++j)
        REQUIRE(got[i * rows_b + j] == exact_element(model::side_of(a), model::side_of(b), i, j) * -2.0f + 0.5f);
  });
}
