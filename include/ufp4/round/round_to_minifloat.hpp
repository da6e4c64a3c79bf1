// ufp4 - rounds one value to a small float under a rounding policy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/format/minifloat.hpp>

namespace ufp4::inline UFP4_CODE {

/// The code of t in a float of at most 8 bits (numerics 3). Requires that t is not a NaN. Saturates beyond the largest
/// finite value; a negative t that rounds to zero gets the code of -0.
template <rounding_policy Rounding>
UFP4_HD constexpr std::uint8_t round_to_minifloat(minifloat layout, const Rounding& rounding, float t,
                                                  std::uint64_t index) {
  const float a = detail::magnitude(t);
  std::uint32_t code = layout.max_code;
  if (a < decode(layout, code)) {
    code = encode_magnitude(layout, a);
    code -= decode(layout, code) > a;  // of the lower neighbour
    const float sign = detail::is_negative(t) ? -1.0f : 1.0f, lower = decode(layout, code);
    const neighbours n{sign * lower, sign * decode(layout, code + 1), static_cast<int>(code)};
    if (lower != a && rounding.round_up(n, t, index)) ++code;
  }
  return static_cast<std::uint8_t>(detail::is_negative(t) ? code | layout.sign_bit() : code);
}

}  // namespace ufp4::inline UFP4_CODE
