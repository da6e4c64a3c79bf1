// ufp4 - what every operation checks of the memory of a matrix that it reads or writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/detail/expects.hpp>
#include <ufp4/matrix/matrix_view.hpp>

namespace ufp4::detail::inline UFP4_CODE {

template <class Void>
void check_data(const char* operation, const char* argument, const any_view<Void>& x) {
  expects(x.data != nullptr || x.rows == 0 || x.cols == 0, operation, ": ", argument, " is null, but has ", x.rows,
          " x ", x.cols, " elements");
}
template <matrix_scalar T>
void check_data(const char* operation, const char* argument, const matrix_view<T>& x) {
  check_data(operation, argument, source_of(x));
}

/// A matrix that is written is not null, and no two elements, which threads would write in any order, coincide.
inline void check_output(const char* operation, const char* argument, const sink& x) {
  check_data(operation, argument, x);
  expects(!overlaps_itself(x), operation, ": elements of ", argument, " overlap: ", x.rows, " x ", x.cols,
          " with row stride ", x.row_stride, " and column stride ", x.col_stride);
}
template <matrix_scalar T>
void check_output(const char* operation, const char* argument, const matrix_view<T>& x) {
  check_output(operation, argument, sink_of(x));
}

}  // namespace ufp4::detail::inline UFP4_CODE
