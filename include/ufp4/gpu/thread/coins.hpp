// ufp4 - the coins of stochastic rounding, as a thread draws them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/gpu/vendor.hpp>
#include <ufp4/round/stochastic.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// Sixteen coins of sixteen bits, two a word, the first one low.
struct sixteen_coins {
  std::uint32_t word[8];

  UFP4_DEVICE std::uint32_t coin(unsigned j) const { return j % 2 == 0 ? word[j / 2] & 0xFFFFu : word[j / 2] >> 16; }
};

/// The coins of elements index .. index + 15 (numerics 3), index a multiple of eight: two Philox calls, where an
/// element by itself would take one each.
UFP4_DEVICE sixteen_coins draw_sixteen(const stochastic& s, std::uint64_t index) {
  const philox_counter low = s.coins(index >> 3), high = s.coins((index >> 3) + 1);
  sixteen_coins c;
  UFP4_UNROLL
  for (unsigned w = 0; w < 4; ++w) {
    c.word[w] = low.word[w];
    c.word[4 + w] = high.word[w];
  }
  return c;
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
