// ufp4 - benches: the search for the best rate of a loop, on one thread or several.
// SPDX-License-Identifier: Apache-2.0
#include "limits.hpp"

#include "clock.hpp"
#include "huge_buffer.hpp"
#include "memory_loops.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <ufp4/cpu/detect.hpp>
#include <vector>

namespace bench {
namespace {

/// Seconds for run(thread, rounds) on each of several threads at one time.
template <class Run>
double time_together(int threads, long rounds, const Run& run) {
  if (threads == 1) {
    const stopwatch watch(1);
    run(0, rounds);
    return watch.seconds();
  }
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::jthread> helpers;
  for (int t = 1; t < threads; ++t)
    helpers.emplace_back([&, t] {
      ++ready;
      while (!go) std::this_thread::yield();
      run(t, rounds);
    });
  while (ready != threads - 1) std::this_thread::yield();
  const stopwatch watch(threads);
  go = true;
  run(0, rounds);
  helpers.clear();
  return watch.seconds();
}

/// The best of several samples, in rounds a second. The number of rounds of a sample is determined on one thread in its
/// processor time: the wall clock would include time that other programs use the core.
template <class Run>
double best_rate(int threads, effort duration, const Run& run) {
  long rounds = 1;
  time_together(1, rounds, run);  // makes operands and warms caches
  for (double seconds = time_together(1, rounds, run); seconds < duration.seconds / 2;) {
    const double more = duration.seconds / std::max(seconds, duration.seconds / 8);
    rounds = static_cast<long>(static_cast<double>(rounds) * more) + 1;
    seconds = time_together(1, rounds, run);
  }
  double best = 0;
  for (int i = 0; i < duration.samples; ++i)
    best = std::max(best, static_cast<double>(rounds) / time_together(threads, rounds, run));
  return best;
}

/// Memory for the loops of memory_loops.hpp, as large as the largest request so far.
unsigned char* arena(std::size_t bytes) {
  static huge_buffer memory;
  if (memory.size() < bytes) {
    memory = huge_buffer();
    memory = huge_buffer(bytes);
  }
  return memory.as<>();
}

const memory_loops& loops_of_machine() {
  for (const memory_loops* loops : {&avx512_loops(), &avx2_loops()})
    if (loops->read != nullptr && ufp4::cpu::available().has(loops->needs)) return *loops;
  return baseline_loops();
}

/// The size of the data or unified cache of that level that the first core uses, or `otherwise`. From sysfs: sysconf
/// returns the sum of the third-level caches of a socket.
std::size_t cache_size(int level, std::size_t otherwise) {
  for (int i = 0; i < 8; ++i) {
    const std::string place = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + '/';
    int found = 0;
    std::size_t kib = 0;
    std::string type;
    std::ifstream(place + "level") >> found;
    std::ifstream(place + "type") >> type;
    if (found == level && type != "Instruction" && std::ifstream(place + "size") >> kib) return kib << 10;
  }
  return otherwise;
}

}  // namespace

bool present(const compute_limit& limit) {
  return ufp4::cpu::available().has(limit.needs) && (limit.present == nullptr || limit.present());
}

double peak(const compute_limit& limit, int threads, effort duration) {
  static std::map<std::pair<std::string, int>, double> seen;
  if (!present(limit)) return 0;
  double& best = seen[{limit.name, threads}];
  const double rate = best_rate(threads, duration, [&](int, long rounds) { limit.run(rounds); });
  best = std::max(best, rate * limit.work * threads / 1e9);
  return best;
}

double peak(const char* name, int threads, effort duration) {
  for (const compute_limit& limit : compute_limits())
    if (std::strcmp(limit.name, name) == 0) return peak(limit, threads, duration);
  return 0;
}

double bandwidth(traffic kind, std::size_t bytes, int threads, effort duration) {
  static std::map<std::tuple<traffic, std::size_t, int>, double> seen;
  const memory_loops& loops = loops_of_machine();
  const std::size_t share = bytes / static_cast<std::size_t>(threads) / memory_loops::step * memory_loops::step;
  const std::size_t taken = kind == traffic::copy ? 2 * share : share;
  unsigned char* memory = arena(taken * static_cast<std::size_t>(threads));
  const double rate = best_rate(threads, duration, [&](int thread, long rounds) {
    unsigned char* mine = memory + taken * static_cast<std::size_t>(thread);
    for (long i = 0; i < rounds; ++i) {
      switch (kind) {
        case traffic::read: loops.read(mine, share); break;
        case traffic::write: loops.write(mine, share); break;
        case traffic::update: loops.update(mine, share); break;
        case traffic::copy: loops.copy(mine, mine + share, share); break;
      }
    }
  });
  double& best = seen[{kind, bytes, threads}];
  best = std::max(best, rate * static_cast<double>(share) * threads / 1e9);
  return best;
}

const char* name(traffic kind) {
  switch (kind) {
    case traffic::read: return "read";
    case traffic::write: return "write";
    case traffic::update: return "read and write in place";
    case traffic::copy: return "copy";
  }
  return "?";
}

cache_sizes caches() {
  static const cache_sizes found{cache_size(1, 32 << 10), cache_size(2, 1 << 20), cache_size(3, 32 << 20)};
  return found;
}

int cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

}  // namespace bench
