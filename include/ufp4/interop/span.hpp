// ufp4 - std::span as a matrix_view with a checked size. Not part of ufp4.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/matrix/checks.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// x's memory as a row-major matrix, writable unless T is const. std::invalid_argument unless rows * cols is x's size.
template <ufp4::detail::matrix_scalar T, std::size_t extent>
matrix_view<T> view(std::span<T, extent> x, std::size_t rows, std::size_t cols) {
  const bool fits = cols == 0 ? x.empty() : x.size() % cols == 0 && x.size() / cols == rows;
  ufp4::detail::expects(fits, "view: size mismatch: x has ", x.size(), " elements, not ", rows, " x ", cols);
  return {x.data(), rows, cols};
}

}  // namespace ufp4::interop::inline UFP4_CODE
