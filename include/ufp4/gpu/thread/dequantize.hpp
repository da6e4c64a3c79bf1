// ufp4 - sixteen codes to values in one thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// The two words with the codes of sixteen elements, the first in the low nibble; bytes from `count` on are taken as 0.
struct packed_sixteen {
  std::uint32_t word[2];
};
UFP4_DEVICE packed_sixteen load_codes(const std::uint8_t* codes, unsigned count) {
  if (count == 8 && reinterpret_cast<std::uintptr_t>(codes) % 8 == 0) {
    const words2 both = *reinterpret_cast<const words2*>(codes);
    return {{both.word[0], both.word[1]}};
  }
  packed_sixteen packed{};
  UFP4_UNROLL
  for (unsigned b = 0; b < 8; ++b)
    if (b < count) packed.word[b / 4] |= std::uint32_t{codes[b]} << (8 * (b % 4));
  return packed;
}

/// Values of sixteen codes by a table of sixteen in shared memory: whatever codes the lanes hold, they hit sixteen
/// different banks, so one lookup a value costs what arithmetic would, for every grid.
UFP4_DEVICE void decode_sixteen(const packed_sixteen& codes, const float* table, float (&v)[run_of_thread]) {
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j) v[j] = table[codes.word[j / 8] >> (4 * (j % 8)) & 15u];
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
