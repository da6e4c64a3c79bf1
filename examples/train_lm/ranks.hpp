// ufp4 - ranks: what processes that train one model on parts of one batch agree on; here, the process that is alone.
// SPDX-License-Identifier: Apache-2.0
//
// A batch is a fixed number of microbatches, whatever the number of ranks. Rank r of R holds the r-th R-th of them,
// whole, and their gradients; everything else (parameters, optimizer, data order) every rank has and computes for
// itself. With gradients summed in microbatch order, every rank count trains the same bits.
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

  /// The largest of all ranks' numbers.
  virtual float largest(float here) { return here; }
  /// What every rank gives, rank after rank; each gives as many.
  virtual std::vector<std::uint64_t> gather(std::span<const std::uint64_t> here) { return {here.begin(), here.end()}; }
  virtual std::vector<double> gather(std::span<const double> here) { return {here.begin(), here.end()}; }
  /// The gradients of the whole batch, on every rank.
  virtual void sum(const microbatch_gradients<float>& here, std::vector<matrix<float>>& sums) {
    sum_in_order(here, sums);
  }
  /// This rank cannot go on: ends the others, which would wait for it. Not a collective.
  virtual void give_up(int /*exit_status*/) {}

  /// Whether it is so on any rank.
  bool any(bool here) { return largest(here ? 1.0f : 0.0f) != 0.0f; }

  /// What all ranks must have come to by themselves.
  void check_equal(std::string_view what, std::string_view here) {
    const std::uint64_t number = fingerprint{}.add(here).value();
    const std::vector<std::uint64_t> all = gather(std::span<const std::uint64_t>(&number, 1));
    for (std::size_t r = 1; r < all.size(); ++r)
      if (all[r] != all[0])
        throw std::runtime_error("rank " + std::to_string(r) + " and rank 0 differ in " + std::string(what) +
                                 ", so they do not train the same model");
  }
};

/// Ranks share a batch by whole microbatches.
inline void check_ranks(int count, index microbatches) {
  if (microbatches % count != 0)
    throw usage_error("--ranks " + std::to_string(count) + " does not divide --microbatches " +
                      std::to_string(microbatches) + ", by which ranks share a batch");
}

/// The microbatches that a rank holds: `each` from `first` on.
struct microbatch_share {
  index first, each;
};
inline microbatch_share share_of(const ranks& all, index microbatches) {
  check_ranks(all.count(), microbatches);
  const index each = microbatches / all.count();
  return {all.rank() * each, each};
}

}  // namespace train_lm
