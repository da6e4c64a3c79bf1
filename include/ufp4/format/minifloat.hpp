// ufp4 - the codec of every small float: one encoder and one decoder, described by a layout.
// SPDX-License-Identifier: Apache-2.0
//
// Converts sign, exponent and mantissa fields of up to 16 bits in all to and from binary32. Rounds to nearest, ties to
// even, with integer arithmetic only: the caller's rounding mode, FTZ and DAZ do not matter. constexpr. Every table and
// kernel of the library is tested against it. NaN codes and e8m0 (which rounds down and has no zero): scales.hpp.
#pragma once

#include <ufp4/concepts.hpp>
#include <ufp4/format/number.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// The fields of a small float type. A code is sign, exponent, mantissa, from the high bit down.
struct minifloat {
  int exponent_bits;       ///< width of the exponent field
  int mantissa_bits;       ///< width of the mantissa field
  int bias;                ///< exponent of value 1 has the code `bias`
  bool has_sign;           ///< false for an unsigned type
  std::uint32_t max_code;  ///< code of the largest finite magnitude
  std::uint32_t nan_code;  ///< the code that a NaN converts to

  /// The mask of the sign, 0 for an unsigned type.
  UFP4_MEMBER constexpr std::uint32_t sign_bit() const { return has_sign ? 1u << (exponent_bits + mantissa_bits) : 0u; }
};

/// The fields of a byte element that is a float (numerics 1); not for int8.
UFP4_MEMBER constexpr minifloat byte_layout(byte_element kind) {
  switch (kind) {
    case byte_element::e5m2: return {5, 2, 15, true, 0x7B, 0x7F};
    case byte_element::e3m2: return {3, 2, 3, true, 0x1F, 0x1F};
    case byte_element::e2m3: return {2, 3, 1, true, 0x1F, 0x1F};
    default: return {4, 3, 7, true, 0x7E, 0x7F};
  }
}

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

/// The magnitude code nearest to |x|, ties to even; the caller handles a code above layout.max_code. x is not a NaN.
UFP4_HD constexpr std::uint32_t encode_magnitude(minifloat layout, float x) {
  const std::uint32_t bits = magnitude_bits(x);
  if (bits == 0) return 0;
  if (bits == infinity_bits) return 0x7FFFFFFFu;
  const bool normal = bits >= 0x00800000u;
  const std::uint32_t m = normal ? (bits & 0x007FFFFFu) | 0x00800000u : bits;  // |x| = m * 2^e
  const int e = normal ? static_cast<int>(bits >> 23) - 150 : -149;
  const int lowest = 1 - layout.bias;  // exponent of the subnormals and of the first binade
  const int top = floor_log2(x);
  const int binade = top < lowest ? lowest : top;
  // The quantum of the binade is 2^(binade - mantissa_bits). A mantissa that rounds up to the next binade carries into
  // the exponent field. Even means the whole code: without mantissa bits the exponent's low bit decides a tie.
  return shift_right_even(m, binade - layout.mantissa_bits - e,
                          static_cast<std::uint32_t>(binade - lowest) << layout.mantissa_bits);
}

/// The code of x: to nearest even, saturating at max_code (Inf too). A NaN gives nan_code, a negative x 0 if unsigned.
UFP4_HD constexpr std::uint32_t encode(minifloat layout, float x) {
  if (is_nan(x)) return layout.nan_code;
  if (!layout.has_sign && is_negative(x)) return 0;
  const std::uint32_t code = encode_magnitude(layout, x);
  const std::uint32_t sign = is_negative(x) ? layout.sign_bit() : 0u;
  return sign | (code < layout.max_code ? code : layout.max_code);
}

/// The two's complement code of x: encode() of |x|, negated if x is negative; a NaN gives nan_code. An integer type is
/// an unsigned layout whose values are all subnormal: multiples of 2^(1 - bias - mantissa_bits).
UFP4_HD constexpr std::uint8_t encode_integer(minifloat layout, float x) {
  const std::uint32_t code = encode(layout, magnitude(x));
  return static_cast<std::uint8_t>(is_negative(x) && !is_nan(x) ? 0u - code : code);
}

/// The exact value of a finite code. Requires that normal numbers of the layout are normal in binary32.
UFP4_HD constexpr float decode(minifloat layout, std::uint32_t code) {
  const std::uint32_t mantissa = code & ((1u << layout.mantissa_bits) - 1);
  const std::uint32_t exponent = (code >> layout.mantissa_bits) & ((1u << layout.exponent_bits) - 1);
  const float value = exponent == 0 ? compose(mantissa, 1 - layout.bias - layout.mantissa_bits)
                                    : to_float((exponent + static_cast<std::uint32_t>(127 - layout.bias)) << 23 |
                                               mantissa << (23 - layout.mantissa_bits));
  return (code & layout.sign_bit()) ? -value : value;
}

/// The value of a code of a byte element that is a float; bits above its width are ignored.
UFP4_HD constexpr float byte_float_value(byte_element kind, std::uint32_t code) {
  const minifloat layout = byte_layout(kind);
  const std::uint32_t magnitude = code & (layout.sign_bit() - 1);
  if (magnitude <= layout.max_code) return decode(layout, code);
  const bool infinite = kind == byte_element::e5m2 && magnitude == 0x7Cu;
  const float value = infinite ? to_float(infinity_bits) : quiet_nan;
  return (code & layout.sign_bit()) != 0 ? -value : value;
}

}  // namespace ufp4::detail::inline UFP4_CODE
