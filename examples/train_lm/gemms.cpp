// ufp4 - train_lm_gemms: tables of the bias and the error of the GEMMs of every recipe, on tensors of a trained model.
// SPDX-License-Identifier: Apache-2.0
// usage: train_lm_gemms [DRAWS]        (8 to 10000, default 64; writes Markdown to stdout)
//
// Trains the model of the size nano under bf16 for its 150 steps, and takes X, W and dY of its linear layers from the
// batch of the next step.
#include <charconv>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

#include "gemm_errors.hpp"
#include "settings.hpp"
#include "trainer.hpp"

namespace {

using train_lm::estimate;

/// In percent with two decimals, such as 9.81 [9.79, 9.83]; an estimate whose interval has no width is one number.
std::string percent(const estimate& e) {
  const auto number = [](double x) { return compare::fixed(100 * x, 2); };
  const std::string value = number(e.value), low = number(e.low), high = number(e.high);
  return low == high ? value : value + " [" + low + ", " + high + "]";
}

std::vector<train_lm::captured_linear> captured(train_lm::thread_pool& threads) {
  train_lm::settings run;
  train_lm::choose_size(run, "nano", false);
  run.recipe = "bf16", run.warmup = run.steps / 10;
  const train_lm::corpus text = train_lm::read_standard_headers(static_cast<std::size_t>(run.model.sequence));
  train_lm::ranks alone;
  train_lm::trainer trainer(run, text, ufp4::recipe::bf16_recipe(1), threads, alone);
  while (!trainer.done()) trainer.advance();
  return trainer.capture();
}

void write_tables(std::size_t draws) {
  train_lm::thread_pool threads;
  const auto layers = captured(threads);
  std::vector<std::array<train_lm::gemm_error, 3>> found;
  for (const auto& r : ufp4::recipe::named_recipes)
    found.push_back(train_lm::measure_gemms(r.make(1), layers, 150, draws, threads));
  constexpr const char* gemms[] = {"fprop", "dgrad", "wgrad"};
  for (std::size_t g = 0; g < 3; ++g) {
    std::cout << (g == 0 ? "" : "\n") << "| " << gemms[g]
              << " | error, % | bias, % | gain, % |\n|---|---:|---:|---:|\n";
    for (std::size_t r = 0; r < found.size(); ++r) {
      const train_lm::gemm_error& e = found[r][g];
      std::cout << "| `" << ufp4::recipe::named_recipes[r].name << "` | " << percent(e.error) << " | "
                << percent(e.bias) << " | " << percent(e.gain) << " |\n";
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  unsigned draws = 64;
  const std::string_view word = argc > 1 ? argv[1] : "64";
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), draws);
  if (argc > 2 || error != std::errc{} || end != word.data() + word.size() || draws < 8 || draws > 10000) {
    std::cerr << "train_lm_gemms: DRAWS must be one number from 8 to 10000, got " << (argc > 2 ? "more words" : word)
              << "\n";
    return 2;
  }
  try {
    write_tables(draws);
  } catch (const std::exception& e) {
    std::cerr << "train_lm_gemms: " << e.what() << "\n";
    return 1;
  }
  return std::cout.flush() ? 0 : 1;
}
