// ufp4 - what may follow a matrix, in any order: transform, rounding, scale rule, tensor_amax, shard, count_into.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <ufp4/block/block_codec.hpp>
#include <ufp4/detail/expects.hpp>
#include <ufp4/hadamard/signs.hpp>
#include <ufp4/matrix/accumulate.hpp>
#include <ufp4/matrix/quantized_matrix.hpp>

namespace ufp4::inline UFP4_TYPES {

/// The largest finite magnitude of a whole operand after its transform: what a two-level format's tensor scale comes
/// from. Give it where it is known (from an earlier pass, or all-reduced over ranks); finite and >= 0. Formats without
/// a tensor scale ignore it.
struct tensor_amax {
  float value = 0;
};

/// The place of a part in a whole operand, so that the part quantizes to the bits it has there. `first_col`, and the
/// part's columns unless it is the last, are multiples of the transform's and the block's length; `first_row` of a
/// square block's height. A two-level format also needs the whole's tensor_amax: without it the part gets a tensor
/// scale of its own.
struct shard {
  std::size_t first_row = 0;
  std::size_t first_col = 0;
  std::size_t total_cols = 0;
};

/// Adds what the quantizer meets to a report.
struct count_into {
  quantize_report& report;
};

/// fake_quantize: apply the inverse transform to what was decoded.
struct undo_transform {};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::inline UFP4_CODE {

/// Everything the policies of one call said.
template <rounding_policy Rounding>
struct quantize_options {
  transform_spec transform{};
  Rounding rounding{};
  scale_rule_spec rule{};
  bool has_amax = false;
  float global_amax = 0;
  bool has_shard = false;
  shard place{};
  quantize_report* report = nullptr;
  bool undo = false;
};

}  // namespace ufp4::inline UFP4_CODE

namespace ufp4::detail::inline UFP4_CODE {

template <class P>
inline constexpr bool is_builtin_rounding =
    std::same_as<P, nearest_even> || std::same_as<P, nearest_away> || std::same_as<P, toward_zero> ||
    std::same_as<P, stochastic> || std::same_as<P, rounding_spec>;

/// The rounding type of a call: a policy of the user's own keeps its type, ours become one value.
template <class... Policies>
struct rounding_of {
  using type = rounding_spec;
};
template <class First, class... Rest>
struct rounding_of<First, Rest...> : std::conditional_t<rounding_policy<First> && !is_builtin_rounding<First>,
                                                        std::type_identity<First>, rounding_of<Rest...>> {};

template <class P>
concept search_policy = std::same_as<P, mse_search>;

template <class P>
concept policy = transform<P> || rounding_policy<P> || scale_rule<P> || std::same_as<P, tensor_amax> ||
                 std::same_as<P, shard> || std::same_as<P, count_into> || std::same_as<P, undo_transform>;

template <class O, class P>
constexpr void apply_policy(O& options, const P& policy) {
  if constexpr (transform<P>)
    options.transform = policy.spec();
  else if constexpr (rounding_policy<P>)
    options.rounding = policy;
  else if constexpr (search_policy<P>)
    options.rule.mse_search = true;
  else if constexpr (scale_rule<P>) {
    const bool search = options.rule.mse_search;
    options.rule = policy.spec();
    options.rule.mse_search = options.rule.mse_search || search;
  } else if constexpr (std::same_as<P, tensor_amax>) {
    options.has_amax = true;
    options.global_amax = policy.value;
  } else if constexpr (std::same_as<P, shard>) {
    options.has_shard = true;
    options.place = policy;
  } else if constexpr (std::same_as<P, count_into>)
    options.report = &policy.report;
  else
    options.undo = true;
}

template <class... Policies>
constexpr auto collect(const Policies&... policies) {
  static_assert((policy<Policies> && ...),
                "not a policy: after the matrix come a transform, a rounding policy, a scale rule, tensor_amax, shard, "
                "count_into (and for fake_quantize undo_transform)");
  static_assert((0 + ... + int{transform<Policies>}) <= 1, "two transforms in one call");
  static_assert((0 + ... + int{rounding_policy<Policies>}) <= 1, "two rounding policies in one call");
  static_assert((0 + ... + int{scale_rule<Policies> && !search_policy<Policies>}) <= 1, "two scale rules in one call");
  quantize_options<typename rounding_of<Policies...>::type> options;
  (apply_policy(options, policies), ...);
  return options;
}

/// signed_hadamard notes a bad sign where it cannot throw (device code); operations reject it here.
inline void check_signs(const char* operation, const transform_spec& t) {
  check_length(operation, t);
  expects(t.signs_valid, operation, ": signed_hadamard was given a sign that is neither +1 nor -1");
}

/// A rounding or a mode may be a number that a configuration file held.
template <rounding_policy R>
void check_rounding(const char* operation, const R& rounding) {
  if constexpr (std::same_as<R, rounding_spec>)
    expects(rounding.what <= rounding_spec::kind::stochastic, operation, ": the rounding_spec is of kind ",
            static_cast<unsigned>(rounding.what), ", which there is not");
}
inline void check_mode(const char* operation, accumulate mode) {
  expects(mode <= accumulate::folded_bf16, operation, ": accumulate is ", static_cast<unsigned>(mode),
          ", which is no mode of ufp4");
}

/// What is wrong with the policies for this format and shape is said here, before anything is read or written.
template <class O>
void check_options(const char* operation, const O& options, const format_spec& format, std::size_t cols) {
  const char* mismatch = rule_mismatch(options.rule, format);
  expects(mismatch == nullptr, operation, ": ", mismatch == nullptr ? "" : mismatch);
  check_signs(operation, options.transform);
  check_rounding(operation, options.rounding);
  const std::uint32_t global_amax = opaque_bits(options.global_amax);
  expects(global_amax <= max_finite_bits || global_amax == sign_mask, operation, ": tensor_amax is ",
          options.global_amax, ", not a finite number >= 0");
  if (!options.has_shard) return;
  const shard& s = options.place;
  const std::size_t run = padded_length(1, format.block, options.transform);
  expects(s.first_col % run == 0, operation, ": shard.first_col is ", s.first_col, ", not a multiple of ", run,
          " (the longer of block and transform)");
  expects(s.first_col <= s.total_cols && cols <= s.total_cols - s.first_col, operation, ": shard.first_col ",
          s.first_col, " plus ", cols, " columns exceeds shard.total_cols ", s.total_cols);
  expects(s.first_col + cols == s.total_cols || cols % run == 0, operation, ": a shard that is not the last has ", cols,
          " columns, not a multiple of ", run, " (the longer of block and transform)");
  expects(s.first_row % static_cast<std::size_t>(format.block.rows) == 0, operation, ": shard.first_row is ",
          s.first_row, ", not a multiple of the block's ", format.block.rows, " rows");
}

}  // namespace ufp4::detail::inline UFP4_CODE
