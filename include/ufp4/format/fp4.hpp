// ufp4 - fp4<E2M1>, fp4<E1M2>, fp4<E3M0>: 4-bit floats as values.
// SPDX-License-Identifier: Apache-2.0
//
// | type      | magnitudes of codes 0..7        | max  |
// |-----------|---------------------------------|------|
// | fp4<E2M1> | 0 .5 1 1.5 2 3 4 6              | 6    |
// | fp4<E1M2> | 0 .25 .5 .75 1 1.25 1.5 1.75    | 1.75 |
// | fp4<E3M0> | 0 .25 .5 1 2 4 8 16             | 16   |
//
// A code is sign << 3 | magnitude. There is no NaN and no infinity.
#pragma once

#include <ufp4/concepts.hpp>
#include <ufp4/format/minifloat.hpp>

namespace ufp4::inline UFP4_TYPES {

/// Layout with two exponent bits and one mantissa bit: the FP4 of current accelerators.
struct E2M1 {  // layout() is a function because device code has no static members
  UFP4_MEMBER static constexpr minifloat layout() { return {2, 1, 1, true, 7, 7}; }
};
/// Layout with one exponent bit and two mantissa bits: the uniform grid.
struct E1M2 {
  UFP4_MEMBER static constexpr minifloat layout() { return {1, 2, 1, true, 7, 7}; }
};
/// Layout with three exponent bits and no mantissa: powers of two.
struct E3M0 {
  UFP4_MEMBER static constexpr minifloat layout() { return {3, 0, 3, true, 7, 7}; }
};

/// One 4-bit float, stored in one byte. Conversions are explicit and constexpr; the type is trivially copyable.
///
/// | from float | nearest, ties to the even code; beyond +-max() and for Inf: +-max() |
/// | NaN        | +max(), as __nv_cvt_float_to_fp4 of the CUDA Math API               |
/// | zero       | keeps its sign; a negative value that rounds to zero becomes -0     |
/// | comparison | of values: -0 == +0; compare bits() to distinguish them             |
template <class Layout>
class fp4 : public detail::ordered<fp4<Layout>, std::uint8_t, 15, std::weak_ordering> {
  using detail::coded<fp4, std::uint8_t, 15>::bits_;

 public:
  using layout_type = Layout;  ///< E2M1, E1M2 or E3M0
  static constexpr bool exact_products = true;

  fp4() = default;
  UFP4_MEMBER constexpr explicit fp4(float x) { bits_ = static_cast<std::uint8_t>(encode(Layout::layout(), x)); }
  UFP4_MEMBER constexpr explicit operator float() const { return decode(Layout::layout(), bits_); }
  UFP4_MEMBER static constexpr float(max)() { return decode(Layout::layout(), Layout::layout().max_code); }

  UFP4_MEMBER constexpr fp4 operator-() const { return fp4::from_bits(bits_ ^ 8u); }  ///< flips the sign, of zero too
};

static_assert(element_format<fp4<E2M1>> && element_format<fp4<E1M2>> && element_format<fp4<E3M0>>);

}  // namespace ufp4::inline UFP4_TYPES
