// ufp4 - the largest value and the sum over the lanes of a wave.
// SPDX-License-Identifier: Apache-2.0
//
// Every lane of the wave must call these functions.
#pragma once

#include <ufp4/block/block_codec.hpp>

namespace ufp4::gpu::warp::inline UFP4_GPU {

/// The largest of `count` consecutive lanes, returned to all of them. `count` is a power of two that divides the number
/// of the first lane. The order of the bits is the order of the magnitudes.
UFP4_DEVICE std::uint32_t amax_bits(std::uint32_t bits, unsigned count) {
  for (unsigned step = 1; step < count; step *= 2) {
    const std::uint32_t other = shuffle_xor(bits, step);
    bits = other > bits ? other : bits;
  }
  return bits;
}

/// The counts of a quantize_report as a lane keeps them: it sees far fewer than 2^27 of each.
struct lane_counts {
  std::uint32_t nonfinite = 0, saturated = 0, underflowed = 0;  ///< blocks, elements, blocks
};

/// Adds the counts of the lanes of a wave to a report in device memory: one atomic operation for each count except 0.
UFP4_DEVICE void add_report(quantize_report* to, lane_counts sum) {
  for (unsigned step = 1; step < wave_size(); step *= 2) {
    const lane_counts other = shuffle_xor(sum, step);
    sum = {sum.nonfinite + other.nonfinite, sum.saturated + other.saturated, sum.underflowed + other.underflowed};
  }
  if (lane() != 0) return;
  if (sum.nonfinite != 0) atomic_add(&to->nonfinite_blocks, std::uint64_t{sum.nonfinite});
  if (sum.saturated != 0) atomic_add(&to->saturated, std::uint64_t{sum.saturated});
  if (sum.underflowed != 0) atomic_add(&to->underflowed_scales, std::uint64_t{sum.underflowed});
}

}  // namespace ufp4::gpu::warp::inline UFP4_GPU
