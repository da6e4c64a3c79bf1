// ufp4 - initial weights from counter-based random bits: a seed gives the same bits on every machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <ufp4/round/philox.hpp>

#include "matrix.hpp"

namespace train_lm {

/// A sum of 16 uniform 16-bit integers, scaled to mean 0 and variance 1: excess kurtosis -1.2 / 16, no value beyond 7
/// standard deviations. Unlike a normal quantile it does not depend on a C library's logarithm.
inline double nearly_normal(std::uint64_t seed, std::uint32_t stream, std::uint64_t i) {
  std::int64_t sum = 0;
  for (std::uint32_t half = 0; half < 2; ++half) {
    const auto words = ufp4::philox4x32(
        {{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), stream, 0x494E4954u + half}}, seed);
    for (const std::uint32_t w : words.word) sum += static_cast<std::int64_t>((w & 0xFFFF) + (w >> 16));
  }
  // 2 sum - 16 (2^16 - 1) has variance 4 * 16 (2^32 - 1) / 12
  return static_cast<double>(2 * sum - 16 * 65535) * std::sqrt(12.0 / (64.0 * 4294967295.0));
}

/// Parameter number `stream` of a model: elements in row-major order.
template <class T>
matrix<T> initial_weights(std::uint64_t seed, std::uint32_t stream, index rows, index cols, double deviation) {
  matrix<T> w(rows, cols);
  for (index i = 0; i < w.size(); ++i)
    w.data()[i] =
        static_cast<T>(static_cast<float>(deviation * nearly_normal(seed, stream, static_cast<std::uint64_t>(i))));
  return w;
}

}  // namespace train_lm
