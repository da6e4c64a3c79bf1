// ufp4 - rounds one value to an element of one byte under a rounding policy: 8-bit integers and small floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/format/minifloat.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// The two's complement code of t among the multiples -127 .. 127 of `unit`, a power of two (numerics 3). Requires that
/// t is not a NaN. Saturates beyond them; there is one zero.
template <rounding_policy Rounding>
UFP4_HD constexpr std::uint8_t round_to_int8(float unit, const Rounding& r, float t, std::uint64_t index) {
  const float a = magnitude(t), units = a * (1.0f / unit);
  int n = 127;
  if (units < 127.0f) {
    n = static_cast<int>(units);
    const float sign = is_negative(t) ? -unit : unit;
    const neighbours n1{static_cast<float>(n) * sign, static_cast<float>(n + 1) * sign, n};
    if (magnitude(n1.lower) != a && r.round_up(n1, t, index)) ++n;
  }
  return static_cast<std::uint8_t>(is_negative(t) ? (256 - n) & 255 : n);
}

/// The code of t in a float of at most 8 bits (numerics 3). Requires that t is not a NaN. Saturates beyond the largest
/// finite value; a negative t that rounds to zero gets the code of -0.
template <rounding_policy Rounding>
UFP4_HD constexpr std::uint8_t round_to_minifloat(minifloat layout, const Rounding& r, float t, std::uint64_t index) {
  const float a = magnitude(t);
  std::uint32_t code = layout.max_code;
  if (a < decode(layout, code)) {
    code = encode_magnitude(layout, a);
    code -= decode(layout, code) > a;  // of the lower neighbour
    const float sign = is_negative(t) ? -1.0f : 1.0f, lower = decode(layout, code);
    const neighbours n{sign * lower, sign * decode(layout, code + 1), static_cast<int>(code)};
    if (lower != a && r.round_up(n, t, index)) ++code;
  }
  return static_cast<std::uint8_t>(is_negative(t) ? code | layout.sign_bit() : code);
}

}  // namespace ufp4::detail::inline UFP4_CODE
