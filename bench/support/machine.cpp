// ufp4 - benches: processor, caches, compiler and flags in words.
// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include "limits.hpp"

#include <fstream>
#include <ufp4/cpu/detect.hpp>
#include <ufp4/version.hpp>

namespace bench {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  std::string family, model;
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU implementer")) family = value;
    if (line.starts_with("CPU part")) model = value;
  }
  return family.empty() ? "unknown" : "implementer " + family + " part " + model;
}

std::string compiler() {
#if defined(__clang__)
  return "clang " + std::to_string(__clang_major__) + '.' + std::to_string(__clang_minor__);
#else
  return "g++ " + std::to_string(__GNUC__) + '.' + std::to_string(__GNUC_MINOR__);
#endif
}

}  // namespace

std::vector<ufp4::cpu::isa> tiers() {
  std::vector<ufp4::cpu::isa> found;
  for (const ufp4::cpu::isa i : ufp4::cpu::all_isas)
    if (ufp4::cpu::available().has(i)) found.push_back(i);
  return found;
}

std::string size_name(std::size_t bytes) {
  return bytes >> 20 == 0 ? std::to_string(bytes >> 10) + "KB" : std::to_string(bytes >> 20) + "MB";
}

std::vector<std::pair<std::string, std::string>> machine_facts() {
  std::string names;
  for (const ufp4::cpu::isa i : tiers()) names += (names.empty() ? "" : ", ") + std::string(ufp4::cpu::name(i));
  const cache_sizes have = caches();
  return {{"cpu", cpu_model()},
          {"cores", std::to_string(cores())},
          {"caches", "L1 " + size_name(have.l1) + ", L2 " + size_name(have.l2) + ", L3 " + size_name(have.l3)},
          {"tiers", names},
          {"compiler", compiler()},
          {"flags", UFP4_BENCH_FLAGS},
          {"version", ufp4::version_string}};
}

}  // namespace bench
