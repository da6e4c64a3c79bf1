// ufp4 - a quantized weight in a file: its format, shape and place, for every reader.
// SPDX-License-Identifier: Apache-2.0
/// find_weight(file, name) reads format and shape off a .safetensors or GGUF file; read_weight_rows reads rows, so a
/// weight may be larger than memory. Formats are data here; the templates with a Format are wrappers which require the
/// weight to have that format.
///
///   const auto weight = interop::find_weight<nvfp4>(file, "layers.0.up_proj.weight");
///   quantized_matrix<nvfp4> rows(128, weight.cols, weight.transform);
///   interop::read_weight_rows(file, weight, 256, rows);  // rows 256 .. 383
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <ufp4/block/presets.hpp>
#include <ufp4/interop/tensor_file.hpp>
#include <ufp4/matrix/checks.hpp>
#include <ufp4/matrix/quantized_matrix.hpp>
#include <vector>

namespace ufp4::interop::inline UFP4_TYPES {

/// ggml's own NVFP4: one level of scales (compat::ggml_nvfp4::format).
using ggml_nvfp4 = block_format<fp4<E2M1>, e4m3, 16>;

/// A weight that a reader has found and checked. Refers to tensors of that reader.
struct stored_weight {
  format_spec format{};
  const stored_tensor* codes = nullptr;
  const stored_tensor* scales = nullptr;  ///< equal to codes where a file keeps both together
  float tensor_scale = 1;                 ///< a factor; 1 for formats of one level
  std::size_t rows = 0, cols = 0;
  transform_spec transform{};  ///< applied before the weight was quantized

  /// cols rounded up to whole blocks and transform runs.
  std::size_t padded_cols() const { return ufp4::detail::padded_length(cols, format.block, transform); }
};

}  // namespace ufp4::interop::inline UFP4_TYPES

namespace ufp4::interop::inline UFP4_CODE {

/// A quantized matrix in memory with its format as data: what writers take. It does not own the memory.
using ufp4::detail::quantized_source;

/// The format with square blocks: one scale for B x B elements instead of 1 x B.
inline format_spec in_squares(format_spec format) {
  format.block = square(format.block.cols);
  return format;
}

/// The formats that find_weight recognizes in metadata: every preset, the same in square blocks, ggml's NVFP4.
inline const std::vector<format_spec>& known_formats() {
  static const std::vector<format_spec> all = [] {
    std::vector<format_spec> formats;
    for_each_preset([&](auto row) { formats.insert(formats.end(), {row.spec, in_squares(row.spec)}); });
    formats.push_back(spec_of<ggml_nvfp4>);
    return formats;
  }();
  return all;
}

/// std::invalid_argument unless the weight has rows first .. first + rows - 1, these are whole blocks, and cols and
/// transform are the weight's.
inline void check_weight_rows(const stored_weight& weight, std::size_t first, std::size_t rows, std::size_t cols,
                              const transform_spec& transform) {
  using ufp4::detail::expects;
  const auto height = static_cast<std::size_t>(weight.format.block.rows);
  const std::string label = "tensor " + printable(weight.codes->name);
  expects(first <= weight.rows && rows <= weight.rows - first, "read_weight_rows: range out of bounds: ", label,
          " has ", weight.rows, " rows, not ", first, " to ", first + rows);
  expects(first % height == 0 && (rows % height == 0 || first + rows == weight.rows),
          "read_weight_rows: not whole blocks: ", label, " has blocks of ", height, " rows, got rows ", first, " to ",
          first + rows);
  expects(cols == weight.cols, "read_weight_rows: shape mismatch: ", label, " has ", weight.cols,
          " columns, but out has ", cols);
  expects(same_map(transform, weight.transform), "read_weight_rows: transform mismatch: ", label,
          " has a transform of length ", weight.transform.n, ", out one of length ", transform.n,
          weight.transform.n == transform.n ? " with other signs" : "");
}

/// The weight `name`, which must have the format F; file_error otherwise.
template <any_block_format F, class Reader>
stored_weight find_weight(Reader& file, const std::string& name) {
  return find_weight(file, name, spec_of<F>);
}

/// Rows first .. first + out.rows() - 1 of a weight into a matrix made for its columns and transform; of square blocks
/// whole ones. std::invalid_argument as check_weight_rows, and for another format.
template <any_block_format F, class Reader>
void read_weight_rows(Reader& file, const stored_weight& weight, std::size_t first, quantized_matrix<F>& out) {
  ufp4::detail::expects(weight.format == spec_of<F>, "read_weight_rows: format mismatch: tensor ",
                        printable(weight.codes->name), " has another format than out");
  check_weight_rows(weight, first, out.rows(), out.cols(), out.transform());
  out.set_tensor_scale(weight.tensor_scale);
  read_weight_rows(file, weight, first, out.rows(), out.codes().data(), out.scales().data());
}

/// All of the weight `name`, which must have the format F; file_error otherwise.
template <any_block_format F, class Reader>
quantized_matrix<F> read_quantized(Reader& file, const std::string& name) {
  const stored_weight weight = find_weight(file, name, spec_of<F>);
  quantized_matrix<F> q(weight.rows, weight.cols, weight.transform);
  read_weight_rows(file, weight, 0, q);
  return q;
}

/// One F32 that is a tensor scale: finite and not negative. With `is_divisor` the factor is its reciprocal.
inline float read_tensor_scale(tensor_file& file, const stored_tensor& t, bool is_divisor = false) {
  float scale = 0;
  const std::string label = "tensor " + printable(t.name);
  if (t.type != number_type::f32 || t.bytes != sizeof scale)
    file.fail(label + " is " + shape_text(t.shape) + " " + printable(t.type_name) + "; a tensor scale is one F32");
  file.read_bytes(t, 0, &scale, sizeof scale);
  const float factor = is_divisor ? 1.0f / scale : scale;
  if (!(scale - scale == 0) || !(factor - factor == 0) || factor < 0)  // not finite, or negative
    file.fail(label + ": invalid tensor scale: " + ufp4::detail::concat(scale));
  return factor;
}

}  // namespace ufp4::interop::inline UFP4_CODE
