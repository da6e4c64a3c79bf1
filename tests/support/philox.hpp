// ufp4 - a second implementation of Philox4x32-10, from the paper: the reference of all tests of random bits and signs.
// SPDX-License-Identifier: Apache-2.0
//
// Salmon, Moraes, Dror, Shaw, SC 2011, section 3.3: a round multiplies two of the four words, exchanges their halves
// and adds the key by exclusive or; between rounds a Weyl sequence increments the key. To be independent of
// round/philox.hpp, products are computed from 16-bit digits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace model {

struct product64 {
  std::uint32_t high, low;
};

inline product64 multiply(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t a0 = a % 65536, a1 = a / 65536, b0 = b % 65536, b1 = b / 65536;
  const std::uint32_t low = a0 * b0, cross = a1 * b0, other = a0 * b1, high = a1 * b1;
  const std::uint32_t carry = (low / 65536 + cross % 65536 + other % 65536) / 65536;
  return {high + cross / 65536 + other / 65536 + carry, a * b};
}

inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint64_t key) {
  const auto key_low = static_cast<std::uint32_t>(key % 0x100000000u);
  const auto key_high = static_cast<std::uint32_t>(key / 0x100000000u);
  for (std::uint32_t round = 0; round < 10; ++round) {
    const product64 left = multiply(0xD2511F53u, counter[0]), right = multiply(0xCD9E8D57u, counter[2]);
    const std::uint32_t k0 = key_low + round * 0x9E3779B9u, k1 = key_high + round * 0xBB67AE85u;
    counter = {right.high ^ counter[1] ^ k0, right.low, left.high ^ counter[3] ^ k1, left.low};
  }
  return counter;
}

/// The 16 random bits of element `index`: section 3 of the numerical specification.
inline std::uint32_t random_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x % 0x100000000u); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x / 0x100000000u); };
  const auto words = philox({low(index / 8), high(index / 8), low(stream), high(stream)}, seed);
  const std::uint32_t word = words[index % 8 / 2];
  return index % 2 == 0 ? word % 65536 : word / 65536;
}

/// Whether sign j of random_hadamard{seed} is negative (section 4): bit j mod 32 of word j/32 mod 4 of the counter
/// (j/128, 0, 0, 0x52485434).
inline bool random_sign(std::uint64_t seed, std::uint32_t j) {
  return (philox({j / 128, 0, 0, 0x52485434u}, seed)[j / 32 % 4] >> (j % 32) & 1u) != 0;
}

}  // namespace model
