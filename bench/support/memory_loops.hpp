// ufp4 - benches: loops that only move memory, for each width of loads and stores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ufp4/cpu/isa.hpp>

namespace bench {

/// Each loop processes `bytes` bytes once, a multiple of step, aligned to a cache line.
struct memory_loops {
  static constexpr std::size_t step = 512;

  ufp4::cpu::isa needs;
  void (*read)(const unsigned char* from, std::size_t bytes);
  void (*write)(unsigned char* to, std::size_t bytes);
  void (*update)(unsigned char* at, std::size_t bytes);
  void (*copy)(const unsigned char* from, unsigned char* to, std::size_t bytes);
};

/// read is null if the compiler targets an architecture without the tier.
const memory_loops& avx512_loops();
const memory_loops& avx2_loops();
const memory_loops& baseline_loops();

}  // namespace bench
