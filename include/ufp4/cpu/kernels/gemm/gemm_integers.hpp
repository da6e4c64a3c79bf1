// ufp4 - the two grids of an integer GEMM kernel: how large the integers are, and how sums of them become binary32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/cpu/elements.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// The least and the largest integer of a grid; zero is between them.
struct integer_range {
  int low, high;
  int amax() const { return -low > high ? -low : high; }
};
inline integer_range integers_of(const grid4& grid) {
  integer_range r{0, 0};
  for (const int i : grid.integer) {
    r.low = i < r.low ? i : r.low;
    r.high = i > r.high ? i : r.high;
  }
  return r;
}

/// Two exact grids whose block dot products, integers below 2^24 times the product of the units, are binary32 numbers.
inline bool exact_dots(const gemm_job& job) {
  if (!job.left.exact() || !job.right.exact()) return false;
  const int exponent =
      ufp4::detail::floor_log2(job.left.q.format.grid.unit) + ufp4::detail::floor_log2(job.right.q.format.grid.unit);
  return exponent >= -149 && exponent <= 103;
}

/// The bits of the binary32 number m = 1.5 * 2^23 * unit, whose last place is worth one unit (the product of the units
/// of both grids). An integer n with |n| < 2^22 added to these bits gives the number m + n * unit; minus m that is
/// n * unit, exactly, and +0 for 0.
inline std::uint32_t magic_bits(const gemm_job& job) {
  const int exponent =
      ufp4::detail::floor_log2(job.left.q.format.grid.unit) + ufp4::detail::floor_log2(job.right.q.format.grid.unit);
  return static_cast<std::uint32_t>(exponent + 23 + 127) << 23 | 0x00400000u;
}

/// Integers of a pair of grids fit signed bytes, and dot products of a block stay below 2^22.
inline bool integers_fit_bytes(const gemm_job& job) {
  return exact_dots(job) && integers_of(job.left.q.format.grid).amax() <= 127 &&
         integers_of(job.right.q.format.grid).amax() <= 127;
}

/// Whether value * scale is a bf16 number, so that folded_bf16 is the exact product. Near the ends of the range of e8m0
/// it may be a subnormal number of more bits than bf16 has; not rounding it is more exact.
inline bool folds_exactly(const quantized_source& q) {
  int odd_factor = 0;  // the largest of the integers
  for (const std::int16_t value : q.format.grid.integer) {
    int i = value < 0 ? -value : value;
    while (i != 0 && i % 2 == 0) i /= 2;
    odd_factor = i > odd_factor ? i : odd_factor;
  }
  const scale_kind kind = q.format.scale;
  return kind == scale_kind::e8m0 || (ufp4::detail::scale_bytes(kind) == 1 && odd_factor < 16);
}

/// For quantized operands: whether the exact product is what the mode requires.
inline bool mode_is_exact(const gemm_job& job) {
  return job.mode != accumulate::folded_bf16 || (folds_exactly(job.left.q) && folds_exactly(job.right.q));
}

/// What every kernel of 8-bit integers needs of a job.
[[gnu::noinline]] inline bool int8_fits(const gemm_job& job) {
  return job.block % 16 == 0 && integers_fit_bytes(job) && mode_is_exact(job);
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
