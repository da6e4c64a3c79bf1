// ufp4 - both ends of GEMM kernels in portable C++: rows of operands as numbers; sums to elements of C (numerics 6).
// SPDX-License-Identifier: Apache-2.0
//
// A sum that is not finite may have overflowed on the way to a finite result: such elements are computed again from
// codes and scales (matrix/element_product.hpp). Sums that overflow stay infinite or NaN, so no other check is needed.
#pragma once

#include <ufp4/cpu/kernel_tables.hpp>
#include <ufp4/cpu/kernels/kernels_scalar.hpp>
#include <ufp4/matrix/element_product.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

inline constexpr std::size_t panel_depth = 512;  ///< K of a panel: a multiple of every block length and transform

/// Rows [row, row + rows), columns [k, k + depth); decoded, a row has panel_depth elements and half as many scales.
struct panel {
  std::size_t row, rows, k, depth;
};

/// Elements of one byte that are floats.
inline void decode_floats(const quantized_source& q, const panel& p, float* out) {
  for (std::size_t r = 0; r < p.rows; ++r) {
    const std::uint8_t* codes = q.codes + q.code_index(p.row + r, p.k);
    for (std::size_t k = 0; k < p.depth; ++k) out[r * panel_depth + k] = byte_float_value(q.format.byte, codes[k]);
  }
}

/// decode[code] of every element of a panel; in a format of byte elements of integers the integer of the code times
/// `unit`.
template <features needs, class T>
void decode_codes(const quantized_source& q, const panel& p, const T (&decode)[16], T unit, T* out) {
  for (std::size_t r = 0; has_bytes_in<needs>(q.format) && r < p.rows; ++r) {
    const std::uint8_t* codes = q.codes + q.code_index(p.row + r, p.k);
    for (std::size_t k = 0; k < p.depth; ++k)
      out[r * panel_depth + k] = static_cast<T>(static_cast<T>(static_cast<std::int8_t>(codes[k])) * unit);
  }
  if (has_bytes_in<needs>(q.format)) return;
  for (std::size_t r = 0; r < p.rows; ++r)
    for (std::size_t k = 0; k < p.depth; k += 8) {  // whose codes are neighbours, also interleaved
      const std::uint8_t* codes = q.codes + q.code_index(p.row + r, p.k + k);
      T* to = out + r * panel_depth + k;
      for (std::size_t i = 0; i < 8 && k + i < p.depth; i += 2, ++codes) {
        to[i] = decode[*codes & 15u];
        to[i + 1] = decode[*codes >> 4];
      }
    }
}

/// decode[number of its block's grid][code] of every element of a panel of a format of several grids.
template <class T>
void decode_blocks(const quantized_source& q, const panel& p, const T (&decode)[4][16], T* out) {
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  for (std::size_t r = 0; r < p.rows; ++r)
    for (std::size_t k = 0; k < p.depth; k += length) {
      const std::uint32_t bits = load_block(q.scales, q.format, q.scale_index(p.row + r, (p.k + k) / length));
      decode_codes<features::none>(q, {p.row + r, 1, p.k + k, length}, decode[grid_number(q.format, bits)], T{1},
                                   out + r * panel_depth + k);
    }
}

/// Multiplies the elements of a decoded panel by two to the exponents of their groups.
template <class T>
void apply_exponents(const quantized_source& q, const panel& p, T* out) {
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  for (std::size_t r = 0; q.format.block.group[0] != 0 && r < p.rows; ++r)
    for (std::size_t k = 0; k < p.depth; ++k) {
      const std::uint32_t bits = load_block(q.scales, q.format, q.scale_index(p.row + r, (p.k + k) / length));
      T& element = out[r * panel_depth + k];
      element =
          static_cast<T>(element * static_cast<T>(1 << exponent_of(q.format, bits, static_cast<int>(k % length))));
    }
}

/// The values of a panel as integers times integer_unit.
template <features needs>
void decode_integers(const quantized_source& q, const panel& p, std::int16_t* out) {
  if constexpr (has(needs, features::further_parts)) {
    if (q.format.choice.count != 0) decode_blocks(q, p, integers_of_grids(q.format).integer, out);
    if (q.format.block.group.wide != 0) {
      decode_codes<needs>(q, p, q.format.grid.integer, std::int16_t{1}, out);
      apply_exponents(q, p, out);
    }
    if (q.format.choice.count != 0 || q.format.block.group.wide != 0) return;
  }
  decode_codes<needs>(q, p, q.format.grid.integer, std::int16_t{1}, out);
}

