// ufp4 - prepacked_matrix: quantized weights in the order in which the GEMM kernels read them.
// SPDX-License-Identifier: Apache-2.0
//
// The canonical layout keeps a row together; a kernel wants the same k of sixteen rows together, and turns the layout
// round each time it reads it. For weights that are used again that work can be done once. The size stays the same, but
// for rows filled up to a multiple of 16 and the scales of square blocks, which are repeated for each row.
//
// | codes  | panels of 16 rows; in a panel, for every 8 k, 16 words of 4 bytes, one a row, |
// |        | its codes as in the canonical layout                                          |
// | scales | panels of 16 rows; in a panel, for every block, 16 scales                     |
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <ufp4/matrix/quantized_matrix.hpp>

namespace ufp4::inline UFP4_TYPES {

/// Made by prepack(); a right operand of quantized_gemm. The same layout on every instruction set.
template <any_block_format Format>
class prepacked_matrix : public detail::typed_memory<Format> {
 public:
  static constexpr std::size_t panel_rows = 16;

  prepacked_matrix() = default;
  /// Uninitialised memory for rows x cols elements under a transform; prepack fills it.
  UFP4_HOST_MEMBER prepacked_matrix(std::size_t rows, std::size_t cols, const transform_spec& applied)
      : prepacked_matrix(rows, cols, applied, whole_panels(rows) * panel_rows,
                         detail::padded_length(cols, Format::block, applied)) {}

  UFP4_HOST_MEMBER std::size_t panels() const { return whole_panels(this->rows()); }

 private:
  UFP4_HOST_MEMBER static constexpr std::size_t whole_panels(std::size_t rows) {
    return (rows + panel_rows - 1) / panel_rows;
  }
  UFP4_HOST_MEMBER prepacked_matrix(std::size_t rows, std::size_t cols, const transform_spec& applied,
                                    std::size_t filled, std::size_t padded)
      : detail::typed_memory<Format>(
            rows, cols, applied,
            {detail::element_count("prepacked_matrix", filled, cols, (padded + 7) / 8 * 8, applied) / 2,
             filled * (padded / Format::block_size) * sizeof(typename Format::scale_type)}) {}
};

template <class T>
struct is_prepacked : std::false_type {};
template <any_block_format F>
struct is_prepacked<prepacked_matrix<F>> : std::true_type {};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

/// Panels first .. last - 1. Rows beyond the matrix get codes of zero and scales of zero bits.
template <any_block_format F>
void prepack_panels(const quantized_view<F>& q, prepacked_matrix<F>& out, std::size_t first, std::size_t last) {
  constexpr std::size_t height = prepacked_matrix<F>::panel_rows;
  constexpr std::uint8_t zero = spec_of<F>.grid.code[spec_of<F>.grid.zero] * 17;
  const std::size_t row_bytes = q.padded_cols() / 2, words = (row_bytes + 3) / 4,
                    blocks = q.padded_cols() / F::block_size;
  std::uint8_t* codes = out.codes().data() + first * words * 4 * height;
  typename F::scale_type* scales = out.scales().data() + first * blocks * height;
  for (std::size_t p = first; p < last; ++p, codes += words * 4 * height, scales += blocks * height)
    for (std::size_t r = 0; r < height; ++r) {
      const std::size_t row = p * height + r;
      const bool live = row < q.rows();
      for (std::size_t w = 0; w < words; ++w) {
        std::uint8_t word[4] = {zero, zero, zero, zero};
        const std::size_t count = row_bytes - 4 * w < 4 ? row_bytes - 4 * w : 4;
        if (live) std::memcpy(word, q.codes().data() + row * row_bytes + 4 * w, count);
        std::memcpy(codes + (w * height + r) * 4, word, 4);
      }
      const std::size_t scale_row = row / static_cast<std::size_t>(F::block.rows) * blocks;
      for (std::size_t b = 0; b < blocks; ++b)
        if (live)
          scales[b * height + r] = q.scales()[scale_row + b];
        else
          std::memset(&scales[b * height + r], 0, sizeof(typename F::scale_type));
    }
}

}  // namespace ufp4::detail::inline UFP4_CODE
