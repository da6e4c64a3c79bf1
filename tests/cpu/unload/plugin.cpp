// ufp4 - a shared library that starts the thread pool's threads; unload.sh loads and unloads it.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cpu/parallel.hpp>

extern "C" [[gnu::visibility("default")]] std::size_t tasks_run(std::size_t count) {
  std::size_t ran = 0;
  ufp4::cpu::detail::parallel_for(ufp4::cpu::context{.threads = 4}, count,
                                  [&](std::size_t) { __atomic_fetch_add(&ran, 1, __ATOMIC_RELAXED); });
  return ran;
}
