// ufp4 - reading the matrix to compare from a .npy or .safetensors file.
// SPDX-License-Identifier: Apache-2.0
/// Only the rows that are used are read, so the file may be larger than memory. Values must be finite: input_error
/// names the row and the column otherwise.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <ufp4/interop/npy.hpp>
#include <ufp4/interop/safetensors_file.hpp>
#include <utility>
#include <vector>

#include "matrix.hpp"

namespace compare {

/// Splits "FILE" or "FILE:TENSOR". Both names may contain colons if the file exists.
inline std::pair<std::string, std::string> split_tensor_argument(const std::string& argument) {
  std::error_code ignored;
  if (std::filesystem::exists(argument, ignored)) return {argument, ""};
  for (std::size_t colon = argument.find(':'); colon != std::string::npos; colon = argument.find(':', colon + 1)) {
    if (std::filesystem::is_regular_file(argument.substr(0, colon), ignored))
      return {argument.substr(0, colon), argument.substr(colon + 1)};
  }
  const std::size_t last = argument.rfind(':');
  return {argument.substr(0, last), last == std::string::npos ? "" : argument.substr(last + 1)};
}

namespace detail {

using ufp4::matrix_view;
using ufp4::interop::number_type;
using ufp4::interop::stored_tensor;
using ufp4::interop::tensor_file;

inline bool is_float(number_type type) { return type <= number_type::bf16; }

/// The tensor of that name, or without a name the float matrix with the most bytes, among equals the first by name.
inline const stored_tensor& choose_tensor(const tensor_file& file, const std::string& name) {
  if (file.tensors().empty()) file.fail("holds no tensors");
  if (!name.empty()) return file.at(name);
  const stored_tensor* largest = nullptr;
  for (const stored_tensor& tensor : file.tensors()) {
    if (!is_float(tensor.type) || tensor.shape.size() != 2) continue;
    if (largest == nullptr || tensor.bytes > largest->bytes) largest = &tensor;
  }
  if (largest == nullptr)
    file.fail("has no float32, float16 or bfloat16 tensor of 2 dimensions; it has " + file.names());
  return *largest;
}

inline const char* name_of(number_type type) {
  return type == number_type::f32 ? "float32" : type == number_type::f16 ? "float16" : "bfloat16";
}

inline void require_finite(const tensor_file& file, const matrix& m, std::size_t rows) {
  for (std::size_t i = 0; i < m.values.size(); ++i) {
    if (std::isfinite(m.values[i])) continue;
    file.fail(std::string("holds ") + (std::isnan(m.values[i]) ? "a NaN" : "an infinity") + " at row " +
              std::to_string(spaced_row(i / m.cols, m.rows, rows)) + ", column " + std::to_string(i % m.cols) +
              "; compare needs finite values");
  }
}

/// At most `row_limit` rows, evenly spaced (0: all).
inline matrix load(tensor_file& file, const stored_tensor& tensor, std::size_t row_limit, const std::string& label) {
  if (!is_float(tensor.type))
    file.fail((tensor.name.empty() ? "holds values of type " : "tensor " + printable(tensor.name) + " has type ") +
              printable(tensor.type_name) + "; compare reads float32, float16 and bfloat16");
  file.check_matrix(tensor);
  const auto rows = static_cast<std::size_t>(tensor.shape[0]), cols = static_cast<std::size_t>(tensor.shape[1]);
  const std::size_t used = rows_used(rows, row_limit);
  matrix m;
  m.source = label + ", " + name_of(tensor.type);
  m.source += used == rows ? ", all rows" : ", " + grouped(used) + " of " + grouped(rows) + " rows";
  m.rows = used;
  m.cols = cols;
  m.values.resize(used * cols);
  if (tensor.column_major) {  // columns are contiguous
    const stored_tensor columns = transpose(tensor);
    std::vector<float> column(rows);
    for (std::size_t k = 0; k < cols; ++k) {
      file.read_rows(columns, k, matrix_view<float>(column.data(), 1, rows));
      for (std::size_t i = 0; i < used; ++i) m.values[i * cols + k] = column[spaced_row(i, used, rows)];
    }
  } else {
    for (std::size_t i = 0; i < used; ++i)
      file.read_rows(tensor, spaced_row(i, used, rows), matrix_view<float>(m.values.data() + i * cols, 1, cols));
  }
  require_finite(file, m, rows);
  require_some_value(m);
  return m;
}

}  // namespace detail

/// The matrix of the .npy file at `path`, at most `row_limit` rows of it (0: all).
inline matrix read_npy(const std::string& path, std::size_t row_limit) {
  ufp4::interop::npy_reader file(path);
  return detail::load(file, file.array(), row_limit, printable(path));
}

/// The matrix that `argument`, FILE or FILE:TENSOR, names, at most `row_limit` rows of it (0: all).
inline matrix read_safetensors(const std::string& argument, std::size_t row_limit) {
  const auto [path, name] = split_tensor_argument(argument);
  ufp4::interop::safetensors_reader file(path);
  const auto& tensor = detail::choose_tensor(file, name);
  return detail::load(file, tensor, row_limit, printable(path) + ":" + printable(tensor.name));
}

}  // namespace compare
