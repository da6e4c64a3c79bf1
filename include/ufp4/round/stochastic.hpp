// ufp4 - stochastic rounding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/concepts.hpp>
#include <ufp4/detail/bits.hpp>
#include <ufp4/round/philox.hpp>

namespace ufp4::inline UFP4_TYPES {

/// Rounds away from zero with probability equal to the discarded fraction.
///
/// The random bits of an element are a pure function of (seed, stream, element index): thread count, SIMD width,
/// backend and order of traversal do not change them, and a shard uses those of its place in the whole matrix.
///
/// | bias      | < 2^-17 + 2^-40 of a step for |t| <= max    |
/// | exactness | a representable value does not change       |
/// | backends  | bit-identical on scalar, SIMD, CUDA and HIP |
///
/// Two operands of one GEMM need different seeds or streams; quantized_gemm rejects equal ones.
struct stochastic {
  std::uint64_t seed = 0;    ///< the key of Philox
  std::uint64_t stream = 0;  ///< words 2 and 3 of its counter: an independent sequence for each value

  UFP4_MEMBER constexpr bool round_up(const neighbours& n, float t, std::uint64_t index) const {
    return moves_up(n, t, random_word(index));
  }

  /// The 16 random bits of element `index` (numerics 3).
  UFP4_MEMBER constexpr std::uint32_t random_word(std::uint64_t index) const {
    return lane(random_bits(index >> 3), index & 7u);
  }

  /// The random bits of elements 8 * group .. 8 * group + 7, two in a word, low half first.
  UFP4_MEMBER constexpr detail::philox_counter random_bits(std::uint64_t group) const {
    return philox4x32({{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
                        static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}},
                      seed);
  }
  /// The 16 random bits number i, 0 .. 7, of a group.
  UFP4_MEMBER static constexpr std::uint32_t lane(const detail::philox_counter& c, std::uint64_t i) {
    return c.word[i >> 1] >> (16 * (i & 1u)) & 0xFFFFu;
  }

  /// Whether t rounds to `upper` with the random bits r, 0 .. 65535.
  UFP4_MEMBER static constexpr bool moves_up(const neighbours& n, float t, std::uint32_t r) {
    const float distance = detail::rounded(t) - n.lower;  // t may be a product that the compiler could fuse
    const float p = distance / (n.upper - n.lower);       // the signs cancel: magnitudes give the same bits
    const std::uint32_t k = static_cast<std::uint32_t>(p * 65536.0f + 0.5f);  // the product is exact
    return k + r >= 65536u;
  }
};

static_assert(rounding_policy<stochastic>);

}  // namespace ufp4::inline UFP4_TYPES
