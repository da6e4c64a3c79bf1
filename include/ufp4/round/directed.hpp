// ufp4 - rounding toward zero.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/concepts.hpp>

namespace ufp4::inline UFP4_TYPES {

/// Rounds to the neighbour nearer to zero. Bit-identical on every backend.
struct toward_zero {
  UFP4_MEMBER constexpr bool round_up(const neighbours&, float, std::uint64_t) const { return false; }
};

static_assert(rounding_policy<toward_zero>);

}  // namespace ufp4::inline UFP4_TYPES
