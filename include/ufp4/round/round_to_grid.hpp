// ufp4 - rounds one value to a grid under a rounding policy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/format/grid.hpp>
#include <ufp4/round/eden.hpp>
#include <ufp4/round/nearest.hpp>

namespace ufp4::inline UFP4_TYPES {

/// One of the library's rounding policies as data, as recipes store it and kernels read it.
struct rounding_spec {
  /// Which policy.
  enum class kind : std::uint8_t { nearest_even, nearest_away, toward_zero, stochastic, eden };

  constexpr rounding_spec() = default;
  constexpr rounding_spec(nearest_even) {}                                           ///< nearest_even, the default
  constexpr rounding_spec(nearest_away) : what(kind::nearest_away) {}                ///< nearest_away
  constexpr rounding_spec(toward_zero) : what(kind::toward_zero) {}                  ///< toward_zero
  constexpr rounding_spec(stochastic s) : what(kind::stochastic), random_bits(s) {}  ///< stochastic, with its seed

  constexpr rounding_spec(eden e) : what(kind::eden), random_bits{e.seed, e.stream} {}  ///< eden, with its seed

  /// Of one element: that of nearest_even for eden, whose other part changes scales.
  UFP4_MEMBER constexpr bool round_up(const neighbours& n, float t, std::uint64_t index) const {
    switch (what) {
      case kind::eden:
      case kind::nearest_even: return nearest_even{}.round_up(n, t, index);
      case kind::nearest_away: return nearest_away{}.round_up(n, t, index);
      case kind::toward_zero: return false;
      case kind::stochastic: return random_bits.round_up(n, t, index);
    }
    return false;
  }

  kind what = kind::nearest_even;  ///< the policy
  stochastic random_bits{};        ///< seed and stream; used only if `what` is stochastic or eden
};
static_assert(rounding_policy<rounding_spec>);

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

/// The code of t on the grid (numerics 3). Requires that t is not a NaN. Saturates beyond the first and last level; a
/// negative t that rounds to zero gets the code of -0 if the format has one.
template <rounding_policy Rounding>
UFP4_HD constexpr std::uint8_t round_to_grid(const grid4& grid, const Rounding& r, float t, std::uint64_t index) {
  int at = 0;  // the last level not above t, or the first
  for (int i = 1; i < grid.levels; ++i) at += grid.level[i] <= t;
  const bool between = at + 1 < grid.levels && t > grid.level[0] && t != grid.level[at];
  if (between) {
    const bool positive = t > 0.0f;
    const int lower = positive ? at : at + 1, upper = positive ? at + 1 : at;
    const int rank = positive ? lower - grid.zero : grid.zero - lower;
    at = r.round_up({grid.level[lower], grid.level[upper], rank}, t, index) ? upper : lower;
  }
  return at == grid.zero && is_negative(t) ? grid.minus_zero : grid.code[at];
}

}  // namespace ufp4::detail::inline UFP4_CODE
