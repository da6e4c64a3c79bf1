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

/// Ordinary scales and tensor scales.
template <class F>
void check_bound(std::size_t m, std::size_t n, std::size_t k, int processors = 0) {
  CAPTURE(m, n, k, processors);
  std::mt19937_64 gen{m * 1000 + n + k};
  const auto a = model::random_quantized<F>(gen, m, k, model::scales::ordinary, 0x1.8p-7f);
  const auto b = model::random_quantized<F>(gen, n, k, model::scales::ordinary, 0x1.333334p+3f);
  const gemm_options options{.alpha = -2.5f, .beta = 1.5f};
  REQUIRE(support::product_bound(a, b).broken_by(multiply(a, b, options, processors), options, old_values(m * n)) ==
          "");
}

}  // namespace

TEST_CASE("the products of tcgen05 have the host's bits where sums are exact, whatever M, N and K are") {
  check_exact<nvfp4>(131, 71, 416);
  check_exact<mxfp4>(131, 71, 416);
  check_exact<nvfp4>(5, 200, 1472);
  check_exact<mxfp4>(260, 300, 1504);
}

TEST_CASE("the products of tcgen05 keep the bound of fast with scales of all sizes") {
  check_bound<nvfp4>(131, 71, 416);
  check_bound<mxfp4>(21, 150, 96);
}
