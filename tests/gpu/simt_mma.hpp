// ufp4 - mma.sync in the CPU simulator, from the PTX ISA's fragment tables (cuda/mma_sm80.hpp, block_mma_sm120.hpp).
// SPDX-License-Identifier: Apache-2.0
//
// All the fragments of these instructions are one: with n elements in a register, g = lane / 4 and t = lane % 4,
// element e of register r is of row g + 8 (r % 2), column n t + e + 4 n (r / 2) of a, and of row n t + e + 4 n r,
// column g of b.
//
// s32 sums wrap. Of f32 sums the hardware promises neither order nor rounding (cuda/mma_sm80.hpp), so two are
// simulated, between which a kernel whose bits are promised must not tell the difference:
//
// | nearest   | products and their sum in binary64, rounded once to binary32. All products are exact there, and so is |
// |           | their sum unless its terms span more than 53 bits: the closest to the true sum, as good as any        |
// |           | hardware                                                                                              |
// | truncated | every term, d too, cut towards zero at 2^-23 of the power of two of the greatest, then summed, then   |
// |           | cut to 24 bits: the least that "at least single precision" allows                                     |
//
// A sum of zero is +0, a NaN is 0x7FFFFFFF.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

namespace ufp4::simt {

// ---- Elements and scales ----

/// 2^n, a normal double; std::ldexp is most of a tile's time.
inline double power_of_two(int n) {
  const std::uint64_t bits = static_cast<std::uint64_t>(1023 + n) << 52;
  double d;
  std::memcpy(&d, &bits, sizeof d);
  return d;
}

/// A float of a sign (or none), `exponent` and `mantissa` bits, without infinities or NaN.
inline double small_float(unsigned code, int exponent_bits, int mantissa_bits, int bias) {
  const unsigned m = code & ((1u << mantissa_bits) - 1), e = code >> mantissa_bits & ((1u << exponent_bits) - 1);
  const unsigned units = e == 0 ? m : m + (1u << mantissa_bits), at_least_1 = e == 0 ? 1 : e;
  const double magnitude = units * power_of_two(static_cast<int>(at_least_1) - bias - mantissa_bits);
  return (code >> (exponent_bits + mantissa_bits) & 1) != 0 ? -magnitude : magnitude;
}

struct f16 {
  static double value(unsigned c) {
    const unsigned magnitude = c & 0x7FFFu;
    if (magnitude > 0x7C00u) return std::numeric_limits<double>::quiet_NaN();
    if (magnitude == 0x7C00u) return (c & 0x8000u) != 0 ? -HUGE_VAL : HUGE_VAL;
    return small_float(c, 5, 10, 15);
  }
};
struct bf16 {
  static double value(unsigned c) {
    const std::uint32_t bits = c << 16;
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return f;
  }
};
struct s8 {
  static std::int32_t value(unsigned c) { return static_cast<std::int8_t>(c); }
};
struct e2m1 {
  static constexpr unsigned width = 4;
  static double value(unsigned c) { return small_float(c, 2, 1, 1); }
};
struct e2m3 {
  static constexpr unsigned width = 6;
  static double value(unsigned c) { return small_float(c, 2, 3, 1); }
};
struct e3m2 {
  static constexpr unsigned width = 6;
  static double value(unsigned c) { return small_float(c, 3, 2, 3); }
};
struct e4m3 {
  static constexpr unsigned width = 8;
  static double value(unsigned c) {
    return (c & 0x7Fu) == 0x7Fu ? std::numeric_limits<double>::quiet_NaN() : small_float(c, 4, 3, 7);
  }
};

struct e5m2 {
  static constexpr unsigned width = 8;
  static double value(unsigned c) {
    if ((c & 0x7Fu) > 0x7Cu) return std::numeric_limits<double>::quiet_NaN();
    if ((c & 0x7Fu) == 0x7Cu) return (c & 0x80u) != 0 ? -HUGE_VAL : HUGE_VAL;
    return small_float(c, 5, 2, 15);
  }
};

struct no_scale {
  static constexpr unsigned blocks = 1;
  static double value(unsigned) { return 1; }
};
struct ue4m3 {
  static constexpr unsigned blocks = 4;
  static double value(unsigned c) {
    if ((c & 0x80u) != 0) reject("gives mma_mxf4nvf4 a scale whose top bit is not 0");
    return e4m3::value(c);
  }
};
template <unsigned blocks_of_tile>
struct ue8m0 {
  static constexpr unsigned blocks = blocks_of_tile;
  static double value(unsigned c) {
    return c == 0xFFu ? std::numeric_limits<double>::quiet_NaN() : power_of_two(static_cast<int>(c) - 127);
  }
};

// ---- Sums ----

inline float no_nan_but_one(float f) {
  constexpr std::uint32_t bits = 0x7FFFFFFFu;
  if (f == f) return f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

/// To binary32 towards zero; infinity where nearest would be.
inline float cut(double x) {
  const float f = static_cast<float>(x);
  return std::isfinite(f) && std::fabs(static_cast<double>(f)) > std::fabs(x) ? std::nextafterf(f, 0.0f) : f;
}

/// d + the products a[i] b[i]
template <unsigned k>
float truncated_sum(float d, const double (&a)[k], const double (&b)[k]) {
  double terms[k + 1];
  int greatest = std::numeric_limits<int>::min();
  terms[k] = static_cast<double>(d);
  for (unsigned i = 0; i < k; ++i) terms[i] = a[i] * b[i];
  double plain = 0;
  for (const double t : terms) {
    plain += t;
    if (t != 0 && std::isfinite(t)) greatest = std::max(greatest, std::ilogb(t));
  }
  if (!std::isfinite(plain) || greatest == std::numeric_limits<int>::min()) return static_cast<float>(plain);
  double sum = 0;
  for (const double t : terms) sum += std::trunc(std::ldexp(t, 23 - greatest));
  return cut(std::ldexp(sum, greatest - 23));
}

// ---- The instruction ----

/// The operands of a lane. `halves` of 4 n columns along K.
template <class D, unsigned halves>
struct mma_operands {
  std::uint32_t a[2 * halves], b[halves];
  std::uint32_t scales_a, scales_b;
  D d[4];
};
template <class D>
struct mma_result {
  D d[4];
};

/// The tiles: a by rows, b by columns, each element times its scale.
template <class Value, unsigned k>
struct mma_tiles {
  Value a[16][k], b[8][k];
};

template <class A, class B, class Scale, unsigned n, class Tiles, class Operands>
void fill_tiles(Tiles& tiles, const Operands* lanes) {
  constexpr unsigned halves = sizeof lanes->b / 4, k = 4 * n * halves, bits = 32 / n, mask = (1u << bits) - 1;
  using value = std::remove_reference_t<decltype(tiles.a[0][0])>;
  for (unsigned l = 0; l < 32; ++l) {
    const unsigned g = l / 4, t = l % 4;
    for (unsigned r = 0; r < 2 * halves; ++r)
      for (unsigned e = 0; e < n; ++e)
        tiles.a[g + 8 * (r % 2)][n * t + e + 4 * n * (r / 2)] = A::value(lanes[l].a[r] >> bits * e & mask);
    for (unsigned r = 0; r < halves; ++r)
      for (unsigned e = 0; e < n; ++e) tiles.b[g][n * t + e + 4 * n * r] = B::value(lanes[l].b[r] >> bits * e & mask);
  }
  if constexpr (!std::is_same_v<Scale, no_scale>) {
    for (unsigned j = 0; j < Scale::blocks; ++j) {
      const auto scale = [&](value(&line)[k], std::uint32_t scales) {
        const value s = Scale::value(scales >> 8 * j & 0xFFu);
        for (unsigned i = k / Scale::blocks * j; i < k / Scale::blocks * (j + 1); ++i) line[i] *= s;
      };
      for (unsigned row = 0; row < 16; ++row) scale(tiles.a[row], lanes[4 * (row % 8) + row / 8].scales_a);
      for (unsigned col = 0; col < 8; ++col) scale(tiles.b[col], lanes[4 * col].scales_b);
    }
  }
}

inline std::int32_t sum_of(std::int32_t d, const auto& a, const auto& b) {
  auto sum = static_cast<std::uint32_t>(d);
  for (unsigned i = 0; i < std::size(a); ++i) sum += static_cast<std::uint32_t>(a[i] * b[i]);
  return static_cast<std::int32_t>(sum);
}
inline float sum_of(float d, const auto& a, const auto& b) {
  if (settings().sums == mma_sums::truncated) return no_nan_but_one(truncated_sum(d, a, b));
  double sum[4] = {};  // four, so that the host need not wait for one sum before the next
  for (unsigned i = 0; i < std::size(a); ++i) sum[i % 4] += a[i] * b[i];
  return no_nan_but_one(static_cast<float>((sum[0] + sum[1]) + (sum[2] + sum[3]) + static_cast<double>(d)));
}

template <class A, class B, class Scale, unsigned n, class D, unsigned a_words, unsigned b_words>
void mma(const char* name, D (&d)[4], const std::uint32_t (&a)[a_words], const std::uint32_t (&b)[b_words],
         std::uint32_t scales_a = 0, std::uint32_t scales_b = 0) {
  static_assert(a_words == 2 * b_words);
  check_device(name, !std::is_same_v<Scale, no_scale>);
  using operands = mma_operands<D, b_words>;
  operands mine{.a = {}, .b = {}, .scales_a = scales_a, .scales_b = scales_b, .d = {}};
  std::memcpy(mine.a, a, sizeof a);
  std::memcpy(mine.b, b, sizeof b);
  std::memcpy(mine.d, d, sizeof d);
  const auto got = meet<mma_result<D>>(name, mine, [name](const operands* lanes, mma_result<D>* given, unsigned count) {
    check_whole(name, count);
    mma_tiles<decltype(A::value(0)), 4 * n * b_words> tiles;
    fill_tiles<A, B, Scale, n>(tiles, lanes);
    for (unsigned l = 0; l < 32; ++l)
      for (unsigned i = 0; i < 4; ++i)
        given[l].d[i] = sum_of(lanes[l].d[i], tiles.a[l / 4 + 8 * (i / 2)], tiles.b[2 * (l % 4) + i % 2]);
  });
  std::memcpy(d, got.d, sizeof d);
}

using words2 = const std::uint32_t (&)[2];
using words4 = const std::uint32_t (&)[4];

inline void mma_f16(float (&d)[4], words4 a, words2 b) { mma<f16, f16, no_scale, 2>("mma_f16", d, a, b); }
inline void mma_bf16(float (&d)[4], words4 a, words2 b) { mma<bf16, bf16, no_scale, 2>("mma_bf16", d, a, b); }
inline void mma_s8_k32(std::int32_t (&d)[4], words4 a, words2 b) { mma<s8, s8, no_scale, 4>("mma_s8_k32", d, a, b); }
inline void mma_s8_k16(std::int32_t (&d)[4], words2 a, std::uint32_t b) {
  const std::uint32_t one[1] = {b};
  mma<s8, s8, no_scale, 4>("mma_s8_k16", d, a, one);
}
inline void mma_mxf4nvf4(float (&d)[4], words4 a, words2 b, std::uint32_t scales_a, std::uint32_t scales_b) {
  mma<e2m1, e2m1, ue4m3, 8>("mma_mxf4nvf4", d, a, b, scales_a, scales_b);
}
inline void mma_mxf4(float (&d)[4], words4 a, words2 b, std::uint32_t scales_a, std::uint32_t scales_b) {
  mma<e2m1, e2m1, ue8m0<2>, 8>("mma_mxf4", d, a, b, scales_a, scales_b);
}
inline void mma_mxf8f6f4(float (&d)[4], words4 a, words2 b, std::uint32_t scales_a, std::uint32_t scales_b) {
  mma<e4m3, e4m3, ue8m0<1>, 4>("mma_mxf8f6f4", d, a, b, scales_a, scales_b);
}

}  // namespace ufp4::simt
