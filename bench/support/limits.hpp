// ufp4 - benches: the maximum rates of this machine, measured by loops that do nothing else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <ufp4/cpu/isa.hpp>

namespace bench {

/// A loop of one kind of instruction. `run(rounds)` makes rounds * work operations; a multiply and an add are two.
struct compute_limit {
  const char* name;
  const char* unit;      ///< GFLOP/s or GOP/s
  ufp4::cpu::isa needs;  ///< the lowest tier that has the instruction
  bool (*present)();     ///< a feature that the tier does not imply; null: none
  double work;           ///< operations a round
  void (*run)(long rounds);
};

/// Every loop written for this architecture, also those that the machine lacks.
std::span<const compute_limit> compute_limits();
/// Whether this machine has the instruction.
bool present(const compute_limit& limit);

enum class traffic {
  read,
  write,   ///< ordinary stores
  update,  ///< read and written in place; counted once
  copy,    ///< one loop of loads and stores; counted once
};
const char* name(traffic kind);

/// The duration of a measurement: a bench measures before every repetition, the table of limits once.
struct effort {
  int samples;
  double seconds;  ///< a sample
};
inline constexpr effort quick_measurement{5, 0.003}, long_measurement{15, 0.02};

/// The best rate measured in this process so far, including this measurement, in 1e9 operations a second over all
/// threads.
double peak(const compute_limit& limit, int threads, effort duration = quick_measurement);
/// The same by name; 0 if the machine lacks it.
double peak(const char* name, int threads, effort duration = quick_measurement);
/// The same for memory, in GB/s over all threads: `bytes` in all (for a copy: of each side), each thread has its share.
double bandwidth(traffic kind, std::size_t bytes, int threads, effort duration = quick_measurement);

/// In bytes, of the caches of the first core.
struct cache_sizes {
  std::size_t l1, l2, l3;
};
cache_sizes caches();
int cores();

}  // namespace bench
