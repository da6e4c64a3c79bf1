// ufp4 - the kernels of compute capability 10 on compiled code: the PTX runs in the interpreter, launched by the
// library's host code, and gives the host's bits where sums are exact, and keeps the bound of fast elsewhere.
// SPDX-License-Identifier: Apache-2.0
//
// Compiled and run by tests/gpu/compiled.sh. The table of kernels has those of tcgen05 and gemm_simt alone, so that
// nothing else is compiled for this target.
#define UFP4_EXPERIMENTAL
#include <ufp4/cuda/gemm_tcgen05_sm100.hpp>
#include <ufp4/gpu/buffer.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/gpu/matrix.hpp>
#include <ufp4/ufp4.hpp>

#include "gpu/ptx/counts.hpp"
#include "support/catch.hpp"
#include "support/fast_cases.hpp"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

constexpr const gpu::gemm_kernel* kernels_here[] = {&gpu::kernels::gemm_nvfp4_tcgen05,
                                                    &gpu::kernels::gemm_mxfp4_tcgen05, &gpu::kernels::gemm_simt};

}  // namespace

inline std::span<const gpu::gemm_kernel* const> ufp4::gpu::gemm_kernels() { return kernels_here; }

namespace {

gpu::device_facts device() {
  gpu::device_facts facts;
  REQUIRE(gpu::facts(facts) == gpu::success);
  return facts;
}
template <class F>
constexpr const gpu::gemm_kernel& kernel_of() {
  if constexpr (F::block.cols == 16)
    return gpu::kernels::gemm_nvfp4_tcgen05;
  else
    return gpu::kernels::gemm_mxfp4_tcgen05;
}

/// C of a kernel; elements of C before the call: see old_values.
std::vector<float> old_values(std::size_t n) {
  std::vector<float> old;
  for (std::size_t i = 0; i < n; ++i) old.push_back(static_cast<float>(i % 101) - 50.0f);
  return old;
}
template <class A, class B>
std::vector<float> multiply(const quantized_matrix<A>& a, const quantized_matrix<B>& b, const gemm_options& options,
                            int processors) {
  const gpu::quantized_matrix<A> left{a.view()};
  const gpu::quantized_matrix<B> right{b.view()};
  const std::size_t m = a.rows(), n = b.rows();
  const gpu::buffer<float> c{std::span<const float>(old_values(m * n))};
  const auto sink = detail::sink_of(matrix_view<float>{c.data(), m, n});
  const gpu::gemm_job job = gpu::detail::call_of(left.view(), right.view(), sink, options, {}).job;
  gpu::device_facts facts = device();
  if (processors != 0) facts.processors = processors;
  REQUIRE(kernel_of<A>().takes(job, facts));
  REQUIRE(kernel_of<A>().run(job, facts, {}, gpu::stream{}) == gpu::success);
  std::vector<float> got(m * n);
  c.download(got);
  return got;
}

/// Scales of 1, 2 and 4: every sum is exact, so C has the host's bits.
template <class A, class B = A>
void check_exact(std::size_t m, std::size_t n, std::size_t k, int processors = 0) {
  CAPTURE(m, n, k, processors);
  std::mt19937_64 gen{m * 1000 + n + k};
  auto a = model::random_quantized<A>(gen, m, k);
  auto b = model::random_quantized<B>(gen, n, k);
  for (auto& s : a.scales()) s = typename A::scale_type(static_cast<float>(1u << gen() % 3));
  for (auto& s : b.scales()) s = typename B::scale_type(static_cast<float>(1u << gen() % 3));
  const gemm_options options{.alpha = 0.5f, .beta = 2.0f};
  std::vector<float> want = old_values(m * n);
  quantized_gemm(cpu::context{.threads = 1}, a, b, matrix_view<float>{want.data(), m, n}, options);
  const std::vector<float> got = multiply(a, b, options, processors);
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i / n, i % n, got[i], want[i]);
    if (std::memcmp(&got[i], &want[i], sizeof(float)) != 0) REQUIRE(false);
  }
}

/// Ordinary scales and tensor scales; two scales are NaN, so a row and a column of C are.
template <class F>
void check_bound(std::size_t m, std::size_t n, std::size_t k, int processors = 0) {
  CAPTURE(m, n, k, processors);
  std::mt19937_64 gen{m * 1000 + n + k};
  auto a = model::random_quantized<F>(gen, m, k, model::scales::ordinary, 0x1.8p-7f);
  auto b = model::random_quantized<F>(gen, n, k, model::scales::ordinary, 0x1.333334p+3f);
  a.scales()[a.scales().size() / 2] = typename F::scale_type(NAN);
  b.scales()[b.scales().size() - 1] = typename F::scale_type(NAN);
  const gemm_options options{.alpha = -2.5f, .beta = 1.5f};
  REQUIRE(support::product_bound(a, b).broken_by(multiply(a, b, options, processors), options, old_values(m * n)) ==
          "");
}

}  // namespace

/// Counts the instructions of a product: a line, which compiled.sh compares with its budget.
template <class F>
void count_product(const char* name, std::size_t m, std::size_t n, int processors) {
  const std::size_t k = 1024;
  std::mt19937_64 gen{1};
  const auto a = model::random_quantized<F>(gen, m, k), b = model::random_quantized<F>(gen, n, k);
  (void)multiply(a, b, {}, processors);  // the first call multiplies a tile
  const ptx::executed before = ptx::executed_until_now();
  (void)multiply(a, b, {}, processors);
  const ptx::executed after = ptx::executed_until_now();
  const auto instructions = static_cast<double>(after.instructions - before.instructions);
  std::printf("count sm_%d %s %.2f %.6f %llu\n", device().architecture, name,
              instructions / static_cast<double>(after.warps - before.warps),
              instructions / static_cast<double>(m * n * k),
              static_cast<unsigned long long>(after.products - before.products));
}

/// 16 rows share a scale.
using square_blocks = block_format<fp4<E2M1>, e4m3, ufp4::square(16), float>;

// Tiles of 128 x 64 where those of 128 x 128 are at most half of the processors, of 256 x 256 where they are more.

TEST_CASE("the products of tcgen05 in one thread block have the host's bits where sums are exact") {
  check_exact<nvfp4>(131, 71, 416);
  check_exact<mxfp4>(131, 71, 416, 5);
  check_exact<nvfp4>(100, 300, 2016, 3);
  check_exact<mxfp4>(260, 130, 1472, 6);
  check_exact<nvfp4>(5, 400, 1504, 2);
  check_exact<mxfp4>(100, 700, 1472, 1);
}

TEST_CASE("the products of tcgen05 in pairs of thread blocks have the host's bits where sums are exact") {
  check_exact<nvfp4>(131, 300, 416, 4);
  check_exact<mxfp4>(260, 200, 1504, 2);
  check_exact<square_blocks>(270, 150, 512, 2);
}

TEST_CASE("the products of tcgen05 keep the bound of fast with ordinary scales") {
  check_bound<nvfp4>(131, 71, 416);
  check_bound<mxfp4>(21, 150, 96);
  check_bound<nvfp4>(200, 271, 416, 2);
  check_bound<mxfp4>(300, 150, 448, 2);
}

TEST_CASE("instructions of the products of tcgen05") {
  count_product<nvfp4>("quantized_gemm/nvfp4/fast/64", 64, 256, 4);
  count_product<nvfp4>("quantized_gemm/nvfp4/fast/128", 128, 256, 2);
  count_product<nvfp4>("quantized_gemm/nvfp4/fast/512", 512, 256, 2);
}
