// ufp4 - matrices of random numbers by name: the data of docs/side_by_side.md.
// SPDX-License-Identifier: Apache-2.0
/// 256 x 1024 numbers, the same in every run. The distributions are computed here from the bits of std::mt19937_64,
/// because those of the standard library differ between libraries.
///
/// | gauss    | independent numbers of mean 0 and variance 1                                    |
/// | laplace  | the same of density exp(-|x|) / 2                                               |
/// | t5       | the same of Student's t distribution with 5 degrees of freedom                  |
/// | outliers | those of gauss, with columns 3, 19, 35, ... (one of each 16) multiplied by 20   |
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "../common/arguments.hpp"
#include "matrix.hpp"

namespace compare {

inline constexpr std::array<std::string_view, 4> random_names{"gauss", "laplace", "t5", "outliers"};

namespace detail {

/// Numbers of the distributions, from one generator.
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) : bits_(seed) {}

  /// Box and Muller's transform, one of its two numbers.
  double gauss() {
    constexpr double two_pi = 6.283185307179586;
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(two_pi * uniform());
  }
  double laplace() {
    const double u = uniform();
    return u < 0.5 ? std::log(2 * u) : -std::log(2 * (1 - u));
  }
  double student_t(int degrees) {
    const double x = gauss();
    double squares = 0;
    for (int i = 0; i < degrees; ++i) {
      const double g = gauss();
      squares += g * g;
    }
    return x / std::sqrt(squares / degrees);
  }

 private:
  /// In (0, 1): 53 bits, at the middle of their intervals.
  double uniform() { return (static_cast<double>(bits_() >> 12) + 0.5) * 0x1p-52; }
  std::mt19937_64 bits_;
};

}  // namespace detail

/// At most `row_limit` rows (0: all) of the matrix of that name, one of random_names.
inline matrix random_matrix(std::string_view name, std::size_t row_limit) {
  constexpr std::size_t rows = 256, cols = 1024;
  detail::random_numbers random(1);
  std::vector<float> all;
  all.reserve(rows * cols);
  for (std::size_t i = 0; i < rows * cols; ++i) {
    const double x = name == "laplace" ? random.laplace() : name == "t5" ? random.student_t(5) : random.gauss();
    all.push_back(static_cast<float>(name == "outliers" && i % 16 == 3 ? 20 * x : x));
  }
  const std::size_t used = rows_used(rows, row_limit);
  matrix m{std::string(name) + ", random numbers, " + std::to_string(used) + " of 256 rows", used, cols, {}};
  for (std::size_t i = 0; i < used; ++i) {
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(spaced_row(i, used, rows) * cols);
    m.values.insert(m.values.end(), row, row + static_cast<std::ptrdiff_t>(cols));
  }
  return m;
}

/// The name if it is one of random_names; common::usage_error otherwise.
inline std::string checked_random_name(const std::string& name) {
  std::string names;
  for (const std::string_view known : random_names) {
    if (name == known) return name;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  throw common::usage_error("--random takes " + names + ", not " + printable(name));
}

}  // namespace compare
