// ufp4 - the PTX interpreter: the element types of matrix products, and the sums.
// SPDX-License-Identifier: Apache-2.0
//
// Products are exact. A binary32 sum starts with d and adds the products in the order of k, each time rounded to
// nearest: hardware promises neither this order nor this rounding. Integer sums wrap.
#pragma once

#include "gpu/ptx/numbers.hpp"

#include <cstdint>
#include <string_view>

namespace ptx {

enum class element : unsigned { f16, bf16, s8, u8, e4m3, e5m2, none };

inline element element_of(std::string_view name) {
  constexpr std::string_view names[] = {"f16", "bf16", "s8", "u8", "e4m3", "e5m2"};
  for (unsigned i = 0; i < 6; ++i)
    if (name == names[i]) return static_cast<element>(i);
  return element::none;
}
constexpr unsigned bits_of(element e) { return e == element::f16 || e == element::bf16 ? 16 : 8; }
constexpr bool is_integer(element e) { return e == element::s8 || e == element::u8; }

/// The values of all f16 codes.
const float* f16_values();

/// An element as a float: exact for each type.
inline float element_value(element e, std::uint32_t code) {
  switch (e) {
    case element::f16: return f16_values()[code & 0xFFFFu];
    case element::bf16: return std::bit_cast<float>(code << 16);
    case element::s8: return static_cast<float>(static_cast<std::int8_t>(code));
    case element::u8: return static_cast<float>(static_cast<std::uint8_t>(code));
    case element::e4m3: return static_cast<float>(e4m3::value(static_cast<std::uint8_t>(code)));
    default: return static_cast<float>(e5m2::value(static_cast<std::uint8_t>(code)));
  }
}

/// d[i][j] += sum over k of a[i][k] b[k][j]: rows x n, row-major.
void add_products(float* d, const float* a, const float* b, unsigned rows, unsigned n, unsigned k);
void add_products(std::int32_t* d, const float* a, const float* b, unsigned rows, unsigned n, unsigned k);

}  // namespace ptx
