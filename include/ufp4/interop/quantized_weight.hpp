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

/// A weight that a reader has found and checked. Refers to tensors of that reader.
struct stored_weight {
  format_spec format{};                   ///< of the weight
  const stored_tensor* codes = nullptr;   ///< the tensor of codes
  const stored_tensor* scales = nullptr;  ///< equal to codes where a file keeps both together
  float tensor_scale = 1;                 ///< a factor; 1 for formats of one level
  std::size_t rows = 0, cols = 0;         ///< of the weight
  transform_spec transform{};             ///< applied before the weight was quantized

  /// cols rounded up to whole blocks and transform runs.
  std::size_t padded_cols() const { return ufp4::detail::padded_length(cols, format.block, transform); }
};

}  // namespace ufp4::interop::inline UFP4_TYPES

namespace ufp4::interop::inline UFP4_CODE {

/// The base of any_quantized and of every quantized_matrix: what read_weight_rows fills.
using ufp4::detail::quantized_memory;

/// The formats that find_weight recognizes in metadata: every preset, the same in square blocks, ggml's NVFP4.
inline const std::vector<format_spec>& known_formats() {
  static const std::vector<format_spec> all = [] {
    std::vector<format_spec> formats;
    for_each_preset([&](auto row) {
      formats.insert(formats.end(), {row.spec, row.spec});
      formats.back().block = square(row.spec.block.cols);
    });
    formats.push_back(spec_of<ggml_nvfp4>);
    return formats;
  }();
  return all;
}

/// std::invalid_argument unless weight has out's format, columns, transform and, from `first` on, rows (whole blocks).
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
  expects(out.cols() == weight.cols, "read_weight_rows: shape mismatch: ", label, " has ", weight.cols,
          " columns, but out has ", out.cols());
  expects(same_map(out.transform(), weight.transform), "read_weight_rows: transform mismatch: ", label, " has ",
          ufp4::detail::transform_name(weight.transform), ", out ", ufp4::detail::transform_name(out.transform()),
          weight.transform.n == out.transform().n ? " with other signs" : "");
}

/// All of a weight that find_weight returned.
template <class Reader>
any_quantized read_all(Reader& file, const stored_weight& weight) {
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
template <any_block_format F, class Reader>
quantized_matrix<F> read_quantized(Reader& file, const std::string& name) {
  return quantized_matrix<F>(read_all(file, find_weight(file, name, spec_of<F>)));
}
/// The same without reading the data.
template <any_block_format F, class Reader>
stored_weight find_weight(Reader& file, const std::string& name) {
  return find_weight(file, name, spec_of<F>);
}

/// One F32 that is a tensor scale: finite and not negative. With `is_divisor` the factor is its reciprocal.
inline float read_tensor_scale(tensor_file& file, const stored_tensor& t, bool is_divisor = false) {
  float scale = 0;
  if (t.type != number_type::f32 || t.bytes != sizeof scale) file.fail(tensor_text(t) + "; a tensor scale is one F32");
  file.read_bytes(t, 0, &scale, sizeof scale);
  const float factor = is_divisor ? 1.0f / scale : scale;
  if (!std::isfinite(scale) || !std::isfinite(factor) || factor < 0)
    file.fail("tensor " + printable(t.name) + ": invalid tensor scale: " + ufp4::detail::concat(scale));
  return factor;
}

}  // namespace ufp4::interop::inline UFP4_CODE
