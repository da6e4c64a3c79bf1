// ufp4 - benches: what this machine can do at most, measured by loops that do nothing else.
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
  bool (*present)();     ///< what the tier does not imply; null: nothing
  double work;           ///< operations a round
  void (*run)(long rounds);
};

/// Every loop written for this architecture, also those that the machine lacks.
std::span<const compute_limit> compute_limits();
/// Does this machine have it?
bool present(const compute_limit& limit);

enum class traffic {
  read,
  write,   ///< ordinary stores
  update,  ///< read and written in place; counted once
  copy,    ///< one loop of loads and stores; counted once
};
const char* name(traffic kind);

/// How long to look: a bench asks before every repetition, the table of limits once.
struct effort {
  int samples;
  double seconds;  ///< a sample
};
inline constexpr effort glance{5, 0.003}, long_look{15, 0.02};

/// The best rate seen so far in this process, this look included, in 1e9 operations a second over all threads.
double peak(const compute_limit& limit, int threads, effort look = glance);
/// The same by name; 0 where the machine lacks it.
double peak(const char* name, int threads, effort look = glance);
/// The same for memory, in GB/s over all threads: `bytes` in all (for a copy: of each side), each thread has its share.
double bandwidth(traffic kind, std::size_t bytes, int threads, effort look = glance);

/// In bytes, as the first core sees them.
struct cache_sizes {
  std::size_t l1, l2, l3;
};
cache_sizes caches();
int cores();

}  // namespace bench
