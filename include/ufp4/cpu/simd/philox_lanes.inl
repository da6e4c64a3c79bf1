// ufp4 - Philox4x32-10 in lanes, one counter for each lane: the one body for all CPU instruction sets.
// SPDX-License-Identifier: Apache-2.0
//
// philox4x32 of round/philox.hpp is the reference. Included by avx512.hpp, avx2.hpp and neon.hpp, inside their target
// regions and namespaces, which define:
//
// | philox_word, philox_parts | words as they are multiplied: some instruction sets keep the lanes in two parts   |
// | part_of(v, part)          | one part of the words of all lanes                                                |
// | join_parts(part, ...)     | all lanes again                                                                   |
// | multiply(a, b, high, low) | the upper and the lower half of each product                                      |
// | xor_all(a, b, c)          | a ^ b ^ c                                                                         |

/// The keys of all rounds, two a round, in order.
struct philox_keys {
  std::uint32_t word[20] = {};

  philox_keys() = default;
  explicit philox_keys(std::uint64_t key) {
    word[0] = static_cast<std::uint32_t>(key);
    word[1] = static_cast<std::uint32_t>(key >> 32);
    for (int i = 2; i < 20; ++i) word[i] = word[i - 2] + (i % 2 == 0 ? 0x9E3779B9u : 0xBB67AE85u);
  }
};

UFP4_LANE void philox_round(philox_word (&w)[4], philox_word k0, philox_word k1) {
  philox_word high0, low0, high1, low1;
  multiply(w[0], broadcast(0xD2511F53u), high0, low0);
  multiply(w[2], broadcast(0xCD9E8D57u), high1, low1);
  w[0] = xor_all(high1, w[1], k0);
  w[1] = low1;
  w[2] = xor_all(high0, w[3], k1);
  w[3] = low0;
}

/// Ten rounds on the four words of each lane's counter.
UFP4_LANE void philox_rounds(u32 (&counter)[4], const philox_keys& keys) {
  philox_word c[philox_parts][4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    c[0][i] = part_of(counter[i], 0);
    if constexpr (philox_parts == 2) c[1][i] = part_of(counter[i], 1);
  }
#pragma GCC unroll 10
  for (int i = 0; i < 20; i += 2) {
    const auto k0 = reinterpret_cast<philox_word>(broadcast(keys.word[i]));
    const auto k1 = reinterpret_cast<philox_word>(broadcast(keys.word[i + 1]));
    philox_round(c[0], k0, k1);
    if constexpr (philox_parts == 2) philox_round(c[1], k0, k1);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) counter[i] = join_parts(c[0][i], c[philox_parts - 1][i]);
}
