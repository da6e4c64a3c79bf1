// ufp4 - the checks of the linear operations, on every machine: nothing is written before they pass.
// SPDX-License-Identifier: Apache-2.0
//
// A message begins with the operation and names the argument or the operand: "linear_forward: fprop.left (X): ...".
#pragma once

#include <ufp4/block/ms_eden.hpp>
#include <ufp4/matrix/checks.hpp>
#include <ufp4/recipe/linear_operands.hpp>

namespace ufp4::recipe::detail::inline UFP4_CODE {

/// Whether the machine of an operation supports a token_shard.
enum class placing : std::uint8_t { whole_batches, parts };
struct saved_shape {
  std::size_t rows = 0, cols = 0;
  int block = 16;  ///< length along the contraction axis
  transform_spec transform{};
  bool is_quantized = true;
  grid4 grid{};  ///< grid and scale: only of a quantized part
  scale_kind scale = scale_kind::f32;
  saved_place made{};
};

/// The W of a call: a matrix, or what quantize_weight made of one.
struct weight_input {
  source matrix{};
  const quantized_weight* made = nullptr;

  weight_input(const source& w) : matrix(w) {}
  template <class T>
  weight_input(const matrix_view<T>& w) : matrix(source_of(w)) {}
  weight_input(const quantized_weight& w) : made(&w) {}
  std::size_t rows() const { return made != nullptr ? made->rows() : matrix.rows; }
  std::size_t cols() const { return made != nullptr ? made->cols() : matrix.cols; }
};
struct named_extent {
  const char* name;
  std::size_t rows, cols;
};

/// Wgrad contracts the tokens: the tokens of a part that a call has begin and end at whole blocks, transform runs and
/// segments of outer scales, and are the whole part where an outer scale covers a row.
inline void check_contracted_part(const char* operation, const bound_recipe& now, std::size_t e, std::size_t first,
                                  std::size_t count, std::size_t total) {
  std::size_t run = padded_length(1, block_of(now, 4), now.operand(4).transform);
  const char* name = "the longer of block and transform";
  for (int i = 4; i < 6; ++i) {
    const operand_policy& o = now.recipe().operand(i);
    if (!o.quantized) continue;
    expects(o.format.outer.span != outer_scale::kind::row || count == total, operation, ": the tokens of part ", e,
            " must be the whole part, since ", operand_names[i], " has an outer scale for each row: got ", first,
            " .. ", first + count, " of ", total);
    if (o.format.outer.segment == 0) continue;
    run = common_columns(run, static_cast<std::size_t>(o.format.outer.segment));
    name = run_name(o.format);
  }
  expects(first % run == 0, operation, ": token_shard.first[", e, "] must be a multiple of ", run, ", ", name,
          " along the tokens, got ", first);
  expects(first + count == total || count % run == 0, operation, ": the tokens of part ", e, " must be a multiple of ",
          run, ", ", name, " along the tokens, or the last of the whole part: got ", first, " .. ", first + count,
          " of ", total);
}

/// Part e of a shard in the operands left and left + 1, with `count` tokens in this call.
inline void check_part(const char* operation, const bound_recipe& now, int left, std::size_t e, std::size_t count) {
  const token_shard& place = now.shard();
  const std::size_t first = e < place.first.size() ? place.first[e] : 0;
  const bool has_total = e < place.total.size();
  const std::size_t total = has_total ? place.total[e] : count;
  const std::uint32_t part = now.part(static_cast<std::uint32_t>(e));
  expects(part < 1u << 16, operation, ": token_shard.part[", e, "] must be below 65536, got ", part);
  // 16: the rows that fast kernels process together, so that they are the same rows in every part and in the whole
  expects(first % 16 == 0, operation, ": token_shard.first[", e, "] must be a multiple of 16, got ", first);
  expects(count % 16 == 0, operation, ": the tokens of part ", e,
          " must be a multiple of 16 under a token_shard (pad with rows of zeros), got ", count);
  expects(!has_total || (first <= total && count <= total - first), operation, ": token_shard.first[", e,
          "] + tokens exceeds token_shard.total[", e, "]: ", first, " + ", count, " > ", total);
  if (left == 4) return check_contracted_part(operation, now, e, first, count, total);
  const auto height = static_cast<std::size_t>(block_of(now, left).rows);
  expects(first % height == 0, operation, ": token_shard.first[", e, "] must be a multiple of ", height,
          ", the block height of ", operand_names[left], ", got ", first);
}

inline void check_entries(const char* operation, const char* name, std::size_t entries, std::size_t parts) {
  expects(entries == 0 || entries == parts, operation, ": token_shard.", name, " must have one entry per part, ", parts,
          ", got ", entries);
}

inline void check_shard(const char* operation, const bound_recipe& now, int left, const shape& s, placing can) {
  if (!now.is_sharded()) return;
  const token_shard& place = now.shard();
  expects(can == placing::parts, operation,
          ": token_shard: unsupported: the linear operations of a GPU take a whole batch");
  check_entries(operation, "first", place.first.size(), s.experts());
  check_entries(operation, "total", place.total.size(), s.experts());
  check_entries(operation, "part", place.part.size(), s.experts());
  expects(left != 4 || place.first.empty() || !place.total.empty(), operation,
          ": token_shard.first without token_shard.total: wgrad contracts the tokens, and the random bits depend on ",
          "their total number");
  for (std::size_t e = 0; e < s.experts(); ++e) check_part(operation, now, left, e, s.offsets[e + 1] - s.offsets[e]);
  for (int i = left; i < left + 2; ++i) {
    const operand_policy& o = now.recipe().operand(i);
    expects(!has_tokens(i) || !o.quantized || !o.format.has_tensor_scale() || place.tokens, operation,
            ": token_shard.tokens is missing: the tensor scale of ", operand_names[i],
            " needs the amax of the whole batch");
  }
}
inline std::string transform_name(const bound_operand& o) {
  if (o.transform.n == 1) return "none";
  const std::string length = "hadamard<" + std::to_string(o.transform.n) + ">";
  if (o.policy.transform.what == transform_choice::kind::random) return "random_" + length;
  return same_map(o.transform, transform_spec{.n = o.transform.n}) ? length : "signed_" + length;
}

/// MS-EDEN is in place of a rounding policy and a scale rule.
inline void check_ms_eden(const char* operation, const char* name, const bound_operand& o) {
  if (!o.policy.ms_eden) return;
  const char* const mismatch = ms_eden_mismatch(o.policy.format, o.transform);
  expects(mismatch == nullptr, operation, ": ", name, ": ", mismatch == nullptr ? "" : mismatch, ", got ",
          transform_name(o));
  expects(o.policy.rounding == rounding_choice{} && o.policy.rule == rule_choice{}, operation, ": ", name,
          ": MS-EDEN has a rounding and a scale rule of its own; leave both out");
}

/// Operand i: a recipe is data, which a program may have put together from a file.
inline void check_policy(const char* operation, const bound_recipe& now, int i) {
  const char* const name = operand_names[i];
  const std::string text = concat(operation, ": ", name);
  const char* const what = text.c_str();
  // before the recipe draws signs for it
  const transform_choice& choice = now.recipe().operand(i).transform;
  if (choice.what != transform_choice::kind::none) check_length(what, choice.spec);
  const bound_operand o = now.operand(i);
  check_signs(what, o.transform);
  if (!o.policy.quantized) return;
  check_format(what, o.policy.format);
  expects(!o.policy.format.has_bytes(), what, ": a recipe's formats have elements of 4 bits, not of a byte");
  check_none(what, rule_mismatch(o.policy.rule, o.policy.format));
  check_rounding(what, o.policy.rounding.what, o.policy.format, o.transform);
  check_ms_eden(operation, name, o);
  const block_shape block = o.policy.format.block;
  expects(block.rows == 1 || o.transform.n == 1, what, ": a transform needs blocks of one row, got ", transform_name(o),
          " with blocks of ", block.rows, " x ", block.cols);
}
inline void check_policies(const char* operation, const bound_recipe& now, int left) {
  expects(now.layer() < 1u << 16, operation, ": layer must be below 65536, got ", now.layer());
  check_mode(operation, now.recipe().accumulate);
  for (int i = left; i < left + 2; ++i) check_policy(operation, now, i);
  const bound_operand a = now.operand(left), b = now.operand(left + 1);
  const std::string a_transform = transform_name(a), b_transform = transform_name(b);
  expects(same_map(a.transform, b.transform), operation, ": transform mismatch: ", operand_names[left], " has ",
          a_transform, ", ", operand_names[left + 1], " has ", b_transform,
          a_transform == b_transform ? " with other signs" : "");
  expects(!a.policy.quantized || !b.policy.quantized || a.policy.format.block.cols == b.policy.format.block.cols,
          operation, ": block length mismatch: ", operand_names[left], " has ", a.policy.format.block.cols, ", ",
          operand_names[left + 1], " has ", b.policy.format.block.cols);
}

inline void check_gemm_policies(const char* operation, const bound_recipe& now, int left, const shape& s, placing can) {
  check_policies(operation, now, left);
  check_shard(operation, now, left, s, can);
}

/// x is T x K (X or dX), y is T x N (Y or dY), w is E*N x K (W or dW).
inline shape check_shape(const char* operation, const named_extent& x, const named_extent& y, const named_extent& w,
                         expert_offsets offsets) {
  expects(y.rows == x.rows, operation, ": token count mismatch: ", y.name, " has ", y.rows, " rows, ", x.name, " has ",
          x.rows);
  expects(w.cols == x.cols, operation, ": K mismatch: ", w.name, " has ", w.cols, " columns, ", x.name, " has ",
          x.cols);
  expects(offsets.size() >= 2, operation, ": offsets must have one entry more than experts, at least 2, got ",
          offsets.size());
  const std::size_t experts = offsets.size() - 1;
  expects(w.rows == experts * y.cols, operation, ": row count mismatch: ", w.name, " has ", w.rows, ", ", experts,
          " experts of ", y.cols, " outputs (columns of ", y.name, ") need ", experts * y.cols);
  expects(offsets[0] == 0, operation, ": offsets[0] must be 0, got ", offsets[0]);
  for (std::size_t e = 0; e < experts; ++e)
    expects(offsets[e] <= offsets[e + 1], operation, ": offsets must not decrease: offsets[", e, "] = ", offsets[e],
            ", offsets[", e + 1, "] = ", offsets[e + 1]);
  expects(offsets[experts] == y.rows, operation, ": the last of offsets must be the number of tokens, ", y.rows,
          ", got ", offsets[experts]);
  expects(experts <= 1u << 16, operation, ": offsets must have at most 65536 experts, got ", experts);
  return make_shape(y.rows, x.cols, y.cols, offsets);
}

template <class Any>
named_extent extent_of(const char* name, const Any& x) {
  return {name, x.rows, x.cols};
}
inline void check_apart(const char* operation, const char* out_name, const sink& out, const char* name,
                        const source& x) {
  check_data(operation, name, x);
  check_output(operation, out_name, out);
  expects(!share_bytes(out, x), operation, ": ", out_name, " overlaps ", name);
}

inline void check_place(const char* operation, const char* name, const saved_place& made, const bound_recipe& now) {
  expects(made == saved_place{now.step(), now.layer()}, operation, ": step or layer mismatch: ", name, " has step ",
          made.step, ", layer ", made.layer, ", this call has step ", now.step(), ", layer ", now.layer());
}

/// A saved X^T against dY^T of this call.
inline void check_saved(const char* operation, const bound_recipe& now, const saved_shape& part) {
  const transform_spec here = now.operand(4).transform, there = part.transform;
  expects(same_map(here, there), operation, ": transform mismatch: saved has length ", there.n, " (first signs ",
          there.signs[0], "), this recipe, step and layer have length ", here.n, " (first signs ", here.signs[0], ")");
  const int length = block_of(now, 4).cols;
  expects(length == part.block, operation, ": block length mismatch: saved has ", part.block,
          ", wgrad of this recipe has ", length);
  const operand_policy& policy = now.recipe().operand(5);
  const bool same = policy.quantized == part.is_quantized &&
                    (!policy.quantized || (policy.format.grid == part.grid && policy.format.scale == part.scale));
  expects(same, operation, ": format mismatch: saved has another format than ", operand_names[5], " of this recipe");
  check_place(operation, "saved", part.made, now);
}

/// The first difference between the policy that a weight was made under and that of a call, or nullptr.
inline const char* policy_difference(const bound_operand& made, const bound_operand& now) {
  if (!same_map(made.transform, now.transform) || made.transform.rounds_to_bf16 != now.transform.rounds_to_bf16)
    return "transform";
  if (made.policy.quantized != now.policy.quantized) return "format";
  if (!now.policy.quantized) return nullptr;
  if (!(made.policy.format == now.policy.format)) return "format";
  if (!(made.policy.rule == now.policy.rule)) return "scale rule";
  if (!(made.policy.rounding == now.policy.rounding) || made.policy.ms_eden != now.policy.ms_eden) return "rounding";
  const bool draws = now.policy.ms_eden || now.policy.rounding.what >= rounding_spec::kind::stochastic;
  return draws && made.rounding.random_bits.seed != now.rounding.random_bits.seed ? "seed" : nullptr;
}
inline void check_made(const char* operation, const bound_recipe& now, int i, std::size_t experts,
                       const quantized_weight& w) {
  const made_weight& made = w.raw(i);
  expects(made.policies.size() != 0, operation, ": w was quantized without ", operand_names[i],
          ": quantize_weight needs ", i == 1 ? "{.forward = true}" : "{.backward = true}");
  expects(made.policies.size() == experts, operation, ": expert count mismatch: w has ", made.policies.size(),
          ", offsets has ", experts);
  check_place(operation, "w", w.made(), now);
  for (std::size_t e = 0; e < experts; ++e) {
    const char* other = policy_difference(made.policies[e], now.operand(i, static_cast<std::uint32_t>(e)));
    expects(other == nullptr, operation, ": ", other == nullptr ? "" : other, " mismatch: part ", e,
            " of w was quantized under another policy than ", operand_names[i], " of this recipe");
    const int length = block_of(now, i).cols, there = made.parts[e].block().cols;
    expects(length == there, operation, ": block length mismatch: w has ", there, ", this recipe has ", length);
  }
}
inline void check_weight(const char* operation, const bound_recipe& now, int i, const shape& s, const weight_input& w,
                         const char* out_name, const sink& out) {
  if (w.made != nullptr) return check_made(operation, now, i, s.experts(), *w.made);
  check_apart(operation, out_name, out, "w", w.matrix);
}

inline void check_bias(const char* operation, const shape& s, const sink& y, std::span<const float> bias) {
  expects(bias.empty() || bias.size() == s.experts() * s.outputs, operation, ": bias must have ",
          s.experts() * s.outputs, " entries, one per row of w, got ", bias.size());
  expects(!bytes_of(y).overlaps(bytes_of(bias)), operation, ": y overlaps bias");
}

inline shape check_forward(const char* operation, const bound_recipe& now, const source& x, expert_offsets offsets,
                           const weight_input& w, const sink& y, bool saves, placing can = placing::whole_batches) {
  shape s = check_shape(operation, extent_of("x", x), extent_of("y", y), {"w", w.rows(), w.cols()}, offsets);
  check_apart(operation, "y", y, "x", x);
  check_gemm_policies(operation, now, 0, s, can);
  check_weight(operation, now, 1, s, w, "y", y);
  if (saves) check_gemm_policies(operation, now, 4, s, can);
  return s;
}

inline shape check_backward_input(const char* operation, const bound_recipe& now, const source& dy,
                                  expert_offsets offsets, const weight_input& w, const sink& dx,
                                  placing can = placing::whole_batches) {
  shape s = check_shape(operation, extent_of("dx", dx), extent_of("dy", dy), {"w", w.rows(), w.cols()}, offsets);
  check_apart(operation, "dx", dx, "dy", dy);
  check_gemm_policies(operation, now, 2, s, can);
  check_weight(operation, now, 3, s, w, "dx", dx);
  return s;
}

inline shape check_backward_weight(const char* operation, const bound_recipe& now, const source& dy, const source& x,
                                   expert_offsets offsets, const sink& dw, placing can = placing::whole_batches) {
  shape s = check_shape(operation, extent_of("x", x), extent_of("dy", dy), extent_of("dw", dw), offsets);
  check_apart(operation, "dw", dw, "dy", dy);
  check_apart(operation, "dw", dw, "x", x);
  check_gemm_policies(operation, now, 4, s, can);
  return s;
}

inline shape check_backward_weight(const char* operation, const bound_recipe& now, const source& dy,
                                   std::span<const saved_shape> saved, expert_offsets offsets, const sink& dw,
                                   placing can = placing::whole_batches) {
  shape s = check_shape(operation, {"saved", dy.rows, dw.cols}, extent_of("dy", dy), extent_of("dw", dw), offsets);
  expects(saved.size() == s.experts(), operation, ": part count mismatch: saved has ", saved.size(), ", offsets has ",
          s.experts(), " experts");
  check_apart(operation, "dw", dw, "dy", dy);
  check_gemm_policies(operation, now, 4, s, can);
  for (std::size_t e = 0; e < s.experts(); ++e) {
    const std::size_t count = s.offsets[e + 1] - s.offsets[e];
    expects(saved[e].rows == s.inputs && saved[e].cols == count, operation, ": shape mismatch: part ", e,
            " of saved is X^T of ", saved[e].rows, " x ", saved[e].cols, ", dw and dy need ", s.inputs, " x ", count);
    check_saved(operation, now, saved[e]);
  }
  return s;
}

}  // namespace ufp4::recipe::detail::inline UFP4_CODE
