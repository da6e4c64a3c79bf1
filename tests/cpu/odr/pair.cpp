// ufp4 - a program of two units of pairs.sh: both must have the same types and one pool, and compute the same bytes.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstring>

#include "units.hpp"

namespace {

/// Whether this machine has the instruction set that the unit is compiled for.
bool runs(const char* name) {
#if defined(__x86_64__)
  if (std::strcmp(name, "v3") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (std::strcmp(name, "skylake") == 0)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
#endif
  return std::strcmp(name, "sapphirerapids") != 0;  // linked only
}

bool differs(const unit_result& a, const unit_result& b) {
  return std::memcmp(a.sizes, b.sizes, sizeof a.sizes) != 0 || std::memcmp(a.calls, b.calls, sizeof a.calls) != 0 ||
         a.pool != b.pool || (a.hash != 0 && b.hash != 0 && a.hash != b.hash);
}

}  // namespace

int main() {
  unit_result first{};
  int units = 0, bad = 0;
#define UFP4_TEST_RUN(name)                                                                                  \
  if (unit_##name != nullptr) {                                                                              \
    const unit_result r = unit_##name(runs(#name));                                                          \
    std::printf("%s %016llx\n", #name, static_cast<unsigned long long>(r.hash));                             \
    bad += units++ != 0 && differs(first, r);                                                                \
    bad += r.hash != 0 && r.hash != 0x2b7cf5b653b640a0u; /* as the programs of ../../emulated.cmake print */ \
    if (units == 1) first = r;                                                                               \
  }
  UFP4_TEST_UNITS(UFP4_TEST_RUN)
  return units == 2 && bad == 0 ? 0 : 1;
}
