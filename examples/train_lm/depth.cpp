// ufp4 - train_lm_depth: a table of the gain of quantized products over depth, for the study.
// SPDX-License-Identifier: Apache-2.0
// usage: train_lm_depth [DRAWS]        (2 to 1000, default 32; writes CSV to stdout)
#include <charconv>
#include <iostream>
#include <string>
#include <string_view>

#include "depth_gain.hpp"

namespace {

using train_lm::index;

const std::string recipes[] = {"ufp4", "ufp4-rht-none", "e2m1-rht-all", "e2m1-rht-none"};
constexpr index depths[] = {1, 2, 4, 8, 16, 32};

void write_draw(train_lm::stack_kind kind, bool outliers, std::uint64_t draw, train_lm::thread_pool& threads) {
  const auto all =
      train_lm::measure_depth({.kind = kind, .outliers = outliers, .draw = draw}, recipes, depths, threads);
  for (std::size_t r = 0; r < all.size(); ++r)
    for (const train_lm::depth_row& row : all[r])
      std::cout << (kind == train_lm::stack_kind::chain ? "chain" : "residual") << ","
                << (outliers ? "outliers" : "even") << "," << recipes[r] << "," << draw << "," << row.layers << ","
                << compare::shortest(row.gain, "") << "," << compare::shortest(row.cosine, "") << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  unsigned draws = 32;
  const std::string_view word = argc > 1 ? argv[1] : "32";
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), draws);
  if (argc > 2 || error != std::errc{} || end != word.data() + word.size() || draws < 2 || draws > 1000) {
    std::cerr << "train_lm_depth: DRAWS must be one number from 2 to 1000, got " << (argc > 2 ? "more words" : word)
              << "\n";
    return 2;
  }
  train_lm::thread_pool threads(1);
  std::cout << "stack,channels,recipe,draw,layers,gain,cosine\n";
  for (const auto kind : {train_lm::stack_kind::chain, train_lm::stack_kind::residual})
    for (const bool outliers : {false, true})
      for (unsigned draw = 1; draw <= draws; ++draw) write_draw(kind, outliers, draw, threads);
  return std::cout.flush() ? 0 : 1;
}
