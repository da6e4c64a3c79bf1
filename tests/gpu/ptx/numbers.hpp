// ufp4 - the PTX interpreter: the 16- and 8-bit floats, and sums that are rounded to odd.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ptx {

/// NaN results of the hardware are 0x7FFFFFFF and 0x7FFFFFFFFFFFFFFF... of binary64 0xFFF8000000000000.
inline float canonical(float f) { return f == f ? f : std::bit_cast<float>(0x7FFFFFFFu); }
inline double canonical(double f) { return f == f ? f : std::bit_cast<double>(0xFFF8'0000'0000'0000ull); }

/// a + b in binary64, rounded to odd: rounding that again to at most 51 bits gives the exact sum's rounding.
inline double odd_sum(double a, double b) {
  const double s = a + b;
  if (!std::isfinite(s)) return s;
  const double t = s - a, error = (a - (s - t)) + (b - t);
  if (error == 0) return s;
  const auto bits = std::bit_cast<std::uint64_t>(s);
  if ((bits & 1) != 0) return s;
  return std::bit_cast<double>((error > 0) == (s > 0) ? bits + 1 : bits - 1);
}

/// x rounded to a float of E exponent and M mantissa bits, to nearest, ties to even. Infinity is the code above the
/// greatest number.
template <int exponent_bits, int mantissa_bits>
std::uint32_t rounded_code(double x) {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint32_t sign = std::signbit(x) ? 1u << (exponent_bits + mantissa_bits) : 0;
  const double a = std::fabs(x);
  if (a == 0) return sign;
  constexpr std::uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  if (std::isinf(a)) return sign | infinity;
  int e = std::ilogb(a);
  if (e < 1 - bias) e = 1 - bias;
  const double units = std::nearbyint(std::ldexp(a, mantissa_bits - e));  // 2^M for the least normal
  const auto code = static_cast<std::uint64_t>(units) + (static_cast<std::uint64_t>(e + bias - 1) << mantissa_bits);
  return sign | (code >= infinity ? infinity : static_cast<std::uint32_t>(code));
}
template <int exponent_bits, int mantissa_bits>
double code_value(std::uint32_t c) {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  const int e = static_cast<int>(c >> mantissa_bits & ((1u << exponent_bits) - 1));
  const double m = c & ((1u << mantissa_bits) - 1);
  const double magnitude =
      e == 0 ? std::ldexp(m, 1 - bias - mantissa_bits) : std::ldexp(m + (1 << mantissa_bits), e - bias - mantissa_bits);
  return (c >> (exponent_bits + mantissa_bits) & 1) != 0 ? -magnitude : magnitude;
}

struct f16 {
  static double value(std::uint16_t c) {
    if ((c & 0x7FFFu) > 0x7C00u) return std::numeric_limits<double>::quiet_NaN();
    if ((c & 0x7FFFu) == 0x7C00u) return (c & 0x8000u) != 0 ? -HUGE_VAL : HUGE_VAL;
    return code_value<5, 10>(c);
  }
  static std::uint16_t rounded(double x) {
    return x != x ? std::uint16_t{0x7FFF} : static_cast<std::uint16_t>(rounded_code<5, 10>(x));
  }
};

struct bf16 {
  static double value(std::uint16_t c) { return std::bit_cast<float>(std::uint32_t{c} << 16); }
  static std::uint16_t rounded(double x) {
    return x != x ? std::uint16_t{0x7FFF} : static_cast<std::uint16_t>(rounded_code<8, 7>(x));
  }
};

/// Without infinities: larger numbers become the greatest (cvt.satfinite).
struct e4m3 {
  static double value(std::uint8_t c) {
    return (c & 0x7Fu) == 0x7Fu ? std::numeric_limits<double>::quiet_NaN() : code_value<4, 3>(c);
  }
  static std::uint8_t rounded(double x) {
    if (x != x) return 0x7F;
    const std::uint8_t sign = std::signbit(x) ? 0x80 : 0;
    if (std::fabs(x) >= 464) return sign | 0x7E;
    // 256 to 448 have the exponent that would be infinity's in an IEEE format.
    if (std::fabs(x) >= 248) {
      const auto units = static_cast<unsigned>(std::nearbyint(std::fabs(x) / (std::fabs(x) < 256 ? 16 : 32)));
      return static_cast<std::uint8_t>(sign | (std::fabs(x) < 256 ? 0x70 + units - 8 : 0x78 + units - 8));
    }
    return static_cast<std::uint8_t>(rounded_code<4, 3>(x));
  }
};
struct e5m2 {
  static double value(std::uint8_t c) { return f16::value(static_cast<std::uint16_t>(c << 8)); }
  static std::uint8_t rounded(double x) {
    if (x != x) return 0x7F;
    const auto c = static_cast<std::uint8_t>(rounded_code<5, 2>(x));
    return (c & 0x7F) == 0x7C ? static_cast<std::uint8_t>(c - 1) : c;
  }
};

}  // namespace ptx
