// ufp4 - what the linear operations of every machine share: shapes, policies, and the messages for what is wrong with them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/detail/expects.hpp>
#include <ufp4/matrix/job.hpp>
#include <ufp4/matrix/policies.hpp>
#include <ufp4/recipe/recipe.hpp>
#include <vector>

namespace ufp4::recipe::inline UFP4_TYPES {

/// What becomes of the output's old values.
enum class write : std::uint8_t { overwrite, add };

/// Tokens sorted by expert: expert e owns rows offsets[e] .. offsets[e + 1] - 1, offsets[0] = 0, one entry more than
/// experts. Weights are stacked: expert e owns rows e * N .. e * N + N - 1 of W.
using expert_offsets = std::span<const std::size_t>;

}  // namespace ufp4::recipe::inline UFP4_TYPES

namespace ufp4::recipe::detail::inline UFP4_TYPES {

using ufp4::detail::expects;
using ufp4::detail::sink;
using ufp4::detail::source;

/// The call that saved an operand.
struct saved_place {
  std::uint64_t step = 0;
  std::uint32_t layer = 0;
  friend constexpr bool operator==(const saved_place&, const saved_place&) = default;
};

inline constexpr const char* operand_names[6] = {"fprop.left (X)",    "fprop.right (W)",   "dgrad.left (dY)",
                                                 "dgrad.right (W^T)", "wgrad.left (dY^T)", "wgrad.right (X^T)"};

/// What a saved operand says of itself.
struct saved_shape {
  std::size_t rows = 0, cols = 0;
  int block = 16;  ///< length along the contraction axis
  transform_spec transform{};
  bool is_quantized = true;
  grid4 grid{};  ///< and scale: where it is quantized
  scale_kind scale = scale_kind::f32;
  saved_place made{};
};

}  // namespace ufp4::recipe::detail::inline UFP4_TYPES

