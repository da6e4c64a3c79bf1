// ufp4 - the policies of a call, in any order: transform, rounding, scale rule, tensor_amax, shard and the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/block/eden.hpp>
#include <ufp4/matrix/job.hpp>

namespace ufp4::cpu::inline UFP4_TYPES {
struct context;
}

namespace ufp4::inline UFP4_TYPES {

/// The amax of a whole operand after its transform (the largest finite magnitude), from which a tensor scale is
/// computed. Pass it where it is known (an earlier pass, an all-reduce). An error for a format without a tensor scale.
struct tensor_amax {
  float value = 0;  ///< finite and >= 0
};

/// The place of a part in a whole operand, so that the part quantizes to the bits it has there. `first_col`, and the
/// part's columns unless it is the last, are multiples of the transform's and the block's length; `first_row` of the
/// block's rows. A two-level format also needs the tensor_amax of the whole: an error without it.
struct shard {
  std::size_t first_row = 0;   ///< of the part in the whole
  std::size_t first_col = 0;   ///< of the part in the whole
  std::size_t total_cols = 0;  ///< of the whole
};

/// Adds the counts of special cases to a report.
struct count_into {
  quantize_report& report;  ///< counts are added to it
};

/// For fake_quantize: apply the inverse transform to the decoded values.
struct undo_transform {};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// The policies of one call that are data whatever their types.
struct quantize_settings {
  transform_spec transform{};         ///< none by default
  bool has_amax = false;              ///< tensor_amax was given
  float global_amax = 0;              ///< if has_amax
  bool has_shard = false;             ///< shard was given
  shard place{};                      ///< if has_shard
  quantize_report* report = nullptr;  ///< of count_into, or nullptr
  bool undo = false;                  ///< undo_transform was given
  const void* plans = nullptr;        ///< quantize_job::plans
};

/// All policies of one call.
template <rounding_policy Rounding = rounding_spec, any_scale_rule Rule = scale_rule_spec>
struct quantize_options : quantize_settings {
  static constexpr features needs = features::all;  ///< what the types of the call can need
  Rounding rounding{};                              ///< nearest_even by default
  Rule rule{};                                      ///< the format's default
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

template <class Options, features less>
struct options_that_need : Options {
  static constexpr features needs = less;
};

template <class P>
inline constexpr bool is_builtin_rounding =
    std::same_as<P, nearest_even> || std::same_as<P, nearest_away> || std::same_as<P, toward_zero> ||
    std::same_as<P, stochastic> || std::same_as<P, rounding_spec>;
/// A rounding policy, or eden in its place.
template <class P>
concept rounding_argument = rounding_policy<P> || std::same_as<P, eden>;

/// The rounding type of a call: a user's policy keeps its type; the library's policies become a rounding_spec.
template <class... Policies>
struct rounding_of : std::type_identity<rounding_spec> {};
template <class First, class... Rest>
struct rounding_of<First, Rest...> : std::conditional_t<rounding_policy<First> && !is_builtin_rounding<First>,
                                                        std::type_identity<First>, rounding_of<Rest...>> {};
template <class... Policies>
struct rule_of : std::type_identity<scale_rule_spec> {};
template <class First, class... Rest>
struct rule_of<First, Rest...> : std::conditional_t<scale_rule<First>, std::type_identity<First>, rule_of<Rest...>> {};

template <class P>
concept policy = std::same_as<P, choose_grid> || transform<P> || rounding_argument<P> || any_scale_rule<P> ||
                 std::same_as<P, tensor_amax> || std::same_as<P, shard> || std::same_as<P, count_into> ||
                 std::same_as<P, undo_transform> || std::same_as<P, cpu::context>;

/// What policies of these types can need.
template <class... Policies>
constexpr features features_of_policies() {
  const auto any = [](auto... given) { return (false || ... || given); };
  const bool transforms = any(transform<Policies>...), any_rounding = any(std::same_as<Policies, rounding_spec>...),
             random = any(std::same_as<Policies, stochastic>...),
             other = any((std::same_as<Policies, nearest_away> || std::same_as<Policies, toward_zero>)...),
             search = any((search_policy<Policies> || std::same_as<Policies, scale_rule_spec> ||
                           std::same_as<Policies, four_over_six> || std::same_as<Policies, percentile>)...);
  const bool corrects = any_rounding || any(std::same_as<Policies, eden>...);
  return only_if(corrects, features::corrected_scales) | only_if(transforms, features::transform) |
         only_if(any_rounding || random, features::random_bits) |
         only_if(any_rounding || other, features::other_rounding) | only_if(search, features::search);
}
template <class T>
inline constexpr features features_of_scalar =
    only_if(!std::same_as<std::remove_const_t<T>, float>, features::half_input);

template <class O, class P>
constexpr void apply_policy(O& options, const P& policy) {
  if constexpr (transform<P>)
    options.transform = policy.spec();
  else if constexpr (rounding_argument<P>)
    options.rounding = policy;
  else if constexpr (scale_rule<P>)
    options.rule = policy;
  else if constexpr (search_policy<P>)
    join_search(options.rule, policy.spec());
  else if constexpr (std::same_as<P, choose_grid>)
    options.rule.grids = policy.by;
  else if constexpr (builtin_scale_rule<P>) {
    const scale_rule_spec before = options.rule;
    options.rule = policy.spec();
    if (before.searches) join_search(options.rule, before);
    if (before.grids != search_error::squared) options.rule.grids = before.grids;
  } else if constexpr (std::same_as<P, tensor_amax>) {
    options.has_amax = true;
    options.global_amax = policy.value;
  } else if constexpr (std::same_as<P, shard>) {
    options.has_shard = true;
    options.place = policy;
  } else if constexpr (std::same_as<P, count_into>)
    options.report = &policy.report;
  else if constexpr (std::same_as<P, undo_transform>)
    options.undo = true;
}

/// True: if not all are policies, the program does not compile.
template <class... Policies>
constexpr bool are_policies() {
  constexpr bool all = (policy<Policies> && ...);
  static_assert(all,
                "not a policy: after the matrix come a transform, a rounding policy, a scale rule, tensor_amax, shard, "
                "count_into, cpu::context (and for fake_quantize undo_transform)");
  return true;
}

/// `given`: what formats and element types need. A context is not among the options: context_among (quantize.hpp).
template <features given = format_features | features::half_input, class... Policies>
constexpr auto collect(const Policies&... policies) {
  are_policies<Policies...>();
  static_assert((0 + ... + int{transform<Policies>}) <= 1, "two transforms in one call");
  static_assert((0 + ... + int{rounding_argument<Policies>}) <= 1, "two rounding policies in one call");
  static_assert((0 + ... + int{any_scale_rule<Policies> && !search_policy<Policies>}) <= 1,
                "two scale rules in one call");
  static_assert(!(scale_rule<Policies> || ...) || !(search_policy<Policies> || ...),
                "a search looks around a scale rule of the library's own, not around one of the program's");
  static_assert((0 + ... + int{search_policy<Policies>}) <= 1, "two searches for a scale in one call");
  static_assert((0 + ... + int{std::same_as<Policies, cpu::context>}) <= 1, "two contexts in one call");
  static_assert(!(scale_rule<Policies> || ...) || !(std::same_as<Policies, choose_grid> || ...),
                "choose_grid compares the scales of a rule of the library's own");
  using all_options = quantize_options<typename rounding_of<Policies...>::type, typename rule_of<Policies...>::type>;
  options_that_need<all_options, given | features_of_policies<Policies...>()> options;
  (apply_policy(options, policies), ...);
  return options;
}

/// collect() for a format that is known at run time.
template <class... T, class... Policies>
constexpr auto collect_as_data(const Policies&... policies) {
  return collect<(format_features | ... | features_of_scalar<T>)>(policies...);
}

/// Messages of static assertions and of run-time checks.
#define UFP4_NO_TENSOR_SCALE(policy) policy " has no effect: the format has no tensor scale"
/// The same.
#define UFP4_NO_AMAX_OF_SHARD "a shard of a format with a tensor scale needs the tensor_amax of the whole operand"

/// Whether policies of these kinds can apply to a format; otherwise the program does not compile.
template <any_block_format F, bool has_amax, bool has_shard>
constexpr bool can_apply() {
  static_assert(F::has_tensor_scale || !has_amax, UFP4_NO_TENSOR_SCALE("tensor_amax"));
  static_assert(!F::has_tensor_scale || has_amax || !has_shard, UFP4_NO_AMAX_OF_SHARD);
  return true;
}
/// collect() for a format that is known at compile time: policies that cannot apply to it do not compile.
/// T...: the element types of the matrices of floats that the call reads and writes.
template <any_block_format F, class... T, class... Policies>
constexpr auto collect_for(const Policies&... policies) {
  can_apply<F, (std::same_as<Policies, tensor_amax> || ...), (std::same_as<Policies, shard> || ...)>();
  return collect<(features_of(spec_of<F>) | ... | features_of_scalar<T>)>(policies...);
}

/// signed_hadamard records an invalid sign, because it cannot throw in device code; operations reject it here.
inline void check_signs(const char* operation, const transform_spec& t) {
  check_length(operation, t);
  expects(t.signs_valid, operation, ": signed_hadamard was given a sign that is neither +1 nor -1");
}

/// Modes, as kinds of rounding, may come from a configuration file, so they are checked.
inline void check_mode(const char* operation, accumulate mode) {
  expects(mode <= accumulate::folded_bf16, operation, ": invalid accumulate mode ", static_cast<unsigned>(mode));
}

/// The part of a whole operand that `s` describes must consist of whole blocks and runs.
inline void check_shard(const char* operation, const shard& s, const format_spec& format, const transform_spec& t,
                        std::size_t cols) {
  const std::size_t run = whole_run(format, t);
  expects(s.first_col % run == 0, operation, ": shard.first_col must be a multiple of ", run, " (", run_name(format),
          "), got ", s.first_col);
  expects(s.first_col <= s.total_cols && cols <= s.total_cols - s.first_col, operation,
          ": shard exceeds its whole: first_col ", s.first_col, " + ", cols, " columns > total_cols ", s.total_cols);
  expects(s.first_col + cols == s.total_cols || cols % run == 0, operation,
          ": the columns of a shard that is not the last must be a multiple of ", run, " (", run_name(format),
          "), got ", cols);
  expects(format.outer.span != outer_scale::kind::row || cols == s.total_cols, operation,
          ": a shard of a format with an outer scale for each row must have whole rows, got ", cols, " of ",
          s.total_cols, " columns");
  expects(s.first_row % static_cast<std::size_t>(format.block.rows) == 0, operation,
          ": shard.first_row must be a multiple of the block's ", format.block.rows, " rows, got ", s.first_row);
}

inline void check_rounding(const char* operation, rounding_spec::kind what, const format_spec& format,
                           const transform_spec& t) {
  expects(what <= rounding_spec::kind::eden, operation,
          ": invalid kind of rounding_spec: ", static_cast<unsigned>(what));
  if (what != rounding_spec::kind::eden) return;
  const char* const mismatch = eden_mismatch(format, t);
  expects(mismatch == nullptr, operation, ": ", mismatch == nullptr ? "" : mismatch, ", got a block of ",
          format.block.rows, " x ", format.block.cols, " and a transform of ", t.n);
}

/// The policies against the format and the shape. `amax_is_known`: by another way than a tensor_amax.
inline void check_settings(const char* operation, const quantize_settings& o, const format_spec& format,
                           std::size_t cols, bool amax_is_known = false) {
  check_signs(operation, o.transform);
  const std::uint32_t amax = opaque_bits(o.global_amax);
  expects(amax <= max_finite_bits || amax == sign_mask, operation, ": tensor_amax must be finite and >= 0, got ",
          o.global_amax);
  expects(!o.has_amax || format.has_tensor_scale(), operation, ": " UFP4_NO_TENSOR_SCALE("tensor_amax"));
  if (!o.has_shard) return;
  expects(!format.has_tensor_scale() || o.has_amax || amax_is_known, operation, ": " UFP4_NO_AMAX_OF_SHARD);
  check_shard(operation, o.place, format, o.transform, cols);
}

/// Every policy of a call, before anything is read or written.
template <class O>
void check_options(const char* operation, const O& options, const format_spec& format, std::size_t cols,
                   bool amax_is_known = false) {
  if constexpr (std::same_as<decltype(options.rule), scale_rule_spec>)
    check_none(operation, rule_mismatch(options.rule, format));
  else
    expects(format.choice.count == 0 && format.block.group[0] == 0, operation,
            ": a scale rule of the program's own is for formats of one grid without one-bit exponents; this one has ",
            format.choice.count + 1, " grids, ", exponent_count(format.block), " exponents");
  if constexpr (std::same_as<decltype(options.rounding), rounding_spec>)
    check_rounding(operation, options.rounding.what, format, options.transform);
  check_settings(operation, options, format, cols, amax_is_known);
}

}  // namespace ufp4::detail::inline UFP4_CODE
