// ufp4 - token_shard: the place of a call's tokens in a batch, so that a part of the batch gets the whole batch's bits.
// SPDX-License-Identifier: Apache-2.0
//
// A process that holds a part of a batch cannot derive three things from its own tokens: how many tokens come before
// them (stochastic rounding numbers its elements over the whole batch), which stream of random bits a part uses, and the
// amax of the whole operand, from which a two-level format's tensor scale follows. A call has one part per expert, or
// per microbatch of linear_backward_weight_grouped, or per expert and microbatch; without offsets it has one.
//
//   recipe.at(step, layer).shard({.first = {&first, 1}, .tokens = amax_agreement::of(all_reduce_max)})
//
// | Y, dX  | the rows are the whole batch's rows, bit for bit, in every accumulate mode                               |
// | dW     | of a whole part (first 0, total its tokens): the whole batch's dW of that part, bit for bit. Of a piece  |
// |        | of a part: codes and scales are the whole's; the sum of the pieces' dW is rounded in another order       |
// | errors | a token_shard that does not fit is rejected before anything is written or exchanged. The other ranks     |
// |        | then wait in the exchange: every rank must pass arguments that fit                                       |
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/config.hpp>

namespace ufp4::recipe::inline UFP4_TYPES {

/// The reduction over all processes that gives the amax of a whole operand from the amax of each process's part.
/// A collective: the calling thread calls it once for each operand with a tensor scale, also where a part has no tokens,
/// in the order of the table in recipe.hpp (linear_forward: X, W, saved X^T).
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

}  // namespace ufp4::recipe::inline UFP4_TYPES
