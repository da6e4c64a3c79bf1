// ufp4 - the operands of a linear operation, on every machine: their parts, and each part as a job for the quantizer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/matrix/job.hpp>
#include <ufp4/recipe/recipe.hpp>
#include <vector>

namespace ufp4::recipe::inline UFP4_TYPES {

/// Whether an operation replaces the output's old values or adds to them.
enum class write_mode : std::uint8_t { overwrite, add };

/// Tokens sorted by expert: expert e owns rows offsets[e] .. offsets[e + 1] - 1; offsets[0] = 0, one entry more than
/// experts. Weights are stacked: expert e owns rows e * N .. e * N + N - 1 of W.
using expert_offsets = std::span<const std::size_t>;

}  // namespace ufp4::recipe::inline UFP4_TYPES

namespace ufp4::recipe::detail::inline UFP4_TYPES {

using ufp4::detail::sink;
using ufp4::detail::source;

/// Operands 0 .. 5 in error messages.
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
  std::vector<std::size_t> offsets;
  std::size_t experts() const { return offsets.size() - 1; }
};

}  // namespace ufp4::recipe::detail::inline UFP4_TYPES

namespace ufp4::recipe::detail::inline UFP4_CODE {

inline source transposed(const source& x) { return {x.data, x.kind, x.cols, x.rows, x.col_stride, x.row_stride}; }
inline std::vector<source> transposed(std::vector<source> parts) {
  for (source& p : parts) p = transposed(p);
  return parts;
}

inline source rows_of(const source& x, std::size_t first, std::size_t count) {
  const std::ptrdiff_t size = x.kind == dtype::f32 ? 4 : 2;
  const auto* data = static_cast<const char*>(x.data) + static_cast<std::ptrdiff_t>(first) * x.row_stride * size;
  return {x.data == nullptr ? nullptr : data, x.kind, count, x.cols, x.row_stride, x.col_stride};
}
inline sink rows_of(const sink& x, std::size_t first, std::size_t count) {
  const source part = rows_of(source{x.data, x.kind, x.rows, x.cols, x.row_stride, x.col_stride}, first, count);
  return {const_cast<void*>(part.data), part.kind, part.rows, part.cols, part.row_stride, part.col_stride};
}

/// Each expert's rows of a token matrix, or of stacked weights.
template <class Any>
std::vector<Any> by_tokens(const shape& s, const Any& x) {
  std::vector<Any> parts;
  parts.reserve(s.experts());
  for (std::size_t e = 0; e < s.experts(); ++e)
    parts.push_back(rows_of(x, s.offsets[e], s.offsets[e + 1] - s.offsets[e]));
  return parts;
}
template <class Any>
std::vector<Any> by_weights(const shape& s, const Any& w) {
  std::vector<Any> parts;
  parts.reserve(s.experts());
  for (std::size_t e = 0; e < s.experts(); ++e) parts.push_back(rows_of(w, e * s.outputs, s.outputs));
  return parts;
}

/// Block shape of operand i. An operand in bf16 is cut into the blocks of the GEMM's other operand, or of 16.
inline block_shape block_of(const bound_recipe& now, int i) {
  const operand_policy &self = now.recipe().operand(i), &other = now.recipe().operand(i ^ 1);
  return self.quantized ? self.format.block : block_shape(other.quantized ? other.format.block.cols : 16);
}

/// Tokens are the rows of X and dY (operands 0 and 2) and the columns of dY^T and X^T (4 and 5). W has none.
constexpr bool has_tokens(int i) { return i != 1 && i != 3; }

/// Sets where part e's tokens are in the whole batch, for the index of the random bits.
inline void place_tokens(const bound_recipe& now, int i, std::uint32_t e, ufp4::detail::quantize_job& job) {
  const token_shard& place = now.shard();
  if (!has_tokens(i) || e >= place.first.size()) return;
  if (i < 4) {
    job.first_row = place.first[e];
    return;
  }
  job.first_col = place.first[e];
  if (e < place.total.size())
    job.whole_padded_cols = ufp4::detail::padded_length(place.total[e], job.format.block, job.transform);
}

/// The quantization of x, which is one expert's part of operand i.
inline ufp4::detail::quantize_job job_of(const bound_recipe& now, int i, const source& x, std::uint32_t expert) {
  const bound_operand bound = now.operand(i, expert);
  ufp4::detail::quantize_job job{.x = x, .format = bound.policy.format, .transform = bound.transform};
  job.format.block = block_of(now, i);
  job.rounds_input_to_bf16 = !bound.policy.quantized;
  job.padded_cols = ufp4::detail::padded_length(x.cols, job.format.block, bound.transform);
  job.whole_padded_cols = job.padded_cols;
  place_tokens(now, i, expert, job);
  return job;
}

}  // namespace ufp4::recipe::detail::inline UFP4_CODE
