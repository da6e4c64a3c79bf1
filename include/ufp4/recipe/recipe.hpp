// ufp4 - training_recipe: how each operand of a linear layer's three GEMMs is quantized, as data.
// SPDX-License-Identifier: Apache-2.0
//
// T tokens, K inputs, N outputs. A tensor is quantized separately for each GEMM, along that GEMM's contraction axis:
//
//   fprop  Y[T,N]  = X  W^T      operands 0: X     T x K    1: W     N x K
//   dgrad  dX[T,K] = dY W                 2: dY    T x N    3: W^T   K x N
//   wgrad  dW[N,K] = dY^T X               4: dY^T  N x T    5: X^T   K x T
//
// Edit any member for an ablation: r.wgrad.left.transform = {} removes the transform of dY^T. Presets: recipes.hpp.
//
// A process with a part of a batch passes what its tokens do not tell as a token_shard (docs/scaling.md, numerics 7):
//
//   recipe.at(step, layer).shard({.first = {&first, 1}, .tokens = amax_agreement::of(all_reduce_max)})
//
// A call has a part per expert, or per microbatch of linear_backward_weight_grouped, or per both; else one. Y, dX, and
// dW of whole parts have the bits of the whole batch. A token_shard that does not fit is rejected before anything is
// written or exchanged; the other ranks then wait in the exchange.
#pragma once

#include <span>
#include <ufp4/block/scale_rules.hpp>
#include <ufp4/hadamard/signs.hpp>
#include <ufp4/matrix/accumulate.hpp>

namespace ufp4::recipe::detail::inline UFP4_TYPES {

/// Not constexpr: its call in a consteval constructor is a compile error that shows this name.
void a_recipe_derives_the_seeds_of_its_operands();

}  // namespace ufp4::recipe::detail::inline UFP4_TYPES

namespace ufp4::recipe::inline UFP4_TYPES {

/// The seed of a role at a step of a layer: words 0 (low) and 1 (high) of Philox4x32-10, key `seed`, counter (step,
/// layer, 0x52000000 + role) (numerics 7). Roles 0 .. 2: the signs of fprop, dgrad, wgrad; 16 + i: operand i's bits.
UFP4_HOST_MEMBER constexpr std::uint64_t derive(std::uint64_t seed, std::uint64_t step, std::uint32_t layer,
                                                std::uint32_t role) {
  const ufp4::detail::philox_counter words = philox4x32(
      {{static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32), layer, 0x52000000u + role}}, seed);
  return words.word[0] | std::uint64_t{words.word[1]} << 32;
}

/// nearest_even{} (the default), nearest_away{}, toward_zero{}, stochastic{} or eden{}.
struct rounding_choice {
  using kind = rounding_spec::kind;  ///< the policies
  kind what = kind::nearest_even;    ///< the policy as data

  constexpr rounding_choice() = default;
  constexpr rounding_choice(nearest_even) {}                             ///< the default
  constexpr rounding_choice(nearest_away) : what(kind::nearest_away) {}  ///< ties away from zero
  constexpr rounding_choice(toward_zero) : what(kind::toward_zero) {}    ///< toward zero
  /// Without a seed, which the recipe derives.
  consteval rounding_choice(stochastic s) : what(kind::stochastic) {
    if (s.seed != 0 || s.stream != 0) detail::a_recipe_derives_the_seeds_of_its_operands();
  }
  /// The same.
  consteval rounding_choice(eden e) : what(kind::eden) {
    if (e.seed != 0 || e.stream != 0) detail::a_recipe_derives_the_seeds_of_its_operands();
  }
  friend constexpr bool operator==(const rounding_choice&, const rounding_choice&) = default;
};

/// `{}` for none (the default), or a transform of signs.hpp, with or without .to_bf16(); the same for both operands.
struct transform_choice {
  enum class kind : std::uint8_t { none, random, given };  ///< where the signs come from
  kind what = kind::none;  ///< random: the recipe draws the signs; given: they are in spec
  transform_spec spec;     ///< random: its length and bf16 rounding; the signs are drawn when the recipe is bound

