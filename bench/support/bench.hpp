// ufp4 - benches: what a row of a bench is, and the main function that all of them share.
// SPDX-License-Identifier: Apache-2.0
//
// A row is named operation/format/isa/shape/threads and reports its rate, the limit of the machine that it runs against,
// measured in the same process just before, and the part of it that was reached.
//
// | argument            | does                                                                             |
// |---------------------|----------------------------------------------------------------------------------|
// | --quick             | fewer rows, shorter                                                              |
// | --benchmark_...     | Google Benchmark's own; repetitions and the least time of one have defaults here |
#pragma once

#include "machine.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <ufp4/cpu/isa.hpp>
#include <vector>

namespace bench {

struct row {
  std::string operation, format, isa, shape;
  int threads = 1;
  const char* unit = "GB/s";
  double work = 0;                ///< of one call, in 1e9 units
  std::string kernel;             ///< what runs, for the reader
  std::string bound_name;         ///< what the bound is
  std::function<double()> bound;  ///< measures it, in the row's unit; empty: there is none to name
  /// Makes operands and gives the call to be timed; asked when the row is run, not before.
  std::function<std::function<void()>()> prepare;
};

struct settings {
  bool quick = false;
};

/// Adds a row to this process's bench.
void add(row r);

/// The main function of a bench: rows, then what the arguments choose of them.
int run(int argc, char** argv, void (*add_rows)(const settings&));

/// A tier, and the kernel it runs.
struct tier_kernel {
  ufp4::cpu::isa tier;
  std::string kernel;
};
/// The tiers of this machine that have a kernel of their own for a call, by explain_call(tier); scalar first.
template <class Explain>
std::vector<tier_kernel> tiers_of(const Explain& explain_call) {
  std::vector<tier_kernel> found;
  for (const ufp4::cpu::isa tier : tiers()) {
    const auto explanation = explain_call(tier);
    if (explanation.isa == tier) found.push_back({tier, explanation.kernel});
  }
  return found;
}
/// For what stands beside ours, compiled for this machine.
inline std::vector<tier_kernel> native(std::string what) { return {{ufp4::cpu::isa::automatic, std::move(what)}}; }
/// Its name in a row.
inline const char* isa_name(const tier_kernel& t) {
  return t.tier == ufp4::cpu::isa::automatic ? "native" : ufp4::cpu::name(t.tier);
}

/// Where a row is to be measured.
struct place {
  tier_kernel on;
  std::size_t bytes;
  int threads;
};
/// The usual ones for work on `bytes` bytes, L2 to DRAM: every size for every tier on one thread, the largest on all
/// threads of the best; the smallest alone for scalar; one thread for what is not ours. Quick: the ends of the sizes,
/// the best tier.
std::vector<place> places(const settings& s, const std::vector<tier_kernel>& kernels);

/// A matrix of `elements` elements, a power of two: nearly square, and wide enough for a transform of 256.
struct shape_of_size {
  std::size_t rows, cols;
};
shape_of_size shape_for(std::size_t elements);

/// What the compiler must not think unused.
inline void keep(const void* p) { asm volatile("" ::"g"(p) : "memory"); }

}  // namespace bench
