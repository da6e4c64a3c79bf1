// ufp4 - a training recipe as data: which policies each operand of a linear layer's three GEMMs is quantized under.
// SPDX-License-Identifier: Apache-2.0
//
// T tokens, K inputs, N outputs; each tensor is quantized anew for each GEMM, along that GEMM's contraction axis:
//
//   fprop  Y[T,N]  = X  W^T      operands 0: X     T x K    1: W     N x K
//   dgrad  dX[T,K] = dY W                 2: dY    T x N    3: W^T   K x N
//   wgrad  dW[N,K] = dY^T X               4: dY^T  N x T    5: X^T   K x T
//
// Edit any member for an ablation: r.wgrad.left.transform = {} turns RHT off there.
#pragma once

#include <cstdint>
#include <ufp4/block/block_format.hpp>
#include <ufp4/block/scale_rules.hpp>
#include <ufp4/hadamard/signs.hpp>
#include <ufp4/matrix/accumulate.hpp>
#include <ufp4/recipe/token_shard.hpp>
#include <ufp4/round/philox.hpp>
#include <ufp4/round/round_to_grid.hpp>

namespace ufp4::recipe::inline UFP4_CODE {

/// One of 2^64 seeds from a run's: words 0 (low) and 1 (high) of Philox4x32-10 on (step, layer, 0x52000000 + role), key
/// seed (numerics 7). Signs use roles 0, 1, 2; random bits 16 + operand.
constexpr std::uint64_t derive(std::uint64_t seed, std::uint64_t step, std::uint32_t layer, std::uint32_t role) {
  const philox_counter words = philox4x32(
      {{static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32), layer, 0x52000000u + role}}, seed);
  return words.word[0] | std::uint64_t{words.word[1]} << 32;
}

}  // namespace ufp4::recipe::inline UFP4_CODE

namespace ufp4::recipe::inline UFP4_TYPES {

/// Which transform an operand gets; both operands of a GEMM need the same.
struct transform_choice {
  enum class kind : std::uint8_t { none, random, given };
  kind what = kind::none;
  transform_spec spec;  ///< random: its length and bf16 rounding; the signs are drawn when the recipe is bound

  constexpr transform_choice() = default;
  template <int n>
  constexpr transform_choice(random_hadamard<n> h) : what(kind::random), spec(h.spec()) {}
  template <int n>
  constexpr transform_choice(hadamard<n> h) : what(kind::given), spec(h.spec()) {}
  template <int n>
  constexpr transform_choice(signed_hadamard<n> h) : what(kind::given), spec(h.spec()) {}
};

/// How one operand is quantized.
struct operand_policy {
  format_spec format = {};
  bool quantized = true;  ///< false: rounded to bf16 and nothing else; format, rule and rounding do not matter
  scale_rule_spec rule{};
  transform_choice transform{};
  rounding_spec::kind rounding = rounding_spec::kind::nearest_even;
};

struct gemm_policy {
  operand_policy left, right;
};

/// An operand's policies with their seeds.
struct bound_operand {
  operand_policy policy;
  transform_spec transform;
  rounding_spec rounding;
};

class bound_recipe;

struct training_recipe {
  gemm_policy fprop, dgrad, wgrad;
  std::uint64_t seed = 0;
  bool redraw_signs_each_step = false;
  ufp4::accumulate accumulate = ufp4::accumulate::fast;

  /// The recipe at one training step of one layer: the same arguments replay the same bits, on every rank.
  /// layer < 2^16.
  inline bound_recipe at(std::uint64_t step, std::uint32_t layer) const;

  /// By the numbers of the table above.
  constexpr const operand_policy& operand(int i) const {
    const gemm_policy& g = i < 2 ? fprop : i < 4 ? dgrad : wgrad;
    return i % 2 == 0 ? g.left : g.right;
  }
};

/// A recipe with its step and layer: what linear_* take.
class bound_recipe {
 public:
  constexpr bound_recipe(const training_recipe& r, std::uint64_t step, std::uint32_t layer)
      : recipe_(r), step_(step), layer_(layer) {}

  constexpr const training_recipe& recipe() const { return recipe_; }
  constexpr std::uint64_t step() const { return step_; }
  constexpr std::uint32_t layer() const { return layer_; }

  /// The same for a call that holds a part of the batch (recipe/token_shard.hpp).
  constexpr bound_recipe shard(const token_shard& place) const {
    bound_recipe part = *this;
    part.shard_ = place;
    part.is_sharded_ = true;
    return part;
  }
  constexpr bool is_sharded() const { return is_sharded_; }
  constexpr const token_shard& shard() const { return shard_; }
  /// Which part of the whole batch the call's part e is: its expert, where nothing else is said.
  constexpr std::uint32_t part(std::uint32_t e) const { return e < shard_.part.size() ? shard_.part[e] : e; }

  /// Operand 0 .. 5 with its signs and random bits. In a mixture of experts the random bits depend on the expert, the signs do not.
  constexpr bound_operand operand(int i, std::uint32_t expert = 0) const {
    bound_operand bound{recipe_.operand(i), recipe_.operand(i).transform.spec, {}};
    const transform_choice& choice = bound.policy.transform;
    if (choice.what == transform_choice::kind::none) bound.transform = {};
    if (choice.what == transform_choice::kind::random) {
      const std::uint64_t step = recipe_.redraw_signs_each_step ? step_ : 0;
      const std::uint64_t seed = derive(recipe_.seed, step, layer_, static_cast<std::uint32_t>(i / 2));
      bound.transform = ufp4::detail::random_signs(choice.spec.n, seed);
      bound.transform.rounds_to_bf16 = choice.spec.rounds_to_bf16;
    }
    bound.rounding.what = bound.policy.rounding;
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
