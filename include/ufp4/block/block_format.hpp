// ufp4 - block_format: an element type, a scale type, a block shape and optional outer scales as one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/format/fp8.hpp>
#include <ufp4/format/grid.hpp>
#include <ufp4/format/int8.hpp>
#include <ufp4/format/scales.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// The groups of columns within a block that share one-bit exponents, at up to two levels (numerics 5).
struct column_groups {
  int wide = 0;    ///< columns of a group; 0 for no groups
  int narrow = 0;  ///< columns of a group of the second level, within those of the first; 0 for one level
  /// The columns of a group of level 0 or 1.
  UFP4_MEMBER constexpr int operator[](int level) const { return level == 0 ? wide : narrow; }
  friend constexpr bool operator==(const column_groups&, const column_groups&) = default;
};

/// The outer_scale of block_format's last argument.
template <class T>
struct outer_scale_of {};

/// A grid that blocks can choose: the values of a block that did are those of the grid times the factor.
struct scaled_grid {
  grid4 grid{};      ///< its values
  float factor = 1;  ///< from 2^-40 to 2^40
  friend constexpr bool operator==(const scaled_grid&, const scaled_grid&) = default;
};
/// The grids beside the first one among which each block chooses, as data (numerics 5). They are referred to, so that a
/// format is cheap to copy: they must live as long as any matrix of the format; those of spec_of always do.
struct grid_choice {
  int count = 0;                      ///< how many, 0 to 3
  const scaled_grid* more = nullptr;  ///< so many grids
  friend constexpr bool operator==(const grid_choice& a, const grid_choice& b) {
    bool equal = a.count == b.count;
    for (int g = 0; equal && g < a.count; ++g) equal = a.more == b.more || a.more[g] == b.more[g];
    return equal;
  }
};

/// The grids of block_format's first argument: `first` and `choice`.
template <class Elements>
struct grids_of {};
template <any_element_format E>
struct grids_of<E> {
  static constexpr grid4 first = grid_of<E>();
  static constexpr float factor = 1;
  static constexpr grid_choice choice{};
};

/// format_spec::byte of an element type.
template <class E>
constexpr byte_element byte_element_of() {
  if constexpr (byte_element_format<E>)
    return E::byte;
  else
    return byte_element::none;
}

/// The scales of a strip, the rows of one block, in their canonical order (numerics 5): its block scales, then, from
/// the next multiple of their size on, its outer scales where each row or segment has one.
struct scale_strip {
  std::size_t blocks = 0, outers = 0;            ///< how many
  std::size_t block_bytes = 1, outer_bytes = 1;  ///< of one

