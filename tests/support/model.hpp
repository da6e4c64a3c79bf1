// ufp4 - a slow, literal second implementation of sections 1 to 5 of the numerical specification.
// SPDX-License-Identifier: Apache-2.0
/// Shares only the names of types with the library. Grids are the tables of the specification; a conversion tries every
/// code. An operation with one binary32 rounding is computed in long double and then rounded to binary32, with the same
/// result: with 64 bits the double rounding never changes + - * / (Figueroa 1995: 64 >= 2 * 24 + 2; products are exact,
/// so the subnormal range is safe too). On x86 long double is computed by the x87 unit, which FMA, FTZ, DAZ and the
/// rounding mode in MXCSR do not affect.
///
///   const model::result want = model::quantize(model::format_of<nvfp4>(), values, rows, cols, {.n = 16});
///   REQUIRE(model::packed(want.codes) == got_codes);
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <ufp4/block/presets.hpp>
#include <ufp4/format/table_element.hpp>

#include "support/philox.hpp"

namespace model {

using wide = long double;
#if !defined(__HIP_DEVICE_COMPILE__)  // AMD GPUs, which do not run this, have no such type
static_assert(std::numeric_limits<wide>::digits >= 64, "the model needs a long double of 64 bits");
#endif

inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline bool finite(float x) { return (bits_of(x) & 0x7F800000u) != 0x7F800000u; }
inline bool negative(float x) { return bits_of(x) >> 31 != 0; }
inline float absolute(float x) { return float_of(bits_of(x) & 0x7FFFFFFFu); }
inline const float largest_float = float_of(0x7F7FFFFFu);

// ---- One binary32 rounding each.

/// Through memory: otherwise compilers might compute in binary32 and fuse the operation with the next.
inline float fl(wide x) {
  volatile wide exact = x;
  return static_cast<float>(exact);
}
inline float add(float a, float b) { return fl(static_cast<wide>(a) + static_cast<wide>(b)); }
inline float sub(float a, float b) { return fl(static_cast<wide>(a) - static_cast<wide>(b)); }
inline float mul(float a, float b) { return fl(static_cast<wide>(a) * static_cast<wide>(b)); }
inline float div(float a, float b) { return fl(static_cast<wide>(a) / static_cast<wide>(b)); }

/// a * b + c with one rounding: the product is exact in binary64, the sum is rounded to odd in binary64 (in the
/// direction of the error of the sum), so the result is rounded to binary32 only once (Boldo and Melquiond 2008).
inline float fma(float a, float b, float c) {
  const double p = static_cast<double>(a) * static_cast<double>(b), z = static_cast<double>(c);
  const double sum = p + z;
  if (!std::isfinite(sum)) return static_cast<float>(sum);
  const double part = sum - p, error = (p - (sum - part)) + (z - part);
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if (error != 0 && (bits & 1u) == 0) bits += (error > 0) == (sum > 0) ? 1u : ~std::uint64_t{0};
  return static_cast<float>(std::bit_cast<double>(bits));
}

/// The bits of x as bf16 by IEEE rounding: ties to even, overflow to infinity.
inline std::uint16_t bf16_bits(float x) {
  const std::uint32_t bits = bits_of(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0u;
  return static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
inline float from_bf16(std::uint16_t bits) { return float_of(static_cast<std::uint32_t>(bits) << 16); }
inline float from_fp16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 0x3FF;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa != 0 ? float_of(0x7FC00000u) : sign * std::numeric_limits<float>::infinity();
  return sign * fl(exponent == 0 ? std::ldexp(static_cast<wide>(mantissa), -24)
                                 : std::ldexp(static_cast<wide>(mantissa + 1024), exponent - 25));
}

// ---- Elements: section 1.

struct grid {
  std::vector<float> value = std::vector<float>(16);  // by code
  std::vector<std::uint8_t> ascending;                // the codes that rounding gives, by value: no -0, no -8, no -128
  std::uint8_t zero = 0, minus_zero = 0;
  float qmax = 0;
  int m = 0, top = 0;  // qmax = (2 - 2^-m) * 2^top
  int bits = 4;        // of a code

  int place(std::uint8_t code) const {
    for (std::size_t i = 0; i < ascending.size(); ++i)
      if (ascending[i] == code) return static_cast<int>(i);
    return -1;
  }
};

inline grid sign_magnitude(const std::array<float, 8>& magnitudes, int m, int top) {
  grid g;
  for (std::uint8_t c = 0; c < 16; ++c) g.value[c] = c < 8 ? magnitudes[c] : -magnitudes[c - 8u];
  for (std::uint8_t c = 15; c > 8; --c) g.ascending.push_back(c);
  for (std::uint8_t c = 0; c < 8; ++c) g.ascending.push_back(c);
  g.minus_zero = 8;
  g.qmax = magnitudes[7];
  g.m = m, g.top = top;
  return g;
}

template <class Element>
grid grid_of() {
  if constexpr (std::is_same_v<Element, ufp4::fp4<ufp4::E2M1>>)
    return sign_magnitude({0, .5f, 1, 1.5f, 2, 3, 4, 6}, 1, 2);
  else if constexpr (std::is_same_v<Element, ufp4::fp4<ufp4::E1M2>>)
    return sign_magnitude({0, .25f, .5f, .75f, 1, 1.25f, 1.5f, 1.75f}, 2, 0);
  else if constexpr (std::is_same_v<Element, ufp4::fp4<ufp4::E3M0>>)
    return sign_magnitude({0, .25f, .5f, 1, 2, 4, 8, 16}, 0, 4);
  else if constexpr (std::is_same_v<Element, ufp4::int4>) {
    grid g;
    for (int c = 0; c < 16; ++c) g.value[static_cast<std::size_t>(c)] = static_cast<float>(c < 8 ? c : c - 16);
    for (int v = -7; v <= 7; ++v) g.ascending.push_back(static_cast<std::uint8_t>(v & 15));
    g.qmax = 7, g.m = 2, g.top = 2;
    return g;
  } else if constexpr (std::is_same_v<Element, ufp4::int8> || std::is_same_v<Element, ufp4::int8q6>) {
    const bool fixed = std::is_same_v<Element, ufp4::int8q6>;
    const float unit = fixed ? 1.0f / 64 : 1.0f;
    grid g;
    g.value.clear();
    for (int c = 0; c < 256; ++c) g.value.push_back(static_cast<float>(c < 128 ? c : c - 256) * unit);
    for (int v = -127; v <= 127; ++v) g.ascending.push_back(static_cast<std::uint8_t>(v & 255));
    g.qmax = 127 * unit, g.m = 6, g.top = fixed ? 0 : 6;
    g.bits = 8;
    return g;
  } else {
    static_assert(std::is_same_v<Element, ufp4::nf4>, "the model has no such grid");
    grid g;  // QLoRA's sixteen quantiles; the code is the rank
    g.value = {-1.0f,
               -0.6961928009986877f,
               -0.5250730514526367f,
               -0.39491748809814453f,
               -0.28444138169288635f,
               -0.18477343022823334f,
               -0.09105003625154495f,
               0.0f,
               0.07958029955625534f,
               0.16093020141124725f,
               0.24611230194568634f,
               0.33791524171829224f,
               0.44070982933044434f,
               0.5626170039176941f,
               0.7229568362236023f,
               1.0f};
    for (std::uint8_t c = 0; c < 16; ++c) g.ascending.push_back(c);
    g.zero = g.minus_zero = 7;
    g.qmax = 1;
    return g;
  }
}

// ---- Rounding: section 3.

struct rounding {
  enum kind { nearest_even, nearest_away, toward_zero, stochastic } what = nearest_even;
  std::uint64_t seed = 0, stream = 0;

  std::uint32_t random_word(std::uint64_t index) const { return model::random_word(seed, stream, index); }
};

/// Whether t is rounded away from zero. `rank`: the number of steps from zero of the neighbour nearer to zero.
inline bool moves_up(float low, float high, int rank, float t, const rounding& r, std::uint64_t index) {
  const wide twice = 2 * static_cast<wide>(absolute(t));
  const wide sum = static_cast<wide>(absolute(low)) + static_cast<wide>(absolute(high));
  switch (r.what) {
    case rounding::nearest_even: return twice > sum || (twice == sum && rank % 2 != 0);
    case rounding::nearest_away: return twice >= sum;
    case rounding::toward_zero: return false;
    case rounding::stochastic: break;
  }
  const float p = div(sub(absolute(t), absolute(low)), sub(absolute(high), absolute(low)));
  const auto k = static_cast<std::uint32_t>(std::floor(add(mul(p, 65536.0f), 0.5f)));
  return k + r.random_word(index) >= 65536u;
}

inline std::uint8_t round(const grid& g, float t, const rounding& r, std::uint64_t index) {
  std::uint8_t below = g.ascending.front(), above = g.ascending.back();
  if (t <= g.value[below]) return below;
  if (t >= g.value[above]) return above;
  for (const std::uint8_t c : g.ascending) {
    if (g.value[c] == t) return t == 0 && negative(t) ? g.minus_zero : c;
    if (g.value[c] < t) below = c;
  }
  above = g.ascending[static_cast<std::size_t>(g.place(below)) + 1];
  const std::uint8_t low = t > 0 ? below : above, high = t > 0 ? above : below;
  const int rank = std::abs(g.place(low) - g.place(g.zero));
  const std::uint8_t chosen = moves_up(g.value[low], g.value[high], rank, t, r, index) ? high : low;
  return chosen == g.zero && negative(t) ? g.minus_zero : chosen;
}

// ---- Scales: section 2.

enum class scale { f32, bf16, e4m3, ue5m3, e8m0 };

template <class Scale>
constexpr scale scale_kind_of() {
  return std::is_same_v<Scale, float>         ? scale::f32
         : std::is_same_v<Scale, ufp4::bf16>  ? scale::bf16
         : std::is_same_v<Scale, ufp4::e4m3>  ? scale::e4m3
         : std::is_same_v<Scale, ufp4::ue5m3> ? scale::ue5m3
                                              : scale::e8m0;
}

inline std::uint32_t largest_code(scale s) {
  return s == scale::f32 ? 0x7F7FFFFFu : s == scale::bf16 ? 0x7F7Fu : s == scale::e4m3 ? 0x7Eu : 0xFEu;
}
inline std::uint32_t nan_code(scale s) {
  return s == scale::f32 ? 0x7FC00000u : s == scale::bf16 ? 0x7FC0u : s == scale::e4m3 ? 0x7Fu : 0xFFu;
}
/// A finite, positive code.
inline wide value_of(scale s, std::uint32_t code) {
  if (s == scale::f32) return static_cast<wide>(float_of(code));
  if (s == scale::bf16) return static_cast<wide>(float_of(code << 16));
  if (s == scale::e8m0) return std::ldexp(wide{1}, static_cast<int>(code) - 127);
  const int bias = s == scale::e4m3 ? 7 : 15, exponent = static_cast<int>(code >> 3), m = static_cast<int>(code & 7u);
  return exponent == 0 ? std::ldexp(static_cast<wide>(m), -2 - bias)
                       : std::ldexp(static_cast<wide>(8 + m), exponent - 3 - bias);
}
/// The smallest code whose value is not below x >= 0; the largest code if there is none.
inline std::uint32_t code_not_below(scale s, float x) {
  if (s == scale::f32) return bits_of(x);
  if (s == scale::bf16) {
    const std::uint32_t up = (bits_of(x) >> 16) + ((bits_of(x) & 0xFFFFu) != 0 ? 1u : 0u);
    return up < 0x7F7Fu ? up : 0x7F7Fu;
  }
  for (std::uint32_t c = 0; c < largest_code(s); ++c)
    if (value_of(s, c) >= static_cast<wide>(x)) return c;
  return largest_code(s);
}
/// Nearest, ties to the even code, saturating. x >= 0; not for e8m0, whose codes come from rules.
inline std::uint32_t nearest_code(scale s, float x) {
  if (s == scale::f32) return bits_of(x);
  const std::uint32_t above = code_not_below(s, x);
  const wide v = static_cast<wide>(x);
  if (value_of(s, above) <= v) return above;
  const wide up = value_of(s, above) - v, down = v - value_of(s, above - 1);
  return up < down || (up == down && above % 2 == 0) ? above : above - 1;
}

// ---- Hadamard: section 4.

struct transform {
  std::size_t n = 1;
  std::vector<bool> flipped = {};
  bool to_bf16 = false;
};

inline transform plain_transform(std::size_t n) { return {n, std::vector<bool>(n, false), false}; }
inline transform random_transform(std::size_t n, std::uint64_t seed) {
  transform t = plain_transform(n);
  for (std::uint32_t j = 0; j < n; ++j) t.flipped[j] = random_sign(seed, j);
  return t;
}

inline void apply(const transform& t, float* x, bool inverse = false) {
  if (t.n == 1) return;
  const std::uint32_t factors[] = {0x3E800000u, 0x3E3504F3u, 0x3E000000u, 0x3DB504F3u, 0x3D800000u};  // n = 16, 32, ...
  const float c = float_of(factors[static_cast<std::size_t>(std::ilogb(static_cast<double>(t.n))) - 4]);
  std::vector<float> y(x, x + t.n), z(t.n);
  for (std::size_t j = 0; j < t.n && !inverse; ++j) y[j] = t.flipped[j] ? -y[j] : y[j];
  for (std::size_t stride = 1; stride < t.n; stride *= 2) {
    for (std::size_t j = 0; j < t.n; ++j)
      z[j] = (j & stride) != 0 ? sub(y[j ^ stride], y[j]) : add(y[j], y[j ^ stride]);
    y = z;
  }
  for (std::size_t j = 0; j < t.n; ++j) {
    x[j] = mul(y[j], c);
    if (t.to_bf16) x[j] = from_bf16(bf16_bits(x[j]));
    if (inverse && t.flipped[j]) x[j] = -x[j];
  }
}

// ---- Blocks: section 5.

struct format {
  grid g;
  scale s = scale::f32;
  std::size_t height = 1, length = 16;
  bool two_level = false;
};

template <class F>
format format_of() {
  return {grid_of<typename F::element_type>(), scale_kind_of<typename F::scale_type>(),
          static_cast<std::size_t>(F::block.rows), static_cast<std::size_t>(F::block.cols), F::two_level};
}

enum class rule { by_format, up, mx_floor, mx_even, mx_ceil, four_over_six };

struct tensor_level {
  float S = 1, times = 1, tensor_scale = 1;  // times: fl(S * fl(1/qmax))
};
inline tensor_level tensor_level_of(const format& f, rule how, float global_amax) {
  if (!f.two_level) return {};
  const float F = how == rule::four_over_six ? 256.0f : fl(value_of(f.s, largest_code(f.s)));
  const float quotient = global_amax == 0 ? 1.0f : div(mul(F, f.g.qmax), global_amax);
  const float S = quotient > largest_float ? largest_float : quotient;
  return {S, mul(S, div(1, f.g.qmax)), div(1, S)};
}

/// Values of one block in index order, its amax, and the constants of the tensor.
struct block {
  std::vector<float> x;
  float amax = 0;
  tensor_level tensor;
};

/// A candidate scale: x becomes fl(x / divisor), or fl(x * factor).
struct trial {
  std::uint32_t code;
  float effective;
  bool divides, dead;
  float by;

  bool limited() const { return !divides && by == largest_float; }  // in place of a larger reciprocal
  float scaled(float x) const { return divides ? div(x, by) : mul(x, by); }
};
inline trial try_scale(const format& f, const tensor_level& t, std::uint32_t code) {
  const float s = fl(value_of(f.s, code));
  if (f.s == scale::e8m0) return {code, s, false, false, fl(std::ldexp(wide{1}, 127 - static_cast<int>(code)))};
  if (!f.two_level) return {code, s, true, s == 0, s};
  const float effective = mul(s, t.tensor_scale), e = div(1, effective);
  return {code, effective, false, s == 0, e > largest_float ? largest_float : e};
}
inline float error_of(const format& f, const trial& t, const std::vector<float>& x) {
  float err = 0;
  for (const float v : x) {
    const std::uint8_t c = t.dead ? f.g.zero : round(f.g, t.scaled(v), {}, 0);
    const float d = sub(v, mul(f.g.value[c], t.effective));
    err = fma(d, d, err);
  }
  return err;
}

inline std::uint32_t power_of_two_code(const format& f, rule how, float amax) {
  if (amax == 0) return 0;
  const wide a = static_cast<wide>(amax), q = static_cast<wide>(f.g.qmax);
  int e = std::ilogb(a) - f.g.top;
  if (how == rule::mx_even)
    e = std::ilogb(std::rint(std::ldexp(a, f.g.m - std::ilogb(a)))) - f.g.m + std::ilogb(a) - f.g.top;
  if (how == rule::mx_ceil)
    for (e = -400; a > std::ldexp(q, e);) ++e;
  e = e < -127 ? -127 : e;
  return static_cast<std::uint32_t>((e > 127 - f.g.top ? 127 - f.g.top : e) + 127);
}

inline std::uint32_t rule_code(const format& f, rule how, const block& b) {
  if (f.s == scale::e8m0) return power_of_two_code(f, how, b.amax);
  const float argument = f.two_level ? mul(b.amax, b.tensor.times) : div(b.amax, f.g.qmax);
  return how == rule::up ? code_not_below(f.s, argument) : nearest_code(f.s, argument);
}

inline trial four_over_six(const format& f, const block& b) {
  const float u = mul(b.amax, b.tensor.times);
  const trial six = try_scale(f, b.tensor, nearest_code(f.s, u));
  const trial four = try_scale(f, b.tensor, nearest_code(f.s, mul(1.5f, u)));
  return error_of(f, four, b.x) < error_of(f, six, b.x) ? four : six;
}

/// mse_search with its default window.
inline trial mse_search(const format& f, const block& b, std::uint32_t code) {
  std::vector<std::uint32_t> codes;
  if (f.s == scale::f32 || f.s == scale::bf16) {
    for (int j = -8; j <= 16; ++j) {
      const float s = mul(fl(value_of(f.s, code)), add(1, div(static_cast<float>(j), 32)));
      codes.push_back(nearest_code(f.s, s));
    }
  } else {
    const std::uint32_t below = f.s == scale::e8m0 ? 1 : 2, last = code + (f.s == scale::e8m0 ? 1 : 6);
    for (std::uint32_t c = code < below ? 0 : code - below; c <= last && c <= largest_code(f.s); ++c)
      codes.push_back(c);
  }
  std::size_t best = 0;
  std::vector<float> errors;
  for (const std::uint32_t c : codes) {
    errors.push_back(error_of(f, try_scale(f, b.tensor, c), b.x));
    if (errors.back() < errors[best]) best = errors.size() - 1;
  }
  return try_scale(f, b.tensor, codes[best]);
}

inline trial scale_for(const format& f, rule how, bool search, const block& b) {
  if (how == rule::four_over_six) return four_over_six(f, b);
  const std::uint32_t code = rule_code(f, how, b);
  return search ? mse_search(f, b, code) : try_scale(f, b.tensor, code);
}

// ---- A matrix.

struct request {
  transform t = {};
  model::rounding rounding = {};
  rule how = rule::by_format;
  bool mse = false;
  float global_amax = -1;  // negative: computed here
  bool sharded = false;
  std::uint64_t first_row = 0, first_col = 0, total_cols = 0;
};

struct result {
  int bits = 4;  // of a code
  std::size_t rows = 0, cols = 0, padded = 0;
  std::vector<std::uint8_t> codes;    // one a byte, rows x padded
  std::vector<std::uint32_t> scales;  // the bits
  std::vector<float> decoded;         // rows x padded
  float tensor_scale = 1, global_amax = 0;
  std::uint64_t nonfinite_blocks = 0, saturated = 0, underflowed_scales = 0;
};

inline std::size_t round_up(std::size_t n, std::size_t multiple) { return (n + multiple - 1) / multiple * multiple; }
inline std::size_t run_of(const format& f, const transform& t) { return t.n > f.length ? t.n : f.length; }

inline void code_block(const format& f, const request& q, const std::vector<float>& padded, std::size_t whole,
                       std::size_t row, std::size_t col, result& out) {
  block b;
  b.tensor = tensor_level_of(f, q.how, out.global_amax);
  bool bad = false;
  for (std::size_t r = row; r < row + f.height; ++r)
    for (std::size_t k = col; k < col + f.length; ++k) {
      const float v = padded[r * out.padded + k];
      b.x.push_back(v);
      bad = bad || !finite(v);
      if (absolute(v) > b.amax) b.amax = absolute(v);
    }
  const trial t = bad ? trial{nan_code(f.s), float_of(0x7FC00000u), false, true, 0} : scale_for(f, q.how, q.mse, b);
  out.nonfinite_blocks += bad;
  out.underflowed_scales += !bad && t.dead && b.amax != 0;
  out.scales.push_back(t.code);
  for (std::size_t i = 0; i < b.x.size(); ++i) {
    const std::size_t r = row + i / f.length, k = col + i % f.length;
    const bool zero = t.dead || b.amax == 0;
    const float scaled = zero ? 0.0f : t.scaled(b.x[i]);
    const std::uint64_t index = (q.first_row + r) * whole + q.first_col + k;
    const std::uint8_t c = zero ? f.g.zero : round(f.g, scaled, q.rounding, index);
    out.saturated += absolute(scaled) > (t.limited() ? 0 : f.g.qmax);
    if (r >= out.rows) continue;
    out.codes[r * out.padded + k] = c;
    out.decoded[r * out.padded + k] = mul(f.g.value[c], t.effective);
  }
}

/// Transformed values of x (rows x cols), with zero padding to whole runs and whole blocks.
inline std::vector<float> prepared(const format& f, const transform& t, const std::vector<float>& x, std::size_t rows,
                                   std::size_t cols) {
  const std::size_t padded = round_up(cols, run_of(f, t));
  std::vector<float> y(round_up(rows, f.height) * padded, 0.0f);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < cols; ++k) y[r * padded + k] = x[r * cols + k];
    for (std::size_t k = 0; k < padded; k += t.n) apply(t, y.data() + r * padded + k);
  }
  return y;
}