/// Block scales without the tensor scale; 1 for an operand that is not quantized.
inline void decode_scales(const gemm_operand& side, const panel& p, std::size_t block, float* out) {
  const quantized_source& q = side.q;
  const std::size_t first = p.k / block, count = p.depth / block;
  const bool neighbours = side.is_quantized && !q.interleaved && !q.format.has_outer_array();
  for (std::size_t r = 0; r < p.rows; ++r, out += panel_depth / 2) {
    const std::size_t at = neighbours ? q.scale_index(p.row + r, first) : 0;
    for (std::size_t b = 0; neighbours && b < count; ++b)
      out[b] = decode_block(q.format, load_block(q.scales, q.format, at + b));
    for (std::size_t b = 0; !neighbours && b < count; ++b)
      out[b] = side.is_quantized ? scale_at(q, p.row + r, first + b, 1.0f) : 1.0f;
  }
}

/// Transformed rows of an operand that is not quantized, zero beyond its columns.
inline void load_unquantized(const quantize_job& job, const panel& p, float* out) {
  coded_run run;
  for (std::size_t r = 0; r < p.rows; ++r)
    for (std::size_t k = 0; k < p.depth; k += job.run()) {
      load_run(job, p.row + r, p.k + k, run);
      for (std::size_t j = 0; j < job.run(); ++j) out[r * panel_depth + k + j] = run.x[j];
    }
}

/// Element values without their block scales.
template <features needs>
void decode_values(const gemm_operand& side, const panel& p, float* out) {
  if constexpr (has(needs, features::mixed_input))
    if (!side.is_quantized) return load_unquantized(side.unquantized, p, out);
  if constexpr (has(needs, features::byte_float))
    if (side.q.format.byte > byte_element::int8) return decode_floats(side.q, p, out);
  if constexpr (has(needs, features::further_parts))
    if (side.q.format.choice.count != 0) {
      float values[4][16];
      for (int g = 0; g <= side.q.format.choice.count; ++g)
        for (int c = 0; c < 16; ++c) values[g][c] = nth_grid(side.q.format, g).value[c];
      return decode_blocks(side.q, p, values, out);
    }
  decode_codes<needs>(side.q, p, side.q.format.grid.value, side.q.format.grid.unit, out);
  if constexpr (has(needs, features::further_parts)) apply_exponents(side.q, p, out);
}

/// Multiplies a panel by its scales and rounds the products to bf16 (folded_bf16); the scales become 1.
inline void fold_to_bf16(const panel& p, std::size_t block, float* scale, float* value) {
  for (std::size_t r = 0; r < p.rows; ++r) {
    float *row = value + r * panel_depth, *s = scale + r * panel_depth / 2;
    for (std::size_t k = 0; k < p.depth; ++k) row[k] = static_cast<float>(round_to<bf16>(row[k] * s[k / block]));
    for (std::size_t b = 0; b < p.depth / block; ++b) s[b] = 1.0f;
  }
}

inline constexpr std::uint32_t min_normal_bits = 0x00800000u;  ///< of 2^-126

/// Factors of the caller's A and B, whichever side of the job they are on: TA and fl(alpha * TB), and TB.
struct result_scales {
  float a, b, tensor_b;
};
inline result_scales scales_of(const gemm_job& job) {
  const float left = job.left.tensor_scale(), right = job.right.tensor_scale();
  return job.swapped ? result_scales{right, job.alpha * left, left} : result_scales{left, job.alpha * right, right};
}

/// Which sums cannot be scaled by two products in binary32: in exact_blocks those that are not finite; in the fast
/// modes, whose bound holds for every tensor scale, also those whose product with TA is not a normal number.
struct special_range {
  std::uint32_t least;  ///< bits of the least magnitude that is not special
  static special_range of(const gemm_job& job) { return {job.mode == accumulate::exact_blocks ? 0 : min_normal_bits}; }
  bool has(float x) const { return magnitude_bits(x) - least >= infinity_bits - least; }
};

/// Whether a row has a block scale of NaN, or an element of NaN where it is not quantized.
template <features needs>
[[gnu::cold]] bool has_nan(const gemm_operand& side, std::size_t row) {
  if (side.is_quantized) {
    for (std::size_t b = 0; b < side.q.blocks(); ++b)
      if (is_nan(scale_at(side.q, row, b, 1.0f))) return true;
    return false;
  }
  if constexpr (has(needs, features::mixed_input)) {
    float value[panel_depth];
    for (std::size_t k = 0; k < side.padded_cols(); k += panel_depth) {
      const std::size_t left = side.padded_cols() - k, depth = left < panel_depth ? left : panel_depth;
      load_unquantized(side.unquantized, {row, 1, k, depth}, value);
      for (std::size_t e = 0; e < depth; ++e)
        if (is_nan(value[e])) return true;
    }
  }
  return false;
}