  constexpr transform_choice() = default;
  /// Without a seed, which the recipe derives.
  template <int n>
  consteval transform_choice(random_hadamard<n> h)
      : what(kind::random), spec{.n = n, .rounds_to_bf16 = h.rounds_to_bf16} {
    if (h.seed != 0) detail::a_recipe_derives_the_seeds_of_its_operands();
  }
  /// No signs.
  template <int n>
  constexpr transform_choice(hadamard<n> h) : what(kind::given), spec(h.spec()) {}
  /// Explicit signs.
  template <int n>
  constexpr transform_choice(signed_hadamard<n> h) : what(kind::given), spec(h.spec()) {}
};

/// {} (the default), scale_up{}, mx_floor{}, mx_even{}, mx_ceil{}, four_over_six{}, percentile{},
/// mse_search{} or mae_search{}; `{mx_ceil{}, mse_search{}}` searches around mx_ceil's scale.
struct rule_choice : ufp4::detail::scale_rule_spec {
  constexpr rule_choice() = default;
  /// One rule.
  template <ufp4::detail::builtin_scale_rule Rule>
  constexpr rule_choice(const Rule& rule) : ufp4::detail::scale_rule_spec(rule.spec()) {}
  /// A search near the scale of a rule.
  template <ufp4::detail::builtin_scale_rule Rule, ufp4::detail::search_policy Search>
  constexpr rule_choice(const Rule& rule, const Search& search) : ufp4::detail::scale_rule_spec(rule.spec()) {
    ufp4::detail::join_search(*this, search.spec());
  }
};

/// How one operand is quantized. The members take the policy objects that quantize takes:
///
///   operand_policy{.format = spec_of<nvfp4>, .rounding = stochastic{}, .transform = random_hadamard<16>{}}
///
/// A recipe derives its operands' seeds from its own seed, the step and the layer (numerics 7): a policy object with a
/// seed does not compile. Scale rules are the library's: a user's is code, not data. What does not go together (a rule
/// for another scale type, a transform with square blocks) is an error of the linear operations before they write.
struct operand_policy {
  format_spec format = {};  ///< `spec_of<nvfp4>`; its blocks extend along the GEMM's contraction axis
  bool quantized = true;    ///< false: the operand is rounded to bf16 and transformed; the other members do not apply
  rounding_choice rounding{};    ///< nearest_even by default
  transform_choice transform{};  ///< none by default
  rule_choice rule{};            ///< the default rule of the format
  /// MS-EDEN (quantize_ms_eden.hpp), in place of rounding and rule, which keep their defaults; nvfp4 and a transform.
  bool ms_eden = false;
};

/// The reduction over all processes that gives the amax of a whole operand from the amax of each process's part.
/// A collective: the calling thread calls it once for each operand with a tensor scale, also where a part has no
/// tokens, in the order of the table above (linear_forward: X, W, saved X^T).
struct amax_agreement {
  float (*amax)(void* state, float local_amax) = nullptr;  ///< returns the maximum of all local_amax
  void* state = nullptr;                                   ///< first argument of amax

  /// From a callable float(float), which must outlive the calls.
  template <class F>
  static amax_agreement of(F& f) {
    return {[](void* callable, float local_amax) -> float { return (*static_cast<F*>(callable))(local_amax); },
            const_cast<void*>(static_cast<const void*>(&f))};
  }
  explicit operator bool() const { return amax != nullptr; }  ///< was one given?
};

/// The place of a call's tokens. A span has one entry per part; an empty span means: first 0, total the part's own
/// tokens, parts 0, 1, 2 and so on. The spans' memory must outlive the calls.
struct token_shard {
  std::span<const std::size_t> first = {};   ///< the part's first token in the whole part; a multiple of 16
  std::span<const std::size_t> total = {};   ///< all tokens of the whole part; wgrad needs it where first is given
  std::span<const std::uint32_t> part = {};  ///< the part's number in the whole batch, below 65536; selects random bits
  amax_agreement tokens = {};                ///< of X and dY; needed where they have a tensor scale
  amax_agreement weights = {};               ///< of W, where its experts are on several processes and it has one
};

