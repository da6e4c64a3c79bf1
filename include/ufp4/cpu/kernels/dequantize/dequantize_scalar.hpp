// ufp4 - dequantize in portable C++.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ufp4/cpu/elements.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// The scale of block b of a row, times `factor` (the tensor scale, or 1), rounded once.
inline float scale_at(const quantized_source& q, std::size_t row, std::size_t b, float factor) {
  const std::uint32_t bits = load_scale(q.scales, q.format.scale, q.scale_index(row, b));
  return ufp4::detail::decode_scale(q.format.scale, bits) * factor;
}

/// Rows first .. last - 1: fl(value * fl(block scale * tensor scale)), in the transformed domain.
inline void dequantize_scalar(const quantized_source& q, const sink& out, std::size_t first, std::size_t last) {
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  float values[256];
  for (std::size_t i = first; i < last; ++i) {
    const std::uint8_t* codes = q.codes + i * q.padded_cols / 2;
    for (std::size_t k = 0; k < q.cols; k += length) {
      const float effective = ufp4::detail::rounded(scale_at(q, i, k / length, q.tensor_scale));
      const std::size_t live = q.cols - k < length ? q.cols - k : length;
      for (std::size_t j = 0; j < live; ++j) values[j] = q.format.grid.value[code_at(codes, k + j)] * effective;
      store_row(out, i, k, live, values);
    }
  }
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
