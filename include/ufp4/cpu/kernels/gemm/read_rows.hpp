// ufp4 - rows of a GEMM operand as numbers, in portable C++: elements without their block scales, and the scales.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/dequantize/dequantize_scalar.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_scalar.hpp>

namespace ufp4::cpu::detail::inline UFP4_TYPES {

inline constexpr std::size_t panel_depth = 512;  ///< K of a panel: a multiple of every block length and transform

/// Rows [row, row + rows) and columns [k, k + depth) of one operand. A decoded panel has panel_depth elements a row,
/// and panel_depth / 2 scales.
struct panel {
  std::size_t row, rows, k, depth;
};

}  // namespace ufp4::cpu::detail::inline UFP4_TYPES

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// decode[code] of every element of a panel.
template <class T>
void decode_codes(const quantized_source& q, const panel& p, const T (&decode)[16], T* out) {
  for (std::size_t r = 0; r < p.rows; ++r)
    for (std::size_t k = 0; k < p.depth; k += 2) {
      const std::uint8_t pair = q.codes[q.code_index(p.row + r, p.k + k)];
      out[r * panel_depth + k] = decode[pair & 15u];
      out[r * panel_depth + k + 1] = decode[pair >> 4];
    }
}

/// Block scales without the tensor scale; 1 for an operand that is not quantized.
inline void decode_scales(const gemm_operand& side, const panel& p, std::size_t block, float* out) {
  for (std::size_t r = 0; r < p.rows; ++r)
    for (std::size_t b = 0; b < p.depth / block; ++b)
      out[r * panel_depth / 2 + b] = side.is_quantized ? scale_at(side.q, p.row + r, p.k / block + b, 1.0f) : 1.0f;
}

/// Transformed rows of an operand that is not quantized, zero beyond its columns.
inline void load_plain(const quantize_job& job, const panel& p, float* out) {
  coded_run run;
  for (std::size_t r = 0; r < p.rows; ++r)
    for (std::size_t k = 0; k < p.depth; k += job.run()) {
      load_run(job, p.row + r, p.k + k, run);
      for (std::size_t j = 0; j < job.run(); ++j) out[r * panel_depth + k + j] = run.x[j];
    }
}

/// Element values without their block scales.
inline void decode_values(const gemm_operand& side, const panel& p, float* out) {
  if (!side.is_quantized) return load_plain(side.plain, p, out);
  decode_codes(side.q, p, side.q.format.grid.value, out);
}

/// Multiplies a panel by its scales and rounds the products to bf16 (folded_bf16); the scales become 1.
inline void fold_to_bf16(const panel& p, std::size_t block, float* scale, float* value) {
  for (std::size_t r = 0; r < p.rows; ++r) {
    float *row = value + r * panel_depth, *s = scale + r * panel_depth / 2;
    for (std::size_t k = 0; k < p.depth; ++k) row[k] = static_cast<float>(round_to<bf16>(row[k] * s[k / block]));
    for (std::size_t b = 0; b < p.depth / block; ++b) s[b] = 1.0f;
  }
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
