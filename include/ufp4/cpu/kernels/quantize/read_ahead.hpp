// ufp4 - how the quantizers prefetch a matrix that comes from memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/cpu/detect.hpp>
#include <ufp4/cpu/elements.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// A memory page ahead into the first-level cache, or two pages into the second; nothing that a core's own cache has.
/// The hardware's own prefetches stop while codes are computed.
inline read_ahead read_ahead_of(const source& x) {
  const bool large = x.rows * x.cols * (x.kind == dtype::f32 ? 4 : 2) > std::size_t{1} << 20;
  if (!large) return read_ahead::none;
  return prefetches_first_level() ? read_ahead::first_level : read_ahead::second_level;
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
