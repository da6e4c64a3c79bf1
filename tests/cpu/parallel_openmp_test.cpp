// ufp4 - parallel in a program that is compiled with OpenMP: without an executor it makes no difference, and OpenMP as
// an executor gives the same bytes.
// SPDX-License-Identifier: Apache-2.0
// ctest: openmp
#include "cpu/parallel_threads_test.cpp"
#include "support/skip.hpp"

TEST_CASE("OpenMP as an executor calls every index once and gives the same bytes") {
#if defined(_OPENMP)
  const auto openmp = [](std::size_t n, cpu::task_ref task) {
#pragma omp parallel for schedule(dynamic)
    for (std::size_t i = 0; i < n; ++i) task(i);
  };
  const cpu::context ctx{.executor = openmp};
  CHECK(calls_on(ctx, 1000) == std::vector<int>(1000, 1));
  std::vector<float> values(200 * 512);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 89) - 44;
  const matrix_view<const float> x{values.data(), 200, 512};
  CHECK(quantize<nvfp4>(x, ctx) == quantize<nvfp4>(x, cpu::context{.threads = 1}));
#else
  support::skip("this compiler has no OpenMP");
#endif
}
