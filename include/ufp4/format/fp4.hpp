// ufp4 - fp4<E2M1>, fp4<E1M2>, fp4<E3M0>: 4-bit floats as values; fp4_remapped: with another value for the second zero.
// SPDX-License-Identifier: Apache-2.0
//
// A code is sign << 3 | magnitude. There is no NaN and no infinity. docs/formats.md lists the values.
#pragma once

#include <ufp4/format/grid.hpp>

namespace ufp4::inline UFP4_TYPES {

/// Layout with two exponent bits and one mantissa bit: the FP4 of current accelerators.
struct E2M1 {  // layout() is a function because device code has no static members
  UFP4_MEMBER static constexpr detail::minifloat layout() { return {2, 1, 1, true, 7, 7}; }
};
/// Layout with one exponent bit and two mantissa bits: the uniform grid.
struct E1M2 {
  UFP4_MEMBER static constexpr detail::minifloat layout() { return {1, 2, 1, true, 7, 7}; }
};
/// Layout with three exponent bits and no mantissa: powers of two.
struct E3M0 {
  UFP4_MEMBER static constexpr detail::minifloat layout() { return {3, 0, 3, true, 7, 7}; }
};

/// One 4-bit float, stored in one byte; constexpr, trivially copyable. It is a float in expressions (number.hpp).
///
/// | from float | nearest, ties to the even code; beyond +-max() and for Inf: +-max() |
/// | NaN        | +max(), as __nv_cvt_float_to_fp4 of the CUDA Math API               |
/// | zero       | keeps its sign; a negative value that rounds to zero becomes -0     |
/// | comparison | of values: -0 == +0; compare bits() to distinguish them             |
template <class Layout>
class fp4 : public detail::coded<fp4<Layout>, std::uint8_t, 15, std::weak_ordering> {
  using fp4::coded::bits_;

 public:
  using layout_type = Layout;  ///< E2M1, E1M2 or E3M0
  static constexpr bool exact_products = true;

  fp4() = default;
  UFP4_MEMBER constexpr explicit fp4(float x) {
    bits_ = static_cast<std::uint8_t>(detail::encode(Layout::layout(), x));
  }
  UFP4_MEMBER constexpr float value() const { return detail::decode(Layout::layout(), bits_); }
  UFP4_MEMBER static constexpr float(max)() { return detail::decode(Layout::layout(), Layout::layout().max_code); }

  UFP4_MEMBER constexpr fp4 operator-() const { return fp4::from_bits(bits_ ^ 8u); }  ///< flips the sign, of zero too
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

template <class Layout, int special>
inline constexpr grid4 remapped_grid = [] {
  float values[16]{};
  for (std::uint32_t c = 0; c < 16; ++c) values[c] = c == 8 ? static_cast<float>(special) : decode(Layout::layout(), c);
  return grid4::of(values);
}();

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// fp4<Layout> whose code 8, its second zero, has the value `special` instead (RaZeR, arXiv 2501.04052: redundant zero
/// remapping). `special` is not a value of the layout.
///
/// | from float | nearest; a tie goes to the value an even number of values from zero; saturates, also for Inf |
/// | NaN        | the code 7, max() of the layout                                                              |
/// | zero       | one zero: -0.f and negative values that round to zero give code 0                            |
template <class Layout, int special>
class fp4_remapped : public detail::coded<fp4_remapped<Layout, special>, std::uint8_t, 15, std::strong_ordering> {
  using fp4_remapped::coded::bits_;

 public:
  using layout_type = Layout;  ///< E2M1, E1M2 or E3M0
  static constexpr bool exact_products = detail::remapped_grid<Layout, special>.exact_products;

  fp4_remapped() = default;
  /// The nearest value.
  UFP4_MEMBER constexpr explicit fp4_remapped(float x) {
    constexpr grid4 grid = detail::remapped_grid<Layout, special>;  // local: device code has none of a namespace
    bits_ = detail::is_nan(x) ? std::uint8_t{7} : detail::nearest_code(grid, x);
  }
  UFP4_MEMBER constexpr float value() const {
    return bits_ == 8 ? static_cast<float>(special) : detail::decode(Layout::layout(), bits_);
  }
  UFP4_MEMBER static constexpr float(max)() {
    constexpr float largest = detail::remapped_grid<Layout, special>.qmax;
    return largest;
  }

  static_assert(detail::decode(Layout::layout(), detail::encode(Layout::layout(), static_cast<float>(special))) !=
                    static_cast<float>(special),
                "the special value of fp4_remapped is not a value of its layout");
};

static_assert(element_format<fp4<E2M1>> && element_format<fp4<E1M2>> && element_format<fp4<E3M0>>);
static_assert(element_format<fp4_remapped<E2M1, 5>>);

}  // namespace ufp4::inline UFP4_TYPES
