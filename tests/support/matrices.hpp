// ufp4 - matrices of every input type for tests of the operations, and comparison with the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include <ufp4/matrix/matrix_view.hpp>

#include "support/model.hpp"

/// User-defined 16-bit types.
struct their_bf16 {
  std::uint16_t raw;
};
struct their_half {
  std::uint16_t raw;
};
template <>
struct ufp4::matrix_element<their_bf16> {
  static constexpr ufp4::dtype kind = ufp4::dtype::bf16;
};
template <>
struct ufp4::matrix_element<their_half> {
  static constexpr ufp4::dtype kind = ufp4::dtype::fp16;
};

namespace support {

template <class T>
constexpr bool holds_bf16 = std::is_same_v<T, ufp4::bf16> || std::is_same_v<T, their_bf16>;

/// Values converted to T (bf16: the upper half; fp16: a number near it, without rounding rules).
template <class T>
std::vector<T> elements(const std::vector<float>& values) {
  std::vector<T> out;
  for (const float v : values) {
    const std::uint32_t bits = model::bits_of(v);
    if constexpr (std::is_same_v<T, float>)
      out.push_back(v);
    else if constexpr (holds_bf16<T>)
      out.push_back(
          std::bit_cast<T>(static_cast<std::uint16_t>(bits >> 16 | (model::finite(v) ? 0u : bits >> 15 & 1u))));
    else {
      const std::uint32_t sign = bits >> 16 & 0x8000u, exponent = bits >> 23 & 255u, mantissa = bits >> 13 & 0x3FFu;
      const std::uint32_t small = mantissa >> (exponent % 11u);  // a subnormal, or zero
      const std::uint32_t magnitude = exponent == 255                    ? 0x7C00u | (mantissa != 0 ? 0x200u : 0u)
                                      : exponent > 112 && exponent < 143 ? (exponent - 112) << 10 | mantissa
                                      : exponent >= 143                  ? 0x7800u | mantissa
                                                                         : small;
      out.push_back(std::bit_cast<T>(static_cast<std::uint16_t>(sign | magnitude)));
    }
  }
  return out;
}

/// The numbers in a matrix of T.
template <class T>
std::vector<float> numbers(std::span<const T> elements) {
  std::vector<float> out;
  for (const T& x : elements) {
    if constexpr (std::is_same_v<T, float>)
      out.push_back(x);
    else if constexpr (holds_bf16<T>)
      out.push_back(model::from_bf16(std::bit_cast<std::uint16_t>(x)));
    else
      out.push_back(model::from_fp16(std::bit_cast<std::uint16_t>(x)));
  }
  return out;
}

/// The bits of a scale in the form of the model.
template <class Scale>
std::uint32_t scale_bits(const Scale& s) {
  if constexpr (std::is_same_v<Scale, float>)
    return model::bits_of(s);
  else
    return s.bits();
}

/// Matrices of counts[0], counts[1], ... rows, one after another in memory.
inline std::vector<ufp4::matrix_view<float>> row_parts(float* data, const std::vector<std::size_t>& counts,
                                                       std::size_t cols) {
  std::vector<ufp4::matrix_view<float>> parts;
  for (const std::size_t rows : counts) {
    parts.emplace_back(data, rows, cols);
    data += rows * cols;
  }
  return parts;
}

/// Bits are equal, or both are NaN.
inline bool same_number(float a, float b) { return model::bits_of(a) == model::bits_of(b) || (a != a && b != b); }
inline bool same_numbers(std::span<const float> a, std::span<const float> b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) same = same_number(a[i], b[i]);
  return same;
}

/// Codes, scales and tensor scale of a quantized matrix are the model's.
template <class Q>
bool matches(const Q& q, const model::result& want) {
  const std::vector<std::uint8_t> bytes = model::packed(want.codes, want.bits);
  bool same = q.codes().size() == bytes.size() && q.scales().size() == want.scales.size() &&
              std::equal(bytes.begin(), bytes.end(), q.codes().begin()) &&
              model::bits_of(q.tensor_scale()) == model::bits_of(want.tensor_scale);
  for (std::size_t i = 0; same && i < want.scales.size(); ++i) same = scale_bits(q.scales()[i]) == want.scales[i];
  return same;
}

}  // namespace support
