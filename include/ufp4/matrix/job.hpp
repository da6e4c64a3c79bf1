// ufp4 - the jobs that operations pass to kernels on every backend: formats, shapes and memory as plain values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/block/block_codec.hpp>
#include <ufp4/matrix/accumulate.hpp>
#include <ufp4/matrix/matrix_view.hpp>
#include <ufp4/matrix/quantized_matrix.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// The values of all grids of a format as integers times one power of two.
struct grid_integers {
  bool exact = true;  ///< whether they, times the powers of their exponents, are such integers, up to 181
  float unit = 0;     ///< the power of two
  std::int16_t integer[4][16] = {};
};

constexpr grid_integers integers_of_grids(const format_spec& f) {
  grid_integers all{f.grid.exact_products, f.grid.unit};
  for (int g = 1; g <= f.choice.count; ++g) {
    all.exact = all.exact && nth_grid(f, g).exact_products;
    all.unit = nth_grid(f, g).unit < all.unit ? nth_grid(f, g).unit : all.unit;
  }
  for (int g = 0; all.exact && g <= f.choice.count; ++g)
    for (int c = 0; c < 16; ++c) {
      const float units = nth_grid(f, g).value[c] / all.unit;
      const float most = 181.0f / static_cast<float>(1 << exponent_levels(f.block));
      if (!(units >= -most && units <= most)) return {false};
      all.integer[g][c] = static_cast<std::int16_t>(units);
    }
  return all;
}

/// Whether a value other than 0 is below 2^-40 or above 2^10, as only grids of a program's own have. Products of values
/// may then leave the range of binary32 or multiply the error of a product of block scales that underflowed beyond the
/// bound, so the fast modes add up in binary64 (numerics 6).
constexpr bool has_extreme_values(const grid4& grid) {
  if (grid.exact_products && grid.unit >= 0x1p-40f && grid.qmax <= 0x1p10f) return false;
  bool any = false;
  for (const float v : grid.value) any = any || (v != 0.0f && !(magnitude(v) >= 0x1p-40f && magnitude(v) <= 0x1p10f));
  return any;
}
constexpr bool has_extreme_values(const format_spec& f) {
  bool any = false;
  for (int g = 0; !f.has_bytes() && g <= f.choice.count; ++g) any = any || has_extreme_values(nth_grid(f, g));
  return any;
}

