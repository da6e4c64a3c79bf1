// ufp4 - the matrices of train_lm: row-major, one row per token.
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

/// float for training, double for numerical checks of gradients.
template <class T>
using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A view of a matrix whose rows are `stride` elements apart.
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

/// A trained parameter. Decays: AdamW's weight decay applies to matrices, not to the gains of norms.
template <class T>
struct parameter {
  std::string name;
  matrix<T> value;
  bool decays = true;
};

/// The gradients of every parameter, separate for every local microbatch, so that they can be summed in microbatch
/// order over all processes: stacked[p] holds one matrix of parameter p's shape per microbatch, one below the other.
template <class T>
struct microbatch_gradients {
  index microbatches = 0;
  std::vector<matrix<T>> stacked;

  /// Resizes for these parameters; the values are unspecified.
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

/// The sum from left to right in microbatch order, rounded after each microbatch: every number of processes must
/// reproduce it.
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
