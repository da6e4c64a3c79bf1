// ufp4 - quantized_gemm in portable C++: one tile of C at a time, operands decoded into panels.
// SPDX-License-Identifier: Apache-2.0
//
// Loops run over outputs or over exact integer products, so the compiler may vectorize them without changing a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/job.hpp>
#include <ufp4/cpu/kernels/dequantize_scalar.hpp>
#include <ufp4/cpu/kernels/quantize_scalar.hpp>

namespace ufp4::cpu::detail::inline UFP4_TYPES {

inline constexpr std::size_t gemm_tile = 64;    ///< rows and columns of a tile of C: one task
inline constexpr std::size_t gemm_depth = 512;  ///< K of a panel: a multiple of every block length and transform
inline constexpr std::uint32_t min_normal_bits = 0x00800000u;  ///< of 2^-126

/// The decoded panels of both sides and the accumulators of one task.
struct gemm_scratch {
  alignas(64) std::int16_t integer[2][gemm_tile * gemm_depth];  ///< values / unit
  alignas(64) float value[2][gemm_tile * gemm_depth];           ///< values without scales
  alignas(64) float scale[2][gemm_tile * gemm_depth / 2];
  alignas(64) float columns[gemm_tile * gemm_depth];  ///< the right values transposed
  alignas(64) float column_scale[gemm_tile * gemm_depth / 2];
  alignas(64) float acc[gemm_tile * gemm_tile];
};

/// Rows [row, row + rows) and the K range of a panel of one side.
struct panel {
  std::size_t row, rows, k, depth;
};

}  // namespace ufp4::cpu::detail::inline UFP4_TYPES

namespace ufp4::cpu::detail::inline UFP4_CODE {

inline const std::uint8_t* codes_at(const quantized_source& q, std::size_t row, std::size_t k) {
  return q.codes + (row * q.padded_cols + k) / 2;
}

/// Element values in units of the grid, exactly.
inline void decode_integers(const quantized_source& q, const panel& p, std::int16_t* out) {
  for (std::size_t r = 0; r < p.rows; ++r) {
    const std::uint8_t* codes = codes_at(q, p.row + r, p.k);
    for (std::size_t k = 0; k < p.depth; ++k) out[r * gemm_depth + k] = q.format.grid.integer[code_at(codes, k)];
  }
}

/// Block scales without the tensor scale; 1 for an operand that is not quantized.
inline void decode_scales(const gemm_operand& side, const panel& p, std::size_t block, float* out) {
  for (std::size_t r = 0; r < p.rows; ++r)
    for (std::size_t b = 0; b < p.depth / block; ++b)
      out[r * gemm_depth / 2 + b] = side.is_quantized ? scale_at(side.q, p.row + r, p.k / block + b, 1.0f) : 1.0f;
}

/// Transformed rows of an operand that is not quantized, zero beyond its columns.
inline void load_plain(const quantize_job& job, const panel& p, float* out) {
  coded_run run;
  for (std::size_t r = 0; r < p.rows; ++r)
    for (std::size_t k = 0; k < p.depth; k += job.run()) {
      load_run(job, p.row + r, p.k + k, run);
      for (std::size_t j = 0; j < job.run(); ++j) out[r * gemm_depth + k + j] = run.x[j];
    }
}

/// Unscaled element values, or the plain matrix.
inline void decode_values(const gemm_operand& side, const panel& p, float* out) {
  if (!side.is_quantized) return load_plain(side.plain, p, out);
  for (std::size_t r = 0; r < p.rows; ++r) {
    const std::uint8_t* codes = codes_at(side.q, p.row + r, p.k);
    for (std::size_t k = 0; k < p.depth; ++k) out[r * gemm_depth + k] = side.q.format.grid.value[code_at(codes, k)];
  }
}

/// acc = fma(d, fl(sA * sB), acc) for every block, d the exact integer dot product.
inline void accumulate_exact(const gemm_job& job, std::size_t rows, std::size_t cols, std::size_t depth,
                             gemm_scratch& s) {
  const float unit = job.left.q.format.grid.unit * job.right.q.format.grid.unit;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      float acc = s.acc[i * gemm_tile + j];
      const std::int16_t *a = s.integer[0] + i * gemm_depth, *b = s.integer[1] + j * gemm_depth;
      const float *sa = s.scale[0] + i * gemm_depth / 2, *sb = s.scale[1] + j * gemm_depth / 2;
      for (std::size_t k = 0; k < depth; k += job.block, a += job.block, b += job.block) {
        std::int32_t dot = 0;
        for (std::size_t e = 0; e < job.block; ++e) dot += std::int32_t{a[e]} * b[e];
        acc = ufp4::detail::fma(static_cast<float>(dot) * unit, *sa++ * *sb++, acc);
      }
      s.acc[i * gemm_tile + j] = acc;
    }
}

