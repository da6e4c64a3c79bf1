// ufp4 - a quantized weight in a file: its format, shape and place, for every reader.
// SPDX-License-Identifier: Apache-2.0
/// A reader's find_weight(file, name) reads format and shape off the file; read_weight_rows reads rows, so a weight may
/// be larger than memory. Formats are data; the templates are wrappers that require a weight to have the format F.
#pragma once

#include <cmath>
#include <ufp4/block/presets.hpp>
#include <ufp4/interop/tensor_file.hpp>
#include <ufp4/matrix/preset_names.hpp>
#include <ufp4/matrix/quantized_matrix.hpp>

namespace ufp4::interop::inline UFP4_TYPES {

/// ggml's own NVFP4: one level of scales (compat::ggml_nvfp4::format).
using ggml_nvfp4 = block_format<fp4<E2M1>, e4m3, 16>;

/// A weight that a reader has found and checked. Refers to tensors of that reader. A weight of more than two dimensions
/// (experts, a convolution) is one matrix: its columns are the dimension `axis`, its rows the others in their order.
struct stored_weight {
  format_spec format{};                   ///< of the weight
  const stored_tensor* codes = nullptr;   ///< the tensor of codes
  const stored_tensor* scales = nullptr;  ///< equal to codes where a file keeps both together
  float tensor_scale = 1;                 ///< a factor; 1 for formats of one level
  std::vector<float> part_scales{};       ///< a factor for each part, if they differ
  std::size_t rows = 0, cols = 0;         ///< of the weight
  transform_spec transform{};             ///< applied before the weight was quantized
  std::vector<std::uint64_t> shape{};     ///< of the values
  std::size_t axis = 1;                   ///< the dimension along which blocks run

  /// cols rounded up to whole blocks and transform runs.
  std::size_t padded_cols() const { return ufp4::detail::padded_length(cols, format.block, transform); }
  /// The number of parts: indices of the first stored dimension of three or more, else 1.
  std::size_t parts() const { return shape.size() < 3 ? 1 : static_cast<std::size_t>(shape[axis == 0 ? 1 : 0]); }
  /// Rows of a part.
  std::size_t part_rows() const { return parts() == 0 ? 0 : rows / parts(); }
};

}  // namespace ufp4::interop::inline UFP4_TYPES

