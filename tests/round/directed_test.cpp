// ufp4 - toward_zero never goes up.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/round/nearest.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstdint>

using ufp4::neighbours;
using ufp4::toward_zero;

static_assert(!toward_zero{}.round_up({1.0f, 2.0f, 1}, 1.9f, 0));

TEST_CASE("toward_zero stays below, however near the upper neighbour is", "[round][directed]") {
  for (const int rank : {0, 1, 2, 3}) {
    for (const std::uint64_t index : {0ull, 5ull, ~0ull}) {
      CHECK_FALSE(toward_zero{}.round_up({4.0f, 6.0f, rank}, std::nextafter(6.0f, 0.0f), index));
      CHECK_FALSE(toward_zero{}.round_up({4.0f, 6.0f, rank}, 5.0f, index));
      CHECK_FALSE(toward_zero{}.round_up({-4.0f, -6.0f, rank}, std::nextafter(-6.0f, 0.0f), index));
      CHECK_FALSE(toward_zero{}.round_up({0.0f, -0.5f, rank}, -0x1p-149f, index));
    }
  }
}
