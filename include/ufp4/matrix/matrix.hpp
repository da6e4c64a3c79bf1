// ufp4 - matrix: a row-major matrix that owns its memory.
// SPDX-License-Identifier: Apache-2.0
//
// It is a matrix_view of its own elements, so every operation that accepts a view accepts it.
#pragma once

#include <ufp4/matrix/any_quantized.hpp>
#include <ufp4/matrix/matrix_view.hpp>

namespace ufp4::inline UFP4_TYPES {

/// rows x cols elements, packed, row-major, aligned to 64 bytes, initialised to +0. A copy copies the elements; a
/// view of a matrix is valid until the matrix is assigned to, moved from or destroyed.
template <detail::matrix_scalar T>
class matrix : public matrix_view<T> {
  static_assert(!std::is_const_v<T>, "a matrix of const elements could not be filled");

 public:
  matrix() = default;
  /// Elements are +0.
  UFP4_HOST_MEMBER matrix(std::size_t rows, std::size_t cols) : matrix(uninitialized(rows, cols)) {
    if (memory_.size() != 0) std::memset(static_cast<void*>(memory_.data()), 0, memory_.size() * sizeof(T));
  }
  /// Uninitialised elements, for an operation that writes all of them.
  UFP4_HOST_MEMBER static matrix uninitialized(std::size_t rows, std::size_t cols) {
    return matrix(rows, cols, detail::buffer<T>(detail::element_count("matrix", rows, cols, cols, {})));
  }
  UFP4_HOST_MEMBER matrix(const matrix& other) : matrix(other.rows(), other.cols(), other.memory_) {}
  UFP4_HOST_MEMBER matrix(matrix&& other) noexcept : matrix(other.rows(), other.cols(), std::move(other.memory_)) {
    other.view() = {};
  }
  UFP4_HOST_MEMBER matrix& operator=(matrix other) noexcept {
    std::swap(view(), other.view());
    std::swap(memory_, other.memory_);
    return *this;
  }

 private:
  UFP4_HOST_MEMBER matrix(std::size_t rows, std::size_t cols, detail::buffer<T> memory)
      : matrix_view<T>(memory.data(), rows, cols), memory_(std::move(memory)) {}
  UFP4_HOST_MEMBER matrix_view<T>& view() { return *this; }

  detail::buffer<T> memory_;
};

}  // namespace ufp4::inline UFP4_TYPES
