// ufp4 - prepacked_matrix: quantized weights in the order in which the GEMM kernels read them.
// SPDX-License-Identifier: Apache-2.0
//
// For weights that are used again. The same bits as those of the canonical layout, in the order of prepacked_layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <ufp4/matrix/prepacked_layout.hpp>
#include <ufp4/matrix/quantized_matrix.hpp>

namespace ufp4::inline UFP4_TYPES {

/// Made by prepack(); a right operand of quantized_gemm. The same layout on every instruction set.
template <any_block_format Format>
class prepacked_matrix : public detail::typed_memory<Format> {
 public:
  using layout = detail::prepacked_layout;                       ///< the order of codes and scales
  static constexpr std::size_t panel_rows = layout::panel_rows;  ///< rows that are stored side by side

  prepacked_matrix() = default;
  /// Uninitialised memory for rows x cols elements under a transform; prepack fills it.
  UFP4_HOST_MEMBER prepacked_matrix(std::size_t rows, std::size_t cols, const transform_spec& applied)
      : prepacked_matrix(rows, cols, applied, detail::padded_length(cols, Format::block, applied)) {}

  /// The rows divided by panel_rows, rounded up.
  UFP4_HOST_MEMBER std::size_t panels() const { return layout::panels(this->rows()); }

 private:
  UFP4_HOST_MEMBER prepacked_matrix(std::size_t rows, std::size_t cols, const transform_spec& applied,
                                    std::size_t padded)
      : detail::typed_memory<Format>(
            rows, cols, applied,
            {detail::element_count("prepacked_matrix", layout::filled_rows(rows), cols, layout::filled_cols(padded),
                                   applied) /
                 2,
             layout{padded, padded / Format::block_size}.scale_count(rows) * sizeof(typename Format::scale_type)}) {}
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
  constexpr std::size_t height = prepacked_layout::panel_rows, word_bytes = prepacked_layout::word_bytes;
  constexpr std::uint8_t zero = spec_of<F>.grid.code[spec_of<F>.grid.zero] * 17;
  const std::size_t row_bytes = q.padded_cols() / 2, blocks = q.padded_cols() / F::block_size;
  const prepacked_layout layout{q.padded_cols(), blocks};
  for (std::size_t row = first * height; row < last * height; ++row) {
    const bool live = row < q.rows();
    for (std::size_t at = 0; at < row_bytes; at += word_bytes) {
      std::uint8_t word[word_bytes] = {zero, zero, zero, zero};
      const std::size_t count = row_bytes - at < word_bytes ? row_bytes - at : word_bytes;
      if (live) std::memcpy(word, q.codes().data() + row * row_bytes + at, count);
      std::memcpy(out.codes().data() + layout.code_index(row, 2 * at), word, word_bytes);
    }
    const std::size_t scale_row = row / static_cast<std::size_t>(F::block.rows) * blocks;
    for (std::size_t b = 0; b < blocks; ++b) {
      typename F::scale_type& scale = out.scales()[layout.scale_index(row, b)];
      if (live)
        scale = q.scales()[scale_row + b];
      else
        std::memset(&scale, 0, sizeof scale);
    }
  }
}

/// The codes and scales of one row, in the canonical layout: padded_cols() / 2 bytes and a scale for each block.
template <any_block_format F>
void unpack_row(const prepacked_matrix<F>& p, std::size_t row, std::uint8_t* codes, typename F::scale_type* scales) {
  const std::size_t row_bytes = p.padded_cols() / 2, blocks = p.padded_cols() / F::block_size;
  const prepacked_layout layout{p.padded_cols(), blocks};
  for (std::size_t at = 0; at < row_bytes; ++at) codes[at] = p.codes()[layout.code_index(row, 2 * at)];
  for (std::size_t b = 0; b < blocks; ++b) scales[b] = p.scales()[layout.scale_index(row, b)];
}

}  // namespace ufp4::detail::inline UFP4_CODE
