// ufp4 - the SQNR of Transformer Engine's Four Over Six: rows of docs/side_by_side.md that no scale rule gives.
// SPDX-License-Identifier: Apache-2.0
/// te_four_over_six random NAME        random numbers, as `ufp4 compare --random NAME`
/// te_four_over_six FILE:TENSOR...     matrices of .safetensors files; signal and noise are summed
///
/// Prints CSV, format,rht,sqnr_db: without a transform, then after a random Hadamard transform of 16 columns, of
/// te_nvfp4_four_over_six with absolute errors and the largest e4m3 scale 256, then 448 (ufp4/block/compat.hpp).
#include <cmath>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <ufp4/analysis/measure.hpp>
#include <vector>

#include "../../ufp4/random_transform.hpp"
#include "../random_matrix.hpp"
#include "../stored_matrix.hpp"

namespace {

using compare::matrix;

std::vector<matrix> matrices_of(const std::vector<std::string>& words) {
  std::vector<matrix> all;
  if (words.front() == "random" && words.size() == 2)
    all.push_back(compare::random_matrix(compare::checked_random_name(words.back()), 0));
  else
    for (const std::string& word : words) all.push_back(compare::read_safetensors(word, 0));
  return all;
}

/// Over all matrices, after a transform of n columns (0: none).
template <class Preset>
double sqnr_db(const std::vector<matrix>& matrices, std::uint64_t n) {
  double signal = 0, noise = 0;
  for (const matrix& m : matrices) {
    double energy = 0;
    for (const float v : m.values) energy += static_cast<double>(v) * static_cast<double>(v);
    const ufp4::matrix_view<const float> x(m.values.data(), m.rows, m.cols);
    const auto report = ufp4::analysis::measure<Preset>(x, tool::random_transform(n, 0));
    signal += energy;
    noise += energy / std::pow(10.0, report.sqnr_db / 10);
  }
  return 10 * std::log10(signal / noise);
}

template <int largest>
void print(const char* name, const std::vector<matrix>& matrices) {
  using preset = ufp4::compat::te_nvfp4_four_over_six<ufp4::search_error::absolute, largest>;
  for (const std::uint64_t n : {0u, 16u})
    std::cout << name << "," << n << "," << compare::fixed(sqnr_db<preset>(matrices, n), 6) << "\n";
}

}  // namespace

int main(int count, char** values) {
  const std::vector<std::string> words(values + 1, values + count);
  if (words.empty()) {
    std::cerr << "usage: te_four_over_six random NAME | FILE:TENSOR...\n";
    return 2;
  }
  try {
    const std::vector<matrix> matrices = matrices_of(words);
    std::cout << "format,rht,sqnr_db\n";
    print<256>("te_nvfp4_four_over_six", matrices);
    print<448>("te_nvfp4_four_over_six_448", matrices);
  } catch (const std::exception& error) {
    std::cerr << "te_four_over_six: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
