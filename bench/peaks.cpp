// ufp4 - peaks: the maximum rates of this machine in one table; --json writes it for bench/render.py.
// SPDX-License-Identifier: Apache-2.0
#include "support/limits.hpp"
#include "support/machine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct line {
  std::string what, unit;
  double one, all;  ///< one thread, all threads
};

struct level {
  const char* name;
  std::size_t bytes;
};

/// Half of a cache, or a quarter of the third level, which is shared; and a size larger than any cache.
std::vector<level> levels() {
  const bench::cache_sizes have = bench::caches();
  return {{"L1", have.l1 / 2},
          {"L2", have.l2 / 2},
          {"L3", have.l3 / 4},
          {"memory", std::max(8 * have.l3, std::size_t{256} << 20)}};
}

std::vector<line> measure(bench::effort duration) {
  std::vector<line> found;
  const int all = bench::cores();
  for (const bench::compute_limit& l : bench::compute_limits())
    if (bench::present(l))
      found.push_back({l.name, l.unit, bench::peak(l, 1, duration), all == 1 ? 0 : bench::peak(l, all, duration)});
  for (const bench::traffic kind :
       {bench::traffic::read, bench::traffic::update, bench::traffic::write, bench::traffic::copy})
    for (const level& l : levels()) {
      const std::size_t bytes = kind == bench::traffic::copy ? l.bytes / 2 : l.bytes,
                        cores = static_cast<std::size_t>(all);
      const std::size_t private_part = l.bytes == levels()[0].bytes || l.bytes == levels()[1].bytes ? cores : 1;
      found.push_back({std::string(bench::name(kind)) + ", " + l.name, "GB/s",
                       bench::bandwidth(kind, bytes, 1, duration),
                       all == 1 ? 0 : bench::bandwidth(kind, bytes * private_part, all, duration)});
    }
  return found;
}

void print_table(const std::vector<line>& lines) {
  for (const auto& [key, value] : bench::machine_facts()) std::printf("%-10s %s\n", key.c_str(), value.c_str());
  std::printf("\n%-40s %12s %12s\n", "what", "1 thread", (std::to_string(bench::cores()) + " threads").c_str());
  for (const line& l : lines) std::printf("%-40s %12.1f %12.1f  %s\n", l.what.c_str(), l.one, l.all, l.unit.c_str());
}

/// Names contain no character that JSON must escape, except a quote in flags, which is dropped.
std::string quoted(std::string text) {
  std::erase(text, '"');
  std::erase(text, '\\');
  return '"' + text + '"';
}

bool write_json(const char* path, const std::vector<line>& lines) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return false;
  std::fprintf(file, "{\n  \"machine\": {");
  const char* comma = "";
  for (const auto& [key, value] : bench::machine_facts()) {
    std::fprintf(file, "%s\n    %s: %s", comma, quoted(key).c_str(), quoted(value).c_str());
    comma = ",";
  }
  std::fprintf(file, "\n  },\n  \"limits\": [");
  comma = "";
  for (const line& l : lines) {
    std::fprintf(file, "%s\n    {\"what\": %s, \"unit\": %s, \"one\": %.4g, \"all\": %.4g}", comma,
                 quoted(l.what).c_str(), quoted(l.unit).c_str(), l.one, l.all);
    comma = ",";
  }
  std::fprintf(file, "\n  ]\n}\n");
  return std::fclose(file) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* json = nullptr;
  bench::effort duration = bench::long_measurement;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      duration = bench::quick_measurement;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else {
      std::fprintf(stderr, "usage: peaks [--quick] [--json FILE]\n");
      return 2;
    }
  }
  const std::vector<line> lines = measure(duration);
  print_table(lines);
  if (json != nullptr && !write_json(json, lines)) {
    std::fprintf(stderr, "peaks: cannot write %s\n", json);
    return 1;
  }
}
