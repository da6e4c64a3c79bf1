// ufp4 - saved_activation and quantized_weight: operands that one linear call quantizes and later calls multiply.
// SPDX-License-Identifier: Apache-2.0
//
// Both own their memory and move, but do not copy. Each records the step, layer and policies that it was made under; an
// operation under others rejects it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/recipe/linear_operands.hpp>
#include <utility>
#include <vector>

namespace ufp4::recipe::detail::inline UFP4_TYPES {

/// An operand ready to multiply: its codes and scales, or a plain matrix that is rounded to bf16 when it is read.
struct stored_operand {
  ufp4::detail::gemm_operand operand;
  ufp4::detail::buffer<std::uint8_t> codes, scales;
  ufp4::detail::buffer<ufp4::bf16> copy;  ///< of a plain matrix that must outlive the caller's

  std::size_t bytes() const { return codes.size() + scales.size() + copy.size() * sizeof(ufp4::bf16); }
  block_shape block() const { return (operand.is_quantized ? operand.q.format : operand.plain.format).block; }
};

inline std::size_t bytes_of(const std::vector<stored_operand>& parts) {
  std::size_t total = 0;
  for (const stored_operand& part : parts) total += part.bytes();
  return total;
}

/// A weight as one GEMM reads it, and the policy of each of its parts.
struct made_weight {
  std::vector<bound_operand> policies;  ///< empty: not made for this GEMM
  std::vector<stored_operand> parts;
};

}  // namespace ufp4::recipe::detail::inline UFP4_TYPES

namespace ufp4::recipe::inline UFP4_TYPES {

/// The quantized X^T of a forward pass, one part per expert, for linear_backward_weight at the same step and layer.
class saved_activation {
 public:
  saved_activation() = default;
  /// Movable, not copyable: operands refer to its own buffers.
  saved_activation(saved_activation&&) = default;  // a copy's operands would point into the original's buffers
  saved_activation& operator=(saved_activation&&) = default;  ///< see above

  std::size_t parts() const { return parts_.size(); }  ///< one, or one per expert; 0 before linear_forward
  /// Bytes of codes, scales and copies.
  std::size_t bytes() const { return detail::bytes_of(parts_); }

  /// For the operations: the parts, and the step and layer that they were made at.
  std::vector<detail::stored_operand>& raw() { return parts_; }
  const std::vector<detail::stored_operand>& raw() const { return parts_; }  ///< for the linear operations
  detail::saved_place& made() { return made_; }                              ///< for the linear operations
  const detail::saved_place& made() const { return made_; }                  ///< for the linear operations

 private:
  std::vector<detail::stored_operand> parts_;
  detail::saved_place made_;
};

/// W of a layer, quantized once by quantize_weight, in place of the matrix in linear_forward and
/// linear_backward_input at the same step and layer. Outputs get the bits of quantizing W in each call.
class quantized_weight {
 public:
  quantized_weight() = default;
  quantized_weight(quantized_weight&&) = default;
  quantized_weight& operator=(quantized_weight&&) = default;

  /// Shape of the matrix that it was made of: N x K, or experts stacked, E * N x K.
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  /// Bytes of codes, scales and copies, of W and W^T together.
  std::size_t bytes() const { return detail::bytes_of(forward_.parts) + detail::bytes_of(backward_.parts); }

  /// For the operations: operand 1 (W, for linear_forward) or 3 (W^T, for linear_backward_input), and their origin.
  detail::made_weight& raw(int operand) { return operand == 1 ? forward_ : backward_; }
  const detail::made_weight& raw(int operand) const { return operand == 1 ? forward_ : backward_; }
  const detail::saved_place& made() const { return made_; }  ///< for the linear operations
  /// For the linear operations.
  void set_origin(std::size_t rows, std::size_t cols, const detail::saved_place& made) {
    rows_ = rows, cols_ = cols, made_ = made;
  }

 private:
  std::size_t rows_ = 0, cols_ = 0;
  detail::saved_place made_;
  detail::made_weight forward_, backward_;
};

}  // namespace ufp4::recipe::inline UFP4_TYPES

namespace ufp4::recipe::detail::inline UFP4_TYPES {

/// The W of a call: a matrix, or what quantize_weight made of one.
struct weight_input {
  source matrix{};
  const quantized_weight* made = nullptr;

  weight_input(const source& w) : matrix(w) {}
  weight_input(const quantized_weight& w) : made(&w) {}
  std::size_t rows() const { return made != nullptr ? made->rows() : matrix.rows; }
  std::size_t cols() const { return made != nullptr ? made->cols() : matrix.cols; }
};

}  // namespace ufp4::recipe::detail::inline UFP4_TYPES
