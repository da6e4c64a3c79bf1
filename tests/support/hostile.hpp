// ufp4 - inputs that find mistakes: ties, signed zeros, subnormals, huge values, heavy tails, NaN and Inf.
// SPDX-License-Identifier: Apache-2.0
/// Every run of 16 values is of a kind of its own, so blocks differ from their neighbours. `all_magnitudes` includes
/// values from the smallest subnormal to the largest float: in a two-level format all other blocks then get a scale of
/// 0, so tests use both.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace support {

class hostile {
 public:
  explicit hostile(std::uint64_t seed) : gen_(seed) {}

  std::vector<float> values(std::size_t n, bool all_magnitudes = false, bool nonfinite = true) {
    std::vector<float> x(n);
    for (std::size_t i = 0; i < n; ++i) {
      if (i % 16 == 0) start_run(all_magnitudes);
      x[i] = next(all_magnitudes);
    }
    if (nonfinite && n != 0 && below(4) == 0) x[below(static_cast<std::uint32_t>(n))] = bits(not_finite[below(4)]);
    return x;
  }

  /// Uniform in [0, n).
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(gen_() % n); }

 private:
  static constexpr std::uint32_t not_finite[] = {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFA5A5A5u};

  static float bits(std::uint32_t b) { return std::bit_cast<float>(b); }
  void start_run(bool all_magnitudes) {
    kind_ = below(all_magnitudes ? 10 : 7);
    exponent_ = static_cast<int>(below(9)) - 4;
  }
  float signed_one() { return (gen_() & 1u) != 0 ? 1.0f : -1.0f; }

  float next(bool all_magnitudes) {
    switch (kind_) {
      case 0: return normal_(gen_);
      case 1: return normal_(gen_) * normal_(gen_) * normal_(gen_) * 8;                             // heavy tails
      case 2: return std::ldexp(signed_one() * static_cast<float>(below(64)) * 0.125f, exponent_);  // ties
      case 3: return below(3) == 0 ? 0.0f : -0.0f;
      case 4: return std::ldexp(signed_one(), exponent_ + static_cast<int>(below(4)));  // powers of 2,
      case 5: return bits(((124u + below(6)) << 23) + below(3) - 1u) * signed_one();    // an ulp off
      case 6: return below(16) == 0 ? normal_(gen_) * 100 : normal_(gen_) * 0.01f;      // outliers
      case 7: return bits(below(0x00900000u)) * signed_one();                           // subnormal
      case 8: return bits(0x7E000000u + below(0x01800000u)) * signed_one();             // huge
      default:
        return bits((static_cast<std::uint32_t>(gen_()) & 0x807FFFFFu) | below(all_magnitudes ? 255u : 1u) << 23);
    }
  }

  std::mt19937_64 gen_;
  std::normal_distribution<float> normal_;
  std::uint32_t kind_ = 0;
  int exponent_ = 0;
};

}  // namespace support