/// The same where d is a chain of fma in index order: an operand or a grid whose products are not exact.
inline void accumulate_chain(const gemm_job& job, std::size_t rows, std::size_t cols, std::size_t depth,
                             gemm_scratch& s) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      float acc = s.acc[i * gemm_tile + j];
      const float *a = s.value[0] + i * gemm_depth, *b = s.value[1] + j * gemm_depth;
      const float *sa = s.scale[0] + i * gemm_depth / 2, *sb = s.scale[1] + j * gemm_depth / 2;
      for (std::size_t k = 0; k < depth; k += job.block) {
        float d = 0.0f;
        for (std::size_t e = k; e < k + job.block; ++e) d = ufp4::detail::fma(a[e], b[e], d);
        acc = ufp4::detail::fma(d, *sa++ * *sb++, acc);
      }
      s.acc[i * gemm_tile + j] = acc;
    }
}

/// Multiplies a panel by its scales and rounds the products to bf16; the scales become 1.
inline void fold_to_bf16(const panel& p, std::size_t block, float* scale, float* value) {
  for (std::size_t r = 0; r < p.rows; ++r) {
    float *row = value + r * gemm_depth, *s = scale + r * gemm_depth / 2;
    for (std::size_t k = 0; k < p.depth; ++k) row[k] = static_cast<float>(round_to<bf16>(row[k] * s[k / block]));
    for (std::size_t b = 0; b < p.depth / block; ++b) s[b] = 1.0f;
  }
}

/// The right panel by columns, so that loops run over outputs; columns that C does not have are zero.
inline void transpose_panel(const panel& p, std::size_t block, gemm_scratch& s) {
  for (std::size_t k = 0; k < p.depth; ++k)
    for (std::size_t j = 0; j < gemm_tile; ++j)
      s.columns[k * gemm_tile + j] = j < p.rows ? s.value[1][j * gemm_depth + k] : 0.0f;
  for (std::size_t b = 0; b < p.depth / block; ++b)
    for (std::size_t j = 0; j < gemm_tile; ++j)
      s.column_scale[b * gemm_tile + j] = j < p.rows ? s.scale[1][j * gemm_depth / 2 + b] : 0.0f;
}

/// acc += d * (sA * sB) for every block, d a plain sum in K order. Scales stay apart from the values, so that a small one
/// makes no value subnormal.
inline void accumulate_fast(std::size_t block, std::size_t rows, std::size_t depth, gemm_scratch& s) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < depth; k += block) {
      float dot[gemm_tile] = {};
      for (std::size_t e = k; e < k + block; ++e) {
        const float a = s.value[0][i * gemm_depth + e];
        for (std::size_t j = 0; j < gemm_tile; ++j) dot[j] += a * s.columns[e * gemm_tile + j];
      }
      const float scale = s.scale[0][i * gemm_depth / 2 + k / block];
      const float* column_scale = s.column_scale + k / block * gemm_tile;
      float* acc = s.acc + i * gemm_tile;
      for (std::size_t j = 0; j < gemm_tile; ++j) acc[j] += dot[j] * (scale * column_scale[j]);
    }
}

