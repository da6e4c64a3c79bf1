// ufp4 - std::numeric_limits of every number type.
// SPDX-License-Identifier: Apache-2.0
//
// Every member is as the standard defines it; docs/formats.md lists them. Arithmetic is that of float, so no type is
// IEC 559, traps or wraps around. is_integer describes the values: it is true of int4 and int8, whose sums are floats.
//
// fp4_remapped has the limits of its layout, but lowest() and max() may be the special value. The values of a
// table_element have no digits and no exponents: min() is lowest(), epsilon() is 0.
//
// int4's -8, the -128 of 8 bits and the infinities of fp8_e5m2 and bf16 come from bits only, not from conversions.
#pragma once

#include <limits>
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/fp8.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/int8.hpp>
#include <ufp4/format/scales.hpp>
#include <ufp4/format/table_element.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// The members that all types share. has_denorm is inherited from float or int: C++23 deprecates the name of its type.
template <bool subnormals>
struct any_limits : std::numeric_limits<std::conditional_t<subnormals, float, int>> {
  static constexpr bool is_specialized = true, is_bounded = true, is_modulo = false, is_iec559 = false;
  static constexpr bool traps = false, tinyness_before = false;
  static constexpr bool has_signaling_NaN = false;  // some codes of bf16 and fp16 look like one, but nothing signals
  static constexpr bool is_integer = false, is_exact = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int radix = 2, digits = 0, digits10 = 0, max_digits10 = 0;
  static constexpr int min_exponent = 0, max_exponent = 0, min_exponent10 = 0, max_exponent10 = 0;
};

constexpr int decimal_digits(int bits) { return bits * 30103 / 100000; }  // floor(bits * log10 2)
constexpr int decimal_exponent(float x) {
  int e = 0;
  for (double power = 10; power <= static_cast<double>(x); power *= 10) ++e;
  return e;
}

/// The members that are numbers, as codes of T: 0 for those that T lacks.
template <class T, bool subnormals, std::uint32_t least, std::uint32_t largest, std::uint32_t first,
          std::uint32_t tiniest, std::uint32_t eps, std::uint32_t error, std::uint32_t infinite, std::uint32_t nan>
struct coded_limits : any_limits<subnormals> {
  static constexpr bool has_infinity = infinite != 0, has_quiet_NaN = nan != 0;

  UFP4_MEMBER static constexpr T of(std::uint32_t code) noexcept {
    return T::from_bits(static_cast<decltype(T().bits())>(code));
  }
  UFP4_MEMBER static constexpr T(min)() noexcept { return of(least); }
  UFP4_MEMBER static constexpr T(max)() noexcept { return of(largest); }
  UFP4_MEMBER static constexpr T lowest() noexcept { return of(first); }
  UFP4_MEMBER static constexpr T denorm_min() noexcept { return of(tiniest); }
  UFP4_MEMBER static constexpr T epsilon() noexcept { return of(eps); }
  UFP4_MEMBER static constexpr T round_error() noexcept { return of(error); }
  UFP4_MEMBER static constexpr T infinity() noexcept { return of(infinite); }
  UFP4_MEMBER static constexpr T quiet_NaN() noexcept { return of(nan); }
  UFP4_MEMBER static constexpr T signaling_NaN() noexcept { return of(0); }
};

/// The code of the infinity of T, a small float of that layout; 0 for a type without one.
template <class T>
constexpr std::uint32_t infinity_code(const minifloat& layout) {
  const float above = coded_limits<T, false, 0, 0, 0, 0, 0, 0, 0, 0>::of(layout.max_code + 1).value();
  return to_bits(above) == infinity_bits ? layout.max_code + 1 : 0;
}
/// The limits of T.
template <class T, minifloat layout>
struct minifloat_limits : coded_limits<T, (layout.mantissa_bits > 0), 1u << layout.mantissa_bits, layout.max_code,
                                       layout.has_sign ? layout.sign_bit() | layout.max_code : 0u, 1,
                                       T(exp2i(-layout.mantissa_bits)).bits(), T(0.5f).bits(), infinity_code<T>(layout),
                                       (layout.nan_code > layout.max_code ? layout.nan_code : 0u)> {
  static constexpr bool is_signed = layout.has_sign;
  static constexpr int digits = layout.mantissa_bits + 1;
  static constexpr int digits10 = decimal_digits(digits - 1), max_digits10 = decimal_digits(digits) + 2;
  static constexpr int min_exponent = 2 - layout.bias, max_exponent = floor_log2((T::max)()) + 1;
  static constexpr int min_exponent10 = -decimal_digits(1 - min_exponent);
  static constexpr int max_exponent10 = decimal_exponent((T::max)());
};

