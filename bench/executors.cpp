// ufp4 - bench: the library's threads beside OpenMP, oneTBB and the standard library's algorithms as executors.
// SPDX-License-Identifier: Apache-2.0
//
// Debian: apt-get install libtbb-dev, then (about a minute to compile)
//
//   g++ -std=c++20 -O3 -DNDEBUG -fopenmp -I include bench/executors.cpp -o executors -ltbb && ./executors
//
// Calls of each executor in turn; the best of nine samples of 20 ms or more, as microseconds of a call. The adapters
// are those of docs/cpu.md.
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <execution>
#include <numeric>

#include "peers/side_by_side.hpp"

namespace {

using ufp4::cpu::task_ref;

struct openmp_executor {
  void operator()(std::size_t n, cpu::task_ref task) const {
#pragma omp parallel for schedule(dynamic)
    for (std::size_t i = 0; i < n; ++i) task(i);
  }
};
struct tbb_executor {
  void operator()(std::size_t n, cpu::task_ref task) const { tbb::parallel_for(std::size_t{0}, n, task); }
};
struct standard_executor {
  void operator()(std::size_t n, cpu::task_ref task) const {
    std::vector<std::size_t> indices(n);  // over std::views::iota libstdc++ runs the tasks one after the other
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    std::for_each(std::execution::par, indices.begin(), indices.end(), task);
  }
};

/// call(context, number of the weights) on one thread, on the library's threads and with each executor.
template <class Call>
void add_row(const char* name, std::size_t weights, const Call& call) {
  static openmp_executor openmp;
  static tbb_executor tbb;
  static standard_executor standard;
  const ufp4::cpu::context contexts[] = {
      {.threads = 1}, {}, {.executor = openmp}, {.executor = tbb}, {.executor = standard}};
  double best[std::size(contexts)];
  std::size_t next[std::size(contexts)] = {};
  for (double& seconds : best) seconds = 1e30;
  for (int sample = 0; sample < 9; ++sample)
    for (std::size_t c = 0; c < std::size(contexts); ++c) {
      const auto run = [&](std::size_t i) { call(contexts[c], i); };
      best[c] = std::min(best[c], peers::sample(run, weights, next[c]));
    }
  std::printf("| %s |", name);
  for (const double seconds : best) std::printf(" %.1f |", 1e6 * seconds);
  std::printf("\n");
}

void add_products(const char* name, const peers::product& p) {
  using format = ufp4::nvfp4;
  const std::vector<float> x = peers::normal_numbers(p.m * peers::k, 2);
  const auto a = ufp4::quantize<format>(ufp4::matrix_view<const float>{x.data(), p.m, peers::k});
  const std::vector<ufp4::quantized_matrix<format>> b(
      peers::copies(p, peers::n * peers::k * 9 / 16),
      ufp4::quantize<format>(ufp4::matrix_view<const float>{peers::weights().data(), peers::n, peers::k}));
  std::vector<float> y(p.m * peers::n);
  add_row(name, b.size(), [&](const ufp4::cpu::context& ctx, std::size_t i) {
    ufp4::quantized_gemm(a, b[i], ufp4::matrix_view<float>{y.data(), p.m, peers::n}, ctx);
  });
}
void add_quantize(const char* name, std::size_t rows) {
  auto q = ufp4::quantize<ufp4::mxfp4>(ufp4::matrix_view<const float>{peers::weights().data(), rows, peers::k});
  add_row(name, 1, [&](const ufp4::cpu::context& ctx, std::size_t) {
    ufp4::quantize_into(ufp4::matrix_view<const float>{peers::weights().data(), rows, peers::k}, q, ctx);
  });
}

}  // namespace

int main() {
  std::printf(
      "| microseconds of a call | one thread | the library's threads | OpenMP | oneTBB | std::execution::par |\n");
  std::printf("|---|---:|---:|---:|---:|---:|\n");
  add_products("nvfp4, M = 1, L3", {1, false});
  add_products("nvfp4, M = 1, memory", {1, true});
  add_products("nvfp4, M = 16", {16, false});
  add_products("nvfp4, M = 512", {512, false});
  add_quantize("quantize mxfp4, 512 KB", 32);
  add_quantize("quantize mxfp4, 64 MB", 4096);
}