inline void multiply_fast(const gemm_job& job, const panel& left, const panel& right, gemm_scratch& s) {
  decode_values(job.left, left, s.value[0]);
  decode_values(job.right, right, s.value[1]);
  if (job.mode == accumulate::folded_bf16) {
    fold_to_bf16(left, job.block, s.scale[0], s.value[0]);
    fold_to_bf16(right, job.block, s.scale[1], s.value[1]);
  }
  transpose_panel(right, job.block, s);
  accumulate_fast(job.block, left.rows, left.depth, s);
}

inline void multiply_blocks(const gemm_job& job, const panel& left, const panel& right, gemm_scratch& s) {
  if (job.left.exact() && job.right.exact()) {
    decode_integers(job.left.q, left, s.integer[0]);
    decode_integers(job.right.q, right, s.integer[1]);
    return accumulate_exact(job, left.rows, right.rows, left.depth, s);
  }
  decode_values(job.left, left, s.value[0]);
  decode_values(job.right, right, s.value[1]);
  accumulate_chain(job, left.rows, right.rows, left.depth, s);
}

/// fl(fl(acc * TA) * fl(alpha * TB)). In the fast modes, whose bound holds for every tensor scale, the product is rounded
/// once where one of the two factors has left the normal range.
inline float scaled_result(const gemm_job& job, float acc) {
  const float left = acc * job.left.tensor_scale(), right = job.alpha * job.right.tensor_scale();
  const auto normal = [](float x) {
    const std::uint32_t m = ufp4::detail::magnitude_bits(x);
    return m >= min_normal_bits && m < ufp4::detail::infinity_bits;
  };
  if (job.mode == accumulate::exact_blocks || (normal(left) && normal(right))) return left * right;
  return static_cast<float>(static_cast<double>(acc) * static_cast<double>(job.left.tensor_scale()) *
                            (static_cast<double>(job.alpha) * static_cast<double>(job.right.tensor_scale())));
}

/// out = the scaled result, then fma(beta, C, out).
inline void store_tile(const gemm_job& job, std::size_t row, std::size_t rows, std::size_t col, std::size_t cols,
                       const float* acc) {
  float line[gemm_tile];
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      const float out = scaled_result(job, acc[i * gemm_tile + j]);
      line[j] = job.beta == 0.0f ? out : ufp4::detail::fma(job.beta, load_element(job.out, row + i, col + j), out);
    }
    store_row(job.out, row + i, col, cols, line);
  }
}

/// The tile of C whose first element is (row, col).
inline void gemm_scalar(const gemm_job& job, std::size_t row, std::size_t col) {
  const ufp4::detail::buffer<gemm_scratch> memory(1);
  gemm_scratch* scratch = memory.data();
  const std::size_t left = job.out.rows - row, across = job.out.cols - col;
  const std::size_t rows = left < gemm_tile ? left : gemm_tile, cols = across < gemm_tile ? across : gemm_tile;
  for (float& acc : scratch->acc) acc = 0.0f;
  const std::size_t padded = job.left.padded_cols();
  for (std::size_t k = 0; k < padded; k += gemm_depth) {
    const std::size_t depth = padded - k < gemm_depth ? padded - k : gemm_depth;
    const panel a{row, rows, k, depth}, b{col, cols, k, depth};
    decode_scales(job.left, a, job.block, scratch->scale[0]);
    decode_scales(job.right, b, job.block, scratch->scale[1]);
    if (job.mode == accumulate::exact_blocks)
      multiply_blocks(job, a, b, *scratch);
    else
      multiply_fast(job, a, b, *scratch);
  }
  store_tile(job, row, rows, col, cols, scratch->acc);
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
