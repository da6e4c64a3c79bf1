// ufp4 - a conversion from float as a search in a table of values: what the tests of formats and rounding compare with.
// SPDX-License-Identifier: Apache-2.0
/// Written from numerics 1 and 2 alone; shares no code with the library. A format is a ladder: the values that a
/// conversion can give, ascending, with their codes. Every value, and every sum of two neighbours, is exact in
/// binary64, so "nearer to which?" is one exact comparison.
///
///   const scalar::conversion want = scalar::e2m1();
///   scalar::comparison seen;
///   scalar::for_each_input(want.rungs, [&](std::uint32_t x) { seen.check(x, library(x), want(x)); });
///   CHECK(seen.verdict() == "agrees");
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "support/seed.hpp"

namespace scalar {

inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline double value_of(std::uint32_t float_bits) { return static_cast<double>(float_of(float_bits)); }
inline bool is_nan(std::uint32_t float_bits) { return (float_bits & 0x7FFFFFFFu) > 0x7F800000u; }
inline bool is_negative(std::uint32_t float_bits) { return float_bits >> 31 != 0; }

enum class ties { to_even, none_rounds_down };

/// Ascending values. Rungs are counted from zero: a tie goes to the one an even number of steps from it.
struct ladder {
  std::vector<double> value;
  std::vector<std::uint32_t> code;
  int zero = 0;
  ties tie = ties::to_even;

  int top() const { return static_cast<int>(value.size()) - 1; }

