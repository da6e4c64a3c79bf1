// ufp4 - a second implementation of section 6 of the specification: integer block products, sums in long double.
// SPDX-License-Identifier: Apache-2.0
/// This file and support/model.hpp unpack codes, decode scales, add and round; the library's arithmetic is not called.
///
///   const std::vector<float> want = model::exact_blocks(model::side_of(a), model::side_of(b), alpha, beta, c);
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <ufp4/gemm.hpp>

#include "support/matrices.hpp"
#include "support/model.hpp"

namespace model {

// ---- Outputs: a binary32 result in each type that C may have, rounded to nearest even.

template <class T>
float as_output(float x) {
  if constexpr (std::is_same_v<T, ufp4::bf16>) return from_bf16(bf16_bits(x));
  if constexpr (std::is_same_v<T, ufp4::fp16>) {
    if (x == 0 || !finite(x)) return x;
    const double step = std::ldexp(1.0, std::max(std::ilogb(x) - 10, -24));
    const double rounded = std::nearbyint(static_cast<double>(x) / step) * step;
    return std::abs(rounded) > 65504 ? std::copysign(std::numeric_limits<float>::infinity(), x) : fl(rounded);
  }
  return x;
}
inline float output_value(float x) { return x; }
inline float output_value(ufp4::bf16 x) { return from_bf16(x.bits()); }
inline float output_value(ufp4::fp16 x) { return from_fp16(x.bits()); }

// ---- One side of a product, decoded.

struct side {
  std::size_t rows = 0, padded = 0, block = 16;
  bool exact = true;         ///< whether block products are exact
  std::vector<float> value;  ///< rows x padded, unscaled
  std::vector<int> parts;    ///< the same times 64, where exact: every element of section 1 is a multiple of 1/64
  std::vector<float> scale;  ///< rows x padded / block, without the tensor scale
  float tensor = 1;
};

template <class F>
side side_of(const ufp4::quantized_view<F>& q) {
  const format f = format_of<F>();
  side s;
  s.rows = q.rows(), s.padded = q.padded_cols(), s.block = f.length;
  s.exact = !std::is_same_v<typename F::element_type, ufp4::nf4>;
  s.tensor = q.tensor_scale();
  const std::size_t blocks = s.padded / s.block;
  for (std::size_t i = 0; i < s.rows; ++i) {
    for (std::size_t k = 0; k < s.padded; ++k) {
      const std::size_t at = i * s.padded + k, byte = q.codes()[f.g.bits == 8 ? at : at / 2];
      s.value.push_back(f.g.value[f.g.bits == 8 ? byte : k % 2 == 0 ? byte % 16 : byte / 16]);
      s.parts.push_back(s.exact ? static_cast<int>(64 * s.value.back()) : 0);
    }
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::uint32_t code = support::scale_bits(q.scales()[i / f.height * blocks + b]);
      s.scale.push_back(code == nan_code(f.s) ? std::numeric_limits<float>::quiet_NaN() : fl(value_of(f.s, code)));
    }
  }
  return s;
}
template <class F>
side side_of(const ufp4::quantized_matrix<F>& q) {
  return side_of(q.view());
}

/// An operand that is not quantized: its values, transformed and padded, scale 1.
inline side unquantized_side(const std::vector<float>& x, std::size_t rows, std::size_t cols, std::size_t block,
                             const transform& t = {}) {
  format f;
  f.length = block;
  side s;
  s.rows = rows, s.padded = round_up(cols, run_of(f, t)), s.block = block;
  s.exact = false;
  s.value = prepared(f, t, x, rows, cols);
  s.scale.assign(rows * s.padded / block, 1.0f);
  return s;
}

/// The model's transform for the library's transform_spec.
inline transform transform_of(const ufp4::transform_spec& spec) {
  transform t{spec.n, {}, spec.rounds_to_bf16};
  for (std::size_t j = 0; j < spec.n; ++j) t.flipped.push_back((spec.signs[j / 32] >> (j % 32) & 1u) != 0);
  return t;
}

// ---- C[M,N] = alpha A B^T + beta C.

inline float block_product(const side& a, std::size_t at, const side& b, std::size_t bt) {
  if (a.exact && b.exact) {
    std::int64_t sum = 0;
    for (std::size_t e = 0; e < a.block; ++e) sum += std::int64_t{a.parts[at + e]} * b.parts[bt + e];
    return fl(static_cast<wide>(sum) / 4096);
  }
  float d = 0;
  for (std::size_t e = 0; e < a.block; ++e) d = fma(a.value[at + e], b.value[bt + e], d);
  return d;
}

/// fl(sA * sB); 0 where that is not finite but d is 0 and neither scale is NaN: the block contributes +0.
inline float scales_product(float d, float a, float b) {
  const float t = mul(a, b);
  return d == 0 && !finite(t) && !std::isnan(a) && !std::isnan(b) ? 0 : t;
}

