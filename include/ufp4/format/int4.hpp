// ufp4 - int4: the symmetric 4-bit integer as a value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/concepts.hpp>
#include <ufp4/format/minifloat.hpp>

namespace ufp4::inline UFP4_TYPES {

/// Two's complement, -8 .. 7, one byte. Beside CUDA's or HIP's headers write ufp4::int4: they have a global int4.
///
/// | from float | nearest, ties to the even integer; beyond +-7 and for Inf: +-7. -8 comes from bits only |
/// | NaN        | +7                                                                                     |
/// | zero       | one zero: -0.f and small negative values give code 0                                   |
class int4 : public detail::coded<int4, std::uint8_t, 15, std::strong_ordering> {
 public:
  static constexpr bool exact_products = true;

  int4() = default;
  UFP4_MEMBER constexpr explicit int4(float x) { bits_ = detail::encode_integer({0, 3, -2, false, 7, 7}, x) & 15; }
  UFP4_MEMBER constexpr explicit operator int() const { return bits_ < 8 ? bits_ : bits_ - 16; }  ///< -8 .. 7
  UFP4_MEMBER constexpr float value() const { return static_cast<float>(static_cast<int>(*this)); }
  UFP4_MEMBER static constexpr float(max)() { return 7.0f; }
};

static_assert(element_format<int4>);

}  // namespace ufp4::inline UFP4_TYPES