  /// Does x belong to a rung above i?
  bool above(double x, int i) const {
    const auto at = static_cast<std::size_t>(i);
    if (tie == ties::none_rounds_down) return x >= value[at + 1];
    const double sum = value[at] + value[at + 1];
    return 2 * x > sum || (2 * x == sum && (i - zero) % 2 != 0);
  }
  /// The rung of x; beyond either end, the end.
  int find(double x) const {
    int low = 0, high = top();
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (above(x, middle)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

/// Where the sign of a float goes.
enum class sign_rule { high_bit, twos_complement, negative_is_zero, ignored, in_the_values };

/// One conversion from float, as a function of the float's bits.
struct conversion {
  ladder rungs;  // of magnitudes, but for sign_rule::in_the_values
  sign_rule sign;
  std::uint32_t nan_code;
  std::uint32_t sign_bit;  // for sign_rule::high_bit
  bool nan_keeps_sign = false;

  std::uint32_t signed_code(int rung, bool negative) const {
    const std::uint32_t code = rungs.code[static_cast<std::size_t>(rung)];
    if (!negative || sign == sign_rule::ignored || sign == sign_rule::in_the_values) return code;
    if (sign == sign_rule::negative_is_zero) return 0;
    return sign == sign_rule::high_bit ? code | sign_bit : (16 - code) % 16;
  }
  /// What the table is asked.
  double key(std::uint32_t x) const { return value_of(sign == sign_rule::in_the_values ? x : x & 0x7FFFFFFFu); }

  std::uint32_t operator()(std::uint32_t x) const {
    return is_nan(x) ? nan_code : signed_code(rungs.find(key(x)), is_negative(x));
  }
};

// ---- The formats of numerics 1 and 2.

/// Codes 0, 1, 2, ... in the order of the values.
inline ladder counted(std::vector<double> values) {
  ladder rungs{std::move(values), {}};
  for (std::uint32_t c = 0; c < rungs.value.size(); ++c) rungs.code.push_back(c);
  for (int i = 0; i <= rungs.top(); ++i) {
    if (rungs.value[static_cast<std::size_t>(i)] == 0) rungs.zero = i;
  }
  return rungs;
}

/// Magnitude codes 0 .. last of a float with the given fields.
inline double field_value(std::uint32_t code, int mantissa_bits, int bias) {
  const int exponent = static_cast<int>(code >> mantissa_bits), hidden = 1 << mantissa_bits;
  const int mantissa = static_cast<int>(code) % hidden;
  return exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                       : std::ldexp(hidden + mantissa, exponent - bias - mantissa_bits);
}
inline ladder fields(int mantissa_bits, int bias, std::uint32_t last) {
  std::vector<double> values;
  for (std::uint32_t c = 0; c <= last; ++c) values.push_back(field_value(c, mantissa_bits, bias));
  return counted(std::move(values));
}

inline const std::vector<double> e2m1_values{0, .5, 1, 1.5, 2, 3, 4, 6};
inline const std::vector<double> e1m2_values{0, .25, .5, .75, 1, 1.25, 1.5, 1.75};
inline const std::vector<double> e3m0_values{0, .25, .5, 1, 2, 4, 8, 16};
inline const std::vector<double> nf4_values{// arXiv 2305.14314, appendix E, as binary32
                                            -1.0,
                                            -0.6961928009986877,
                                            -0.5250730514526367,
                                            -0.39491748809814453,
                                            -0.28444138169288635,
                                            -0.18477343022823334,
                                            -0.09105003625154495,
                                            0.0,
                                            0.07958029955625534,
                                            0.16093020141124725,
                                            0.24611230194568634,
                                            0.33791524171829224,
                                            0.44070982933044434,
                                            0.5626170039176941,
                                            0.7229568362236023,
                                            1.0};

inline conversion fp4_conversion(const std::vector<double>& values) {
  return {counted(values), sign_rule::high_bit, 7, 8};
}
inline conversion e2m1() { return fp4_conversion(e2m1_values); }
inline conversion e1m2() { return fp4_conversion(e1m2_values); }
inline conversion e3m0() { return fp4_conversion(e3m0_values); }
inline conversion int4() { return {counted({0, 1, 2, 3, 4, 5, 6, 7}), sign_rule::twos_complement, 7, 0}; }
inline conversion nf4() { return {counted(nf4_values), sign_rule::in_the_values, 15, 0}; }
inline conversion e4m3() { return {fields(3, 7, 0x7E), sign_rule::high_bit, 0x7F, 0x80}; }
inline conversion ue5m3() { return {fields(3, 15, 0xFE), sign_rule::negative_is_zero, 0xFF, 0}; }
inline conversion e8m0() {
  std::vector<double> powers;
  for (int c = 0; c <= 0xFE; ++c) powers.push_back(std::ldexp(1.0, c - 127));
  ladder rungs = counted(std::move(powers));
  rungs.tie = ties::none_rounds_down;
  return {std::move(rungs), sign_rule::ignored, 0xFF, 0};
}
inline conversion bf16() { return {fields(7, 127, 0x7F7F), sign_rule::high_bit, 0x7FC0, 0x8000}; }
/// The IEEE conversions: the rung above the largest finite value is the infinity.
inline conversion bf16_ieee() { return {fields(7, 127, 0x7F80), sign_rule::high_bit, 0x7FC0, 0x8000}; }
inline conversion fp16() { return {fields(10, 15, 0x7C00), sign_rule::high_bit, 0x7E00, 0x8000}; }

// ---- Inputs.

/// The floats `reach` steps and less from x, x included, which need not be a float itself.
template <class Visit>
void near(double x, int reach, Visit visit) {
  const auto centre = static_cast<std::int64_t>(bits_of(static_cast<float>(std::abs(x))));
  const std::uint32_t sign = x < 0 ? 0x80000000u : 0u;
  for (std::int64_t b = std::max<std::int64_t>(centre - reach, 0); b <= centre + reach; ++b) {
    if (b <= 0x7F800000) visit(sign | static_cast<std::uint32_t>(b));
  }
}

/// Every float within four steps of a value and of the middle between two, either sign.
template <class Visit>
void near_boundaries(const ladder& rungs, Visit visit) {
  const auto both = [&](std::uint32_t x) { visit(x), visit(x ^ 0x80000000u); };
  for (std::size_t i = 0; i < rungs.value.size(); ++i) {
    near(rungs.value[i], 4, both);
    if (i > 0) near((rungs.value[i - 1] + rungs.value[i]) / 2, 4, both);
  }
}

/// All 2^16 bfloat16 and all 2^16 binary16 numbers, as floats: subnormals, infinities and NaNs are among them.
template <class Visit>
void sixteen_bit_inputs(Visit visit) {
  for (std::uint32_t c = 0; c < 0x10000; ++c) visit(c << 16);
  for (std::uint32_t c = 0; c < 0x10000; ++c) {
    const std::uint32_t sign = (c & 0x8000u) << 16, magnitude = c & 0x7FFFu;
    visit(sign | (magnitude >= 0x7C00u ? 0x7F800000u | (magnitude & 0x3FFu) << 13
                                       : bits_of(static_cast<float>(field_value(magnitude, 10, 15)))));
  }
}

/// NaNs of both signs, quiet and signalling: every single payload bit, both ends, and 500 at random.
template <class Visit>
void nans(Visit visit) {
  std::vector<std::uint32_t> payloads{1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFF};
  for (int bit = 0; bit < 23; ++bit) payloads.push_back(1u << bit);
  std::mt19937_64 gen{support::seed(7)};
  for (int k = 0; k < 500; ++k) payloads.push_back(static_cast<std::uint32_t>(gen() % 0x7FFFFF) + 1);
  for (const std::uint32_t payload : payloads) visit(0x7F800000u | payload), visit(0xFF800000u | payload);
}

/// Zeros, the ends of the subnormals and of the normal numbers, infinities.
template <class Visit>
void landmarks(Visit visit) {
  for (const std::uint32_t x : {0x00000000u, 0x00000001u, 0x00000002u, 0x003FFFFFu, 0x00400000u, 0x007FFFFFu,
                                0x00800000u, 0x00800001u, 0x7F7FFFFEu, 0x7F7FFFFFu, 0x7F800000u}) {
    visit(x), visit(x | 0x80000000u);
  }
}

/// `count` floats of uniform bits.
template <class Visit>
void random_floats(int count, Visit visit) {
  std::mt19937_64 gen{support::seed(8)};
  for (int k = 0; k < count; ++k) visit(static_cast<std::uint32_t>(gen()));
}

template <class Visit>
void for_each_input(const ladder& rungs, Visit visit) {
  near_boundaries(rungs, visit);
  sixteen_bit_inputs(visit);
  nans(visit);
  landmarks(visit);
  random_floats(100000, visit);
}

// ---- Answers.

/// Compares without a macro a time; keeps the first difference.
class comparison {
 public:
  void check(std::uint32_t input, std::uint32_t got, std::uint32_t want) {
    ++total_;
    if (got != want && wrong_++ == 0) {
      char text[100];
      std::snprintf(text, sizeof text, "input 0x%08X gives 0x%X and should give 0x%X", static_cast<unsigned>(input),
                    static_cast<unsigned>(got), static_cast<unsigned>(want));
      first_ = text;
    }
  }
  /// "agrees", or the first difference and the number of them.
  std::string verdict() const {
    if (total_ == 0) return "nothing was compared";
    if (wrong_ == 0) return "agrees";
    return first_ + "; " + std::to_string(wrong_) + " of " + std::to_string(total_) + " differ";
  }
  /// Takes over what another one saw.
  void add(const comparison& other) {
    if (wrong_ == 0) first_ = other.first_;
    total_ += other.total_, wrong_ += other.wrong_;
  }

 private:
  std::uint64_t total_ = 0, wrong_ = 0;
  std::string first_;
};

}  // namespace scalar
