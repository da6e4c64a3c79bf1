// ufp4 - maxima and sums over the lanes of a wave.
// SPDX-License-Identifier: Apache-2.0
//
// Every lane of the wave must come, whether it has something to say or not.
#pragma once

#include <cstdint>
#include <ufp4/block/block_codec.hpp>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::warp::inline UFP4_GPU {

/// The largest of `count` neighbouring lanes, a power of two that divides their first lane; all of them get it.
/// Magnitudes order as their bits do.
UFP4_DEVICE std::uint32_t largest_of(std::uint32_t bits, unsigned count) {
  for (unsigned step = 1; step < count; step *= 2) {
    const std::uint32_t other = shuffle_xor(bits, step);
    bits = other > bits ? other : bits;
  }
  return bits;
}

/// Adds what the lanes of a wave met to a report in device memory: one atomic a number that is not 0.
UFP4_DEVICE void add_report(quantize_report* to, quantize_report seen) {
  struct counts {
    std::uint32_t nonfinite, saturated, underflowed;  // a lane sees far fewer than 2^27 of each
  } sum{static_cast<std::uint32_t>(seen.nonfinite_blocks), static_cast<std::uint32_t>(seen.saturated),
        static_cast<std::uint32_t>(seen.underflowed_scales)};
  for (unsigned step = 1; step < wave_size(); step *= 2) {
    const counts other = shuffle_xor(sum, step);
    sum = {sum.nonfinite + other.nonfinite, sum.saturated + other.saturated, sum.underflowed + other.underflowed};
  }
  if (lane() != 0) return;
  if (sum.nonfinite != 0) atomic_add(&to->nonfinite_blocks, std::uint64_t{sum.nonfinite});
  if (sum.saturated != 0) atomic_add(&to->saturated, std::uint64_t{sum.saturated});
  if (sum.underflowed != 0) atomic_add(&to->underflowed_scales, std::uint64_t{sum.underflowed});
}

}  // namespace ufp4::gpu::warp::inline UFP4_GPU
