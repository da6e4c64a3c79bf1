// ufp4 - what a thread needs of an extended format: its further grids, and the scales of a strip in device memory.
// SPDX-License-Identifier: Apache-2.0
//
// Extended: arrays of outer scales, several grids, one-bit exponents, e6m2 scales (numerics 5).
#pragma once

#include <ufp4/matrix/job.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// The further grids of a format, which refers to them in host memory, for a parameter of a kernel.
struct further_grids {
  int count = 0;                        ///< how many
  ufp4::detail::scaled_grid grid[3]{};  ///< the grids

  /// Makes a thread's copy of the format refer to these.
  UFP4_HD void give_to(format_spec& f) const { f.choice = {count, grid}; }
};
/// Copies them.
inline further_grids further_grids_of(const format_spec& f) {
  further_grids all;
  for (; all.count < f.choice.count; ++all.count) all.grid[all.count] = f.choice.more[all.count];
  return all;
}

/// The scales of one strip of a matrix in their canonical order, little endian.
class strip_scales {
 public:
  /// Strip number `strip` of a matrix whose scales are at `all`.
  UFP4_DEVICE strip_scales(const format_spec& f, std::size_t padded_cols, void* all, std::size_t strip)
      : layout_(ufp4::detail::scale_strip_of(f, padded_cols)),
        covered_(ufp4::detail::outer_columns(f, padded_cols)),
        at_(static_cast<std::uint8_t*>(all) + strip * layout_.bytes()) {}

  /// Columns that an outer scale covers; 0 without an array of them.
  UFP4_DEVICE std::size_t covered() const { return covered_; }
  /// The stored bits of a block.
  UFP4_DEVICE std::uint32_t block_bits(std::size_t block) const { return load(block, 0, layout_.block_bytes); }
  /// Stores them.
  UFP4_DEVICE void store_block_bits(std::size_t block, std::uint32_t bits) const {
    store(block, 0, layout_.block_bytes, bits);
  }
  /// The stored bits of an outer scale.
  UFP4_DEVICE std::uint32_t outer_bits(std::size_t outer) const {
    return load(outer, layout_.outer_at(), layout_.outer_bytes);
  }
  /// Stores them.
  UFP4_DEVICE void store_outer(std::size_t outer, std::uint32_t bits) const {
    store(outer, layout_.outer_at(), layout_.outer_bytes, bits);
  }
  /// Zeros between the block scales and the outer ones.
  UFP4_DEVICE void clear_gap() const {
    for (std::size_t i = layout_.blocks * layout_.block_bytes; i < layout_.outer_at(); ++i) at_[i] = 0;
  }

 private:
  UFP4_DEVICE std::uint32_t load(std::size_t number, std::size_t first, std::size_t bytes) const {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < bytes; ++i) bits |= std::uint32_t{at_[first + number * bytes + i]} << (8 * i);
    return bits;
  }
  UFP4_DEVICE void store(std::size_t number, std::size_t first, std::size_t bytes, std::uint32_t bits) const {
    for (std::size_t i = 0; i < bytes; ++i)
      at_[first + number * bytes + i] = static_cast<std::uint8_t>(bits >> (8 * i) & 0xFFu);
  }

  ufp4::detail::scale_strip layout_;
  std::size_t covered_;
  std::uint8_t* at_;
};

/// A matrix of an extended format in device memory, to read.
struct extended_matrix {
  const std::uint8_t* codes = nullptr;  ///< canonical
  const void* scales = nullptr;         ///< of all strips
  format_spec format{};                 ///< refers to `grids` in a kernel
  further_grids grids{};                ///< of the format
  std::size_t padded_cols = 0;          ///< columns with padding
};

/// The bits of a block, and its scale times `factor` (the tensor scale, or 1) or times its outer scale, rounded once.
struct extended_block {
  std::uint32_t bits;  ///< scale, number of the grid, exponents
  float scale;         ///< effective
};
/// Block b of a row. f: the matrix's format with its grids.
UFP4_DEVICE extended_block block_of(const extended_matrix& q, const format_spec& f, std::size_t row, std::size_t b,
                                    float factor) {
  const strip_scales from(f, q.padded_cols, const_cast<void*>(q.scales), row / static_cast<std::size_t>(f.block.rows));
  const std::uint32_t bits = from.block_bits(b);
  if (from.covered() != 0)
    factor = ufp4::detail::decode_scale(f.outer.type,
                                        from.outer_bits(b * static_cast<std::size_t>(f.block.cols) / from.covered()));
  return {bits, ufp4::detail::rounded(ufp4::detail::decode_block(f, bits) * factor)};
}
/// Element k of a row of that block, without its scale: a value of its grid times the power of its exponents.
UFP4_DEVICE float element_of(const extended_matrix& q, const format_spec& f, std::uint32_t bits, std::size_t row,
                             std::size_t k) {
  const std::uint8_t pair = q.codes[(row * q.padded_cols + k) / 2];
  const auto code = static_cast<std::uint8_t>(k % 2 == 0 ? pair & 15 : pair >> 4);
  const int within = static_cast<int>(k % static_cast<std::size_t>(f.block.cols));
  return ufp4::detail::element_value(f, bits, code) * ufp4::detail::exp2i(ufp4::detail::exponent_of(f, bits, within));
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
