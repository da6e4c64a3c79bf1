// ufp4 - a quantized weight that lies in a file: where, of which shape, under which transform.
// SPDX-License-Identifier: Apache-2.0
/// What find_weight (safetensors.hpp, gguf.hpp) returns and read_weight_rows reads, so that a weight larger than memory
/// can be read by rows:
///
///   const auto weight = interop::find_weight<nvfp4>(file, "layers.0.up_proj.weight");
///   quantized_matrix<nvfp4> rows(128, weight.cols, weight.transform);
///   interop::read_weight_rows(file, weight, 256, rows);  // rows 256 .. 383
#pragma once

#include <cstddef>
#include <ufp4/interop/tensor_file.hpp>
#include <ufp4/matrix/quantized_matrix.hpp>

namespace ufp4::interop::inline UFP4_TYPES {

/// Refers to tensors of the reader that found it.
template <any_block_format F>
struct stored_weight {
  const stored_tensor* codes = nullptr;
  const stored_tensor* scales = nullptr;  ///< the same where a file keeps both together
  float tensor_scale = 1;                 ///< a factor; 1 for formats of one level
  std::size_t rows = 0, cols = 0;
  transform_spec transform;
};

}  // namespace ufp4::interop::inline UFP4_TYPES

namespace ufp4::interop::inline UFP4_CODE {

/// std::invalid_argument unless rows first .. first + out.rows() - 1 are there, in whole blocks, and `out` was made for
/// the weight's columns and transform.
template <any_block_format F>
void check_weight_rows(const stored_weight<F>& weight, std::size_t first, const quantized_matrix<F>& out) {
  using ufp4::detail::expects;
  constexpr auto height = static_cast<std::size_t>(F::block.rows);
  const std::string label = "read_weight_rows: tensor " + printable(weight.codes->name);
  expects(first <= weight.rows && out.rows() <= weight.rows - first, label, " has ", weight.rows, " rows, not ", first,
          " to ", first + out.rows());
  expects(first % height == 0, label, " has blocks of ", height, " rows, but the first asked for is ", first);
  expects(out.rows() % height == 0 || first + out.rows() == weight.rows, label, " has blocks of ", height,
          " rows, but ", out.rows(), " are asked for");
  expects(out.cols() == weight.cols, label, " has ", weight.cols, " columns, but out has ", out.cols());
  expects(same_map(out.transform(), weight.transform), label, " was quantized after a transform of length ",
          weight.transform.n, " and its signs, but out was made for another, of length ", out.transform().n);
}

}  // namespace ufp4::interop::inline UFP4_CODE
