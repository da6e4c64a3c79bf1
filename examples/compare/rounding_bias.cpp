// ufp4 - the gain of every preset under every scale rule and rounding policy: the tables of docs/bias.md.
// SPDX-License-Identifier: Apache-2.0
/// rounding_bias [BATCHES]     2 or more of 65,536 numbers each; 160 by default, as on the page
///
/// Prints Markdown. The gain is sum(x q) / sum(x x) over all batches, x what is quantized (after the transform, if
/// there is one), q the decoded values. Every batch has its own seeds and its own tensor scale. The last table is of
/// single vectors, 1,600 times a batch, each time with other signs.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <ufp4/ufp4.hpp>
#include <utility>
#include <vector>

#include "../ufp4/random_transform.hpp"
#include "random_matrix.hpp"
#include "text.hpp"

namespace {

constexpr std::size_t rows = 64, cols = 1024;
using batch = ufp4::matrix_view<const float>;

struct outcome {
  double gain = 0;
  double saturated = 0;  ///< share of the elements
};
/// Quantizes a batch; the seed is that of random bits and of random signs.
using quantizer = std::function<outcome(const batch& x, std::uint64_t seed)>;

/// What a row of a table is called, and its quantizers, one for each column.
struct table_row {
  std::string head;
  std::vector<quantizer> of;
};

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// Of a matrix that was quantized after a transform. Saturation is not counted.
template <class Quantized>
outcome outcome_of(const batch& x, const ufp4::transform_spec& transform, const Quantized& q) {
  std::vector<float> exact(rows * cols), decoded(rows * cols);
  ufp4::hadamard_forward(x, ufp4::matrix_view<float>(exact.data(), rows, cols), transform);
  ufp4::dequantize(q, ufp4::matrix_view<float>(decoded.data(), rows, cols));
  return {dot(exact, decoded) / dot(exact, exact)};
}

/// A row for each preset and scale rule. The int4 presets have the values of the E1M2 ones, and no rows.
std::vector<table_row> rows_of_rules(const std::vector<ufp4::rounding_spec>& roundings) {
  const std::array<std::pair<const char*, ufp4::scale_rule_spec>, 8> rules{{
      {"default", {}},
      {"`scale_up`", ufp4::scale_up{}.spec()},
      {"`mx_even`", ufp4::mx_even{}.spec()},
      {"`mx_ceil`", ufp4::mx_ceil{}.spec()},
      {"`percentile{900}`", ufp4::percentile{900}.spec()},
      {"`mse_search`", ufp4::mse_search{}.spec()},
      {"`mae_search`", ufp4::mae_search{}.spec()},
      {"`four_over_six`", ufp4::four_over_six{}.spec()},
  }};
  std::vector<table_row> all;
  ufp4::detail::for_every_preset([&](auto preset) {
    const std::string name = preset.name;
    if (name.find("int4") != std::string::npos) return;
    for (const auto& [rule_name, rule] : rules) {
      if (ufp4::detail::rule_mismatch(rule, preset.spec) != nullptr) continue;
      all.push_back({"`" + name + "` | " + rule_name, {}});
      for (const ufp4::rounding_spec& rounding : roundings)
        all.back().of.push_back([=, chosen = rule](const batch& x, std::uint64_t seed) {
          ufp4::rounding_spec seeded = rounding;
          seeded.random_bits.seed = seed;
          const auto report = ufp4::analysis::measure(preset.spec, x, seeded, chosen);
          return outcome{report.attenuation, report.saturation_rate};
        });
    }
  });
  return all;
}

/// Estimates that correct scales after a transform.
std::vector<table_row> rows_of_corrected_scales() {
  std::vector<table_row> all;
  for (const std::uint64_t n : {16u, 32u, 64u, 128u, 256u})
    all.push_back({"`nvfp4` | `quantize_ms_eden`, n = " + std::to_string(n), {[n](const batch& x, std::uint64_t seed) {
                     const ufp4::transform_spec signs = tool::random_transform(n, seed);
                     return outcome_of(x, signs, ufp4::quantize_ms_eden(x, signs, ufp4::stochastic{.seed = seed}));
                   }}});
  ufp4::detail::for_every_preset([&](auto preset) {
    const std::string name = preset.name;
    if (name.find("int4") != std::string::npos) return;
    all.push_back({"`" + name + "` | `eden`, n = 128", {[=](const batch& x, std::uint64_t seed) {
                     const ufp4::transform_spec signs = tool::random_transform(128, seed);
                     return outcome_of(x, signs, ufp4::quantize(preset.spec, x, signs, ufp4::eden{.seed = seed}));
                   }}});
  });
  return all;
}

/// The outcomes of all batches for one cell of a table.
class cell {
 public:
  /// xx: sum(x x) of the batch.
  void add(const outcome& o, double xx) {
    outcomes_.push_back({o.gain - 1, xx});
    weight_ += xx;
    saturated_ += o.saturated;
  }
  std::string percent_saturated() const {
    return compare::fixed(100 * saturated_ / static_cast<double>(outcomes_.size()), 2);
  }
  /// The gain less 1 and its standard error, in 10^-4; bold if it is within 4 of them.
  std::string gain() const {
    double mean = 0, squares = 0;
    for (const auto& [gain, xx] : outcomes_) mean += gain * xx / weight_;
    for (const auto& [gain, xx] : outcomes_) squares += std::pow((gain - mean) * xx / weight_, 2);
    const double count = static_cast<double>(outcomes_.size()), error = std::sqrt(squares * count / (count - 1));
    const std::string text = compare::fixed(1e4 * mean, 2) + " ± " + compare::fixed(1e4 * error, 2);
    return std::abs(mean) <= 4 * error ? "**" + text + "**" : text;
  }

