// ufp4 - the seed of randomised tests.
// SPDX-License-Identifier: Apache-2.0
/// Fixed, so that a run can be repeated; UFP4_TEST_SEED=<number> in the environment gives another. A randomised test
/// adds the seed to the output of a failure with one line,
///
///   INFO(support::seed_note());
///   std::mt19937_64 gen{support::seed()};
///
/// and takes seeds that differ between its loops from support::seed(k), not from seed() + k.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace support {

/// The seed of this run. A value that is not a number is an error: a typing mistake must not look like a repeated run.
inline std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* text = std::getenv("UFP4_TEST_SEED");
    if (text == nullptr || *text == '\0') return std::uint64_t{20260620};
    char* end = nullptr;
    errno = 0;
    const std::uint64_t parsed = std::strtoull(text, &end, 0);  // 0x1F as well as 31
    if (*end != '\0' || errno != 0) {
      throw std::invalid_argument("UFP4_TEST_SEED is '" + std::string(text) + "', which is no 64-bit number");
    }
    return parsed;
  }();
  return value;
}

/// Seed number k of this run: one mixing step of SplitMix64, so that neighbouring k give unrelated streams.
inline std::uint64_t seed(std::uint64_t k) {
  std::uint64_t z = seed() + (k + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// For INFO(): what to set to see this failure again.
inline std::string seed_note() { return "repeat with UFP4_TEST_SEED=" + std::to_string(seed()); }

}  // namespace support
