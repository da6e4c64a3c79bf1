// ufp4 - std::numeric_limits of fp4<...>, int4, e4m3, ue5m3, e8m0, bf16 and fp16.
// SPDX-License-Identifier: Apache-2.0
//
// What it promises: every member is what the standard's definition gives for the values that the type can hold. None of
// these types has arithmetic of its own, so none is IEC 559, traps or wraps around.
//
// | type      | signed | digits | denorm_min | min    | lowest  | max    | epsilon | has            |
// |-----------|--------|--------|------------|--------|---------|--------|---------|----------------|
// | fp4<E2M1> | yes    | 2      | .5         | 1      | -6      | 6      | .5      |                |
// | fp4<E1M2> | yes    | 3      | .25        | 1      | -1.75   | 1.75   | .25     |                |
// | fp4<E3M0> | yes    | 1      | = min      | .25    | -16     | 16     | 1       |                |
// | int4      | yes    | 3      | 0          | -8     | -8      | 7      | 0       |                |
// | e4m3      | yes    | 4      | 2^-9       | 2^-6   | -448    | 448    | 2^-3    | quiet NaN      |
// | ue5m3     | no     | 4      | 2^-17      | 2^-14  | 0       | 114688 | 2^-3    | quiet NaN      |
// | e8m0      | no     | 1      | = min      | 2^-127 | 2^-127  | 2^127  | 1       | quiet NaN      |
// | bf16      | yes    | 8      | 2^-133     | 2^-126 | -max    | 2^128 - 2^120 | 2^-7 | quiet NaN, Inf |
// | fp16      | yes    | 11     | 2^-24      | 2^-14  | -65504  | 65504  | 2^-10   | quiet NaN, Inf |
//
// int4's -8 comes from bits alone: a conversion from float stops at -7. bf16's infinity too: a conversion saturates.
#pragma once

#include <cstdint>
#include <limits>
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/scales.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// What the types share. A member that has no meaning for a type is 0, false or T{}, as the standard has it.
struct any_limits {
  static constexpr bool is_specialized = true, is_bounded = true, is_modulo = false, is_iec559 = false;
  static constexpr bool traps = false, tinyness_before = false;
  static constexpr bool has_signaling_NaN = false;  // patterns of bf16 and fp16 look like one, but nothing signals
  static constexpr int radix = 2;
};

constexpr int decimal_digits(int bits) { return bits * 30103 / 100000; }  // floor(bits * log10 2)
constexpr int decimal_exponent(float x) {
  int e = 0;
  for (double power = 10; power <= static_cast<double>(x); power *= 10) ++e;
  return e;
}

/// The limits of T, whose codes are those of a layout. Inf is the code of infinity, or 0.
template <class T, minifloat layout, std::uint32_t infinity_code = 0>
struct minifloat_limits : any_limits {
  using bits_type = decltype(T{}.bits());
  static constexpr T from(std::uint32_t code) { return T::from_bits(static_cast<bits_type>(code)); }
  static constexpr bool has_nan = layout.nan_code > layout.max_code;

  static constexpr bool is_signed = layout.has_sign, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = infinity_code != 0, has_quiet_NaN = has_nan;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int digits = layout.mantissa_bits + 1;
  static constexpr int digits10 = decimal_digits(digits - 1), max_digits10 = decimal_digits(digits) + 2;
  static constexpr int min_exponent = 2 - layout.bias;
  static constexpr int max_exponent = floor_log2(T::max()) + 1;
  static constexpr int min_exponent10 = -decimal_digits(1 - min_exponent);
  static constexpr int max_exponent10 = decimal_exponent(T::max());

  UFP4_MEMBER static constexpr T min() noexcept { return from(1u << layout.mantissa_bits); }
  UFP4_MEMBER static constexpr T max() noexcept { return from(layout.max_code); }
  UFP4_MEMBER static constexpr T lowest() noexcept { return from(layout.has_sign ? layout.sign_bit() | layout.max_code : 0); }
  UFP4_MEMBER static constexpr T denorm_min() noexcept { return from(1); }
  UFP4_MEMBER static constexpr T epsilon() noexcept { return T(exp2i(-layout.mantissa_bits)); }
  UFP4_MEMBER static constexpr T round_error() noexcept { return T(0.5f); }
  UFP4_MEMBER static constexpr T infinity() noexcept { return from(infinity_code); }
  UFP4_MEMBER static constexpr T quiet_NaN() noexcept { return from(has_nan ? layout.nan_code : 0); }
  UFP4_MEMBER static constexpr T signaling_NaN() noexcept { return from(0); }
};

}  // namespace ufp4::detail::inline UFP4_TYPES
