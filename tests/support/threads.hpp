// ufp4 - executors, numbers of threads and instruction sets for tests that results do not depend on them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <thread>
#include <ufp4/cpu/context.hpp>
#include <ufp4/cpu/detect.hpp>
#include <vector>

namespace support {

/// Runs the last task first, all on the caller's thread.
struct backwards {
  std::size_t tasks = 0;  ///< the number of tasks so far
  void operator()(std::size_t n, ufp4::cpu::task_ref task) {
    tasks += n;
    while (n-- > 0) task(n);
  }
};

/// Runs task i on thread i mod `threads`, so that neighbouring tasks run on different threads.
struct dealt {
  std::size_t threads = 3;
  void operator()(std::size_t n, ufp4::cpu::task_ref task) {
    std::vector<std::thread> pool;
    for (std::size_t t = 0; t < threads; ++t)
      pool.emplace_back([=, this] {
        for (std::size_t i = t; i < n; i += threads) task(i);
      });
    for (std::thread& thread : pool) thread.join();
  }
};

static_assert(ufp4::cpu::executor<backwards> && ufp4::cpu::executor<dealt>);

/// Every tier of this machine, scalar first.
inline std::vector<ufp4::cpu::isa> runnable_isas() {
  std::vector<ufp4::cpu::isa> found;
  for (const ufp4::cpu::isa i : ufp4::cpu::all_isas)
    if (ufp4::cpu::available().has(i)) found.push_back(i);
  return found;
}

/// body(context) on one, two, three and seven threads, on every tier, and on both executors above.
template <class Body>
void on_every_context(const Body& body) {
  for (const ufp4::cpu::isa tier : runnable_isas())
    for (const int threads : {1, 2, 3, 7}) body(ufp4::cpu::context{.threads = threads, .isa = tier});
  backwards one;
  dealt many;
  body(ufp4::cpu::context{.executor = one});
  body(ufp4::cpu::context{.executor = many});
}

}  // namespace support