namespace ufp4::recipe::detail::inline UFP4_CODE {

inline source flipped(const source& x) { return {x.data, x.kind, x.cols, x.rows, x.col_stride, x.row_stride}; }

inline source rows_of(const source& x, std::size_t first, std::size_t count) {
  const std::ptrdiff_t size = x.kind == dtype::f32 ? 4 : 2;
  const auto* data = static_cast<const char*>(x.data) + static_cast<std::ptrdiff_t>(first) * x.row_stride * size;
  return {x.data == nullptr ? nullptr : data, x.kind, count, x.cols, x.row_stride, x.col_stride};
}
inline sink rows_of(const sink& x, std::size_t first, std::size_t count) {
  const source part = rows_of(source{x.data, x.kind, x.rows, x.cols, x.row_stride, x.col_stride}, first, count);
  return {const_cast<void*>(part.data), part.kind, part.rows, part.cols, part.row_stride, part.col_stride};
}

/// What a recipe may not say of one operand: all of it is data, which anybody may have put together.
inline void check_policy(const char* operation, const bound_recipe& now, int i) {
  const char* const name = operand_names[i];
  const auto rejected = [&](const char* why) { expects(why == nullptr, operation, ": ", name, ": ", why ? why : ""); };
  // before the recipe draws signs for it
  const transform_choice& choice = now.recipe().operand(i).transform;
  if (choice.what != transform_choice::kind::none && !choice.spec.valid_length())
    ufp4::detail::check_length(ufp4::detail::concat(operation, ": ", name).c_str(), choice.spec);
  const bound_operand o = now.operand(i);
  rejected(o.transform.signs_valid ? nullptr : "signed_hadamard was given a sign that is neither +1 nor -1");
  if (!o.policy.quantized) return;
  rejected(ufp4::detail::format_mismatch(o.policy.format));
  rejected(ufp4::detail::rule_mismatch(o.policy.rule, o.policy.format));
  rejected(o.policy.rounding <= rounding_spec::kind::stochastic ? nullptr : "the rounding is no rounding_spec::kind");
  rejected(o.policy.format.block.rows == 1 || o.transform.n == 1
              ? nullptr
              : "square blocks are read along both axes, which a Hadamard transform does not allow");
}

/// What a recipe may not say of a GEMM.
inline void check_policies(const char* operation, const bound_recipe& now, int left) {
  expects(now.layer() < 1u << 16, operation, ": layer is ", now.layer(), ", not below 65536");
  ufp4::detail::check_mode(operation, now.recipe().accumulate);
  for (int i = left; i < left + 2; ++i) check_policy(operation, now, i);
  const bound_operand a = now.operand(left), b = now.operand(left + 1);
  expects(same_map(a.transform, b.transform), operation, ": ", operand_names[left], " and ", operand_names[left + 1],
          " have different transforms, of lengths ", a.transform.n, " and ", b.transform.n);
  expects(!a.policy.quantized || !b.policy.quantized || a.policy.format.block.cols == b.policy.format.block.cols,
          operation, ": ", operand_names[left], " has blocks of ", a.policy.format.block.cols, ", but ",
          operand_names[left + 1], " has blocks of ", b.policy.format.block.cols);
}

/// The block length of a GEMM: that of a quantized side, 16 where there is none.
inline block_shape block_of(const bound_recipe& now, int i) {
  const operand_policy &self = now.recipe().operand(i), &other = now.recipe().operand(i ^ 1);
  return self.quantized ? self.format.block : block_shape(other.quantized ? other.format.block.cols : 16);
}

/// Tokens are rows of X and dY (operands 0 and 2), columns of dY^T and X^T (4 and 5); W has none.
constexpr bool has_tokens(int i) { return i != 1 && i != 3; }

/// Where part e's tokens stand in the whole batch, for the random bits' index.
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

/// T, K, N of a call, and its experts.
struct shape {
  std::size_t tokens, inputs, outputs;
  std::vector<std::size_t> offsets;
  std::size_t experts() const { return offsets.size() - 1; }
};

inline shape check_shape(const char* operation, const source& tokens_by_k, const char* x_name, std::size_t tokens,
                         std::size_t outputs, const char* y_name, std::size_t w_rows, std::size_t w_cols,
                         const char* w_name, expert_offsets offsets) {
  expects(tokens == tokens_by_k.rows, operation, ": ", y_name, " has ", tokens, " rows (tokens), but ", x_name, " has ",
          tokens_by_k.rows);
  expects(w_cols == tokens_by_k.cols, operation, ": ", w_name, " has ", w_cols, " columns (K), but ", x_name, " has ",
          tokens_by_k.cols);
  expects(offsets.size() >= 2, operation, ": offsets has ", offsets.size(), " entries; it needs one more than experts");
  const std::size_t experts = offsets.size() - 1;
  expects(w_rows == experts * outputs, operation, ": ", w_name, " has ", w_rows, " rows, but ", experts, " experts of ",
          outputs, " outputs (", y_name, "'s columns) take ", experts * outputs);
  expects(offsets[0] == 0, operation, ": offsets[0] is ", offsets[0], ", not 0");
  for (std::size_t e = 0; e < experts; ++e)
    expects(offsets[e] <= offsets[e + 1], operation, ": offsets[", e + 1, "] is ", offsets[e + 1], ", below offsets[",
            e, "] = ", offsets[e]);
  expects(offsets[experts] == tokens, operation, ": the last of offsets is ", offsets[experts], ", but there are ",
          tokens, " tokens");
  expects(experts <= 1u << 16, operation, ": offsets has ", experts, " experts; at most 65536");
  return {tokens, tokens_by_k.cols, outputs, {offsets.begin(), offsets.end()}};
}

template <class Any>
void check_memory(const char* operation, const char* name, const Any& x) {
  expects(x.data != nullptr || x.rows == 0 || x.cols == 0, operation, ": ", name, " is null, but has ", x.rows, " x ",
          x.cols, " elements");
}
inline void check_apart(const char* operation, const char* out_name, const sink& out, const char* name,
                        const source& x) {
  check_memory(operation, name, x);
  check_memory(operation, out_name, out);
  expects(!ufp4::detail::share_bytes(out, x), operation, ": ", out_name, " overlaps ", name);
}

/// Expert e's rows of a token matrix, or of stacked weights.
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
inline std::vector<source> transposed(std::vector<source> parts) {
  for (source& p : parts) p = flipped(p);
  return parts;
}

/// What was saved under another recipe, step or layer does not multiply with dY^T of this one.
inline void check_saved(const char* operation, const bound_recipe& now, const saved_shape& part) {
  const transform_spec here = now.operand(4).transform, there = part.transform;
  expects(same_map(here, there), operation, ": saved was transformed in runs of ", there.n, " (first signs ",
          there.signs[0], "), but this recipe, step and layer transform dy in runs of ", here.n, " (first signs ",
          here.signs[0], ")");
  const int length = block_of(now, 4).cols;
  expects(length == part.block, operation, ": saved has blocks of ", part.block,
          ", but this recipe's wgrad has blocks of ", length);
  const operand_policy& policy = now.recipe().operand(5);
  const bool same = policy.quantized == part.is_quantized &&
                    (!policy.quantized || (policy.format.grid == part.grid && policy.format.scale == part.scale));
  expects(same, operation, ": saved has another format than this recipe's ", operand_names[5]);
  expects(part.made == saved_place{now.step(), now.layer()}, operation, ": saved is of step ", part.made.step,
          " and layer ", part.made.layer, ", but this call is of step ", now.step(), " and layer ", now.layer());
}

/// Part e of a shard in the operands left and left + 1, whose tokens here are count.
inline void check_part(const char* operation, const bound_recipe& now, int left, std::size_t e, std::size_t count) {
  const token_shard& place = now.shard();
  const std::size_t first = e < place.first.size() ? place.first[e] : 0;
  const bool has_total = e < place.total.size();
  const std::size_t total = has_total ? place.total[e] : count;
  expects(now.part(static_cast<std::uint32_t>(e)) < 1u << 16, operation, ": token_shard.part[", e, "] is ",
          now.part(static_cast<std::uint32_t>(e)), ", not below 65536");
  // 16: the rows that fast kernels look at together, so that they are the same rows in every part and in the whole
  expects(first % 16 == 0, operation, ": token_shard.first[", e, "] is ", first, ", not a multiple of 16");
  expects(count % 16 == 0, operation, ": part ", e, " of a token_shard has ", count,
          " tokens, not a multiple of 16; pad it with rows of zeros");
  expects(!has_total || (first <= total && count <= total - first), operation, ": token_shard.first[", e, "] = ", first,
          " plus ", count, " tokens exceeds token_shard.total[", e, "] = ", total);
  if (left == 4) {
    const std::size_t run = ufp4::detail::padded_length(1, block_of(now, 4), now.operand(4).transform);
    expects(first % run == 0, operation, ": token_shard.first[", e, "] is ", first, ", not a multiple of ", run,
            " (the longer of block and transform along the tokens)");
    expects(first + count == total || count % run == 0, operation, ": part ", e, " of a token_shard has ", count,
            " tokens of ", total, " and is not the last of them, but ", count, " is not a multiple of ", run,
            " (the longer of block and transform along the tokens)");
    return;
  }
  const auto height = static_cast<std::size_t>(block_of(now, left).rows);
  expects(first % height == 0, operation, ": token_shard.first[", e, "] is ", first, ", not a multiple of ", height,
          ", the height of ", operand_names[left], "'s blocks");
}

/// Whether the operation's machine can place a part of a batch.
enum class placing : std::uint8_t { whole_batches, parts };

inline void check_shard(const char* operation, const bound_recipe& now, int left, const shape& s, placing can) {
  if (!now.is_sharded()) return;
  const token_shard& place = now.shard();
  expects(can == placing::parts, operation,
          ": was given a token_shard, which only the CPU's linear operations take; a GPU's hold a whole batch");
  const auto fits = [&](const char* name, std::size_t entries) {
    expects(entries == 0 || entries == s.experts(), operation, ": token_shard.", name, " has ", entries,
            " entries, but the call has ", s.experts(), " parts");
  };
  fits("first", place.first.size());
  fits("total", place.total.size());
  fits("part", place.part.size());
  expects(left != 4 || place.first.empty() || !place.total.empty(), operation,
          ": token_shard.first without token_shard.total: tokens are wgrad's contraction axis, whose whole length the "
          "random bits need");
  for (std::size_t e = 0; e < s.experts(); ++e) check_part(operation, now, left, e, s.offsets[e + 1] - s.offsets[e]);
  for (int i = left; i < left + 2; ++i) {
    const operand_policy& o = now.recipe().operand(i);
    expects(
        !has_tokens(i) || !o.quantized || !o.format.two_level || place.tokens, operation, ": ", operand_names[i],
        " has a tensor scale, so a token_shard needs `tokens`, the agreement on the whole batch's largest magnitude");
  }
}

// Everything that can be wrong with a call, before anything is done.

inline shape check_forward(const char* operation, const bound_recipe& now, const source& x, expert_offsets offsets,
                           const source& w, const sink& y, bool saves, placing can = placing::whole_batches) {
  shape s = check_shape(operation, x, "x", y.rows, y.cols, "y", w.rows, w.cols, "w", offsets);
  check_apart(operation, "y", y, "x", x);
  check_apart(operation, "y", y, "w", w);
  check_policies(operation, now, 0);
  check_shard(operation, now, 0, s, can);
  if (!saves) return s;
  check_policies(operation, now, 4);
  check_shard(operation, now, 4, s, can);
  return s;
}

inline shape check_backward_input(const char* operation, const bound_recipe& now, const source& dy,
                                  expert_offsets offsets, const source& w, const sink& dx,
                                  placing can = placing::whole_batches) {
  const source as_x{dx.data, dx.kind, dx.rows, dx.cols, dx.row_stride, dx.col_stride};
  shape s = check_shape(operation, as_x, "dx", dy.rows, dy.cols, "dy", w.rows, w.cols, "w", offsets);
  check_apart(operation, "dx", dx, "dy", dy);
  check_apart(operation, "dx", dx, "w", w);
  check_policies(operation, now, 2);
  check_shard(operation, now, 2, s, can);
  return s;
}

inline shape check_backward_weight(const char* operation, const bound_recipe& now, const source& dy, const source& x,
                                   expert_offsets offsets, const sink& dw, placing can = placing::whole_batches) {
  shape s = check_shape(operation, x, "x", dy.rows, dy.cols, "dy", dw.rows, dw.cols, "dw", offsets);
  check_apart(operation, "dw", dw, "dy", dy);
  check_apart(operation, "dw", dw, "x", x);
  check_policies(operation, now, 4);
  check_shard(operation, now, 4, s, can);
  return s;
}

inline shape check_backward_weight(const char* operation, const bound_recipe& now, const source& dy,
                                   std::span<const saved_shape> saved, expert_offsets offsets, const sink& dw,
                                   placing can = placing::whole_batches) {
  const source tokens_by_k{nullptr, dtype::f32, dy.rows, dw.cols, 0, 0};
  shape s = check_shape(operation, tokens_by_k, "saved", dy.rows, dy.cols, "dy", dw.rows, dw.cols, "dw", offsets);
  expects(saved.size() == s.experts(), operation, ": saved has ", saved.size(), " parts, but offsets names ",
          s.experts(), " experts");
  for (std::size_t e = 0; e < s.experts(); ++e) {
    const std::size_t count = s.offsets[e + 1] - s.offsets[e];
    expects(saved[e].rows == s.inputs && saved[e].cols == count, operation, ": saved part ", e, " is X^T of ",
            saved[e].rows, " x ", saved[e].cols, ", but dw and dy make it ", s.inputs, " x ", count);
    check_saved(operation, now, saved[e]);
  }
  check_apart(operation, "dw", dw, "dy", dy);
  check_policies(operation, now, 4);
  check_shard(operation, now, 4, s, can);
  return s;
}

}  // namespace ufp4::recipe::detail::inline UFP4_CODE