/// The two operands of a GEMM.
struct gemm_policy {
  operand_policy left;   ///< X, dY or dY^T
  operand_policy right;  ///< W, W^T or X^T
};

/// An operand's policy with its signs drawn and its seed derived.
struct bound_operand {
  operand_policy policy;     ///< as in the recipe
  transform_spec transform;  ///< as quantize takes it
  rounding_spec rounding;    ///< as quantize takes it
};

class bound_recipe;

/// The policies of all six operands and what they share. A plain aggregate: edit any member.
struct training_recipe {
  gemm_policy fprop, dgrad, wgrad;      ///< the GEMMs of the table above
  std::uint64_t seed = 0;               ///< of the random signs and of stochastic rounding
  bool redraw_signs_each_step = false;  ///< false: random signs depend on the layer and the GEMM, not on the step
  ufp4::accumulate accumulate = ufp4::accumulate::fast;  ///< of all three GEMMs

  /// The recipe at one training step of one layer, below 65536. The same arguments give the same bits on every rank.
  inline bound_recipe at(std::uint64_t step, std::uint32_t layer) const;

  /// Operand 0 .. 5 of the table above.
  constexpr const operand_policy& operand(int i) const {
    const gemm_policy& g = i < 2 ? fprop : i < 4 ? dgrad : wgrad;
    return i % 2 == 0 ? g.left : g.right;
  }
};

/// A recipe at a step of a layer: the argument of the linear operations.
class bound_recipe {
 public:
  /// What training_recipe::at makes.
  constexpr bound_recipe(const training_recipe& r, std::uint64_t step, std::uint32_t layer)
      : recipe_(r), step_(step), layer_(layer) {}

  constexpr const training_recipe& recipe() const { return recipe_; }  ///< what was bound
  constexpr std::uint64_t step() const { return step_; }               ///< training step
  constexpr std::uint32_t layer() const { return layer_; }             ///< number of the layer

  /// The same recipe for a call that holds a part of the batch (token_shard).
  constexpr bound_recipe shard(const token_shard& place) const {
    bound_recipe part = *this;
    part.shard_ = place;
    part.is_sharded_ = true;
    return part;
  }
  constexpr bool is_sharded() const { return is_sharded_; }      ///< was a token_shard given?
  constexpr const token_shard& shard() const { return shard_; }  ///< an empty one by default
  /// The number in the whole batch of the call's part e; e itself without token_shard::part.
  constexpr std::uint32_t part(std::uint32_t e) const { return e < shard_.part.size() ? shard_.part[e] : e; }

  /// Operand 0 .. 5 with its signs and its seed. The seed depends on the expert, the signs do not.
  constexpr bound_operand operand(int i, std::uint32_t expert = 0) const {
    bound_operand bound{recipe_.operand(i), recipe_.operand(i).transform.spec, {}};
    const transform_choice& choice = bound.policy.transform;
    if (choice.what == transform_choice::kind::none) bound.transform = {};
    if (choice.what == transform_choice::kind::random) {
      const std::uint64_t step = recipe_.redraw_signs_each_step ? step_ : 0;
      const std::uint64_t seed = derive(recipe_.seed, step, layer_, static_cast<std::uint32_t>(i / 2));
      bound.transform = transform_spec::random(choice.spec.n, seed);
      bound.transform.rounds_to_bf16 = choice.spec.rounds_to_bf16;
    }
    bound.rounding.what = bound.policy.rounding.what;
    const auto role = static_cast<std::uint32_t>(16 + i);
    bound.rounding.random_bits = {derive(recipe_.seed, step_, layer_ + (part(expert) << 16), role), 0};
    return bound;
  }

 private:
  training_recipe recipe_;
  std::uint64_t step_;
  std::uint32_t layer_;
  bool is_sharded_ = false;
  token_shard shard_;
};

inline bound_recipe training_recipe::at(std::uint64_t step, std::uint32_t layer) const { return {*this, step, layer}; }

}  // namespace ufp4::recipe::inline UFP4_TYPES