 private:
  std::vector<std::pair<double, double>> outcomes_;  ///< gain - 1 and xx
  double weight_ = 0, saturated_ = 0;
};

/// A distribution of numbers by its name in the tables.
std::vector<float> numbers(std::string_view data, std::uint64_t seed) {
  compare::detail::random_numbers random(seed);
  std::vector<float> all(rows * cols);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double x = data == "t(3)" ? random.student_t(3) : random.gauss();
    all[i] = static_cast<float>(data == "outliers" && i % 16 == 3 ? 20 * x : x);
  }
  return all;
}

/// Appends the columns of a distribution to the lines of a table: the saturated elements of the first quantizer, if
/// `saturated`, and the gains of all.
void add_columns(const std::vector<table_row>& table, std::string_view data, std::uint64_t batches, bool saturated,
                 std::vector<std::string>& lines) {
  std::vector<std::vector<cell>> cells;
  for (const table_row& row : table) cells.emplace_back(row.of.size());
  for (std::uint64_t seed = 1; seed <= batches; ++seed) {
    const std::vector<float> x = numbers(data, seed);
    const double xx = dot(x, x);
    for (std::size_t r = 0; r < table.size(); ++r)
      for (std::size_t c = 0; c < table[r].of.size(); ++c)
        cells[r][c].add(table[r].of[c](batch(x.data(), rows, cols), seed), xx);
  }
  for (std::size_t r = 0; r < table.size(); ++r) {
    if (saturated) lines[r] += " " + cells[r].front().percent_saturated() + " |";
    for (const cell& c : cells[r]) lines[r] += " " + c.gain() + " |";
  }
}

/// head: the heads of the columns, of the first and then of all.
void print_table(const std::string& title, const std::string& head, const std::vector<table_row>& table,
                 const std::vector<std::string_view>& data, std::uint64_t batches, bool saturated) {
  std::vector<std::string> lines;
  for (const table_row& row : table) lines.push_back("| " + row.head + " |");
  for (const std::string_view name : data) add_columns(table, name, batches, saturated, lines);
  std::cout << "\n" << title << "\n\n" << head << "\n|---|---|";
  for (std::size_t i = 3; i < static_cast<std::size_t>(std::count(head.begin(), head.end(), '|')); ++i)
    std::cout << "---:|";
  std::cout << "\n";
  for (const std::string& line : lines) std::cout << line << "\n";
}

