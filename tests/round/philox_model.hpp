// ufp4 - Philox4x32-10 written a second time, from the paper: what tests of random bits and signs compare with.
// SPDX-License-Identifier: Apache-2.0
/// Salmon, Moraes, Dror, Shaw, SC 2011, section 3.3: a round multiplies two of the four words, swaps halves and mixes
/// in the key, which a Weyl sequence bumps between rounds. Products are made of 16-bit digits here.
#pragma once

#include <array>
#include <cstdint>

namespace philox_model {

using words = std::array<std::uint32_t, 4>;

struct product {
  std::uint32_t high, low;
};

inline product multiply(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t a0 = a % 65536, a1 = a / 65536, b0 = b % 65536, b1 = b / 65536;
  const std::uint32_t low = a0 * b0, cross = a1 * b0, other = a0 * b1, high = a1 * b1;
  const std::uint32_t carry = (low / 65536 + cross % 65536 + other % 65536) / 65536;
  return {high + cross / 65536 + other / 65536 + carry, a * b};
}

inline words philox4x32_10(words counter, std::uint32_t key_low, std::uint32_t key_high) {
  for (std::uint32_t round = 0; round < 10; ++round) {
    const product left = multiply(0xD2511F53u, counter[0]), right = multiply(0xCD9E8D57u, counter[2]);
    const std::uint32_t k0 = key_low + round * 0x9E3779B9u, k1 = key_high + round * 0xBB67AE85u;
    counter = {right.high ^ counter[1] ^ k0, right.low, left.high ^ counter[3] ^ k1, left.low};
  }
  return counter;
}

}  // namespace philox_model
