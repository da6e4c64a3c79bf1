// ufp4 - benches: a row of a bench, and the main function of all benches.
// SPDX-License-Identifier: Apache-2.0
//
// A row is named operation/format/isa/shape/threads. It reports its rate, the machine's limit for it, measured in the
// same process just before, and the ratio of the two.
//
// | argument            | does                                                                             |
// |---------------------|----------------------------------------------------------------------------------|
// | --quick             | fewer rows, shorter                                                              |
// | --benchmark_...     | Google Benchmark's own; repetitions and the least time of one have defaults here |
#pragma once

#include "limits.hpp"
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
  std::string kernel;             ///< a name for the report
  std::string bound_name;         ///< a name for the report
  std::function<double()> bound;  ///< measures the bound, in the row's unit; empty: no bound
  /// Makes the operands and returns the call to be timed; called when the row runs.
  std::function<std::function<void()>()> prepare;
};

struct settings {
  bool quick = false;
};

/// Adds a row to this process's bench.
void add(row r);

/// The main function of a bench: adds the rows and runs those that the arguments select.
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
/// For alternatives compiled for this machine.
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
/// A row that moves p.bytes bytes and is compared with the machine's bandwidth of that kind; without `prepare`.
row memory_row(const char* operation, std::string format, const place& p, traffic kind);

/// The usual places for work on `bytes` bytes, from L2 to DRAM: every size for every tier on one thread, the largest
/// size on all threads for the best tier; only the smallest size for scalar; one thread for alternatives. With --quick:
/// the smallest and largest size, on the best tier.
std::vector<place> places(const settings& s, const std::vector<tier_kernel>& kernels);

/// Adds the row make_row(p) for each place; prepare(p) makes the operands and returns the call.
template <class MakeRow, class Prepare>
void add_at(const std::vector<place>& places, const MakeRow& make_row, const Prepare& prepare) {
  for (const place& p : places) {
    row r = make_row(p);
    r.prepare = [=]() -> std::function<void()> { return prepare(p); };
    add(std::move(r));
  }
}

/// A matrix of `elements` elements, a power of two: nearly square, and wide enough for a transform of 256.
struct shape_of_size {
  std::size_t rows, cols;
};
shape_of_size shape_for(std::size_t elements);

/// Prevents the compiler from removing a result.
inline void keep(const void* p) { asm volatile("" ::"g"(p) : "memory"); }

}  // namespace bench
