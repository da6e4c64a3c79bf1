// ufp4 - the operands of a linear operation, on every machine: their parts, as jobs for the quantizer, and kept ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/matrix/job.hpp>
#include <ufp4/recipe/recipe.hpp>
#include <vector>

namespace ufp4::recipe::detail::inline UFP4_TYPES {

using namespace ufp4::detail;
inline constexpr const char* operand_names[6] = {"fprop.left (X)",    "fprop.right (W)",   "dgrad.left (dY)",
                                                 "dgrad.right (W^T)", "wgrad.left (dY^T)", "wgrad.right (X^T)"};

/// The step and layer of the call that made an operand for later calls.
struct saved_place {
  std::uint64_t step = 0;
  std::uint32_t layer = 0;
  friend constexpr bool operator==(const saved_place&, const saved_place&) = default;
};

/// T, K, N of a call, and where its experts' tokens begin.
struct shape {
  std::size_t tokens, inputs, outputs;
  buffer<std::size_t> offsets;
  std::size_t experts() const { return offsets.size() - 1; }
};

/// An operand ready to multiply: its codes and scales, or an unquantized matrix that is rounded to bf16 when it is
/// read.
struct stored_operand {
  buffer<format_spec> format;  ///< one, to which the operand refers
  gemm_operand operand;
  buffer<std::uint8_t> codes{}, scales{};
  buffer<bf16> copy{};  ///< of an unquantized matrix that must outlive the caller's

  std::size_t bytes() const { return codes.size() + scales.size() + copy.size() * sizeof(bf16); }
  block_shape block() const { return format[0].block; }
};

UFP4_HOST_MEMBER inline std::size_t total_bytes(const std::vector<stored_operand>& parts) {
  std::size_t total = 0;
  for (const stored_operand& part : parts) total += part.bytes();
  return total;
}

/// A weight as one GEMM reads it, and the policy of each of its parts.
struct made_weight {
  buffer<bound_operand> policies;  ///< empty: not made for this GEMM
  std::vector<stored_operand> parts;
};

}  // namespace ufp4::recipe::detail::inline UFP4_TYPES

namespace ufp4::recipe::inline UFP4_TYPES {

/// Whether an operation replaces the output's old values or adds to them.
enum class write_mode : std::uint8_t { overwrite, add };

/// Tokens sorted by expert: expert e owns rows offsets[e] .. offsets[e + 1] - 1; offsets[0] = 0, one entry more than
/// experts. Weights are stacked: expert e owns rows e * N .. e * N + N - 1 of W.
using expert_offsets = std::span<const std::size_t>;

// The two below own their memory, and record their step, layer and policies: an operation under others rejects them.

/// The quantized X^T of a forward pass, one part per expert, for linear_backward_weight at the same step and layer.
class saved_activation {
 public:
  saved_activation() = default;
  saved_activation(saved_activation&&) = default;  ///< no copy: its operands would refer to the original's memory
  saved_activation& operator=(saved_activation&&) = default;  ///< see above

  std::size_t parts() const { return parts_.size(); }  ///< one, or one per expert; 0 before linear_forward
  std::size_t bytes() const { return detail::total_bytes(parts_); }  ///< of codes, scales and copies

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
  std::size_t bytes() const { return detail::total_bytes(forward_.parts) + detail::total_bytes(backward_.parts); }

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

/// What quantize_weight makes.
struct weight_options {
  std::size_t experts = 1;  ///< the rows of w are the weights of this many experts, stacked
  bool forward = true;      ///< W for linear_forward
  bool backward = false;    ///< W^T for linear_backward_input
};

/// What linear_forward takes beside its matrices.
struct forward_options {
  std::span<const float> bias = {};   ///< empty, or one number per row of W, added to Y before it is stored
  saved_activation* saved = nullptr;  ///< receives the quantized X^T, for linear_backward_weight
};

}  // namespace ufp4::recipe::inline UFP4_TYPES

namespace ufp4::recipe::detail::inline UFP4_CODE {

/// A call's shape. Without offsets all tokens are those of one expert.
inline shape make_shape(std::size_t tokens, std::size_t inputs, std::size_t outputs, expert_offsets offsets) {
  const std::size_t dense[] = {0, tokens};
  if (offsets.empty()) offsets = dense;
  shape s{tokens, inputs, outputs, buffer<std::size_t>(offsets.size())};
  for (std::size_t e = 0; e < offsets.size(); ++e) s.offsets[e] = offsets[e];
  return s;
}

inline buffer<source> transposed(buffer<source> parts) {
  for (source& p : std::span(parts.data(), parts.size()))
    p = {p.data, p.kind, p.cols, p.rows, p.col_stride, p.row_stride};
  return parts;
}

template <class Any>
Any rows_of(Any x, std::size_t first, std::size_t count) {
  using byte = std::conditional_t<std::is_same_v<Any, source>, const char, char>;
  const std::ptrdiff_t size = x.kind == dtype::f32 ? 4 : 2;
  const std::ptrdiff_t skipped = static_cast<std::ptrdiff_t>(first) * x.row_stride * size;
  if (x.data != nullptr) x.data = static_cast<byte*>(x.data) + skipped;
  x.rows = count;
  return x;
}

/// Each expert's rows of a token matrix, or of stacked weights.
template <class Any>
buffer<Any> by_tokens(const shape& s, const Any& x) {
  buffer<Any> parts(s.experts());
  for (std::size_t e = 0; e < s.experts(); ++e) parts[e] = rows_of(x, s.offsets[e], s.offsets[e + 1] - s.offsets[e]);
  return parts;
}
template <class Any>
buffer<Any> by_weights(const shape& s, const Any& w) {
  buffer<Any> parts(s.experts());
  for (std::size_t e = 0; e < s.experts(); ++e) parts[e] = rows_of(w, e * s.outputs, s.outputs);
  return parts;
}

/// Block shape of operand i. An operand in bf16 is cut into the blocks of the GEMM's other operand, or of 16.
inline block_shape block_of(const bound_recipe& now, int i) {
  const operand_policy &self = now.recipe().operand(i), &other = now.recipe().operand(i ^ 1);
  return self.quantized ? self.format.block : block_shape(other.quantized ? other.format.block.cols : 16);
}

/// Tokens are the rows of X and dY (operands 0 and 2) and the columns of dY^T and X^T (4 and 5). W has none.
constexpr bool has_tokens(int i) { return i != 1 && i != 3; }

/// The quantization of x, one expert's part of operand i, at its place in the batch. Sets `format`, to which it refers.
inline quantize_job job_of(const bound_recipe& now, int i, const source& x, std::uint32_t expert, format_spec& format) {
  const bound_operand bound = now.operand(i, expert);
  format = bound.policy.format;
  format.block = block_of(now, i);
  quantize_job job{.x = x, .format = format, .transform = bound.transform};
  job.rounds_input_to_bf16 = !bound.policy.quantized;
  job.padded_cols = padded_length(x.cols, job.format.block, bound.transform);
  job.whole_padded_cols = job.padded_cols;
  const token_shard& place = now.shard();
  if (!has_tokens(i) || expert >= place.first.size()) return job;
  (i < 4 ? job.first_row : job.first_col) = place.first[expert];
  if (i >= 4 && expert < place.total.size())
    job.whole_padded_cols = padded_length(place.total[expert], job.format.block, job.transform);
  return job;
}

}  // namespace ufp4::recipe::detail::inline UFP4_CODE
