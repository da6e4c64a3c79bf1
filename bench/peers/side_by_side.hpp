// ufp4 - benches against other libraries: times calls of theirs and of ours in turn, in one process, on one thread.
// SPDX-License-Identifier: Apache-2.0
//
// A library has a program of one file, whose main calls compare() for each of products(argc, argv). It prints lines of
//
//   library and kernel | case | ours | our GFLOP/s | their GFLOP/s | ours divided by theirs
//
// With the argument --smoke, for tests, it runs the first case only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <ufp4/ufp4.hpp>
#include <vector>

namespace peers {

inline constexpr std::size_t n = 4096, k = 4096;

/// C[m,n] = A[m,k] B[n,k]^T. `from_memory`: every call has other weights, together more than the caches hold.
struct product {
  std::size_t m;
  bool from_memory;
  std::string name() const { return "M = " + std::to_string(m) + (from_memory ? ", memory" : m == 1 ? ", cache" : ""); }
};
/// The cases that a program's arguments ask for.
inline std::span<const product> products(int argc, char** argv) {
  static constexpr product all[] = {{1, false}, {1, true}, {4, false}, {16, false}, {128, false}, {512, false}};
  const bool smoke = argc > 1 && std::strcmp(argv[1], "--smoke") == 0;
  return std::span(all).first(smoke ? 1 : std::size(all));
}

/// How many copies of weights of so many bytes are more than the caches hold.
inline std::size_t copies(const product& p, std::size_t bytes) {
  constexpr std::size_t all = std::size_t{160} << 20;
  return p.from_memory ? all / bytes + 2 : 1;
}

/// One call with the weights of this number.
using call = std::function<void(std::size_t)>;

/// The best seconds a call, over one sample of at least 20 ms.
inline double sample(const call& f, std::size_t weights, std::size_t& next) {
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  std::size_t calls = 0;
  double seconds = 0;
  do {
    f(next++ % weights);
    ++calls;
    seconds = std::chrono::duration<double>(clock::now() - begin).count();
  } while (seconds < 0.02);
  return seconds / static_cast<double>(calls);
}

struct side {
  std::string name;
  std::size_t weights;  ///< numbers below this
  call run;
};
/// Nine samples of each in turn; the best of each counts.
inline void compare(const product& p, const side& ours, const side& theirs) {
  double best[2] = {1e30, 1e30};
  std::size_t next[2] = {0, 0};
  for (int i = 0; i < 9; ++i)
    for (std::size_t who = 0; who < 2; ++who) {
      const side& s = who == 0 ? ours : theirs;
      const double seconds = sample(s.run, s.weights, next[who]);
      best[who] = seconds < best[who] ? seconds : best[who];
    }
  const double work = 2e-9 * static_cast<double>(p.m * n * k);
  std::printf("%s | %s | %s | %.1f | %.1f | %.2f\n", theirs.name.c_str(), p.name().c_str(), ours.name.c_str(),
              work / best[0], work / best[1], best[1] / best[0]);
  std::fflush(stdout);
}

inline std::vector<float> normal_numbers(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (float& v : x) v = normal(generator);
  return x;
}
/// The weights of every program.
inline const std::vector<float>& weights() {
  static const std::vector<float> w = normal_numbers(n * k, 1);
  return w;
}

/// Our product of activations of type Left (a block format, or ufp4::bf16 for rows that are not quantized).
template <class Left, class Right>
side ours(const product& p, const std::string& name) {
  const std::vector<float> x = normal_numbers(p.m * k, 2);
  const auto q = ufp4::quantize<Right>(ufp4::matrix_view<const float>{weights().data(), n, k});
  auto b = std::make_shared<std::vector<ufp4::quantized_matrix<Right>>>(copies(p, n * k * 9 / 16), q);
  auto y = std::make_shared<std::vector<float>>(p.m * n);
  const auto run = [p, b, y](const auto& a, std::size_t i) {
    ufp4::quantized_gemm(a, (*b)[i], ufp4::matrix_view<float>{y->data(), p.m, n}, ufp4::cpu::context{.threads = 1});
  };
  if constexpr (std::is_same_v<Left, ufp4::bf16>) {
    auto a = std::make_shared<std::vector<ufp4::bf16>>(x.begin(), x.end());
    return {name, b->size(), [=](std::size_t i) { run(ufp4::matrix_view<const ufp4::bf16>{a->data(), p.m, k}, i); }};
  } else {
    auto a = std::make_shared<ufp4::quantized_matrix<Left>>(
        ufp4::quantize<Left>(ufp4::matrix_view<const float>{x.data(), p.m, k}));
    return {name, b->size(), [=](std::size_t i) { run(*a, i); }};
  }
}

}  // namespace peers
