// ufp4 - token_shard: where the tokens of a linear_* call stand in a batch, so that they get the bits they have there.
// SPDX-License-Identifier: Apache-2.0
//
// What a process cannot know from its own tokens: how many tokens stand before them (random bits go by global index), which
// stream of random bits a part draws from, and the tensor amax of a two-level format. A call has parts: its experts, or the
// microbatches of linear_backward_weight_grouped, or both; one where there are no offsets.
//
//   recipe.at(step, layer).shard({.first = {&first, 1}, .tokens = amax_agreement::of(all_reduce_max)})
//
// | Y, dX | rows are the whole batch's rows, bit for bit, in every accumulate mode                                   |
// | dW    | of a part that is whole (first 0, total its tokens): the whole batch's dW of that part, bit for bit. Of  |
// |       | a part of a part: codes and scales are the whole's; the sum of such dW is rounded in another order       |
// | error | what does not fit is rejected before anything is written. A rank that is rejected exchanges nothing, so    |
// |       | the others wait for it: all of them need arguments that fit                                              |
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/config.hpp>

namespace ufp4::recipe::inline UFP4_TYPES {

/// How all who hold a part agree on a largest magnitude: each gives its own, all get the largest. A collective: it is
/// called once an operand with a tensor scale and by the caller's thread, even where a part has no tokens, in the order
/// of the table in recipe.hpp (linear_forward: X, W, saved X^T).
struct amax_agreement {
  float (*largest)(void* state, float here) = nullptr;
  void* state = nullptr;

  /// From a callable float(float), which must outlive the calls.
  template <class F>
  static amax_agreement of(F& f) {
    return {[](void* callable, float here) -> float { return (*static_cast<F*>(callable))(here); },
            const_cast<void*>(static_cast<const void*>(&f))};
  }
  explicit operator bool() const { return largest != nullptr; }
};

/// The place of a call's tokens. Spans have one entry a part; an empty one says: first 0, total the part's own tokens,
/// part 0, 1, 2 and so on. The spans' memory must outlive the calls.
struct token_shard {
  std::span<const std::size_t> first = {};   ///< the part's first token among all of that part; a multiple of 16
  std::span<const std::size_t> total = {};   ///< all tokens of that part: needed by wgrad where first is given
  std::span<const std::uint32_t> part = {};  ///< which part of the whole it is, below 65536: the random bits' stream
  amax_agreement tokens = {};                ///< needed where X or dY has a tensor scale
  amax_agreement weights = {};               ///< where W's experts lie in several places and W has a tensor scale
};

}  // namespace ufp4::recipe::inline UFP4_TYPES
