// ufp4 - tests: train_lm's ranks, as threads of one process: two and four train the bits of one; what they reject.
// SPDX-License-Identifier: Apache-2.0
// ctest: threads
#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../../examples/train_lm/trainer.hpp"
#include "support/catch.hpp"

namespace train_lm_tests {

using namespace train_lm;
using train_lm::index;  // and not the one of <strings.h>
namespace {

/// Shared by the threads that act as ranks.
struct meeting {
  explicit meeting(int ranks) : count(ranks), all(ranks), given(static_cast<std::size_t>(ranks)) {}
  int count;
  std::barrier<> all;
  std::vector<const void*> given;  ///< the value of each rank, between two arrivals
};

class thread_rank final : public ranks {
 public:
  thread_rank(meeting& with, int rank) : with_(with), rank_(rank) {}
  int rank() const override { return rank_; }
  int count() const override { return with_.count; }

  float maximum(float here) override {
    float most = here;
    meet(&here, [&](const void* other) { most = std::max(most, *static_cast<const float*>(other)); });
    return most;
  }
  std::vector<std::uint64_t> gather(std::span<const std::uint64_t> here) override { return gather_any(here); }
  std::vector<double> gather(std::span<const double> here) override { return gather_any(here); }
  void sum(const microbatch_gradients<float>& here, std::vector<matrix<float>>& sums) override {
    sums.clear();
    meet(&here, [&](const void* other) {
      const auto& theirs = *static_cast<const microbatch_gradients<float>*>(other);
      for (std::size_t p = 0; p < theirs.stacked.size(); ++p)
        for (index m = 0; m < theirs.microbatches; ++m) {
          const index rows = theirs.stacked[p].rows() / theirs.microbatches;
          if (p == sums.size())
            sums.emplace_back(theirs.stacked[p].topRows(rows));
          else
            sums[p] += theirs.stacked[p].middleRows(m * rows, rows);
        }
    });
  }

 private:
  /// Calls use(value) with the value of each rank, in the order of the ranks.
  template <class Use>
  void meet(const void* here, const Use& use) {
    with_.given[static_cast<std::size_t>(rank_)] = here;
    with_.all.arrive_and_wait();
    for (const void* other : with_.given) use(other);
    with_.all.arrive_and_wait();
  }
  template <class T>
  std::vector<T> gather_any(std::span<const T> here) {
    std::vector<T> all;
    meet(&here, [&](const void* other) {
      const auto& theirs = *static_cast<const std::span<const T>*>(other);
      all.insert(all.end(), theirs.begin(), theirs.end());
    });
    return all;
  }

  meeting& with_;
  int rank_;
};

settings tiny(const std::string& recipe, index experts) {
  settings s;
  s.model = {.layers = 1, .width = 32, .heads = 2, .ffn = 48, .sequence = 32, .experts = experts};
  s.batch = 8, s.steps = 4, s.warmup = 1, s.lr = 1e-2, s.recipe = recipe;
  return s;
}

corpus some_text() {
  corpus text;
  for (std::uint32_t i = 0; i < 4096; ++i) text.train.push_back(static_cast<std::uint8_t>(i * i % 251 % 97 + 30));
  text.validation = text.train;
  return text;
}

struct trained {
  std::string hash;
  std::vector<double> losses;
};

trained train(const settings& run, const corpus& text, ranks& all) {
  thread_pool threads(1);
  trainer t(run, text, make_recipe(run.recipe, run.parts, run.seed), threads, all);
  trained result;
  while (!t.done()) result.losses.push_back(t.advance().train_loss);
  result.hash = t.hash();
  return result;
}

std::vector<trained> train_on(int count, const settings& run, const corpus& text) {
  meeting with(count);
  std::vector<trained> results(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      thread_rank here(with, r);
      results[static_cast<std::size_t>(r)] = train(run, text, here);
    });
  for (std::thread& t : threads) t.join();
  return results;
}

}  // namespace

TEST_CASE("two and four ranks train the model and report the losses of one, bit for bit", "[examples]") {
  const corpus text = some_text();
  for (const char* recipe : {"ufp4", "nvfp4", "mxfp4", "bf16"})
    for (const index experts : {0, 4}) {
      CAPTURE(recipe, experts);
      const settings run = tiny(recipe, experts);
      ranks alone;
      const trained one = train(run, text, alone);
      for (const int count : {2, 4})
        for (const trained& rank : train_on(count, run, text)) {
          CHECK(rank.hash == one.hash);
          CHECK(rank.losses == one.losses);
        }
    }
}

TEST_CASE("ranks share whole microbatches in order; a number of ranks that does not divide them is rejected",
          "[examples]") {
  meeting with(4);
  for (int r = 0; r < 4; ++r) {
    const microbatch_share share = share_of(thread_rank(with, r), 8);
    CHECK(share.first == 2 * r);
    CHECK(share.each == 2);
  }
  std::string message;
  try {
    share_of(thread_rank(with, 0), 6);
  } catch (const usage_error& e) {
    message = e.what();
  }
  CHECK(message == "--ranks must divide --microbatches, 6, got 4");
}

TEST_CASE("check_equal throws on every rank if one rank has another value", "[examples]") {
  meeting with(3);
  std::vector<std::string> messages(3);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      thread_rank here(with, r);
      here.check_equal("the text", "the same");
      try {
        here.check_equal("the trained model", r == 2 ? "another" : "one");
      } catch (const std::runtime_error& e) {
        messages[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& s : messages) CHECK(s == "ranks: the trained model differs between rank 0 and rank 2");
  ranks alone;
  CHECK(!alone.any(false));
  CHECK(alone.any(true));
}

}  // namespace train_lm_tests
