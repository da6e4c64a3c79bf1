// ufp4 - what integer GEMM kernels ask of the two grids: how large the integers are, and what makes them floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/cpu/elements.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// The integers of a grid at their extremes; zero is between them.
struct integer_range {
  int low, high;
  int largest() const { return -low > high ? -low : high; }
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

/// The bits of 1.5 * 2^23 * unit, unit being the product of the grids': a binary32 whose last place is worth one unit.
/// An integer n below 2^22 added to these bits makes them a float; that minus 1.5 * 2^23 * unit is n * unit, exactly,
/// and +0 for 0.
inline std::uint32_t magic_bits(const gemm_job& job) {
  const int exponent =
      ufp4::detail::floor_log2(job.left.q.format.grid.unit) + ufp4::detail::floor_log2(job.right.q.format.grid.unit);
  return static_cast<std::uint32_t>(exponent + 23 + 127) << 23 | 0x00400000u;
}

/// Integers of a pair of grids fit signed bytes, and dot products of a block stay below 2^22.
inline bool integers_fit_bytes(const gemm_job& job) {
  return exact_dots(job) && integers_of(job.left.q.format.grid).largest() <= 127 &&
         integers_of(job.right.q.format.grid).largest() <= 127;
}

/// Whether values times block scales are bf16 numbers, so that folded_bf16 asks for nothing that the exact product is
/// not. At the ends of e8m0's range they may be subnormal numbers of fewer bits, and keeping theirs is as good.
inline bool folds_exactly(const quantized_source& q) {
  int odd = 0;  // the largest odd factor of the integers
  for (const std::int16_t value : q.format.grid.integer) {
    int i = value < 0 ? -value : value;
    while (i != 0 && i % 2 == 0) i /= 2;
    odd = i > odd ? i : odd;
  }
  const scale_kind kind = q.format.scale;
  return kind == scale_kind::e8m0 || (ufp4::detail::scale_bytes(kind) == 1 && odd < 16);
}

/// For a job of quantized operands: that its mode asks for nothing that the exact product is not.
inline bool mode_is_exact(const gemm_job& job) {
  return job.mode != accumulate::folded_bf16 || (folds_exactly(job.left.q) && folds_exactly(job.right.q));
}

/// What every kernel of 8-bit integers needs of a job.
[[gnu::noinline]] inline bool int8_fits(const gemm_job& job) {
  return job.block % 16 == 0 && integers_fit_bytes(job) && mode_is_exact(job);
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