/// |E[q] - x| / |x| in percent under eden after random_hadamard<n>, n the length of x: of the squared length, the mean
/// of the products of two batches, in which their noise has the mean 0. Or below what the noise would hide.
std::string element_bias(const ufp4::format_spec& f, std::vector<float>& x, std::uint64_t batches) {
  constexpr int draws = 1600;
  const std::size_t n = x.size();
  const ufp4::matrix_view<const float> row(x.data(), 1, n);
  std::vector<float> q(n);
  const ufp4::matrix_view<float> decoded(q.data(), 1, n);
  std::vector<double> total(n), squares(n), mean(n);
  for (std::uint64_t seed = 1; seed <= batches * draws; ++seed) {
    const ufp4::transform_spec signs = tool::random_transform(n, seed);
    ufp4::dequantize(ufp4::quantize(f, row, signs, ufp4::eden{.seed = seed}), decoded);
    ufp4::hadamard_inverse(decoded, decoded, signs);
    for (std::size_t i = 0; i < n; ++i) mean[i] += (static_cast<double>(q[i]) - static_cast<double>(x[i])) / draws;
    if (seed % draws != 0) continue;
    for (std::size_t i = 0; i < n; ++i) total[i] += mean[i], squares[i] += mean[i] * mean[i], mean[i] = 0;
  }
  const double pairs = static_cast<double>(batches * (batches - 1));
  double square = 0, noise = 0;  // noise: of uncorrelated elements, the variance of `square`
  for (std::size_t i = 0; i < n; ++i) {
    square += (total[i] * total[i] - squares[i]) / pairs;
    noise += 2 * std::pow((squares[i] - total[i] * total[i] / static_cast<double>(batches)) / pairs, 2);
  }
  const double shown = 4 * std::sqrt(noise), xx = dot(x, x);
  const std::string limit = compare::fixed(std::ceil(1e4 * std::sqrt(shown / xx)) / 100, 2);
  return square < shown ? "< " + limit : compare::fixed(100 * std::sqrt(square / xx), 2);
}

void print_element_biases(std::uint64_t batches) {
  std::cout
      << "\nSingle elements under `eden` after `random_hadamard<n>`, |E[q] - x| / |x| in percent:\n\n"
         "| format | n | Gaussian x | one element times 30 | x = (4, 1, .3, 0, 0, ...) |\n|---|---|---:|---:|---:|\n";
  for (const auto& [name, f] :
       {std::pair{"e2m1_f32", ufp4::spec_of<ufp4::e2m1_f32>}, std::pair{"e1m2_f32", ufp4::spec_of<ufp4::e1m2_f32>}})
    for (const std::size_t n : {16u, 64u, 128u, 256u}) {
      std::vector<float> gauss = numbers("Gauss", n), few(n);
      gauss.resize(n);
      std::vector<float> outlier = gauss;
      outlier[0] *= 30;
      few[0] = 4, few[1] = 1, few[2] = 0.3f;
      std::cout << "| `" << name << "` | " << n;
      for (std::vector<float>* x : {&gauss, &outlier, &few}) std::cout << " | " << element_bias(f, *x, batches);
      std::cout << " |\n";
    }
}

}  // namespace

int main(int count, char** values) {
  using namespace ufp4;
  const std::uint64_t batches = count > 1 ? std::strtoull(values[1], nullptr, 10) : 160;
  if (batches < 2 || count > 2) {
    std::cerr << "usage: rounding_bias [BATCHES], 2 or more\n";
    return 2;
  }
  print_table("Gaussian numbers:",
              "| format | scale rule | saturated, % | `nearest_even` | `nearest_away` | `toward_zero` | `stochastic` |",
              rows_of_rules({nearest_even{}, nearest_away{}, toward_zero{}, stochastic{}}), {"Gauss"}, batches, true);
  print_table("Student's t with 3 degrees of freedom, and Gaussian numbers with outliers:",
              "| format | scale rule | t(3): saturated, % | `nearest_even` | `stochastic` | outliers: saturated, % "
              "| `nearest_even` | `stochastic` |",
              rows_of_rules({nearest_even{}, stochastic{}}), {"t(3)", "outliers"}, batches, true);
  print_table("Corrected scales, after `random_hadamard<n>`:", "| format | operation | Gauss | t(3) | outliers |",
              rows_of_corrected_scales(), {"Gauss", "t(3)", "outliers"}, batches, false);
  print_element_biases(batches);
  return 0;
}
