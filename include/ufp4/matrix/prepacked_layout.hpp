// ufp4 - prepacked_layout: where the codes and scales of a prepacked matrix are.
// SPDX-License-Identifier: Apache-2.0
//
// The canonical layout keeps a row together. A GEMM kernel reads the same k of sixteen rows at a time, so a prepacked
// matrix keeps those together. The same on every instruction set and device:
//
// | codes  | panels of 16 rows; in a panel, for every 8 k, 16 words of 4 bytes, one word a row, with its codes as in |
// |        | the canonical layout                                                                                    |
// | scales | panels of 16 rows; in a panel, for every block, 16 scales, one a row (also of square blocks)            |
//
// Rows are filled up to whole panels, and a row's codes to whole words, with codes of zero and scales of zero bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

struct prepacked_layout {
  static constexpr std::size_t panel_rows = 16;                        ///< rows that are stored side by side
  static constexpr std::size_t word_k = 8, word_bytes = 4;             ///< of one row
  static constexpr std::size_t group_bytes = panel_rows * word_bytes;  ///< codes of 8 k of a panel

  std::size_t padded_cols = 0;
  std::size_t blocks = 0;  ///< in a row

  UFP4_MEMBER static constexpr std::size_t panels(std::size_t rows) { return (rows + panel_rows - 1) / panel_rows; }
  UFP4_MEMBER static constexpr std::size_t filled_rows(std::size_t rows) { return panels(rows) * panel_rows; }
  UFP4_MEMBER static constexpr std::size_t filled_cols(std::size_t padded) {
    return (padded + word_k - 1) / word_k * word_k;
  }
  /// Bytes of codes of k columns of a panel.
  UFP4_MEMBER static constexpr std::size_t panel_bytes(std::size_t k) {
    return (k + word_k - 1) / word_k * group_bytes;
  }

  /// The byte with the codes of columns k and k + 1 of a row, k even; k in the low four bits.
  UFP4_MEMBER constexpr std::size_t code_index(std::size_t row, std::size_t k) const {
    return row / panel_rows * panel_bytes(padded_cols) + k / word_k * group_bytes + row % panel_rows * word_bytes +
           k % word_k / 2;
  }
  UFP4_MEMBER constexpr std::uint8_t code(const std::uint8_t* codes, std::size_t row, std::size_t k) const {
    return static_cast<std::uint8_t>(codes[code_index(row, k / 2 * 2)] >> k % 2 * 4 & 15);
  }
  /// The scale of block b of a row.
  UFP4_MEMBER constexpr std::size_t scale_index(std::size_t row, std::size_t b) const {
    return (row / panel_rows * blocks + b) * panel_rows + row % panel_rows;
  }
  /// Of a matrix with so many rows.
  UFP4_MEMBER constexpr std::size_t code_bytes(std::size_t rows) const {
    return panels(rows) * panel_bytes(padded_cols);
  }
  UFP4_MEMBER constexpr std::size_t scale_count(std::size_t rows) const { return filled_rows(rows) * blocks; }
};

}  // namespace ufp4::detail::inline UFP4_TYPES
