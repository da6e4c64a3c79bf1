// ufp4 - matrix_batch: matrices of one shape at equal distances in memory, such as a 3-D tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/matrix/matrix_view.hpp>

namespace ufp4::inline UFP4_TYPES {

/// size() matrices; matrix i begins i * stride elements after the first. Owns nothing.
template <class T>
class matrix_batch {
 public:
  using element_type = T;

  constexpr matrix_batch() = default;
  /// Packed: size x rows x cols elements, the last index fastest.
  constexpr matrix_batch(T* data, std::size_t size, std::size_t rows, std::size_t cols)
      : matrix_batch(matrix_view<T>(data, rows, cols), size, static_cast<std::ptrdiff_t>(rows * cols)) {}
  constexpr matrix_batch(const matrix_view<T>& first, std::size_t size, std::ptrdiff_t stride)
      : first_(first), size_(size), stride_(stride) {}

  constexpr std::size_t size() const { return size_; }  ///< number of matrices
  constexpr std::size_t rows() const { return first_.rows(); }
  constexpr std::size_t cols() const { return first_.cols(); }
  /// Matrix i.
  constexpr matrix_view<T> operator[](std::size_t i) const {
    return {first_.data() + static_cast<std::ptrdiff_t>(i) * stride_, first_.rows(), first_.cols(), first_.row_stride(),
            first_.col_stride()};
  }

 private:
  matrix_view<T> first_;
  std::size_t size_ = 0;
  std::ptrdiff_t stride_ = 0;
};

/// What the tensor scale of a two-level format covers: the whole batch, or each matrix. Without effect, and so an error
/// at compile time where the format is a type, for other formats; leave it out there.
enum class batch_amax : std::uint8_t { shared, own };

}  // namespace ufp4::inline UFP4_TYPES