/// The same of a table, from the codes of its lowest and largest value and of zero.
template <class Levels, std::uint32_t first, std::uint32_t largest, std::uint32_t zero>
using table_limits = coded_limits<table_element<Levels>, false, first, largest, first, zero, zero, zero, 0, 0>;

}  // namespace ufp4::detail::inline UFP4_TYPES

template <class Layout>
struct std::numeric_limits<ufp4::fp4<Layout>> : ufp4::detail::minifloat_limits<ufp4::fp4<Layout>, Layout::layout()> {};
template <ufp4::detail::number T>
  requires requires { T::layout(); }
struct std::numeric_limits<T> : ufp4::detail::minifloat_limits<T, T::layout()> {};

/// Powers of two only: no zero, no subnormals; the conversion rounds down.
template <>
struct std::numeric_limits<ufp4::e8m0>
    : ufp4::detail::coded_limits<ufp4::e8m0, false, 0, 0xFE, 0, 0, 0x7F, 0x7F, 0, 0xFF> {
  static constexpr bool is_signed = false;
  static constexpr std::float_round_style round_style = std::round_toward_zero;
  static constexpr int digits = 1, max_digits10 = 2;
  static constexpr int min_exponent = -126, max_exponent = 128, min_exponent10 = -38, max_exponent10 = 38;
};

/// No zero, no subnormals; the conversion rounds to nearest.
template <>
struct std::numeric_limits<ufp4::e6m2>
    : ufp4::detail::coded_limits<ufp4::e6m2, false, 0, 0xFE, 0, 0, ufp4::e6m2(0.25f).bits(), ufp4::e6m2(0.5f).bits(), 0,
                                 0xFF> {
  static constexpr bool is_signed = false;
  static constexpr int digits = 3, max_digits10 = 2;
  static constexpr int min_exponent = -47, max_exponent = 16, min_exponent10 = -14, max_exponent10 = 4;
};

template <class Layout, int special>
struct std::numeric_limits<ufp4::fp4_remapped<Layout, special>>
    : ufp4::detail::minifloat_limits<ufp4::fp4_remapped<Layout, special>, Layout::layout()> {
  UFP4_MEMBER static constexpr ufp4::fp4_remapped<Layout, special>(max)() noexcept {
    return numeric_limits::of(numeric_limits::of(8) > numeric_limits::of(7) ? 8 : 7);
  }
  UFP4_MEMBER static constexpr ufp4::fp4_remapped<Layout, special> lowest() noexcept {
    return numeric_limits::of(numeric_limits::of(8) < numeric_limits::of(15) ? 8 : 15);
  }
  static constexpr int max_exponent = ufp4::detail::floor_log2((max)().value()) + 1;
  static constexpr int max_exponent10 = ufp4::detail::decimal_exponent((max)().value());
};

template <class Levels>
struct std::numeric_limits<ufp4::table_element<Levels>>
    : ufp4::detail::table_limits<Levels, ufp4::detail::table_grid<Levels>.code[0],
                                 ufp4::table_element<Levels>(ufp4::detail::max_finite).bits(),
                                 ufp4::table_element<Levels>(0.0f).bits()> {
  static constexpr bool is_signed = ufp4::detail::table_grid<Levels>.zero > 0;
};

template <>
struct std::numeric_limits<ufp4::int4> : ufp4::detail::coded_limits<ufp4::int4, false, 8, 7, 8, 0, 0, 0, 0, 0> {
  static constexpr bool is_signed = true, is_integer = true, is_exact = true;
  static constexpr int digits = 3;
};
/// Of int8q6, a fixed-point number: no integer, but exact.
template <int fraction_bits>
struct std::numeric_limits<ufp4::detail::scaled_int8<fraction_bits>>
    : ufp4::detail::coded_limits<ufp4::detail::scaled_int8<fraction_bits>, false, 128, 127, 128, 0, 0, 0, 0, 0> {
  static constexpr bool is_signed = true, is_integer = fraction_bits == 0, is_exact = true;
  static constexpr int digits = 7, digits10 = 2;
};
