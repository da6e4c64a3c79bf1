// ufp4 - the PTX interpreter: the element types of matrix products, and the sums.
// SPDX-License-Identifier: Apache-2.0
//
// Products are exact. A binary32 sum starts with d and adds the products in the order of k, each time rounded to
// nearest: hardware promises neither this order nor this rounding. Integer sums wrap.
#pragma once

#include "gpu/ptx/numbers.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace ptx {

enum class element : unsigned { f16, bf16, s8, u8, e4m3, e5m2, e2m1, none };

inline element element_of(std::string_view name) {
  constexpr std::string_view names[] = {"f16", "bf16", "s8", "u8", "e4m3", "e5m2", "e2m1"};
  for (unsigned i = 0; i < 7; ++i)
    if (name == names[i]) return static_cast<element>(i);
  return element::none;
}
constexpr unsigned bits_of(element e) {
  return e == element::f16 || e == element::bf16 ? 16 : e == element::e2m1 ? 4 : 8;
}
constexpr bool is_integer(element e) { return e == element::s8 || e == element::u8; }

/// The values of all f16 codes.
const float* f16_values();

inline float e2m1_value(unsigned code) {
  constexpr float magnitude[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return (code & 8) != 0 ? -magnitude[code & 7] : magnitude[code & 7];
}
/// The value of a block scale: e8m0, or e4m3 whose sign is ignored.
inline double block_scale_value(bool e8m0, std::uint8_t code) {
  if (!e8m0) return e4m3::value(code & 0x7Fu);
  return code == 0xFF ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
}

/// An element as a float: exact for each type.
inline float element_value(element e, std::uint32_t code) {
  switch (e) {
    case element::f16: return f16_values()[code & 0xFFFFu];
    case element::bf16: return std::bit_cast<float>(code << 16);
    case element::s8: return static_cast<float>(static_cast<std::int8_t>(code));
    case element::u8: return static_cast<float>(static_cast<std::uint8_t>(code));
    case element::e4m3: return static_cast<float>(e4m3::value(static_cast<std::uint8_t>(code)));
    case element::e2m1: return e2m1_value(code);
    default: return static_cast<float>(e5m2::value(static_cast<std::uint8_t>(code)));
  }
}

/// d[i][j] += sum over k of a[i][k] b[k][j]: rows x n, row-major.
void add_products(float* d, const float* a, const float* b, unsigned rows, unsigned n, unsigned k);
void add_products(std::int32_t* d, const float* a, const float* b, unsigned rows, unsigned n, unsigned k);

}  // namespace ptx
