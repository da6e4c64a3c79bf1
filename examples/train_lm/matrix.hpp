// ufp4 - the matrices of train_lm: row-major, one row a token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>
#include <string>
#include <ufp4/matrix/matrix_view.hpp>
#include <vector>

namespace train_lm {

using index = Eigen::Index;

/// float trains; double is for checking gradients numerically.
template <class T>
using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A matrix in someone else's memory, rows apart by a stride.
template <class T>
using strided = Eigen::Map<matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
using const_strided = Eigen::Map<const matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

inline ufp4::matrix_view<float> view_of(matrix<float>& x) {
  return {x.data(), static_cast<std::size_t>(x.rows()), static_cast<std::size_t>(x.cols())};
}
inline ufp4::matrix_view<const float> view_of(const matrix<float>& x) {
  return {x.data(), static_cast<std::size_t>(x.rows()), static_cast<std::size_t>(x.cols())};
}

/// Something that training changes. Decays: whether AdamW's weight decay applies (matrices yes, norm gains no).
template <class T>
struct parameter {
  std::string name;
  matrix<T> value;
  bool decays = true;
};

/// Gradients of every parameter for every local microbatch, kept apart so that their sum can be taken in microbatch
/// order, whichever process holds which: stacked[p] has one copy of parameter p's shape below another, a microbatch
/// each.
template <class T>
struct microbatch_gradients {
  index microbatches = 0;
  std::vector<matrix<T>> stacked;

  /// Shapes it for these parameters; values are whatever they were.
  void resize(const std::vector<parameter<T>>& parameters, index count) {
    microbatches = count;
    stacked.resize(parameters.size());
    for (std::size_t p = 0; p < parameters.size(); ++p)
      stacked[p].resize(count * parameters[p].value.rows(), parameters[p].value.cols());
  }
  /// Microbatch m's gradient of parameter p.
  auto part(std::size_t p, index m) {
    const index rows = stacked[p].rows() / microbatches;
    return stacked[p].middleRows(m * rows, rows);
  }
};

/// Left to right in microbatch order, one rounding a microbatch: what every number of processes has to reproduce.
template <class T>
void sum_in_order(const microbatch_gradients<T>& all, std::vector<matrix<T>>& sums) {
  sums.resize(all.stacked.size());
  for (std::size_t p = 0; p < sums.size(); ++p) {
    const index rows = all.stacked[p].rows() / all.microbatches;
    sums[p] = all.stacked[p].topRows(rows);
    for (index m = 1; m < all.microbatches; ++m) sums[p] += all.stacked[p].middleRows(m * rows, rows);
  }
}

}  // namespace train_lm
