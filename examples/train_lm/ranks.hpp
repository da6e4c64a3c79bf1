// ufp4 - ranks: communication between processes that train one model on parts of one batch; here, for one process.
// SPDX-License-Identifier: Apache-2.0
//
// A batch has a fixed number of microbatches, which does not depend on the number of ranks. Each rank holds an equal
// number of whole, consecutive microbatches and their gradients. Every rank has all parameters and the whole optimizer
// state. Gradients are summed in microbatch order, so that every number of ranks trains the same bits.
//
// Every member function but rank() and count() is a collective: all ranks call it, in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "errors.hpp"
#include "fingerprint.hpp"
#include "matrix.hpp"

namespace train_lm {

class ranks {
 public:
  ranks() = default;
  ranks(const ranks&) = delete;
  ranks& operator=(const ranks&) = delete;
  virtual ~ranks() = default;

  virtual int rank() const { return 0; }
  virtual int count() const { return 1; }

  /// The maximum over all ranks.
  virtual float maximum(float here) { return here; }
  /// The values of all ranks, in the order of the ranks; each rank gives as many.
  virtual std::vector<std::uint64_t> gather(std::span<const std::uint64_t> here) { return {here.begin(), here.end()}; }
  virtual std::vector<double> gather(std::span<const double> here) { return {here.begin(), here.end()}; }
  /// The gradients of the whole batch, on every rank.
  virtual void sum(const microbatch_gradients<float>& here, std::vector<matrix<float>>& sums) {
    sum_in_order(here, sums);
  }
  /// Ends the other ranks, which would wait for this one after an error. Not a collective.
  virtual void give_up(int /*exit_status*/) {}

  /// Is it true on any rank?
  bool any(bool here) { return maximum(here ? 1.0f : 0.0f) != 0.0f; }

  /// Throws std::runtime_error if the ranks have different values.
  void check_equal(std::string_view what, std::string_view here) {
    const std::uint64_t number = fingerprint{}.add(here).value();
    const std::vector<std::uint64_t> all = gather(std::span<const std::uint64_t>(&number, 1));
    for (std::size_t r = 1; r < all.size(); ++r)
      if (all[r] != all[0])
        throw std::runtime_error("ranks: " + std::string(what) + " differs between rank 0 and rank " +
                                 std::to_string(r));
  }
};

/// Each rank holds the same number of microbatches.
inline void check_ranks(int count, index microbatches) {
  if (microbatches % count != 0)
    throw usage_error("--ranks must divide --microbatches, " + std::to_string(microbatches) + ", got " +
                      std::to_string(count));
}

/// The microbatches of a rank: first, ..., first + each - 1.
struct microbatch_share {
  index first, each;
};
inline microbatch_share share_of(const ranks& all, index microbatches) {
  check_ranks(all.count(), microbatches);
  const index each = microbatches / all.count();
  return {all.rank() * each, each};
}

}  // namespace train_lm
