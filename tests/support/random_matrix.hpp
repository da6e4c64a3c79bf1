// ufp4 - a matrix<float> of finite values from the generator of support/hostile.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <ufp4/matrix/matrix.hpp>

#include "support/hostile.hpp"
#include "support/seed.hpp"

namespace support {

inline ufp4::matrix<float> random_matrix(std::uint64_t seed, std::size_t rows, std::size_t cols) {
  hostile source(support::seed(seed));
  const std::vector<float> values = source.values(rows * cols, false, false);
  ufp4::matrix<float> x(rows, cols);
  std::memcpy(x.data(), values.data(), values.size() * sizeof(float));
  return x;
}

}  // namespace support
