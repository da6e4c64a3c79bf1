// ufp4 - products of one kernel of a table, on compiled code: the host's bits where sums are exact, the bound of fast
// elsewhere, and lines with the numbers of instructions.
// SPDX-License-Identifier: Apache-2.0
//
// Before this header a program includes its kernels and defines the table, gpu::gemm_kernels().
#pragma once

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
#include <span>
#include <string>
#include <vector>

namespace support {

using namespace ufp4;

inline gpu::device_facts device() {
  gpu::device_facts facts;
  REQUIRE(gpu::facts(facts) == gpu::success);
  return facts;
}

/// C of a kernel. `shift`: bytes by which the codes of both operands are not aligned to 256.
template <class A, class B>
std::vector<float> multiply(const gpu::gemm_kernel& kernel, const quantized_matrix<A>& a, const quantized_matrix<B>& b,
                            const gemm_options& options, int processors, std::size_t shift = 0) {
  const gpu::quantized_matrix<A> left{a.view()};
  const gpu::quantized_matrix<B> right{b.view()};
  const std::size_t m = a.rows(), n = b.rows();
  const gpu::buffer<float> c{std::span<const float>(old_values(m * n))};
  const auto sink = detail::sink_of(matrix_view<float>{c.data(), m, n});
  gpu::gemm_job job = gpu::detail::call_of(left.view(), right.view(), sink, options, {}).job;
  const auto shifted = [&](const auto& codes) {
    std::vector<std::uint8_t> all(shift + codes.size());
    std::memcpy(all.data() + shift, codes.data(), codes.size());
    return gpu::buffer<std::uint8_t>{std::span<const std::uint8_t>(all)};
  };
  const auto left_codes = shifted(a.codes()), right_codes = shifted(b.codes());
  job.left.codes = left_codes.data() + shift, job.right.codes = right_codes.data() + shift;
  gpu::device_facts facts = device();
  if (processors != 0) facts.processors = processors;
  REQUIRE(kernel.takes(job, facts));
  REQUIRE(kernel.run(job, facts, {}, gpu::stream{}) == gpu::success);
  std::vector<float> got(m * n);
  c.download(got);
  return got;
}

/// Scales of 1, 2 and 4: every sum is exact, so C has the host's bits.
template <class A, class B>
void check_exact(const gpu::gemm_kernel& kernel, std::size_t m, std::size_t n, std::size_t k, int processors = 0,
                 std::size_t shift = 0) {
  CAPTURE(kernel.name, m, n, k, processors, shift);
  std::mt19937_64 gen{m * 1000 + n + k};
  auto a = model::random_quantized<A>(gen, m, k);
  auto b = model::random_quantized<B>(gen, n, k);
  for (auto& s : a.scales()) s = typename A::scale_type(static_cast<float>(1u << gen() % 3));
  for (auto& s : b.scales()) s = typename B::scale_type(static_cast<float>(1u << gen() % 3));
  const gemm_options options{.alpha = 0.5f, .beta = 2.0f};
  std::vector<float> want = old_values(m * n);
  quantized_gemm(a, b, matrix_view<float>{want.data(), m, n}, options, cpu::context{.threads = 1});
  const std::vector<float> got = multiply(kernel, a, b, options, processors, shift);
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i / n, i % n, got[i], want[i]);
    if (std::memcmp(&got[i], &want[i], sizeof(float)) != 0) REQUIRE(false);
  }
}

/// Ordinary scales and tensor scales; two scales are NaN, so a row and a column of C are.
template <class A, class B>
void check_bound(const gpu::gemm_kernel& kernel, std::size_t m, std::size_t n, std::size_t k, int processors = 0) {
  CAPTURE(kernel.name, m, n, k, processors);
  std::mt19937_64 gen{m * 1000 + n + k};
  auto a = model::random_quantized<A>(gen, m, k, model::scales::ordinary, 0x1.8p-7f);
  auto b = model::random_quantized<B>(gen, n, k, model::scales::ordinary, 0x1.333334p+3f);
  a.scales()[a.scales().size() / 2] = typename A::scale_type(NAN);
  b.scales()[b.scales().size() - 1] = typename B::scale_type(NAN);
  const gemm_options options{.alpha = -2.5f, .beta = 1.5f};
  REQUIRE(product_bound(a, b).broken_by(multiply(kernel, a, b, options, processors), options, old_values(m * n)) == "");
}

/// Counts the instructions of a product: a line, which compiled.sh compares with its budget.
template <class F>
void count_product(const gpu::gemm_kernel& kernel, const char* name, std::size_t m, std::size_t n, int processors) {
  const std::size_t k = 1024;
  std::mt19937_64 gen{1};
  const auto a = model::random_quantized<F>(gen, m, k), b = model::random_quantized<F>(gen, n, k);
  (void)multiply(kernel, a, b, {}, processors);  // an experimental kernel multiplies a tile first
  const ptx::executed before = ptx::executed_until_now();
  (void)multiply(kernel, a, b, {}, processors);
  const ptx::executed after = ptx::executed_until_now();
  const auto instructions = static_cast<double>(after.instructions - before.instructions);
  std::printf("count sm_%d %s %.2f %.6f %llu\n", device().architecture, name,
              instructions / static_cast<double>(after.warps - before.warps),
              instructions / static_cast<double>(m * n * k),
              static_cast<unsigned long long>(after.products - before.products));
}

}  // namespace support