/// The scaled result of one element, from codes and scales.
template <features needs>
[[gnu::cold]] float recomputed_result(const gemm_job& job, const result_scales& by, std::size_t row, std::size_t col) {
  element_product product(job.mode, job.left.exact() && job.right.exact(), job.needs_binary64());
  float value[2][panel_depth], scale[2][panel_depth / 2];
  for (std::size_t k = 0; k < job.padded() && !product.is_nan_already(); k += panel_depth) {
    const std::size_t depth = job.padded() - k < panel_depth ? job.padded() - k : panel_depth;
    const panel a{row, 1, k, depth}, b{col, 1, k, depth};
    decode_scales(job.left, a, job.block, scale[0]), decode_scales(job.right, b, job.block, scale[1]);
    decode_values<needs>(job.left, a, value[0]), decode_values<needs>(job.right, b, value[1]);
    for (std::size_t e = 0; e < depth; e += job.block)
      product.add_block(
          scale[0][e / job.block], scale[1][e / job.block], static_cast<std::uint32_t>(job.block),
          [&](std::uint32_t i) { return value[0][e + i]; }, [&](std::uint32_t i) { return value[1][e + i]; });
  }
  return product.scaled(job.alpha, by.a, by.tensor_b);
}

/// Results of `count` sums of one row, at least one of which is special, one at a time.
template <features needs>
[[gnu::cold]] void scale_special_results(const gemm_job& job, const result_scales& by, std::size_t row, std::size_t col,
                                         const float* acc, std::size_t count, float* out) {
  bool row_is_read = false, row_is_nan = false;
  for (std::size_t j = 0; j < count; ++j) {
    if (is_finite(acc[j])) {
      out[j] = scaled_sum(job.mode, acc[j], job.alpha, by.a, by.tensor_b);
      continue;
    }
    if (!row_is_read) row_is_nan = has_nan<needs>(job.left, row), row_is_read = true;
    out[j] =
        row_is_nan || has_nan<needs>(job.right, col + j) ? quiet_nan : recomputed_result<needs>(job, by, row, col + j);
  }
}

/// Results of `count` sums, those of C from (row, col) on. A loop without branches, then another if some are special.
template <features needs>
void scale_results(const gemm_job& job, const result_scales& by, std::size_t row, std::size_t col, const float* acc,
                   std::size_t count, float* out) {
  const special_range special = special_range::of(job);
  const bool exact = job.mode == accumulate::exact_blocks;
  std::uint32_t any = !exact && special.has(by.b);
  for (std::size_t j = 0; j < count; ++j) {
    const float left = acc[j] * by.a;
    out[j] = left * by.b;
    any |= special.has(exact ? acc[j] : left);
  }
  if (any) scale_special_results<needs>(job, by, row, col, acc, count, out);
}

/// What the functions above and below have code for.
inline constexpr features stored_features = features::further_parts | element_features | features::mixed_input;

/// Stores sums, `stride` floats a row, as a part of C: scaled, then + bias, then fma(beta, C, .).
template <features needs = stored_features>
void store_part(const gemm_job& job, const gemm_part& part, const float* acc, std::size_t stride) {
  constexpr std::size_t line_cols = 64;
  const result_scales by = scales_of(job);
  float line[line_cols];
  for (std::size_t i = 0; i < part.rows; ++i)
    for (std::size_t first = 0; first < part.cols; first += line_cols) {
      const std::size_t count = part.cols - first < line_cols ? part.cols - first : line_cols;
      const std::size_t row = part.row + i, col = part.col + first;
      scale_results<needs & stored_features>(job, by, row, col, acc + i * stride + first, count, line);
      settle(line);
      if (job.bias != nullptr)
        for (std::size_t j = 0; j < count; ++j) line[j] = line[j] + job.bias[job.swapped ? row : col + j];
      if (job.beta != 0.0f)
        for (std::size_t j = 0; j < count; ++j) line[j] = fma(job.beta, load_element(job.out, row, col + j), line[j]);
      store_row(job.out, row, col, count, line);
    }
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
