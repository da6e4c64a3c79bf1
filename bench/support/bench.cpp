// ufp4 - benches: runs rows with Google Benchmark and prints one line for each.
// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"

#include "clock.hpp"
#include "limits.hpp"
#include "machine.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

namespace bench {
namespace {

void time_row(benchmark::State& state, const row& r, bool& warm) {
  const std::function<void()> call = r.prepare();
  if (!warm) call();
  warm = true;
  const double bound = r.bound ? r.bound() : 0;
  const stopwatch watch(r.threads);
  for ([[maybe_unused]] auto _ : state) call();
  const double rate = r.work * static_cast<double>(state.iterations()) / watch.seconds();
  state.counters[r.unit] = rate;
  if (bound > 0) {
    state.counters["bound"] = bound;
    state.counters["percent"] = 100 * rate / bound;
  }
  state.SetLabel(r.kernel + " | " + r.bound_name);
}

/// One line a row: the best and the median of its repetitions.
class lines : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override {
    std::printf("%-72s %10s %10s %-8s %16s  %s\n", "row", "best", "median", "", "of the limit", "limit; kernel");
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<double> rates;
    double bound = 0;
    const char* unit = "";
    const Run* named = nullptr;
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      for (const auto& [key, counter] : run.counters) {
        if (key == "bound") bound = std::max(bound, static_cast<double>(counter));
        if (key.find("/s") == std::string::npos) continue;
        unit = key.c_str();
        rates.push_back(counter);
      }
      named = &run;
    }
    if (named == nullptr || rates.empty()) return;
    std::sort(rates.begin(), rates.end());
    char share[32] = "";
    if (bound > 0) std::snprintf(share, sizeof share, "%.0f%% of %.1f", 100 * rates.back() / bound, bound);
    const std::size_t bar = named->report_label.find(" | ");
    const std::string kernel = named->report_label.substr(0, bar), limit = named->report_label.substr(bar + 3);
    std::printf("%-72s %10.2f %10.2f %-8s %16s  %s%s%s\n", named->run_name.str().c_str(), rates.back(),
                rates[rates.size() / 2], unit, share, limit.c_str(), limit.empty() ? "" : "; ", kernel.c_str());
    std::fflush(stdout);
  }
};

}  // namespace

void add(row r) {
  const std::string name = r.operation + '/' + r.format + '/' + r.isa + '/' + r.shape + '/' + std::to_string(r.threads);
  const auto shared = std::make_shared<row>(std::move(r));
  const auto warm = std::make_shared<bool>(false);
  benchmark::RegisterBenchmark(name.c_str(),
                               [shared, warm](benchmark::State& state) { time_row(state, *shared, *warm); });
}

int run(int argc, char** argv, void (*add_rows)(const settings&)) {
  settings chosen;
  std::vector<char*> ours, theirs;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0)
      chosen.quick = true;
    else
      theirs.push_back(argv[i]);
  }
  std::string repetitions = chosen.quick ? "--benchmark_repetitions=3" : "--benchmark_repetitions=5";
  std::string least = chosen.quick ? "--benchmark_min_time=0.01" : "--benchmark_min_time=0.04";
  ours = {argv[0], repetitions.data(), least.data()};
  ours.insert(ours.end(), theirs.begin(), theirs.end());  // the last one counts
  int count = static_cast<int>(ours.size());
  ours.push_back(nullptr);
  benchmark::Initialize(&count, ours.data());
  if (benchmark::ReportUnrecognizedArguments(count, ours.data())) return 2;
  for (const auto& [key, value] : machine_facts()) benchmark::AddCustomContext(key, value);
  add_rows(chosen);
  lines reporter;
  return benchmark::RunSpecifiedBenchmarks(&reporter) == 0 ? 1 : 0;
}

row memory_row(const char* operation, std::string format, const place& p, traffic kind) {
  return {.operation = operation,
          .format = std::move(format),
          .isa = isa_name(p.on),
          .shape = size_name(p.bytes),
          .threads = p.threads,
          .work = static_cast<double>(p.bytes) / 1e9,
          .kernel = p.on.kernel,
          .bound_name = name(kind),
          .bound = [kind, bytes = p.bytes, threads = p.threads] { return bandwidth(kind, bytes, threads); },
          .prepare = {}};
}

std::vector<place> places(const settings& s, const std::vector<tier_kernel>& kernels) {
  constexpr std::size_t small = 64 << 10, large = 64 << 20;
  std::vector<std::size_t> sizes{small, 1 << 20, 8 << 20, large};
  if (s.quick) sizes = {small, large};
  const tier_kernel& best = kernels.back();
  std::vector<place> found;
  for (const tier_kernel& k : kernels) {
    const bool scalar = k.tier == ufp4::cpu::isa::scalar;
    if (s.quick && !scalar && k.tier != best.tier) continue;
    for (const std::size_t bytes : sizes)
      if (!scalar || bytes == small) found.push_back({k, bytes, 1});
  }
  const bool ours = best.tier != ufp4::cpu::isa::scalar && best.tier != ufp4::cpu::isa::automatic;
  if (cores() > 1 && ours) found.push_back({best, large, cores()});
  return found;
}

shape_of_size shape_for(std::size_t elements) {
  std::size_t cols = 256;
  while (cols * cols < elements) cols *= 2;
  return {elements / cols, cols};
}

}  // namespace bench
