// ufp4 - the scale of a block, and sixteen of its elements divided by that scale, in one thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/block/scale_rules.hpp>
#include <ufp4/gpu/thread/round.hpp>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// The bits of the largest magnitude; infinity_bits or more if a value is not finite.
UFP4_DEVICE std::uint32_t amax_bits(const float (&v)[run_of_thread]) {
  std::uint32_t amax = 0;
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j) {
    const std::uint32_t m = ufp4::detail::magnitude_bits(v[j]);
    amax = m > amax ? m : amax;
  }
  return amax;
}

/// choose_scale (block/scale_rules.hpp) for the rules that depend only on the amax.
UFP4_DEVICE block_scale scale_of(const format_spec& f, const scale_rule_spec& rule, const tensor_constants& tensor,
                                 std::uint32_t amax) {
  const float magnitude = ufp4::detail::to_float(amax);
  if (f.scale == scale_kind::e8m0)
    return ufp4::detail::scale_from_bits(f, tensor, ufp4::detail::power_of_two_scale(f.grid, rule.what, magnitude));
  const float argument = ufp4::detail::scale_argument(f, tensor, magnitude);
  const std::uint32_t bits = rule.what == scale_rule_spec::kind::up ? ufp4::detail::encode_scale_up(f.scale, argument)
                                                                    : ufp4::detail::encode_scale(f.scale, argument);
  return ufp4::detail::scale_from_bits(f, tensor, bits);
}

/// x / s correctly rounded, where y is 1 / s correctly rounded: two steps of Markstein's iteration, four fma after the
/// product. After the first step the error is below one unit in the last place; the second rounds once (Markstein 1990:
/// a faithful quotient, a correctly rounded reciprocal, an exact remainder). For s from 2^-60 to 2^60 nothing
/// overflows, and the remainder is exact if the quotient is 2^-30 or more. Smaller quotients may be wrong by one ulp,
/// which does not change their code in any plan except `levels`. The sign is taken from x, because the sums lose the
/// sign of a zero.
UFP4_DEVICE float quotient(float x, float s, float y) {
  float q = ufp4::detail::product(x, y);
  q = ufp4::detail::fma(ufp4::detail::fma(-q, s, x), y, q);
  q = ufp4::detail::fma(ufp4::detail::fma(-q, s, x), y, q);
  return ufp4::detail::to_float(ufp4::detail::magnitude_bits(q) | (ufp4::detail::to_bits(x) & ufp4::detail::sign_mask));
}

/// The values that are rounded to codes: x * factor, or x / factor, correctly rounded (numerics 5).
UFP4_DEVICE void scale_sixteen(const rounding_plan& p, const block_scale& scale, float (&v)[run_of_thread]) {
  const float s = scale.factor;
  if (!scale.divides) {
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j) v[j] = ufp4::detail::product(v[j], s);
  } else if (p.kind != rounding_plan::grid::levels && ufp4::detail::to_bits(s) - (67u << 23) < 120u << 23) {
    const float y = 1.0f / s;
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j) v[j] = quotient(v[j], s, y);
  } else {
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j) v[j] = v[j] / s;
  }
}

/// The number of scaled values above qmax in magnitude.
UFP4_DEVICE std::uint32_t count_beyond(const rounding_plan& p, const float (&t)[run_of_thread]) {
  std::uint32_t beyond = 0;
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j) beyond += ufp4::detail::magnitude_bits(t[j]) > p.qmax_bits;
  return beyond;
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
