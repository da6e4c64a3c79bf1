// ufp4 - block_format: an element type, a scale type, a block shape and an optional tensor scale as one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/format/grid.hpp>
#include <ufp4/format/int8.hpp>
#include <ufp4/format/scales.hpp>

namespace ufp4::inline UFP4_TYPES {

/// The shape of a block: 1 x cols along the contraction axis, or a rectangle.
struct block_shape {
  int rows = 1;   ///< 1, or the height of a rectangle
  int cols = 16;  ///< along the contraction axis
  constexpr block_shape() = default;
  UFP4_MEMBER constexpr block_shape(int along_k) : rows(1), cols(along_k) {}             ///< 1 x along_k
  UFP4_MEMBER constexpr block_shape(int rows_, int cols_) : rows(rows_), cols(cols_) {}  ///< rows x cols
  friend constexpr bool operator==(const block_shape&, const block_shape&) = default;
};

/// One scale for size x size elements: for an operand that a GEMM and its transpose both read.
constexpr block_shape square(int size) { return {size, size}; }

/// A block format as data, for kernels and recipes. spec_of<Format> computes it from the type.
struct format_spec {
  grid4 grid;                              ///< the element format
  scale_kind scale;                        ///< the type of the block scales
  block_shape block;                       ///< the elements that share a scale
  bool two_level;                          ///< a binary32 tensor scale beside the block scales
  wide_element wide = wide_element::none;  ///< elements of one byte instead of 4 bits: `grid` has only their constants

  /// Whether an element takes one byte; otherwise two take it.
  UFP4_MEMBER constexpr bool is_wide() const { return wide != wide_element::none; }
  friend constexpr bool operator==(const format_spec&, const format_spec&) = default;
};

/// `block_format<fp4<E2M1>, e4m3, 16, float>` is NVFP4; leave the last argument out for one level of scales.
///
/// | Element     | any element_format, a user's own included; int8 or int8q6                             |
/// | Scale       | float, bf16, e4m3, ue5m3 or e8m0                                                       |
/// | Block       | 16 for 1x16, square(16) for 16x16, {128, 64}; powers of two: rows 1 .. 128, cols 2 .. 256 |
/// | TensorScale | void, or float for a second level, with e4m3 and ue5m3: the others' range needs none     |
template <any_element_format Element, scale_format Scale, block_shape Block, class TensorScale = void>
struct block_format {
  static_assert(Block.cols >= 2 && Block.cols <= 256 && (Block.cols & (Block.cols - 1)) == 0,
                "the block length must be a power of two from 2 to 256");
  static_assert(Block.rows >= 1 && Block.rows <= 128 && (Block.rows & (Block.rows - 1)) == 0,
                "the rows of a block must be a power of two from 1 to 128");
  static_assert(std::is_void_v<TensorScale> || std::is_same_v<TensorScale, float>,
                "the tensor scale is float, or void for none");
  static_assert(std::is_void_v<TensorScale> || std::is_same_v<Scale, e4m3> || std::is_same_v<Scale, ue5m3>,
                "float, bf16 and e8m0 block scales take no tensor scale: their range needs none");

  using format = block_format;                 ///< the format that its matrices have, as of a compat preset
  using element_type = Element;                ///< fp4<E2M1>, int4, int8, ...
  using scale_type = Scale;                    ///< float, bf16, e4m3, ...
  using tensor_scale_type = TensorScale;       ///< float or void
  static constexpr block_shape block = Block;  ///< rows x B
  static constexpr std::size_t block_size = static_cast<std::size_t>(Block.cols);  ///< B
  static constexpr bool two_level = !std::is_void_v<TensorScale>;                  ///< has a tensor scale
  static constexpr bool is_wide = wide_element_format<Element>;                    ///< an element takes one byte
  /// Codes and block scales; a tensor scale adds 32 bits to the whole.
  static constexpr double bits_per_element = (is_wide ? 8.0 : 4.0) + 8.0 * sizeof(Scale) / (Block.rows * Block.cols);
};

/// Whether F is an instance of block_format.
template <class F>
struct is_block_format : std::false_type {};
template <class E, class S, block_shape B, class T>
struct is_block_format<block_format<E, S, B, T>> : std::true_type {};

/// Any instance of block_format.
template <class F>
concept any_block_format = is_block_format<F>::value;

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// format_spec::wide of an element type.
template <any_element_format E>
constexpr wide_element wide_of() {
  if constexpr (wide_element_format<E>)
    return E::wide;
  else
    return wide_element::none;
}

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// The format F as data.
template <any_block_format F>
inline constexpr format_spec spec_of = {grid_of<typename F::element_type>(), scale_traits<typename F::scale_type>::kind,
                                        F::block, F::two_level, detail::wide_of<typename F::element_type>()};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

/// Bytes of the codes of `count` elements; count is even.
UFP4_HD constexpr std::size_t code_bytes(const format_spec& f, std::size_t count) {
  return f.is_wide() ? count : count / 2;
}

/// Whether the grid is that of elements of one byte, with a unit that leaves products of two units normal numbers.
constexpr bool is_wide_grid(const format_spec& f) {
  const float unit = f.grid.unit;
  return unit > 0x1p-60f && unit < 0x1p40f && (to_bits(unit) & 0x007FFFFFu) == 0 && f.grid == wide_grid(f.wide, unit);
}

/// The reason why kernels do not support a format, or nullptr. The conditions are those of block_format.
constexpr const char* format_mismatch(const format_spec& f) {
  const int rows = f.block.rows, cols = f.block.cols;
  if (f.wide > wide_element::int8) return "the format's wide is no wide_element";
  if (f.is_wide() && !is_wide_grid(f)) return "a format with elements of one byte needs the grid of wide_grid()";
  if (!f.is_wide() && (f.grid.levels < 1 || f.grid.levels > 16 || !(f.grid.qmax > 0.0f)))
    return "the format has no values; spec_of<nvfp4> is one that has";
  if (f.scale > scale_kind::e8m0) return "the format's scale is no scale_kind";
  if (cols < 2 || cols > 256 || (cols & (cols - 1)) != 0)
    return "the block length must be a power of two from 2 to 256";
  if (rows < 1 || rows > 128 || (rows & (rows - 1)) != 0)
    return "the rows of a block must be a power of two from 1 to 128";
  if (f.two_level && f.scale != scale_kind::e4m3 && f.scale != scale_kind::ue5m3)
    return "float, bf16 and e8m0 block scales take no tensor scale: their range needs none";
  return nullptr;
}

}  // namespace ufp4::detail::inline UFP4_CODE