inline float largest_finite(const std::vector<float>& x) {
  float global_amax = 0;
  for (const float v : x)
    if (finite(v) && absolute(v) > global_amax) global_amax = absolute(v);
  return global_amax;
}

inline result quantize(const format& f, const std::vector<float>& x, std::size_t rows, std::size_t cols,
                       const request& q = {}) {
  result out;
  out.bits = f.g.bits;
  out.rows = rows, out.cols = cols, out.padded = round_up(cols, run_of(f, q.t));
  const std::vector<float> y = prepared(f, q.t, x, rows, cols);
  out.global_amax = q.global_amax >= 0 ? q.global_amax : largest_finite(y);
  out.tensor_scale = tensor_level_of(f, q.how, out.global_amax).tensor_scale;
  out.codes.resize(rows * out.padded);
  out.decoded.resize(rows * out.padded);
  const std::size_t whole = q.sharded ? round_up(q.total_cols, run_of(f, q.t)) : out.padded;
  for (std::size_t r = 0; r < rows; r += f.height)
    for (std::size_t k = 0; k < out.padded; k += f.length) code_block(f, q, y, whole, r, k, out);
  return out;
}

/// rows x cols of the decoded values, with the inverse transform if requested.
inline std::vector<float> decoded(const result& q, const transform& t = {}, bool undo = false) {
  std::vector<float> y = q.decoded, out;
  for (std::size_t k = 0; undo && t.n > 1 && k < y.size(); k += t.n) apply(t, y.data() + k, true);
  for (std::size_t r = 0; r < q.rows; ++r)
    for (std::size_t k = 0; k < q.cols; ++k) out.push_back(y[r * q.padded + k]);
  return out;
}

/// Two codes of 4 bits a byte, the even one low; one of 8 bits.
inline std::vector<std::uint8_t> packed(const std::vector<std::uint8_t>& codes, int bits = 4) {
  if (bits == 8) return codes;
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < codes.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(codes[i] + 16 * codes[i + 1]));
  return bytes;
}

}  // namespace model