  UFP4_MEMBER constexpr std::size_t outer_at() const {
    return (blocks * block_bytes + outer_bytes - 1) / outer_bytes * outer_bytes;
  }
  UFP4_MEMBER constexpr std::size_t bytes() const {
    return outers == 0 ? blocks * block_bytes : outer_at() + outers * outer_bytes;
  }
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// The shape of a block: 1 x cols along the contraction axis, or a rectangle; and the groups of columns within it.
struct block_shape {
  using column_groups = detail::column_groups;  ///< the type of `group`
  int rows = 1;                                 ///< 1, or the height of a rectangle
  int cols = 16;                                ///< along the contraction axis
  detail::column_groups group;                  ///< that share one-bit exponents
  constexpr block_shape() = default;
  UFP4_MEMBER constexpr block_shape(int along_k) : rows(1), cols(along_k) {}  ///< 1 x along_k
  UFP4_MEMBER constexpr block_shape(int r, int c) : rows(r), cols(c) {}       ///< r x c
  /// Every member: code that nvcc writes calls it for a template argument of this type.
  UFP4_MEMBER constexpr block_shape(int r, int c, detail::column_groups g) : rows(r), cols(c), group(g) {}
  friend constexpr bool operator==(const block_shape&, const block_shape&) = default;
};

/// One scale for size x size elements: for an operand that a GEMM and its transpose both read.
constexpr block_shape square(int size) { return {size, size}; }

/// The outer scales of a format as data (numerics 5).
struct outer_scale {
  /// What one outer scale, a scale above the block scales, covers.
  enum class kind : std::uint8_t {
    none,     ///< there is none: one level of scales
    tensor,   ///< the whole matrix: the tensor scale
    row,      ///< the rows of one block
    segment,  ///< so many columns of the rows of one block
  };
  kind span = kind::none;             ///< what one of them covers
  scale_kind type = scale_kind::f32;  ///< f32 or bf16
  int segment = 0;                    ///< columns, if span is segment: a positive multiple of a block; else 0
  UFP4_MEMBER static constexpr outer_scale per_tensor() { return {kind::tensor}; }  ///< one binary32 number
  friend constexpr bool operator==(const outer_scale&, const outer_scale&) = default;
};

/// As the last argument of block_format: an outer scale of type T, float or bf16, for the rows of each block.
template <class T>
struct per_row {};
/// The same for every `cols` columns of the rows of each block, a multiple of the block length: per_segment<96, float>.
template <int cols, class T>
struct per_segment {};

/// 1 x cols with one-bit exponents of groups of `wide` and, within them, of `narrow` columns.
constexpr block_shape grouped(int cols, int wide, int narrow = 0) { return {1, cols, {wide, narrow}}; }

/// A block format as data, for kernels and recipes. spec_of<Format> computes it from the type.
struct format_spec {
  using byte_element = detail::byte_element;  ///< the types of `byte` and `choice`
  using grid_choice = detail::grid_choice;    ///< count and scaled_grid[count]
  using scaled_grid = detail::scaled_grid;    ///< a grid and its factor
  grid4 grid;                                 ///< the element format, or the first of several
  scale_kind scale;                           ///< the type of the block scales
  block_shape block;                          ///< the elements that share a scale
  outer_scale outer;                          ///< the scales above the block scales
  detail::byte_element byte{};   ///< elements of one byte instead of 4 bits: `grid` has only their constants
  detail::grid_choice choice{};  ///< further grids

