// ufp4 - Philox4x32-10: random bits as a pure function of a counter and a key.
// SPDX-License-Identifier: Apache-2.0
//
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Published vectors are tested.
#pragma once

#include <cstdint>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::inline UFP4_TYPES {

/// The input or the output of philox4x32: 128 bits.
struct philox_counter {
  std::uint32_t word[4];  ///< lowest word first
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::inline UFP4_CODE {

/// 128 random bits from ten rounds on (counter, key). The low word of the key is k0 of the paper.
UFP4_HD constexpr philox_counter philox4x32(philox_counter c, std::uint64_t key) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c.word[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c.word[2];
    c = {{static_cast<std::uint32_t>(p1 >> 32) ^ c.word[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c.word[3] ^ k1, static_cast<std::uint32_t>(p0)}};
    k0 += 0x9E3779B9u;  // Weyl sequence: the golden ratio
    k1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return c;
}

}  // namespace ufp4::inline UFP4_CODE
