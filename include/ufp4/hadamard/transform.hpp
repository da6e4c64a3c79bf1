// ufp4 - the Hadamard transform of one run of n elements, forward and inverse.
// SPDX-License-Identifier: Apache-2.0
//
// y = c_n (H_n (d .* x)), H_n in Sylvester order, stages of stride 1, 2, 4, ..., n/2, each (a, b) -> (a + b, a - b),
// the factor c_n last, one product (numerics 4). Bit-exact: every kernel is tested against these functions.
#pragma once

#include <ufp4/format/scales.hpp>
#include <ufp4/hadamard/signs.hpp>

namespace ufp4::detail::inline UFP4_CODE {

UFP4_HD constexpr void flip_signs(const transform_spec& t, float* run) {
  for (std::uint32_t j = 0; j < t.n; ++j) run[j] = to_float(to_bits(run[j]) ^ (t.negative(j) ? sign_mask : 0u));
}

/// Unscaled butterflies, in place.
UFP4_HD constexpr void butterflies(std::uint32_t n, float* run) {
  for (std::uint32_t stride = 1; stride < n; stride *= 2) {
    for (std::uint32_t base = 0; base < n; base += 2 * stride)
      for (std::uint32_t j = base; j < base + stride; ++j) {
        const float a = run[j], b = run[j + stride];
        run[j] = a + b;
        run[j + stride] = a - b;
      }
    end_stage(run, n);
  }
}

UFP4_HD constexpr void scale_and_round(const transform_spec& t, float* run) {
  const float c = hadamard_factor(t.n);
  for (std::uint32_t j = 0; j < t.n; ++j) run[j] = rounded(run[j] * c);
  if (!t.rounds_to_bf16) return;
  for (std::uint32_t j = 0; j < t.n; ++j) run[j] = static_cast<float>(round_to<bf16>(run[j]));
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// Transforms run[0 .. t.n) in place, unless t.n is 1, in binary32: NaN and Inf spread over the run, sums may overflow.
UFP4_HD constexpr void hadamard_forward(const transform_spec& t, float* run) {
  if (t.n == 1) return;
  detail::settle(run, t.n);  // the values may be products that the compiler could fuse
  detail::flip_signs(t, run);
  detail::butterflies(t.n, run);
  detail::scale_and_round(t, run);
}

/// The inverse of hadamard_forward, in place, up to rounding; exact if every sum is exact and n is 16, 64 or 256.
UFP4_HD constexpr void hadamard_inverse(const transform_spec& t, float* run) {
  if (t.n == 1) return;
  detail::settle(run, t.n);
  detail::butterflies(t.n, run);
  detail::scale_and_round(t, run);
  detail::flip_signs(t, run);
}

}  // namespace ufp4::inline UFP4_CODE
