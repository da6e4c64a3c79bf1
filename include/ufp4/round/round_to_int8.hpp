// ufp4 - rounds one value to 8-bit integers times a unit under a rounding policy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/concepts.hpp>
#include <ufp4/detail/bits.hpp>

namespace ufp4::inline UFP4_CODE {

/// The two's complement code of t among the multiples -127 .. 127 of `unit`, a power of two (numerics 3). Requires that
/// t is not a NaN. Saturates beyond them; there is one zero.
template <rounding_policy Rounding>
UFP4_HD constexpr std::uint8_t round_to_int8(float unit, const Rounding& rounding, float t, std::uint64_t index) {
  const float a = detail::magnitude(t), units = a * (1.0f / unit);
  int n = 127;
  if (units < 127.0f) {
    n = static_cast<int>(units);
    const float sign = detail::is_negative(t) ? -unit : unit;
    const neighbours n1{static_cast<float>(n) * sign, static_cast<float>(n + 1) * sign, n};
    if (detail::magnitude(n1.lower) != a && rounding.round_up(n1, t, index)) ++n;
  }
  return static_cast<std::uint8_t>(detail::is_negative(t) ? (256 - n) & 255 : n);
}

}  // namespace ufp4::inline UFP4_CODE
