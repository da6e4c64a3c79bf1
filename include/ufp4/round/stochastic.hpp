// ufp4 - stochastic rounding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/concepts.hpp>
#include <ufp4/detail/bits.hpp>
#include <ufp4/round/philox.hpp>

namespace ufp4::inline UFP4_TYPES {

/// Rounds away from zero with probability equal to the discarded fraction.
///
/// The random number of an element is a pure function of (seed, stream, element index): the result does not depend on thread
/// count, SIMD width, backend or traversal order, and a shard gets the random bits of its place in the whole.
///
/// | bias      | < 2^-17 + 2^-40 of a step for |t| <= max    |
/// | exactness | a representable value never moves           |
/// | backends  | bit-identical on scalar, SIMD, CUDA and HIP |
///
/// Two operands of one GEMM need different seeds or streams, or their random bits are correlated; quantized_gemm checks.
struct stochastic {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;

  UFP4_MEMBER constexpr bool round_up(const neighbours& n, float t, std::uint64_t index) const {
    return moves_up(n, t, random_word(index));
  }

  /// The 16 uniform bits of element `index` (numerics 3).
  UFP4_MEMBER constexpr std::uint32_t random_word(std::uint64_t index) const {
    return lane(random_bits(index >> 3), index & 7u);
  }

  /// The random bits of elements 8 * group .. 8 * group + 7, two a word, low half first.
  UFP4_MEMBER constexpr philox_counter random_bits(std::uint64_t group) const {
    return philox4x32({{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
                        static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}},
                      seed);
  }
  UFP4_MEMBER static constexpr std::uint32_t lane(const philox_counter& c, std::uint64_t i) {
    return c.word[i >> 1] >> (16 * (i & 1u)) & 0xFFFFu;
  }

  /// Does t leave `lower` for `upper` when the random number shows r?
  UFP4_MEMBER static constexpr bool moves_up(const neighbours& n, float t, std::uint32_t r) {
    const float distance = detail::rounded(t) - n.lower;  // t may come straight from a product of the caller's
    const float p = distance / (n.upper - n.lower);       // the signs cancel: magnitudes give the same bits
    const std::uint32_t k = static_cast<std::uint32_t>(p * 65536.0f + 0.5f);  // the product is exact
    return k + r >= 65536u;
  }
};

static_assert(rounding_policy<stochastic>);

}  // namespace ufp4::inline UFP4_TYPES
