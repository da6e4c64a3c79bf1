// ufp4 - nearest_even and nearest_away, asked about two neighbours.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/round/nearest.hpp>

#include "format/scalar_model.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstdint>

using ufp4::nearest_away;
using ufp4::nearest_even;
using ufp4::neighbours;

namespace {

static_assert(nearest_even{}.round_up({1.0f, 2.0f, 1}, 1.5f, 0) && !nearest_even{}.round_up({1.0f, 2.0f, 2}, 1.5f, 0));
static_assert(nearest_away{}.round_up({1.0f, 2.0f, 1}, 1.5f, 0) && nearest_away{}.round_up({1.0f, 2.0f, 2}, 1.5f, 0));
static_assert(nearest_away{}.round_up({-1.0f, -2.0f, 2}, -1.5f, 0) &&
              !nearest_away{}.round_up({-1.0f, -2.0f, 2}, -1.25f, 0));

/// Pairs of neighbours: steps of every grid, steps fine and coarse, the ends of binary32.
struct pair {
  float lower, upper;
};
const pair pairs[] = {{0, .25f},
                      {0, 1},
                      {.5f, .75f},
                      {4, 6},
                      {8, 16},
                      {.5626170039176941f, .7229568362236023f},  // nf4
                      {1, 0x1p29f},
                      {0x1p-29f, 1},
                      {1, 0x1.000002p0f},
                      {0x1p-149f, 0x1p-148f},
                      {0x1p-126f, 0x1.8p-126f},
                      {0, 0x1p-148f},
                      {1, 0x1p53f},  // their sum is no binary64 number
                      {3, 0x1p60f},
                      {0x1p-149f, 1},
                      {0x1.8p-140f, 0x1.fffffep127f},
                      {0x1p127f, 0x1.fffffep127f}};

}  // namespace

TEST_CASE("nearest policies decide at the exact midpoint, on either side of zero", "[round][nearest]") {
  for (const pair& p : pairs) {
    const double middle = (static_cast<double>(p.lower) + static_cast<double>(p.upper)) / 2;
    scalar::near(middle, 4, [&](std::uint32_t bits) {
      const float t = scalar::float_of(bits);
      if (!(t > p.lower && t < p.upper)) return;
      const double rest = 2.0 * static_cast<double>(t) - static_cast<double>(p.upper);  // exact so near the midpoint
      const int side = rest > static_cast<double>(p.lower) ? 1 : rest < static_cast<double>(p.lower) ? -1 : 0;
      for (const int rank : {0, 1, 6, 7}) {
        for (const float sign : {1.0f, -1.0f}) {
          const neighbours n{sign * p.lower, sign * p.upper, rank};
          INFO("lower " << n.lower << ", upper " << n.upper << ", rank " << rank << ", bits " << bits);
          CHECK(nearest_even{}.round_up(n, sign * t, 0) == (side > 0 || (side == 0 && rank % 2 == 1)));
          CHECK(nearest_away{}.round_up(n, sign * t, 0) == (side >= 0));
        }
      }
    });
  }
}

TEST_CASE("nearest policies do not look at the element index", "[round][nearest]") {
  for (const std::uint64_t index : {0ull, 1ull, ~0ull}) {
    CHECK(nearest_even{}.round_up({2.0f, 3.0f, 4}, 2.51f, index));
    CHECK_FALSE(nearest_even{}.round_up({2.0f, 3.0f, 4}, 2.5f, index));
    CHECK(nearest_away{}.round_up({2.0f, 3.0f, 4}, 2.5f, index));
    CHECK_FALSE(nearest_away{}.round_up({2.0f, 3.0f, 4}, 2.49f, index));
  }
}