/// Their unit; for a format of one grid that of the grid.
[[gnu::always_inline]] constexpr float integer_unit(const format_spec& f) {
  return f.choice.count == 0 ? f.grid.unit : integers_of_grids(f).unit;
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::detail::inline UFP4_TYPES {

/// The canonical layout keeps a row together. A GEMM kernel reads the same k of sixteen rows at a time, so a prepacked
/// matrix keeps those together. The same on every instruction set and device:
///
/// | codes  | panels of 16 rows; in one, for every 8 k, 16 words of 4 bytes, one a row, codes in canonical order |
/// | scales | panels of 16 rows; in one, for every block, 16 scales, one a row (also of square blocks)           |
/// | outer  | scales of rows or segments, row-major, after all block scales, at the next multiple of their size  |
///
/// Rows are filled up to whole panels, and a row's codes to whole words, with codes of zero and scales of zero bits.
struct prepacked_layout {
  static constexpr std::size_t panel_rows = 16;                        ///< rows that are stored side by side
  static constexpr std::size_t word_k = 8, word_bytes = 4;             ///< of one row
  static constexpr std::size_t group_bytes = panel_rows * word_bytes;  ///< codes of 8 k of a panel

  std::size_t padded_cols = 0;
  std::size_t blocks = 0;  ///< in a row

  UFP4_MEMBER static constexpr std::size_t panels(std::size_t rows) { return (rows + panel_rows - 1) / panel_rows; }
  UFP4_MEMBER static constexpr std::size_t filled_rows(std::size_t rows) { return panels(rows) * panel_rows; }
  UFP4_MEMBER static constexpr std::size_t filled_cols(std::size_t k) { return (k + word_k - 1) / word_k * word_k; }
  UFP4_MEMBER static constexpr std::size_t panel_bytes(std::size_t k) { return filled_cols(k) / word_k * group_bytes; }

  /// The byte with the codes of columns k and k + 1 of a row, k even; k in the low four bits.
  UFP4_MEMBER constexpr std::size_t code_index(std::size_t row, std::size_t k) const {
    return row / panel_rows * panel_bytes(padded_cols) + k / word_k * group_bytes + row % panel_rows * word_bytes +
           k % word_k / 2;
  }
  UFP4_MEMBER constexpr std::uint8_t code(const std::uint8_t* codes, std::size_t row, std::size_t k) const {
    return static_cast<std::uint8_t>(codes[code_index(row, k / 2 * 2)] >> k % 2 * 4 & 15);
  }
  UFP4_MEMBER constexpr std::size_t scale_index(std::size_t row, std::size_t b) const {
    return (row / panel_rows * blocks + b) * panel_rows + row % panel_rows;
  }
  UFP4_MEMBER constexpr std::size_t code_bytes(std::size_t rows) const {
    return panels(rows) * panel_bytes(padded_cols);
  }
  UFP4_MEMBER constexpr std::size_t scale_count(std::size_t rows) const { return filled_rows(rows) * blocks; }
  /// Where the outer scales of a matrix with so many rows begin among its scale bytes.
  UFP4_MEMBER constexpr std::size_t outer_at(std::size_t rows, const scale_strip& strip) const {
    const std::size_t bytes = scale_count(rows) * strip.block_bytes;
    return (bytes + strip.outer_bytes - 1) / strip.outer_bytes * strip.outer_bytes;
  }
  UFP4_MEMBER constexpr std::size_t scale_bytes(std::size_t rows, const scale_strip& strip) const {
    if (strip.outers == 0) return scale_count(rows) * strip.block_bytes;
    return outer_at(rows, strip) + rows * strip.outers * strip.outer_bytes;
  }
};
inline constexpr format_spec no_format{};

/// A matrix to be quantized. A strip has as many rows as a block; a run is the longer of block and transform.
/// Format: `const format_spec&`, whose format outlives the job; or format_spec, for a job that goes to a device.
template <class Format>
struct quantize_job_with {
  source x{};
  Format format = no_format;
  transform_spec transform{};
  bool rounds_input_to_bf16 = false;  ///< the bf16 recipe: nothing else happens to the operand
  std::size_t padded_cols = 0;
  std::uint64_t first_row = 0, first_col = 0, whole_padded_cols = 0;  ///< place in the whole operand
  bool counts = true;           ///< report saturated elements: kernels may leave them out otherwise
  const void* plans = nullptr;  ///< cpu::detail::rounding_plans of the format and the rounding, or null: to compute

  UFP4_HOST_MEMBER std::size_t strips() const { return scale_rows(x.rows, format.block); }
  UFP4_HOST_MEMBER std::size_t run() const { return padded_length(1, format.block, transform); }
  template <class Other>
  UFP4_HOST_MEMBER operator quantize_job_with<Other>() const {
    return {x,      format, transform, rounds_input_to_bf16, padded_cols, first_row, first_col, whole_padded_cols,
            counts, plans};
  }
};
using quantize_job = quantize_job_with<const format_spec&>;
using stored_quantize_job = quantize_job_with<format_spec>;

/// Codes and scales of a matrix, to read, in the canonical layout or interleaved (prepacked_layout).
struct quantized_source {
  const std::uint8_t* codes = nullptr;
  const void* scales = nullptr;
  const format_spec& format = no_format;
  std::size_t rows = 0, cols = 0, padded_cols = 0;
  float tensor_scale = 1;
  transform_spec transform{};
  bool interleaved = false;

  UFP4_HOST_MEMBER std::size_t blocks() const { return divided(padded_cols, format.block.cols); }
  UFP4_HOST_MEMBER scale_strip strip() const { return scale_strip_of(format, padded_cols); }
  UFP4_HOST_MEMBER prepacked_layout layout() const { return {padded_cols, blocks()}; }  ///< where interleaved
  UFP4_HOST_MEMBER std::size_t scale_index(std::size_t row, std::size_t b) const {
    if (interleaved) return layout().scale_index(row, b);
    const std::size_t pitch = format.has_outer_array() ? strip().bytes() / strip().block_bytes : blocks();
    return divided(row, format.block.rows) * pitch + b;
  }
  /// The outer scale of block b of a row; 1 without an array of them.
  UFP4_HOST_MEMBER float outer_scale(std::size_t row, std::size_t b) const {
    if (!format.has_outer_array()) return 1.0f;
    const scale_strip s = strip();
    const std::size_t at = interleaved ? layout().outer_at(rows, s) + row * s.outers * s.outer_bytes
                                       : row / static_cast<std::size_t>(format.block.rows) * s.bytes() + s.outer_at();
    return outer_scale_at(format, padded_cols, static_cast<const std::byte*>(scales) + at,
                          b * static_cast<std::size_t>(format.block.cols));
  }
  /// Where the byte with the codes of k and k + 1 of a row is, k even; in a format of byte elements that of k.
  UFP4_HOST_MEMBER std::size_t code_index(std::size_t row, std::size_t k) const {
    return interleaved ? layout().code_index(row, k) : code_bytes(format, row * padded_cols + k);
  }
  /// Bytes from the codes of 8 columns of a row to those of the next 8.
  UFP4_HOST_MEMBER std::size_t word_step() const {
    return interleaved ? prepacked_layout::group_bytes : prepacked_layout::word_bytes;
  }
  /// By a side of a block, a power of two: a division takes as long as the decoding of sixteen scales.
  UFP4_HOST_MEMBER static std::size_t divided(std::size_t x, int side) {
    return x >> __builtin_ctz(static_cast<unsigned>(side));
  }
};
struct quantized_sink {
  std::uint8_t* codes = nullptr;
  void* scales = nullptr;
};

/// Of an unquantized matrix beside blocks of a length, a power of two: all kernels know of its format.
inline constexpr auto unquantized_formats = [] {
  struct {
    format_spec of_length[9];
  } all{};
  for (int i = 0; i < 9; ++i) all.of_length[i].block.cols = 1 << i;
  return all;
}();
UFP4_HOST_MEMBER constexpr const format_spec& unquantized_format(int block) {
  return unquantized_formats.of_length[__builtin_ctz(static_cast<unsigned>(block))];
}

/// One side of a GEMM: quantized, or an unquantized matrix (transformed as it is read).
struct gemm_operand {
  bool is_quantized = true;
  quantized_source q{};
  quantize_job unquantized{};

  UFP4_HOST_MEMBER std::size_t rows() const { return is_quantized ? q.rows : unquantized.x.rows; }
  UFP4_HOST_MEMBER std::size_t cols() const { return is_quantized ? q.cols : unquantized.x.cols; }
  UFP4_HOST_MEMBER std::size_t padded_cols() const { return is_quantized ? q.padded_cols : unquantized.padded_cols; }
  UFP4_HOST_MEMBER float tensor_scale() const { return is_quantized ? q.tensor_scale : 1.0f; }
  UFP4_HOST_MEMBER const transform_spec& transform() const {
    return is_quantized ? q.transform : unquantized.transform;
  }
  UFP4_HOST_MEMBER constexpr bool exact() const {
    if (!is_quantized) return false;
    const bool one_table = q.format.choice.count == 0 && q.format.block.group[0] == 0;
    return one_table ? q.format.grid.exact_products : integers_of_grids(q.format).exact;
  }
  UFP4_HOST_MEMBER bool interleaved() const { return is_quantized && q.interleaved; }
  UFP4_HOST_MEMBER constexpr bool has_bytes() const { return is_quantized && q.format.has_bytes(); }
};

struct gemm_job {
  gemm_operand left{}, right{};
  sink out{};
  std::size_t block = 16;  ///< block length along K
  float alpha = 1, beta = 0;
  accumulate mode = accumulate::fast;
  const float* bias = nullptr;  ///< one a column of the caller's C, or null
  bool swapped = false;         ///< left is the caller's B, right its A, out its C transposed

  UFP4_HOST_MEMBER std::size_t padded() const { return left.padded_cols(); }
  /// Whether the mode adds up in binary64: has_extreme_values.
  UFP4_HOST_MEMBER constexpr bool needs_binary64() const {
    const auto extreme = [](const gemm_operand& side) {
      return side.is_quantized && has_extreme_values(side.q.format);
    };
    return mode != accumulate::exact_blocks && (extreme(left) || extreme(right));
  }
};

}  // namespace ufp4::detail::inline UFP4_TYPES