/// The result of exact_blocks before the rounding to C's type. c is not read if beta is 0.
inline std::vector<float> exact_blocks(const side& a, const side& b, float alpha = 1, float beta = 0,
                                       const std::vector<float>& c = {}) {
  std::vector<float> out;
  const std::size_t blocks = a.padded / a.block;
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < b.rows; ++j) {
      float acc = 0;
      for (std::size_t k = 0; k < blocks; ++k) {
        const float d = block_product(a, i * a.padded + k * a.block, b, j * b.padded + k * a.block);
        acc = fma(d, scales_product(d, a.scale[i * blocks + k], b.scale[j * blocks + k]), acc);
      }
      out.push_back(mul(mul(acc, a.tensor), mul(alpha, b.tensor)));
      if (beta != 0) out.back() = fma(beta, c[out.size() - 1], out.back());
    }
  return out;
}

/// The product of the decoded operands, and the sum of magnitudes for the error bounds, with alpha = 1.
struct bounded {
  std::vector<wide> value, magnitude;
};
inline bounded extended(const side& a, const side& b) {
  bounded out;
  const std::size_t blocks = a.padded / a.block;
  const wide tensors = static_cast<wide>(a.tensor) * static_cast<wide>(b.tensor);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < b.rows; ++j) {
      wide sum = 0, magnitude = 0;
      for (std::size_t k = 0; k < a.padded; ++k) {
        const wide left =
            static_cast<wide>(a.value[i * a.padded + k]) * static_cast<wide>(a.scale[i * blocks + k / a.block]);
        const wide product =
            left * static_cast<wide>(b.value[j * b.padded + k]) * static_cast<wide>(b.scale[j * blocks + k / a.block]);
        sum += product;
        magnitude += std::abs(product);
      }
      out.value.push_back(sum * tensors);
      out.magnitude.push_back(magnitude * tensors);
    }
  return out;
}

// ---- Inputs.

/// Uniform on [0, 1): the standard library's distributions differ between implementations.
inline double uniform(std::mt19937_64& gen) { return static_cast<double>(gen() >> 11) * 0x1p-53; }

/// Magnitudes from 2^-span to 2^span, both signs.
inline std::vector<float> wide_floats(std::mt19937_64& gen, std::size_t n, int span = 4) {
  std::vector<float> x(n);
  for (float& v : x) {
    const double magnitude = std::exp2((2 * uniform(gen) - 1) * span);
    v = static_cast<float>(gen() % 2 == 0 ? magnitude : -magnitude);
  }
  return x;
}

enum class scales { ordinary, hostile };

/// Ordinary: within a few powers of two of 1. Hostile: every finite code, and for float the ends of the range.
template <class S>
S random_scale(std::mt19937_64& gen, scales kind) {
  const std::uint64_t draw = gen();
  if constexpr (std::is_same_v<S, float>) {
    if (kind == scales::ordinary) return static_cast<float>(std::exp2(4 * uniform(gen) - 2));
    constexpr std::uint32_t ends[] = {0x00000001, 0x007FFFFF, 0x00800000, 0x00800001, 0x3F800001,
                                      0x7F000000, 0x7F7FFFFF, 0x00000000, 0x20000000, 0x5F7FFFFF};
    return float_of(draw % 3 == 0 ? ends[draw / 3 % 10] : static_cast<std::uint32_t>(draw >> 32) % 0x7F800000);
  } else if constexpr (std::is_same_v<S, ufp4::bf16>) {
    return S::from_bits(static_cast<std::uint16_t>(kind == scales::ordinary ? 0x3E80 + draw % 0x200 : draw % 0x7F80));
  } else if constexpr (std::is_same_v<S, ufp4::e8m0>) {
    return S::from_bits(static_cast<std::uint8_t>(kind == scales::ordinary ? 123 + draw % 9 : draw % 255));
  } else {
    const std::uint64_t finite_codes = std::is_same_v<S, ufp4::e4m3> ? 0x7F : 0xFF;
    return S::from_bits(static_cast<std::uint8_t>(kind == scales::ordinary ? 0x30 + draw % 0x20 : draw % finite_codes));
  }
}

/// A quantized matrix of random codes, with a random scale for every block and +0 as padding, as quantize writes it.
template <class F>
ufp4::quantized_matrix<F> random_quantized(std::mt19937_64& gen, std::size_t rows, std::size_t cols,
                                           scales kind = scales::ordinary, float tensor_scale = 1) {
  ufp4::quantized_matrix<F> q(rows, cols);
  const unsigned zero = grid_of<typename F::element_type>().zero;
  const std::size_t padded = q.padded_cols();
  for (std::size_t i = 0; F::has_bytes && i < rows; ++i)
    for (std::size_t k = 0; k < padded; ++k)
      q.codes()[i * padded + k] = static_cast<std::uint8_t>(k < cols ? gen() % 256 : zero);
  for (std::size_t i = 0; !F::has_bytes && i < rows; ++i)
    for (std::size_t k = 0; k < padded; k += 2) {
      const auto draw = static_cast<unsigned>(gen() % 256);
      const unsigned low = k < cols ? draw % 16 : zero, high = k + 1 < cols ? draw / 16 : zero;
      q.codes()[i * (padded / 2) + k / 2] = static_cast<std::uint8_t>(low + 16 * high);
    }
  for (auto& s : q.scales()) s = random_scale<typename F::scale_type>(gen, kind);
  if (F::two_level) q.set_tensor_scale(tensor_scale);
  return q;
}

}  // namespace model
