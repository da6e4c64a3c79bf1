// ufp4 - converts codes and scales to and from the layouts of other projects.
// SPDX-License-Identifier: Apache-2.0
//
// | layout        | used by                                          | form                                          |
// |---------------|--------------------------------------------------|-----------------------------------------------|
// | canonical     | this library                                     | codes row-major, even k low; scales row-major |
// | 128x4 swizzle | cuBLASLt and CUTLASS block-scaled GEMMs, torchao | scales in tiles of 512 (swizzle_scales)       |
// | split half    | ggml                                             | byte j of a block: codes j and j + B/2        |
//
// Source of the swizzle: cuBLAS documentation, "1D block scaling factors layout".
#pragma once

#include <ufp4/block/packing.hpp>

namespace ufp4::compat::inline UFP4_CODE {

/// The index of scale (row, col) in the 128x4 layout of a matrix with `cols` scales in a row.
UFP4_HD constexpr std::size_t swizzled_index(std::size_t row, std::size_t col, std::size_t cols) {
  const std::size_t tile = row / 128 * ((cols + 3) / 4) + col / 4;
  return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + col % 4;
}

/// The number of scales in the 128x4 layout: rows and cols rounded up to whole tiles.
UFP4_HD constexpr std::size_t swizzled_size(std::size_t rows, std::size_t cols) {
  return (rows + 127) / 128 * ((cols + 3) / 4) * 512;
}

/// Copies rows x cols row-major scales to the 128x4 layout and fills the last tiles with `padding`. `out` holds
/// swizzled_size(rows, cols) scales and must not overlap the input.
template <class Scale>
constexpr void swizzle_scales(const Scale* scales, std::size_t rows, std::size_t cols, Scale* out, Scale padding = {}) {
  for (std::size_t i = 0; i < swizzled_size(rows, cols); ++i) out[i] = padding;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) out[swizzled_index(r, c, cols)] = scales[r * cols + c];
}

/// Copies scales from the 128x4 layout back to rows x cols row-major ones, without the padding.
template <class Scale>
constexpr void unswizzle_scales(const Scale* swizzled, std::size_t rows, std::size_t cols, Scale* out) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) out[r * cols + c] = swizzled[swizzled_index(r, c, cols)];
}

/// Copies `blocks` blocks of `length` packed elements to split halves: byte j of a block holds element j (low nibble)
/// and element j + length / 2 (high). length is even; `out` must not overlap the input.
constexpr void split_halves(const std::uint8_t* packed, std::size_t blocks, std::size_t length, std::uint8_t* out) {
  const std::size_t bytes = length / 2;
  for (std::size_t b = 0; b < blocks; ++b)
    for (std::size_t j = 0; j < bytes; ++j) {
      const std::uint8_t* block = packed + b * bytes;
      out[b * bytes + j] =
          static_cast<std::uint8_t>(ufp4::detail::code_at(block, j) | ufp4::detail::code_at(block, j + bytes) << 4);
    }
}

/// The inverse of split_halves.
constexpr void join_halves(const std::uint8_t* split, std::size_t blocks, std::size_t length, std::uint8_t* out) {
  const std::size_t bytes = length / 2;
  for (std::size_t b = 0; b < blocks; ++b)
    for (std::size_t j = 0; j < bytes; ++j) {
      const std::uint8_t* block = split + b * bytes;
      const auto code = [block, bytes](std::size_t k) { return block[k % bytes] >> (k < bytes ? 0 : 4) & 15; };
      out[b * bytes + j] = static_cast<std::uint8_t>(code(2 * j) | code(2 * j + 1) << 4);
    }
}

}  // namespace ufp4::compat::inline UFP4_CODE