namespace ufp4::interop::inline UFP4_CODE {

/// The base of any_quantized and of every quantized_matrix: what read_weight_rows fills.
using ufp4::detail::quantized_memory;

/// The formats that find_weight recognizes in metadata: every preset, the same in square blocks, ggml's NVFP4.
inline const std::vector<format_spec>& known_formats() {
  static const std::vector<format_spec> all = [] {
    std::vector<format_spec> formats;
    const auto add = [&](auto row) {
      formats.push_back(row.spec);
      format_spec in_squares = row.spec;
      in_squares.block.rows = row.spec.block.cols;
      if (ufp4::detail::format_mismatch(in_squares) == nullptr) formats.push_back(in_squares);
    };
    ufp4::detail::for_every_preset(add);
    formats.push_back(spec_of<ggml_nvfp4>);
    return formats;
  }();
  return all;
}

/// `shape` with the dimension `axis` moved to the end: the order in which a quantized weight is stored.
inline std::vector<std::uint64_t> with_axis_last(std::vector<std::uint64_t> shape, std::size_t axis) {
  const auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  std::rotate(at, at + 1, shape.end());
  return shape;
}
/// The product of all extents but the last; nothing if it exceeds 64 bits.
inline std::optional<std::uint64_t> row_count(const std::vector<std::uint64_t>& shape) {
  return byte_count(1, 1, {shape.begin(), shape.end() - (shape.empty() ? 0 : 1)});
}

/// The tensor scale of rows from `first` on: of their part where each has its own.
inline float tensor_scale_at(const stored_weight& weight, std::size_t first) {
  if (weight.part_scales.empty()) return weight.tensor_scale;
  const std::size_t part = (std::max<std::size_t>)(weight.part_rows(), 1);
  return weight.part_scales[(std::min)(first / part, weight.part_scales.size() - 1)];
}

/// std::invalid_argument unless weight has out's format, columns, transform and rows: whole blocks, one tensor scale.
inline void check_weight_rows(const stored_weight& weight, std::size_t first, const quantized_memory& out) {
  const auto height = static_cast<std::size_t>(weight.format.block.rows);
  const std::string label = "tensor " + printable(weight.codes->name);
  const std::size_t end = first + out.rows();
  expects(out.spec() == weight.format, "read_weight_rows: format mismatch: ", label, " has another format than out");
  expects(first <= weight.rows && out.rows() <= weight.rows - first, "read_weight_rows: range out of bounds: ", label,
          " has ", weight.rows, " rows, not ", first, " to ", end);
  expects(first % height == 0 && (out.rows() % height == 0 || end == weight.rows),
          "read_weight_rows: not whole blocks: ", label, " has blocks of ", height, " rows, got rows ", first, " to ",
          end);
  const std::size_t part = weight.part_rows();
  expects(weight.part_scales.empty() || out.rows() == 0 || first / part == (end - 1) / part,
          "read_weight_rows: several tensor scales: ", label, " has one for each part of ", part, " rows, got rows ",
          first, " to ", end);
  expects(out.cols() == weight.cols, "read_weight_rows: shape mismatch: ", label, " has ", weight.cols,
          " columns, but out has ", out.cols());
  expects(same_map(out.transform(), weight.transform), "read_weight_rows: transform mismatch: ", label, " has ",
          ufp4::detail::transform_name(weight.transform), ", out ", ufp4::detail::transform_name(out.transform()),
          weight.transform.n == out.transform().n ? " with other signs" : "");
}

/// All of a weight that find_weight returned. file_error if its parts have different tensor scales.
template <class Reader>
any_quantized read_all(Reader& file, const stored_weight& weight) {
  if (!weight.part_scales.empty())
    file.fail("tensor ", printable(weight.codes->name), " has a tensor scale for each of its ",
              weight.part_scales.size(), " parts, so it is not one quantized matrix: call read_part for each part");
  any_quantized q(weight.format, weight.rows, weight.cols, weight.transform);
  read_weight_rows(file, weight, 0, q);
  return q;
}

/// The weight `name` in the format that the file states. file_error as find_weight.
template <class Reader>
any_quantized read_quantized(Reader& file, const std::string& name) {
  return read_all(file, find_weight(file, name));
}
/// The weight `name`, which must have the format F; file_error otherwise.
template <ufp4::detail::any_block_format F, class Reader>
quantized_matrix<F> read_quantized(Reader& file, const std::string& name) {
  return quantized_matrix<F>(read_all(file, find_weight(file, name, spec_of<F>)));
}
/// The same without reading the data.
template <ufp4::detail::any_block_format F, class Reader>
stored_weight find_weight(Reader& file, const std::string& name) {
  return find_weight(file, name, spec_of<F>);
}

/// Part i of a weight, such as expert i: part_rows() x cols. std::invalid_argument if there is none.
template <class Reader>
any_quantized read_part(Reader& file, const stored_weight& weight, std::size_t i) {
  const std::size_t part = weight.part_rows();
  expects(i < weight.parts(), "read_part: range out of bounds: tensor ", printable(weight.codes->name), " has ",
          weight.parts(), " parts, not part ", i);
  any_quantized q(weight.format, part, weight.cols, weight.transform);
  read_weight_rows(file, weight, i * part, q);
  return q;
}

/// Sets the tensor scales of a weight whose shape is known: one F32, or one for each part; finite and not negative.
/// With `inverse` the factors are their reciprocals. file_error otherwise.
inline void read_tensor_scales(tensor_file& file, const stored_tensor& t, stored_weight& weight, bool inverse = false) {
  const std::uint64_t parts = weight.parts(), count = t.bytes / sizeof(float);
  if (t.type != number_type::f32 || (count != 1 && count != parts) || count == 0)
    file.fail(tensor_text(t) + "; a tensor scale is one F32" +
              (parts == 1 ? "" : ", or " + std::to_string(parts) + ", one for each part"));
  std::vector<float> factors(static_cast<std::size_t>(count));
  file.read_bytes(t, 0, factors.data(), factors.size() * sizeof(float));
  for (float& factor : factors) {
    const float scale = factor;
    if (inverse) factor = 1.0f / scale;
    if (!std::isfinite(scale) || !std::isfinite(factor) || factor < 0)
      file.fail("tensor " + printable(t.name) + ": invalid tensor scale: " + ufp4::detail::concat(scale));
  }
  weight.tensor_scale = factors[0];
  const bool equal = std::adjacent_find(factors.begin(), factors.end(), std::not_equal_to<>()) == factors.end();
  if (!equal) weight.part_scales = std::move(factors);
}

}  // namespace ufp4::interop::inline UFP4_CODE
