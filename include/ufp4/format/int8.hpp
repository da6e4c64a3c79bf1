// ufp4 - int8 and int8q6: 8-bit integers as values, the byte elements of activations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/concepts.hpp>
#include <ufp4/format/minifloat.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// Two's complement, -128 .. 127 times 2^-fraction_bits, one byte.
///
/// | from float | nearest, ties to the even code; beyond +-max() and for Inf: +-max(). -128 comes from bits only |
/// | NaN        | +max()                                                                                        |
/// | zero       | one zero: -0.f and small negative values give code 0                                          |
template <int fraction_bits>
class scaled_int8 : public coded<scaled_int8<fraction_bits>, std::uint8_t, 255, std::strong_ordering> {
  using scaled_int8::coded::bits_;

 public:
  static constexpr byte_element byte = byte_element::int8;  ///< codes of one byte, two's complement
  static constexpr bool exact_products = true;

  scaled_int8() = default;
  /// The nearest value.
  UFP4_MEMBER constexpr explicit scaled_int8(float x) {
    bits_ = encode_integer({0, 7, fraction_bits - 6, false, 127, 127}, x);
  }
  /// The code as an integer, -128 .. 127.
  UFP4_MEMBER constexpr explicit operator int() const { return bits_ < 128 ? bits_ : bits_ - 256; }
  UFP4_MEMBER constexpr float value() const {
    return static_cast<float>(static_cast<int>(*this)) * unit();  // exact
  }
  UFP4_MEMBER static constexpr float unit() { return exp2i(-fraction_bits); }  ///< the value of code 1
  UFP4_MEMBER static constexpr float(max)() { return 127.0f * unit(); }
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

using int8 = detail::scaled_int8<0>;    ///< -127 .. 127: the element of int8_f32
using int8q6 = detail::scaled_int8<6>;  ///< the same over 64: the element of mxint8 (OCP Microscaling Formats v1.0)

static_assert(detail::byte_element_format<int8> && detail::byte_element_format<int8q6> && !element_format<int8>);

}  // namespace ufp4::inline UFP4_TYPES
