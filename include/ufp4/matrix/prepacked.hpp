// ufp4 - prepacked_matrix and any_prepacked: quantized weights in the order in which the GEMM kernels read them.
// SPDX-License-Identifier: Apache-2.0
//
// For weights that are used again. The same codes and scales as in the canonical layout, in the order of
// prepacked_layout. Made by prepack(); a right operand of quantized_gemm; unpack() is the inverse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <ufp4/matrix/prepacked_layout.hpp>
#include <ufp4/matrix/quantized_matrix.hpp>
#include <utility>

namespace ufp4::detail::inline UFP4_CODE {

inline prepacked_layout layout_of(const format_spec& format, std::size_t padded_cols) {
  return {padded_cols, padded_cols / static_cast<std::size_t>(format.block.cols)};
}

inline quantized_size prepacked_size(const quantized_shape& s) {
  const char* mismatch = format_mismatch(s.format);
  expects(mismatch == nullptr, "prepacked_matrix: ", mismatch == nullptr ? "" : mismatch);
  const std::size_t padded = s.padded_cols();
  const std::size_t elements = element_count("prepacked_matrix", prepacked_layout::filled_rows(s.rows), s.cols,
                                             prepacked_layout::filled_cols(padded), s.transform);
  return {elements / 2,
          layout_of(s.format, padded).scale_count(s.rows) * static_cast<std::size_t>(scale_bytes(s.format.scale))};
}

inline float prepacked_element(const quantized_memory& p, std::size_t row, std::size_t col) {
  expects(row < p.rows() && col < p.cols(), "element (", row, ", ", col, ") of a prepacked matrix of ", p.rows(), " x ",
          p.cols());
  const format_spec& f = p.spec();
  const prepacked_layout layout = layout_of(f, p.padded_cols());
  const std::size_t at = layout.scale_index(row, col / static_cast<std::size_t>(f.block.cols));
  const float scale = decode_scale(f.scale, load_scale(p.scale_bytes().data(), f.scale, at)) * p.tensor_scale();
  return f.grid.value[layout.code(p.codes().data(), row, col)] * scale;
}

/// Panels first .. last - 1. Rows beyond the matrix get codes of zero and scales of zero bits.
inline void prepack_panels(const any_quantized_view& q, quantized_memory& out, std::size_t first, std::size_t last) {
  constexpr std::size_t height = prepacked_layout::panel_rows, word_bytes = prepacked_layout::word_bytes;
  const format_spec& f = q.spec();
  const std::size_t row_bytes = q.padded_cols() / 2, width = static_cast<std::size_t>(scale_bytes(f.scale));
  const prepacked_layout layout = layout_of(f, q.padded_cols());
  const auto zero = static_cast<std::uint8_t>(f.grid.code[f.grid.zero] * 17);
  for (std::size_t row = first * height; row < last * height; ++row) {
    const bool live = row < q.rows();
    for (std::size_t at = 0; at < row_bytes; at += word_bytes) {
      std::uint8_t word[word_bytes] = {zero, zero, zero, zero};
      const std::size_t count = row_bytes - at < word_bytes ? row_bytes - at : word_bytes;
      if (live) std::memcpy(word, q.codes().data() + row * row_bytes + at, count);
      std::memcpy(out.codes().data() + layout.code_index(row, 2 * at), word, word_bytes);
    }
    const std::byte* scales =
        q.scale_bytes().data() + row / static_cast<std::size_t>(f.block.rows) * layout.blocks * width;
    for (std::size_t b = 0; b < layout.blocks; ++b) {
      std::byte* const to = out.scale_bytes().data() + layout.scale_index(row, b) * width;
      if (live)
        std::memcpy(to, scales + b * width, width);
      else
        std::memset(to, 0, width);
    }
  }
}

/// The inverse of prepack_panels, for the whole matrix.
inline any_quantized unpacked(const quantized_memory& p) {
  any_quantized out(p.spec(), p.rows(), p.cols(), p.transform());
  out.set_tensor_scale(p.tensor_scale());
  const format_spec& f = p.spec();
  const std::size_t row_bytes = p.padded_cols() / 2, width = static_cast<std::size_t>(scale_bytes(f.scale));
  const prepacked_layout layout = layout_of(f, p.padded_cols());
  for (std::size_t row = 0; row < p.rows(); ++row) {
    for (std::size_t at = 0; at < row_bytes; at += prepacked_layout::word_bytes)
      std::memcpy(out.codes().data() + row * row_bytes + at, p.codes().data() + layout.code_index(row, 2 * at),
                  row_bytes - at < prepacked_layout::word_bytes ? row_bytes - at : prepacked_layout::word_bytes);
    const std::size_t scale_row = row / static_cast<std::size_t>(f.block.rows) * layout.blocks;
    for (std::size_t b = 0; b < layout.blocks; ++b)
      std::memcpy(out.scale_bytes().data() + (scale_row + b) * width,
                  p.scale_bytes().data() + layout.scale_index(row, b) * width, width);
  }
  return out;
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_TYPES {

/// The format as data. The same layout on every instruction set.
class any_prepacked : public detail::quantized_memory {
 public:
  any_prepacked() = default;
  /// Uninitialised memory for rows x cols elements under a transform; prepack fills it.
  UFP4_HOST_MEMBER any_prepacked(const format_spec& format, std::size_t rows, std::size_t cols,
                                 const transform_spec& applied = {})
      : any_prepacked(detail::quantized_shape{format, 1, rows, cols, applied}) {}

  /// The rows divided by panel_rows, rounded up.
  UFP4_HOST_MEMBER std::size_t panels() const { return detail::prepacked_layout::panels(rows()); }
  /// Element (row, col), decoded: value * fl(block scale * tensor scale).
  UFP4_HOST_MEMBER float operator()(std::size_t row, std::size_t col) const {
    return detail::prepacked_element(*this, row, col);
  }

 private:
  UFP4_HOST_MEMBER explicit any_prepacked(const detail::quantized_shape& shape)
      : quantized_memory(shape, detail::prepacked_size(shape)) {}
};

/// The format as a template argument.
template <any_block_format Format>
class prepacked_matrix : public detail::typed_memory<Format> {
 public:
  static constexpr std::size_t panel_rows = detail::prepacked_layout::panel_rows;  ///< rows stored side by side

  prepacked_matrix() = default;
  /// Uninitialised memory for rows x cols elements under a transform; prepack fills it.
  UFP4_HOST_MEMBER prepacked_matrix(std::size_t rows, std::size_t cols, const transform_spec& applied = {})
      : detail::typed_memory<Format>(rows, cols, applied,
                                     detail::prepacked_size({spec_of<Format>, 1, rows, cols, applied})) {}

  /// The rows divided by panel_rows, rounded up.
  UFP4_HOST_MEMBER std::size_t panels() const { return detail::prepacked_layout::panels(this->rows()); }
  /// Element (row, col), decoded: value * fl(block scale * tensor scale).
  UFP4_HOST_MEMBER float operator()(std::size_t row, std::size_t col) const {
    return detail::prepacked_element(*this, row, col);
  }
};

template <class T>
struct is_prepacked : std::is_same<T, any_prepacked> {};
template <any_block_format F>
struct is_prepacked<prepacked_matrix<F>> : std::true_type {};

/// A prepacked_matrix or any_prepacked.
template <class T>
concept prepacked_like = is_prepacked<T>::value;

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::inline UFP4_CODE {

/// The quantized matrix that a prepacked one was made from: the same codes, scales and tensor scale.
inline any_quantized unpack(const any_prepacked& p) { return detail::unpacked(p); }
template <any_block_format F>
quantized_matrix<F> unpack(const prepacked_matrix<F>& p) {
  return quantized_matrix<F>(detail::unpacked(p));
}

}  // namespace ufp4::inline UFP4_CODE
