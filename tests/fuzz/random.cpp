// ufp4 - a fuzz target without libFuzzer: runs it on random bytes for a time.
// SPDX-License-Identifier: Apache-2.0
//
//   random SECONDS [SEED [CASE]]    for so long, from a seed (default: the time), or one case of a seed
//
// Prints the seed first and, at a finding, the number of the case, which the last form repeats.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::uint64_t seed = 0, number = 0;

void run_case() {
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15u + number);
  std::vector<std::uint8_t> bytes(64 + random() % 700);
  for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(random());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

void report(int) {
  std::fprintf(stderr, "found with: random 1 %llu %llu\n", static_cast<unsigned long long>(seed),
               static_cast<unsigned long long>(number));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) return std::fprintf(stderr, "usage: %s SECONDS [SEED [CASE]]\n", argv[0]), 2;
  using clock = std::chrono::steady_clock;
  const auto end = clock::now() + std::chrono::duration<double>(std::atof(argv[1]));
  seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10)
                  : static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  std::signal(SIGABRT, report);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  if (argc == 4) return number = std::strtoull(argv[3], nullptr, 10), run_case(), 0;
  for (; clock::now() < end; ++number) run_case();
  std::printf("%llu cases\n", static_cast<unsigned long long>(number));
  return 0;
}
