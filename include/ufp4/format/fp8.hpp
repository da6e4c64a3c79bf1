// ufp4 - fp8_e4m3, fp8_e5m2, fp6_e3m2, fp6_e2m3: 8-bit and 6-bit floats as values, in one byte.
// SPDX-License-Identifier: Apache-2.0
//
// The elements of OCP Microscaling Formats v1.0, section 5.3, as references beside those of 4 bits. A code of 6 bits is
// in the low bits of its byte; the others are ignored. docs/formats.md and numerics 1 list codes and values.
#pragma once

#include <ufp4/format/grid.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// A float of 8 or 6 bits in one byte.
///
/// | from float | nearest, ties to the even code; beyond +-max() and for Inf: +-max()            |
/// | NaN        | +max(): no conversion gives a code without a finite value; they come from bits |
/// | zero       | keeps its sign; a negative value that rounds to zero becomes -0                |
/// | comparison | of values: -0 == +0, a NaN is unordered                                        |
template <byte_element kind>
class byte_float
    : public coded<byte_float<kind>, std::uint8_t, static_cast<std::uint8_t>(byte_layout(kind).sign_bit() * 2 - 1),
                   std::partial_ordering> {
  using byte_float::coded::bits_;

 public:
  static constexpr byte_element byte = kind;  ///< codes of one byte: sign, exponent, mantissa
  static constexpr bool exact_products = false;
  UFP4_MEMBER static constexpr minifloat layout() { return byte_layout(kind); }  ///< its fields

  byte_float() = default;
  /// The nearest value.
  UFP4_MEMBER constexpr explicit byte_float(float x) {
    bits_ = static_cast<std::uint8_t>(encode(layout(), is_nan(x) ? (max)() : x));
  }
  UFP4_MEMBER constexpr float value() const { return byte_float_value(kind, bits_); }
  UFP4_MEMBER static constexpr float unit() { return decode(layout(), 1); }  ///< the smallest positive value
  UFP4_MEMBER static constexpr float(max)() { return decode(layout(), layout().max_code); }
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

using fp8_e4m3 = detail::byte_float<detail::byte_element::e4m3>;  ///< E4M3FN: the element of mxfp8_e4m3
using fp8_e5m2 = detail::byte_float<detail::byte_element::e5m2>;  ///< E5M2: the element of mxfp8_e5m2
using fp6_e3m2 = detail::byte_float<detail::byte_element::e3m2>;  ///< E3M2: the element of mxfp6_e3m2
using fp6_e2m3 = detail::byte_float<detail::byte_element::e2m3>;  ///< E2M3: the element of mxfp6_e2m3

static_assert(detail::byte_element_format<fp8_e4m3> && detail::byte_element_format<fp6_e2m3> &&
              !element_format<fp8_e4m3>);

}  // namespace ufp4::inline UFP4_TYPES
