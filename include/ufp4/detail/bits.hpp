// ufp4 - the bits of a binary32 number, and functions that force a rounding to happen where it is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::detail::inline UFP4_CODE {

inline constexpr std::uint32_t sign_mask = 0x80000000u, magnitude_mask = 0x7FFFFFFFu, infinity_bits = 0x7F800000u;
inline constexpr std::uint32_t max_finite_bits = 0x7F7FFFFFu;

UFP4_HD constexpr std::uint32_t to_bits(float x) { return __builtin_bit_cast(std::uint32_t, x); }
UFP4_HD constexpr float to_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

// Tests on bits: they depend neither on the caller's DAZ flag nor on what a compiler assumes of NaNs.
UFP4_HD constexpr std::uint32_t magnitude_bits(float x) { return to_bits(x) & magnitude_mask; }
UFP4_HD constexpr bool is_nan(float x) { return magnitude_bits(x) > infinity_bits; }
UFP4_HD constexpr bool is_finite(float x) { return magnitude_bits(x) < infinity_bits; }
UFP4_HD constexpr bool less(float x, float y) {  // a constant with NaNs too, which g++ 11 has no comparison of
  return !is_nan(x) && !is_nan(y) && x < y;
}
UFP4_HD constexpr bool is_negative(float x) { return (to_bits(x) & sign_mask) != 0; }
UFP4_HD constexpr float magnitude(float x) { return to_float(magnitude_bits(x)); }

inline constexpr float max_finite = __builtin_bit_cast(float, max_finite_bits);
inline constexpr float quiet_nan = __builtin_bit_cast(float, 0x7FC00000u);

/// The bits of a number, for tests in the caller's floating-point environment. The compiler cannot see that they come
/// from a float: clang replaces tests on a float's bits by float comparisons, which DAZ changes and which may trap.
inline std::uint32_t opaque_bits(float x) {
  std::uint32_t bits = to_bits(x);
  asm("" : "+r"(bits));
  return bits;
}

/// 2^e for -149 <= e <= 127.
UFP4_HD constexpr float exp2i(int e) {
  return e >= -126 ? to_float(static_cast<std::uint32_t>(e + 127) << 23) : to_float(1u << (e + 149));
}

/// floor(log2 |x|) for finite x != 0, subnormals included.
UFP4_HD constexpr int floor_log2(float x) {
  const std::uint32_t bits = magnitude_bits(x);
  if (bits >= 0x00800000u) return static_cast<int>(bits >> 23) - 127;
  int e = -149;
  for (std::uint32_t m = bits; m > 1; m >>= 1) ++e;
  return e;
}

/// The binary32 number m * 2^e by integer operations alone. It must be representable, with m < 2^24.
UFP4_HD constexpr float compose(std::uint32_t m, int e) {
  if (m == 0) return 0.0f;
  while (m < 0x00800000u && e > -149) m <<= 1, --e;
  while (e < -149) m >>= 1, ++e;  // exact: the bits shifted out are zeros
  return m < 0x00800000u ? to_float(m) : to_float((static_cast<std::uint32_t>(e + 150) << 23) | (m & 0x007FFFFFu));
}

/// base + m / 2^shift, rounded to the nearest integer, ties to even.
UFP4_HD constexpr std::uint32_t shift_right_even(std::uint32_t m, int shift, std::uint32_t base = 0) {
  if (shift <= 0) return base + (m << -shift);
  if (shift > 25) return base;  // m < 2^24: below half
  const std::uint32_t floor = base + (m >> shift), rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
  return floor + (rest > half || (rest == half && (floor & 1u)) ? 1u : 0u);
}

/// The sum of two numbers of one sign, exactly: a binary64 number and its rounding error.
struct exact_sum {
  double sum, rest;
  UFP4_HD static constexpr exact_sum of(float smaller, float larger) {
    const auto a = static_cast<double>(smaller), b = static_cast<double>(larger);
    return {a + b, a - (a + b - b)};
  }
};

/// < 0, 0 or > 0 for |t| below, at or above the midpoint; upper is farther from zero.
UFP4_HD constexpr int against_midpoint(float lower, float upper, float t) {
  const double twice = 2.0 * static_cast<double>(t);
  const exact_sum s = exact_sum::of(lower, upper);
  const double beyond = twice == s.sum ? -s.rest : twice - s.sum;
  const int above = beyond > 0 ? 1 : beyond < 0 ? -1 : 0;
  return upper > lower ? above : -above;
}

/// x, rounded to its type here: a product that it returns is never fused into a later add (architecture decision 11).
/// T is float or double, in device code float alone.
template <class T>
UFP4_HD constexpr T rounded(T x) {
#if defined(UFP4_DEVICE_CODE)
  if (!__builtin_is_constant_evaluated()) return gpu::device_rounded(x);
#elif defined(__aarch64__)
  if (!__builtin_is_constant_evaluated()) asm("" : "+w"(x));
#elif defined(__FMA__)
  if (!__builtin_is_constant_evaluated()) asm("" : "+x"(x));
#endif
  return x;
}

/// The same for an array that was just written: later reads give the stored, rounded values.
UFP4_HD constexpr void settle([[maybe_unused]] const float* values) {
#if (defined(__FMA__) || defined(__aarch64__)) && !defined(UFP4_DEVICE_CODE)
  if (!__builtin_is_constant_evaluated()) asm volatile("" : : "r"(values) : "memory");
#endif
}

/// The same for values in registers of a GPU thread, where a compiler would fuse the caller's products into our sums.
UFP4_HD constexpr void settle([[maybe_unused]] float* values, [[maybe_unused]] std::uint32_t count) {
#if defined(UFP4_DEVICE_CODE)
  for (std::uint32_t i = 0; i < count; ++i) values[i] = rounded(values[i]);
#else
  settle(values);
#endif
}

/// A mark, without an instruction, between the stages of a network of sums of known size: some optimisers search all
/// stages together for vector instructions, and the time of that search doubles with every stage.
UFP4_HD constexpr void end_stage([[maybe_unused]] float* values, [[maybe_unused]] std::uint32_t count) {
#if defined(UFP4_DEVICE_CODE)
  if (!__builtin_is_constant_evaluated()) gpu::device_apart(values, count);
#endif
}

/// a * b, rounded to binary32 here, without the extra instruction that rounded(a * b) may cost.
UFP4_HD constexpr float product(float a, float b) {
#if defined(UFP4_DEVICE_CODE)
  if (!__builtin_is_constant_evaluated()) return gpu::device_product(a, b);
#endif
  return rounded(a * b);
}

/// All 64 bits of a * b: where a compiler takes a product of 64-bit numbers instead, it adds zeros to its upper half.
UFP4_HD constexpr std::uint64_t wide_product(std::uint32_t a, std::uint32_t b) {
#if defined(UFP4_DEVICE_CODE)
  if (!__builtin_is_constant_evaluated()) return gpu::device_wide_product(a, b);
#endif
  return std::uint64_t{a} * b;
}

/// One rounding of a * b + c.
UFP4_HD inline float fma(float a, float b, float c) {
#if defined(UFP4_DEVICE_CODE)
  return gpu::device_fma(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

}  // namespace ufp4::detail::inline UFP4_CODE
