// ufp4 - prepacked_matrix, any_prepacked, a view: quantized weights in the order in which the GEMM kernels read them.
// SPDX-License-Identifier: Apache-2.0
//
// For weights that are used again. The same codes and scales as in the canonical layout, in the order of
// prepacked_layout. Made by prepack(); a right operand of quantized_gemm; unpack() is the inverse.
#pragma once

#include <ufp4/matrix/job.hpp>

namespace ufp4::detail::inline UFP4_CODE {

inline prepacked_layout layout_of(const format_spec& format, std::size_t padded_cols) {
  return {padded_cols, padded_cols / static_cast<std::size_t>(format.block.cols)};
}

inline quantized_size prepacked_size(const char* what, const quantized_shape& s) {
  check_format(what, s.format);
  expects(!s.format.has_bytes(), what,
          ": formats with elements of one byte are not prepacked: use the quantized matrix");
  const std::size_t padded = s.padded_cols();
  const std::size_t elements = element_count(what, prepacked_layout::filled_rows(s.rows), s.cols,
                                             prepacked_layout::filled_cols(padded), s.transform);
  return {elements / 2, layout_of(s.format, padded).scale_bytes(s.rows, scale_strip_of(s.format, padded))};
}
inline void check_prepacked_spans(const char* what, const quantized_shape& s, std::span<const std::uint8_t> codes,
                                  std::span<const std::byte> scales) {
  const quantized_size size = prepacked_size(what, s);
  expects(codes.size() == size.codes, what, ": codes has ", codes.size(), " bytes, but ", s.rows, " x ", s.cols,
          " prepacked elements need ", size.codes);
  expects(scales.size() == size.scales, what, ": scales has ", scales.size(), " bytes, but ", s.rows, " x ", s.cols,
          " prepacked elements need ", size.scales);
  expects(codes.data() != nullptr || codes.empty(), what, ": codes is null");
  expects(scales.data() != nullptr || scales.empty(), what, ": scales is null");
}
template <class P>
quantized_source prepacked_source(const P& p) {
  return {p.codes().data(), p.scale_bytes().data(), p.spec(),      p.rows(), p.cols(),
          p.padded_cols(),  p.tensor_scale(),       p.transform(), true};
}
template <class Q>
float prepacked_element(const Q& p, std::size_t row, std::size_t col) {
  expects(row < p.rows() && col < p.cols(), "element (", row, ", ", col, ") of a prepacked matrix of ", p.rows(), " x ",
          p.cols());
  const quantized_source q = prepacked_source(p);
  const format_spec& f = q.format;
  const std::size_t block = col / static_cast<std::size_t>(f.block.cols);
  const std::uint32_t bits = load_block(q.scales, f, q.scale_index(row, block));
  const float scale = decode_block(f, bits);
  const float outer = f.has_outer_array() ? q.outer_scale(row, block) : q.tensor_scale;
  const float power = exp2i(exponent_of(f, bits, static_cast<int>(col % static_cast<std::size_t>(f.block.cols))));
  return nth_grid(f, grid_number(f, bits)).value[q.layout().code(q.codes, row, col)] * power * (scale * outer);
}

/// Copies the block scales of one row; Bits is as wide as a scale.
template <class Bits>
void interleave_scales(const quantized_source& from, const prepacked_layout& to, std::size_t row, void* scales) {
  const auto* in = static_cast<const char*>(from.scales) + from.scale_index(row, 0) * sizeof(Bits);
  auto* out = static_cast<char*>(scales) + to.scale_index(row, 0) * sizeof(Bits);
  for (std::size_t b = 0; b < to.blocks; ++b)
    std::memcpy(out + b * prepacked_layout::panel_rows * sizeof(Bits), in + b * sizeof(Bits), sizeof(Bits));
}

/// Panels first .. last - 1 of a matrix in the canonical layout, filled up as prepacked_layout says.
inline void prepack_panels(const quantized_source& from, const quantized_sink& to, std::size_t first,
                           std::size_t last) {
  constexpr std::size_t height = prepacked_layout::panel_rows, word = prepacked_layout::word_bytes;
  const prepacked_layout layout = layout_of(from.format, from.padded_cols);
  const std::size_t row_bytes = from.padded_cols / 2, whole = row_bytes / word, rest = row_bytes % word;
  const scale_strip strip = from.strip();
  const std::size_t width = strip.block_bytes, outer_bytes = strip.outers * strip.outer_bytes;
  const auto interleave = width == 4   ? &interleave_scales<std::uint32_t>
                          : width == 2 ? &interleave_scales<std::uint16_t>
                                       : &interleave_scales<std::uint8_t>;
  const std::size_t panel_codes = layout.code_bytes(1), panel_scales = layout.scale_count(1) * width;
  std::memset(to.codes + first * panel_codes, from.format.grid.code[from.format.grid.zero] * 17,
              (last - first) * panel_codes);
  std::memset(static_cast<char*>(to.scales) + first * panel_scales, 0, (last - first) * panel_scales);
  const std::size_t end = last * height < from.rows ? last * height : from.rows;
  for (std::size_t row = first * height; row < end; ++row) {
    const std::uint8_t* in = from.codes + from.code_index(row, 0);
    std::uint8_t* out = to.codes + layout.code_index(row, 0);
    for (std::size_t w = 0; w < whole; ++w) std::memcpy(out + w * prepacked_layout::group_bytes, in + w * word, word);
    if (rest != 0) std::memcpy(out + whole * prepacked_layout::group_bytes, in + whole * word, rest);
    interleave(from, layout, row, to.scales);
    if (outer_bytes == 0) continue;
    const std::size_t at = row / static_cast<std::size_t>(from.format.block.rows) * strip.bytes() + strip.outer_at();
    std::memcpy(static_cast<std::byte*>(to.scales) + layout.outer_at(from.rows, strip) + row * outer_bytes,
                static_cast<const std::byte*>(from.scales) + at, outer_bytes);
  }
}

/// The inverse of prepack_panels, for the whole matrix.
template <class Q>
any_quantized unpacked(const Q& p) {
  any_quantized out(p.spec(), p.rows(), p.cols(), p.transform());
  out.set_tensor_scale(p.tensor_scale());
  const format_spec& f = p.spec();
  const prepacked_layout layout = layout_of(f, p.padded_cols());
  const scale_strip strip = scale_strip_of(f, p.padded_cols());
  const std::size_t row_bytes = p.padded_cols() / 2, width = strip.block_bytes;
  const std::size_t outer_bytes = strip.outers * strip.outer_bytes;
  for (std::size_t row = 0; row < p.rows(); ++row) {
    for (std::size_t at = 0; at < row_bytes; at += prepacked_layout::word_bytes)
      std::memcpy(out.codes().data() + row * row_bytes + at, p.codes().data() + layout.code_index(row, 2 * at),
                  row_bytes - at < prepacked_layout::word_bytes ? row_bytes - at : prepacked_layout::word_bytes);
    std::byte* scales = out.scale_bytes().data() + row / static_cast<std::size_t>(f.block.rows) * strip.bytes();
    for (std::size_t b = 0; b < layout.blocks; ++b)
      std::memcpy(scales + b * width, p.scale_bytes().data() + layout.scale_index(row, b) * width, width);
    if (outer_bytes == 0) continue;
    std::memset(scales + layout.blocks * width, 0, strip.outer_at() - layout.blocks * width);
    std::memcpy(scales + strip.outer_at(),
                p.scale_bytes().data() + layout.outer_at(p.rows(), strip) + row * outer_bytes, outer_bytes);
  }
  return out;
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::detail::inline UFP4_TYPES {

/// The members that any_prepacked and prepacked_matrix share.
template <class Memory>
class prepacked : public Memory {
 public:
  static constexpr std::size_t panel_rows = prepacked_layout::panel_rows;  ///< rows stored side by side

  /// The rows divided by panel_rows, rounded up.
  UFP4_HOST_MEMBER std::size_t panels() const { return prepacked_layout::panels(this->rows()); }
  /// Element (row, col), decoded: value * fl(block scale * outer scale).
  UFP4_HOST_MEMBER float operator()(std::size_t row, std::size_t col) const {
    return prepacked_element(*this, row, col);
  }

 protected:
  prepacked() = default;
  UFP4_HOST_MEMBER explicit prepacked(const quantized_shape& shape)
      : Memory(shape, prepacked_size("prepacked_matrix", shape)) {}
};

/// Prepacked codes and scales in memory of the caller (prepack_into, or a file), which must be of prepacked_size.
class any_prepacked_view : public detail::shaped {
 public:
  /// Checks the sizes.
  UFP4_HOST_MEMBER any_prepacked_view(const format_spec& format, std::span<const std::uint8_t> codes,
                                      std::span<const std::byte> scales, float tensor_scale, std::size_t rows,
                                      std::size_t cols, const transform_spec& applied = {})
      : shaped({format, tensor_scale, rows, cols, applied}), codes_(codes), scales_(scales) {
    check_prepacked_spans("any_prepacked_view", shape_, codes, scales);
  }

  UFP4_HOST_MEMBER std::span<const std::uint8_t> codes() const { return codes_; }
  UFP4_HOST_MEMBER std::span<const std::byte> scale_bytes() const { return scales_; }
  /// Element (row, col), decoded: value * fl(block scale * outer scale).
  UFP4_HOST_MEMBER float operator()(std::size_t row, std::size_t col) const {
    return prepacked_element(*this, row, col);
  }

 private:
  std::span<const std::uint8_t> codes_;
  std::span<const std::byte> scales_;
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// Bytes of rows x cols elements, prepacked. std::invalid_argument if the format is invalid, or if they overflow.
UFP4_HOST_MEMBER inline detail::quantized_size prepacked_size(const format_spec& format, std::size_t rows,
                                                              std::size_t cols, const transform_spec& applied = {}) {
  return detail::prepacked_size("prepacked_size", {format, 1, rows, cols, applied});
}

/// The format as data. The same layout on every instruction set.
class any_prepacked : public detail::prepacked<detail::quantized_memory> {
 public:
  any_prepacked() = default;
  /// Uninitialised memory for rows x cols elements under a transform; prepack fills it.
  UFP4_HOST_MEMBER any_prepacked(const format_spec& format, std::size_t rows, std::size_t cols,
                                 const transform_spec& applied = {})
      : prepacked({format, 1, rows, cols, applied}) {}
};

/// The format as a template argument.
template <detail::any_block_format Format>
class prepacked_matrix : public detail::prepacked<detail::typed_memory<Format>> {
 public:
  prepacked_matrix() = default;
  /// The same.
  UFP4_HOST_MEMBER prepacked_matrix(std::size_t rows, std::size_t cols, const transform_spec& applied = {})
      : detail::prepacked<detail::typed_memory<Format>>({spec_of<Format>, 1, rows, cols, applied}) {}
};

using detail::any_prepacked_view;

/// The quantized matrix that a prepacked one was made from: the same codes, scales and tensor scale.
UFP4_HOST_MEMBER inline any_quantized unpack(const any_prepacked& p) { return detail::unpacked(p); }
UFP4_HOST_MEMBER inline any_quantized unpack(const any_prepacked_view& p) { return detail::unpacked(p); }
template <detail::any_block_format F>
UFP4_HOST_MEMBER inline quantized_matrix<F> unpack(const prepacked_matrix<F>& p) {
  return quantized_matrix<F>(detail::unpacked(p));
}

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// A prepacked matrix that owns its memory: prepacked_matrix or any_prepacked.
template <class T>
concept prepacked_owner = std::is_same_v<T, any_prepacked> || std::is_same_v<T, prepacked_matrix<typename T::format>>;
/// One of these, or any_prepacked_view.
template <class T>
concept prepacked_like = prepacked_owner<T> || std::is_same_v<T, any_prepacked_view>;

}  // namespace ufp4::detail::inline UFP4_TYPES