  /// Whether an element takes one byte; otherwise two take it.
  UFP4_MEMBER constexpr bool has_bytes() const { return byte != detail::byte_element::none; }
  UFP4_MEMBER constexpr bool two_level() const { return outer.span != outer_scale::kind::none; }  ///< has outer scales
  /// Whether a scale of the whole matrix is the outer scale: q.tensor_scale().
  UFP4_MEMBER constexpr bool has_tensor_scale() const { return outer.span == outer_scale::kind::tensor; }
  /// Whether a matrix has an array of outer scales, which lie among its scale bytes (numerics 5, layout).
  UFP4_MEMBER constexpr bool has_outer_array() const { return two_level() && !has_tensor_scale(); }
  friend constexpr bool operator==(const format_spec&, const format_spec&) = default;
};

/// As an argument of one_of: the grid of Element times numerator / denominator, rounded to binary32.
template <element_format Element, int numerator, int denominator = 1>
struct scaled {
  static_assert(numerator > 0 && denominator > 0, "the factor of a grid is positive");
};

/// As the first argument of block_format: two to four elements, or scaled<Element, n, d>, one of which each block
/// chooses: the one with the smallest error (choose_grid). The first is not scaled.
template <element_format First, class... More>
struct one_of {
  static_assert(sizeof...(More) >= 1 && sizeof...(More) <= 3, "a block chooses among two to four grids");
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// Without outer scales.
template <>
struct outer_scale_of<void> {
  static constexpr outer_scale value{};  ///< none
};
/// Of a whole matrix.
template <scale_format T>
struct outer_scale_of<T> {
  static constexpr outer_scale value{outer_scale::kind::tensor, scale_traits<T>::kind};  ///< of the whole matrix
};
/// Of rows.
template <scale_format T>
struct outer_scale_of<per_row<T>> {
  static constexpr outer_scale value{outer_scale::kind::row, scale_traits<T>::kind};  ///< of each row
};
/// Of segments.
template <int cols, scale_format T>
struct outer_scale_of<per_segment<cols, T>> {
  static constexpr outer_scale value{outer_scale::kind::segment, scale_traits<T>::kind, cols};  ///< of each segment
};
template <element_format E, int n, int d>
struct grids_of<scaled<E, n, d>> {
  static constexpr grid4 first = grid_of<E>();
  static constexpr float factor = static_cast<float>(n) / static_cast<float>(d);
};
template <element_format First, class... More>
struct grids_of<one_of<First, More...>> {
  static constexpr grid4 first = grid_of<First>();
  static constexpr scaled_grid more[] = {{grids_of<More>::first, grids_of<More>::factor}...};
  static constexpr grid_choice choice{static_cast<int>(sizeof...(More)), more};
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

/// How many one-bit exponents a block has, and how many levels of them.
UFP4_HD constexpr int exponent_count(const block_shape& b) {
  return (b.group[0] == 0 ? 0 : b.cols / b.group[0]) + (b.group[1] == 0 ? 0 : b.cols / b.group[1]);
}
UFP4_HD constexpr int exponent_levels(const block_shape& block) {
  return (block.group[0] != 0 ? 1 : 0) + (block.group[1] != 0 ? 1 : 0);
}

/// Bytes of what is stored for a block: its scale; where two grids do not fit the sign bit of the scale, a byte with
/// the number of its grid; or its exponents, in 2 or 4 bytes together with the scale.
UFP4_HD constexpr int block_bytes(scale_kind scale, int more_grids, const block_shape& block) {
  const int exponents = exponent_count(block);
  if (exponents != 0) return exponents <= 8 ? 2 : 4;
  const bool has_sign = scale == scale_kind::f32 || scale == scale_kind::bf16 || scale == scale_kind::e4m3;
  return scale_bytes(scale) + (more_grids > (has_sign ? 1 : 0) ? 1 : 0);
}

constexpr bool is_power(int x, int least, int most) { return x >= least && x <= most && (x & (x - 1)) == 0; }

/// Conditions of a block format, each with the message for one that breaks it: rule(condition, message). Static
/// assertions of block_format; format_mismatch returns the message.
#define UFP4_BLOCK_RULES(rule, block)                                                                   \
  rule(detail::is_power((block).cols, 2, 256), "the block length must be a power of two from 2 to 256") \
      rule(detail::is_power((block).rows, 1, 128), "the rows of a block must be a power of two from 1 to 128")
/// The same of a choice among grids.
#define UFP4_CHOICE_RULES(rule, scale, more_grids, block)                               \
  rule(more_grids == 0 || detail::scale_bytes(scale) == 1 ||                            \
           detail::block_bytes(scale, more_grids, block) == detail::scale_bytes(scale), \
       "bf16 and float scales can store the choice of two grids only")
/// The same of outer scales.
#define UFP4_OUTER_RULES(rule, outer, scale, block)                                                                    \
  rule(outer.span == outer_scale::kind::none || scale == scale_kind::e4m3 || scale == scale_kind::ue5m3,               \
       "only e4m3 and ue5m3 block scales take outer scales: the range of the others needs none")                       \
      rule(                                                                                                            \
          outer.span < outer_scale::kind::row || outer.type != scale_kind::bf16 || detail::exponent_count(block) <= 8, \
          "outer scales of rows and segments are float where a block has more than 8 one-bit exponents")
/// A rule that returns the message.
#define UFP4_REASON(holds, text) \
  if (!(holds)) return text;
/// A rule that asserts.
#define UFP4_ASSERTION(holds, text) static_assert(holds, text);

// The functions *_mismatch return the reason why a part of a format is not supported, or nullptr.

constexpr const char* block_mismatch(const block_shape& block) {
  UFP4_BLOCK_RULES(UFP4_REASON, block)
  return nullptr;
}
constexpr const char* group_mismatch(const block_shape& b, scale_kind scale, int more_grids) {
  const int wide = b.group[0], narrow = b.group[1];
  if (wide == 0 && narrow == 0) return nullptr;
  if (!is_power(wide, 1, b.cols) || (narrow != 0 && !is_power(narrow, 1, wide - 1)))
    return "the groups of a block must be powers of two, the first at most a block, the second smaller or 0";
  if (b.rows != 1 || more_grids != 0) return "one-bit exponents are for blocks of one row and one grid";
  if (scale_bytes(scale) != 1 || exponent_count(b) > 24)
    return "one-bit exponents need a scale of 8 bits, and there are at most 24 in a block";
  return nullptr;
}
constexpr const char* segment_mismatch(const outer_scale& outer, const block_shape& block) {
  if (outer.span != outer_scale::kind::segment)
    return outer.segment == 0 ? nullptr : "outer.segment is for outer scales of segments";
  return outer.segment > 0 && outer.segment % block.cols == 0
             ? nullptr
             : "outer.segment must be a positive multiple of the block length";
}
constexpr const char* outer_mismatch(const outer_scale& outer, scale_kind scale, const block_shape& block) {
  if (outer.span > outer_scale::kind::segment) return "the span of the outer scales is no outer_scale::kind";
  if (outer.span == outer_scale::kind::none && outer.type != scale_kind::f32)
    return "a format without outer scales has an outer.type";
  if (outer.type != scale_kind::f32 && outer.type != scale_kind::bf16) return "outer scales are float or bf16";
  UFP4_OUTER_RULES(UFP4_REASON, outer, scale, block)
  return segment_mismatch(outer, block);
}

/// Of what a block has several: grid g, its factor, and the bits that are stored for a block with this scale and grid.
UFP4_HD constexpr const grid4& nth_grid(const format_spec& f, int g) {
  return g == 0 ? f.grid : f.choice.more[g - 1].grid;
}
UFP4_HD constexpr float factor_of(const format_spec& f, int g) { return g == 0 ? 1.0f : f.choice.more[g - 1].factor; }
/// Where the number of the grid is: the sign bit of the scale, or the byte after it.
UFP4_HD constexpr int grid_shift(const format_spec& f) {
  const int bits = 8 * scale_bytes(f.scale);
  return block_bytes(f.scale, f.choice.count, f.block) == scale_bytes(f.scale) ? bits - 1 : bits;
}
UFP4_HD constexpr std::uint32_t with_grid_number(const format_spec& f, std::uint32_t scale, int g) {
  return f.choice.count == 0 ? scale : scale | static_cast<std::uint32_t>(g) << grid_shift(f);
}
/// The number of the grid of a block. A number that no grid has, which only a caller's bytes hold, counts as the last.
UFP4_HD constexpr int grid_number(const format_spec& f, std::uint32_t bits) {
  if (f.choice.count == 0) return 0;
  const int g = static_cast<int>(bits >> grid_shift(f));
  return g < f.choice.count ? g : f.choice.count;
}
/// The bits of a block that are its scale, not its grid or its one-bit exponents.
UFP4_HD constexpr std::uint32_t scale_mask(const format_spec& f) {
  if (f.block.group[0] != 0) return 0xFFu;
  return f.choice.count == 0 ? ~0u : (std::uint32_t{1} << grid_shift(f)) - 1;
}
/// The value of a block scale, without outer scales: fl(scale * factor of the grid).
UFP4_HD constexpr float decode_block(const format_spec& f, std::uint32_t bits) {
  const float scale = decode_scale(f.scale, bits & scale_mask(f));
  return f.choice.count == 0 ? scale : scale * factor_of(f, grid_number(f, bits));
}

/// Which bit of a block is the one-bit exponent of its column k at a level that the block has.
UFP4_HD constexpr std::uint32_t exponent_bit(const block_shape& block, int level, int k) {
  const int before = level == 0 ? 0 : block.cols / block.group[0];
  return static_cast<std::uint32_t>(8 + before + k / block.group[level]);
}
/// The sum of the one-bit exponents of column k of a block: its values are those of the grid times two to it.
UFP4_HD constexpr int exponent_of(const format_spec& f, std::uint32_t bits, int k) {
  std::uint32_t sum = 0;
  for (int level = 0; level < exponent_levels(f.block); ++level) sum += bits >> exponent_bit(f.block, level, k) & 1u;
  return static_cast<int>(sum);
}
constexpr bool is_largest_value(float q) { return q > 0.0f && q <= max_finite; }
constexpr const char* choice_mismatch(const format_spec& f) {
  const int count = f.choice.count;
  if (count == 0) return nullptr;
  if (count < 0 || count > 3) return "a block chooses among at most four grids";
  UFP4_CHOICE_RULES(UFP4_REASON, f.scale, count, f.block)
  if (f.choice.more == nullptr) return "the format's choice.more is null";
  for (int g = 1; g <= count; ++g) {
    const grid4& grid = nth_grid(f, g);
    if (grid.levels < 1 || grid.levels > 16 || !(grid.qmax > 0.0f)) return "a grid of the choice has no values";
    if (!(factor_of(f, g) >= 0x1p-40f && factor_of(f, g) <= 0x1p40f))
      return "the factor of a grid must be from 2^-40 to 2^40";
    if (!is_largest_value(grid.qmax * factor_of(f, g)))
      return "the largest value of a grid times its factor must be a finite number other than 0";
  }
  return nullptr;
}

/// Bytes of the codes of `count` elements; count is even.
UFP4_HD constexpr std::size_t code_bytes(const format_spec& f, std::size_t count) {
  return f.has_bytes() ? count : count / 2;
}

/// Whether the grid is that of elements of one byte, with a unit that leaves products of two units normal numbers.
constexpr bool is_byte_grid(const format_spec& f) {
  const float unit = f.grid.unit;
  if (f.byte != byte_element::int8 && unit != decode(byte_layout(f.byte), 1)) return false;
  return unit > 0x1p-60f && unit < 0x1p40f && (to_bits(unit) & 0x007FFFFFu) == 0 && f.grid == byte_grid(f.byte, unit);
}

/// The reason why kernels do not support a format, or nullptr. The conditions are those of block_format.
constexpr const char* format_mismatch(const format_spec& f) {
  if (f.byte > byte_element::e2m3) return "format_spec::byte has an invalid value";
  if (f.has_bytes() && (f.choice.count != 0 || f.block.group[0] != 0))
    return "elements of one byte have one grid and no one-bit exponents";
  if (f.has_bytes() && !is_byte_grid(f))
    return "a format with elements of one byte needs the grid of its element type, as grid_of<int8>()";
  if (!f.has_bytes() && (f.grid.levels < 1 || f.grid.levels > 16 || !(f.grid.qmax > 0.0f)))
    return "the format has no values; spec_of<nvfp4> is one that has";
  if (f.scale > scale_kind::e6m2) return "the format's scale is no scale_kind";
  if (const char* reason = block_mismatch(f.block)) return reason;
  if (const char* reason = choice_mismatch(f)) return reason;
  if (const char* reason = group_mismatch(f.block, f.scale, f.choice.count)) return reason;
  if (!is_largest_value(f.grid.qmax * static_cast<float>(1 << exponent_levels(f.block))))
    return "the largest value of the grid times two to the one-bit exponents must be finite";
  return outer_mismatch(f.outer, f.scale, f.block);
}

/// Columns that an outer scale covers, of a row of `padded` columns; 0 without an array of outer scales.
UFP4_HD constexpr std::size_t outer_columns(const format_spec& f, std::size_t padded) {
  if (!f.has_outer_array()) return 0;
  return f.outer.span == outer_scale::kind::row ? padded : static_cast<std::size_t>(f.outer.segment);
}
/// The least common multiple of the columns of a run and of those that an outer scale covers, or 0.
UFP4_HD constexpr std::size_t common_columns(std::size_t run, std::size_t covered) {
  std::size_t divisor = run;
  for (std::size_t rest = covered; rest != 0;) {
    const std::size_t next = divisor % rest;
    divisor = rest;
    rest = next;
  }
  return covered == 0 ? run : run / divisor * covered;
}
UFP4_HD constexpr std::size_t outer_count(const format_spec& f, std::size_t padded) {
  const std::size_t covered = outer_columns(f, padded);
  return covered == 0 ? 0 : (padded + covered - 1) / covered;
}
UFP4_HD constexpr scale_strip scale_strip_of(const format_spec& f, std::size_t padded) {
  return {padded / static_cast<std::size_t>(f.block.cols), outer_count(f, padded),
          static_cast<std::size_t>(block_bytes(f.scale, f.choice.count, f.block)),
          static_cast<std::size_t>(scale_bytes(f.outer.type))};
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_TYPES {

/// `block_format<fp4<E2M1>, e4m3, 16, float>` is NVFP4; leave the last argument out for one level of scales.
///
/// | Element | any element_format, a user's own included; one_of<...> for blocks that choose among several;  |
/// |         | int8, int8q6, fp8_e4m3, fp8_e5m2, fp6_e3m2 or fp6_e2m3                                        |
/// | Scale   | float, bf16, e4m3, ue5m3, e8m0 or e6m2                                                        |
/// | Block   | 16 for 1x16, square(16) for 16x16, {128, 64}; powers of two: rows 1 .. 128, cols 2 .. 256;    |
/// |         | grouped(64, 8, 4): with one-bit exponents of groups of columns                                |
/// | Outer   | void; or, above e4m3 and ue5m3 scales, a second level: float or bf16 for the whole matrix,    |
/// |         | per_row<float>, per_segment<128, float>. The other scale types' range needs none              |
template <class Element, detail::scale_format Scale, block_shape Block, class Outer = void>
struct block_format {
  static_assert(
      requires { detail::grids_of<Element>::choice; },
      "the element is an element_format, or one_of<...> of two to four");
  UFP4_BLOCK_RULES(UFP4_ASSERTION, Block)
  static_assert(
      requires { detail::outer_scale_of<Outer>::value; },
      "the outer scale is void, float, bf16, per_row<T> or per_segment<cols, T>");
  static constexpr outer_scale outer = detail::outer_scale_of<Outer>::value;  ///< the scales above the block scales
  UFP4_OUTER_RULES(UFP4_ASSERTION, outer, detail::scale_traits<Scale>::kind, Block)
  static_assert(detail::outer_mismatch(outer, detail::scale_traits<Scale>::kind, Block) == nullptr,
                "outer scales are float or bf16; a segment is a positive multiple of the block length");

  using format = block_format;   ///< the format that its matrices have, as of a compat preset
  using element_type = Element;  ///< fp4<E2M1>, int4, one_of<...>, ...
  static constexpr int grids = 1 + detail::grids_of<Element>::choice.count;        ///< how many a block chooses among
  using scale_type = Scale;                                                        ///< float, bf16, e4m3, ...
  using outer_type = Outer;                                                        ///< void, float, per_row<float>, ...
  static constexpr block_shape block = Block;                                      ///< rows x B
  static constexpr std::size_t block_size = static_cast<std::size_t>(Block.cols);  ///< B
  static constexpr bool two_level = outer.span != outer_scale::kind::none;         ///< has outer scales
  static constexpr bool has_tensor_scale = outer.span == outer_scale::kind::tensor;  ///< one for the whole matrix
  static constexpr bool has_outer_array = two_level && !has_tensor_scale;            ///< one for each row or segment
  static constexpr bool has_bytes = detail::byte_element_format<Element>;            ///< an element takes one byte
  /// Bytes of what is stored for a block: sizeof(Scale), or more where the number of its grid does not fit there.
  static constexpr int block_bytes = detail::block_bytes(detail::scale_traits<Scale>::kind, grids - 1, Block);
  static_assert(detail::group_mismatch(Block, detail::scale_traits<Scale>::kind, grids - 1) == nullptr,
                "one-bit exponents: groups are descending powers of two within a block of one row, at most 24 in all, "
                "under a scale of 8 bits, with one grid");
  UFP4_CHOICE_RULES(UFP4_ASSERTION, detail::scale_traits<Scale>::kind, grids - 1, Block)
  /// Whether the scales of a matrix are an array of Scale, scales(); otherwise there is scale_bytes() only.
  static constexpr bool has_scale_array = !has_outer_array && block_bytes == sizeof(Scale);
  /// Codes, block scales and the outer scales of segments; one of a row or of the matrix adds to the whole.
  static constexpr double bits_per_element =
      (has_bytes ? 8.0 : 4.0) + 8.0 * block_bytes / (Block.rows * Block.cols) +
      (outer.segment == 0 ? 0.0 : (outer.type == scale_kind::f32 ? 32.0 : 16.0) / Block.rows / outer.segment);
};

#undef UFP4_BLOCK_RULES
#undef UFP4_CHOICE_RULES
#undef UFP4_OUTER_RULES
#undef UFP4_REASON
#undef UFP4_ASSERTION

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// Whether F is an instance of block_format.
template <class F>
struct is_block_format : std::false_type {};
template <class E, class S, block_shape B, class T>
struct is_block_format<block_format<E, S, B, T>> : std::true_type {};

/// Any instance of block_format.
template <class F>
concept any_block_format = is_block_format<F>::value;

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// The format F as data.
template <detail::any_block_format F>
inline constexpr format_spec spec_of = {detail::grids_of<typename F::element_type>::first,
                                        detail::scale_traits<typename F::scale_type>::kind,
                                        F::block,
                                        F::outer,
                                        detail::byte_element_of<typename F::element_type>(),
                                        detail::grids_of<typename F::element_type>::choice};

}  // namespace ufp4::inline UFP4_TYPES
