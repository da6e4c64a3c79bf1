// ufp4 - Philox4x32-10: random bits as a pure function of a counter and a key.
// SPDX-License-Identifier: Apache-2.0
//
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Published vectors are tested.
#pragma once

#include <cstdint>
#include <ufp4/detail/bits.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// The input or the output of philox4x32: 128 bits.
struct philox_counter {
  std::uint32_t word[4];  ///< lowest word first
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

inline constexpr int philox_rounds = 10;                    ///< of philox4x32
inline constexpr std::uint32_t philox_step0 = 0x9E3779B9u;  ///< of k0 between rounds, a Weyl sequence: the golden ratio
inline constexpr std::uint32_t philox_step1 = 0xBB67AE85u;  ///< of k1: sqrt(3) - 1

/// One round.
UFP4_HD constexpr philox_counter philox_round(const philox_counter& c, std::uint32_t k0, std::uint32_t k1) {
  const std::uint64_t p0 = wide_product(0xD2511F53u, c.word[0]);
  const std::uint64_t p1 = wide_product(0xCD9E8D57u, c.word[2]);
  return {{static_cast<std::uint32_t>(p1 >> 32) ^ c.word[1] ^ k0, static_cast<std::uint32_t>(p1),
           static_cast<std::uint32_t>(p0 >> 32) ^ c.word[3] ^ k1, static_cast<std::uint32_t>(p0)}};
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// 128 random bits from ten rounds on (counter, key). The low word of the key is k0 of the paper.
UFP4_HD constexpr detail::philox_counter philox4x32(detail::philox_counter c, std::uint64_t key) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < detail::philox_rounds; ++round) {
    c = detail::philox_round(c, k0, k1);
    k0 += detail::philox_step0;
    k1 += detail::philox_step1;
  }
  return c;
}

}  // namespace ufp4::inline UFP4_CODE
