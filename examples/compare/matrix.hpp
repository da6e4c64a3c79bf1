// ufp4 - the matrix that is compared: binary32 values, row-major, and a description of their source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <ufp4/interop/tensor_file.hpp>
#include <vector>

#include "text.hpp"

namespace compare {

struct matrix {
  std::string source;  ///< printable; for the head of every report
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<float> values;
};

/// Input that cannot be compared: one message that names the file and the problem.
using input_error = ufp4::interop::file_error;

/// How many of `rows` are used under `limit`, where 0 means all.
inline std::size_t rows_used(std::size_t rows, std::size_t limit) { return limit == 0 || rows < limit ? rows : limit; }

/// The index in the whole of the i-th of `used` evenly spaced rows. Two terms, so that no product overflows.
inline std::size_t spaced_row(std::size_t i, std::size_t used, std::size_t rows) {
  return i * (rows / used) + i * (rows % used) / used;
}

inline std::string shape_text(std::size_t rows, std::size_t cols) {
  return std::to_string(rows) + " x " + std::to_string(cols);
}

/// input_error if all values are zero.
inline void require_some_value(const matrix& m) {
  for (const float v : m.values)
    if (v != 0) return;
  throw input_error(m.source + ": every value is zero, so there is nothing to compare");
}

}  // namespace compare
