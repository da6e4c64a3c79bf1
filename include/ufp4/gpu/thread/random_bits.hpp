// ufp4 - the random bits of stochastic rounding for sixteen elements of a thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/gpu/vendor.hpp>
#include <ufp4/round/stochastic.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// Sixteen numbers of sixteen random bits, two in each word, the first in the low half.
struct sixteen_random_bits {
  std::uint32_t word[8];  ///< two elements in a word

  /// The 16 random bits of element j.
  UFP4_DEVICE std::uint32_t random_word(unsigned j) const {
    return j % 2 == 0 ? word[j / 2] & 0xFFFFu : word[j / 2] >> 16;
  }
};

/// The random bits of elements index .. index + 15 (numerics 3), index a multiple of eight. Two Philox calls, instead
/// of one for each element.
UFP4_DEVICE sixteen_random_bits draw_sixteen(const stochastic& s, std::uint64_t index) {
  const philox_counter low = s.random_bits(index >> 3), high = s.random_bits((index >> 3) + 1);
  sixteen_random_bits c;
  UFP4_UNROLL
  for (unsigned w = 0; w < 4; ++w) {
    c.word[w] = low.word[w];
    c.word[4 + w] = high.word[w];
  }
  return c;
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
