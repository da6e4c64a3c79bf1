// ufp4 - the code of docs/cpu.md, compiled.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <thread>
#include <vector>

#if __has_include(<tbb/parallel_for.h>) && defined(UFP4_SNIPPETS_TBB)
#include <tbb/parallel_for.h>
#include <algorithm>
#include <execution>
#include <numeric>
#endif

using namespace ufp4;

namespace {

/// The least that a pool has: here every job gets a thread of its own, joined at the end.
class thread_pool {
 public:
  ~thread_pool() {
    for (std::thread& thread : threads_) thread.join();
  }
  std::size_t size() const { return 3; }
  template <class Job>
  void submit(const Job& job) {
    threads_.emplace_back(job);
  }

 private:
  std::vector<std::thread> threads_;
};

#if __has_include(<tbb/parallel_for.h>) && defined(UFP4_SNIPPETS_TBB)
// oneTBB; in an arena, arena.execute([&] { ... }) around it
struct tbb_executor {
  void operator()(std::size_t n, cpu::task_ref task) const { tbb::parallel_for(std::size_t{0}, n, task); }
};

// the standard library's parallel algorithms
struct standard_executor {
  void operator()(std::size_t n, cpu::task_ref task) const {
    std::vector<std::size_t> indices(n);  // over std::views::iota libstdc++ runs the tasks one after the other
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    std::for_each(std::execution::par, indices.begin(), indices.end(), task);
  }
};
#endif

// threads of your own: any pool with a function that adds a job to its queue
struct own_executor {
  thread_pool& pool;
  void operator()(std::size_t n, cpu::task_ref task) const {
    std::atomic<std::size_t> next{0};
    std::latch ended(static_cast<std::ptrdiff_t>(pool.size()));
    for (std::size_t w = 0; w < pool.size(); ++w)
      pool.submit([&] {
        for (std::size_t i = next++; i < n; i = next++) task(i);
        ended.count_down();
      });
    ended.wait();
  }
};

}  // namespace

int main() {
  std::vector<float> xs(512 * 1024, 1.0f), ys(512 * 512);
  matrix_view<const float> x{xs.data(), 512, 1024};
  matrix_view<float> y{ys.data(), 512, 512};
  auto qx = quantize<nvfp4>(x);

  // OpenMP; compile with -fopenmp
  auto openmp = [](std::size_t n, cpu::task_ref task) {
#pragma omp parallel for schedule(dynamic)
    for (std::size_t i = 0; i < n; ++i) task(i);
  };
  quantized_gemm(qx, qx, y, cpu::context{.executor = openmp});

  const std::vector<float> first = ys;
  thread_pool pool;
  own_executor own{pool};
  const auto same = [&](const cpu::context& ctx) {
    quantized_gemm(qx, qx, y, ctx);
    if (ys != first) std::abort();
  };
  same(cpu::context{.executor = own});
#if __has_include(<tbb/parallel_for.h>) && defined(UFP4_SNIPPETS_TBB)
  tbb_executor tbb;
  standard_executor standard;
  same(cpu::context{.executor = tbb});
  same(cpu::context{.executor = standard});
#endif

  cpu::context ctx{.threads = 2, .isa = cpu::isa::scalar};
  quantized_gemm(qx, qx, y, ctx);

  std::puts(cpu::explain(qx, qx, y).text().c_str());
  std::puts(cpu::explain<nvfp4>(x, random_hadamard<16>{1}, stochastic{2}).text().c_str());
  std::puts(cpu::explain(qx, y).text().c_str());

  if (cpu::available().has(cpu::isa::avx512)) std::puts("AVX-512 with VNNI");
}
