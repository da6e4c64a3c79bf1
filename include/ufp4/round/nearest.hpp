// ufp4 - the deterministic rounding policies: nearest_even, nearest_away, toward_zero; bit-identical on every backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/concepts.hpp>
#include <ufp4/detail/bits.hpp>

namespace ufp4::inline UFP4_TYPES {

/// The default: to the nearest value; a tie goes to the value an even number of grid steps from zero (fp4: even code).
struct nearest_even {
  UFP4_MEMBER constexpr bool round_up(const neighbours& n, float t, std::uint64_t) const {
    const int side = detail::against_midpoint(n.lower, n.upper, t);
    return side > 0 || (side == 0 && (n.lower_rank & 1) != 0);
  }
};

/// Rounds to the nearest value; a tie goes away from zero.
struct nearest_away {
  UFP4_MEMBER constexpr bool round_up(const neighbours& n, float t, std::uint64_t) const {
    return detail::against_midpoint(n.lower, n.upper, t) >= 0;
  }
};

/// Rounds to the neighbour nearer to zero.
struct toward_zero {
  UFP4_MEMBER constexpr bool round_up(const neighbours&, float, std::uint64_t) const { return false; }
};

static_assert(rounding_policy<nearest_even> && rounding_policy<nearest_away> && rounding_policy<toward_zero>);

}  // namespace ufp4::inline UFP4_TYPES
