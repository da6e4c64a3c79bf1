// ufp4 - torch_linear as a function of its arguments and output streams.
// SPDX-License-Identifier: Apache-2.0
/// | exit status | meaning                                      |
/// |-------------|----------------------------------------------|
/// | 0           | every check passed                           |
/// | 1           | a check failed: its line ends in FAILED      |
/// | 2           | wrong usage: one message on `err`            |
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../common/arguments.hpp"
#include "checks.hpp"
#include "training.hpp"

namespace torch_linear {

inline constexpr const char* help_text =
    R"(torch_linear - checks the gradients of ufp4_linear, a torch::nn::Linear in 4 bits, and trains a toy network.

usage: torch_linear [OPTION]...

  --recipe NAME   bf16, ufp4, ufp4-int4, nv-uniform, e2m1-baseline, nvfp4, te-four-over-six, quartet2,
                  tetrajet2, if4 or hif4
                  (default: all of them)
  --steps N       of the training (default 300; 0 leaves it out)
  --seed N        of data, weights, signs and random bits (default 1)
  --threads N     torch's (default: torch's own choice)
  --help

"y / bound" is the highest difference from torch's matmul in double of the decoded operands, divided by the bound of
docs/numerics.md; it must be 1 or less. Training must halve the loss.

examples
  torch_linear
  torch_linear --recipe nvfp4 --steps 1000

exit status: 0 every check passed; 1 a check failed; 2 wrong usage
)";

struct program_options {
  std::vector<std::string> recipes;
  std::int64_t steps = 300;
  std::uint64_t seed = 1;
  bool show_help = false;
};

namespace detail {

inline program_options parse(int count, const char* const* values) {
  program_options o;
  for (common::arguments rest(count, values, "--"); !rest.empty();) {
    const std::string flag = rest.next();
    if (flag == "--help" || flag == "-h")
      o.show_help = true;
    else if (flag == "--recipe")
      o.recipes.push_back(rest.value(flag));
    else if (flag == "--steps")
      o.steps = static_cast<std::int64_t>(rest.number(flag, 0, 1'000'000));
    else if (flag == "--seed")
      o.seed = rest.number(flag, 0, UINT64_MAX);
    else if (flag == "--threads")
      at::set_num_threads(static_cast<int>(rest.number(flag, 1, 1024)));
    else
      common::reject_argument(flag);
  }
  for (const std::string& name : o.recipes) {
    try {
      recipe_named(name, 1);
    } catch (const std::invalid_argument&) {
      throw common::usage_error("--recipe " + ufp4::interop::printable(name) + " is not a recipe; --help lists them");
    }
  }
  if (o.recipes.empty())
    for (const named_recipe& r : named_recipes) o.recipes.emplace_back(r.name);
  return o;
}

/// A table's line: a name and its cells.
inline void line(std::ostream& out, std::string name, const std::vector<std::string>& cells) {
  name.resize(std::max<std::size_t>(name.size() + 1, 28), ' ');
  out << "  " << name;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t width = i + 1 < cells.size() ? i == 0 ? 16 : 12 : 0;  // no spaces at the end
    out << cells[i] << std::string(width > cells[i].size() ? width - cells[i].size() : 0, ' ');
  }
  out << "\n";
}
inline std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}
inline std::string verdict(bool holds) { return holds ? "ok" : "FAILED"; }

inline bool check_gradients(const program_options& o, std::ostream& out) {
  const difference_check differences = check_by_differences(o.seed);
  bool all = differences.wrong == 0;
  out << "gradients by central differences, recipe bf16: " << differences.places - differences.wrong << " of "
      << differences.places << " equal, " << verdict(all) << "\n\n"
      << "gradients by definition\n";
  line(out, "recipe", {"bits", "y / bound", "dx / bound", "dw / bound"});
  for (const std::string& name : o.recipes) {
    const definition_check c = check_by_definition(recipe_named(name, o.seed), o.seed);
    line(out, name,
         {c.same_bits ? "the operations'" : "others", digits(c.y), digits(c.dx), digits(c.dw), verdict(c.holds())});
    all = all && c.holds();
  }
  return all;
}

inline bool train_all(const program_options& o, std::ostream& out) {
  out << "\ntraining: 32-64-8, " << o.steps << " steps of Adam on 128 of 2048 points\n";
  line(out, "layers", {"loss before", "loss after"});
  const toy_task task(o.seed);
  bool all = true;
  const auto report = [&](const std::string& name, const losses& l) {
    const bool learned = l.after < l.before / 2;
    line(out, name, {digits(l.before), digits(l.after), verdict(learned)});
    all = all && learned;
  };
  report("torch::nn::Linear",
         train(make_mlp(o.seed, [](auto k, auto n) { return torch::nn::Linear(k, n); }), task, o.steps));
  for (const std::string& name : o.recipes) {
    auto mlp = make_mlp(o.seed, [](auto k, auto n) { return ufp4_linear(k, n); });
    use_recipe(*mlp, recipe_named(name, o.seed));
    report("ufp4_linear " + name, train(mlp, task, o.steps));
  }
  return all;
}

}  // namespace detail

inline int run_program(int count, const char* const* values, std::ostream& out, std::ostream& err) {
  try {
    const program_options o = detail::parse(count, values);
    if (o.show_help) {
      out << help_text;
      return 0;
    }
    const bool gradients = detail::check_gradients(o, out), trained = o.steps == 0 || detail::train_all(o, out);
    return gradients && trained ? 0 : 1;
  } catch (const common::usage_error& e) {
    err << "torch_linear: " << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    err << "torch_linear: " << e.what() << "\n";
    return 1;
  }
}

}  // namespace torch_linear
