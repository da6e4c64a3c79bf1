// ufp4 - 4-bit codes as E4M3 bytes for 8-bit matrix units.
// SPDX-License-Identifier: Apache-2.0
//
// Each byte has exactly the value of its code. Why E4M3 and not E2M3 or E3M2, which the units multiply too:
//
// | range -8 .. 16           | E2M3 ends at 7.5: -8 of int4 and 16 of E3M0 would need a factor in every sum       |
// | normal numbers           | 0.25 is subnormal in E2M3, and how units handle that is not documented; subnormal  |
// |                          | numbers of E4M3 are below 2^-6                                                     |
// | one table for every grid | sixteen bytes, so all grids, a user's own too, run the same kernel                 |
#pragma once

#include <cstdint>
#include <ufp4/format/grid.hpp>
#include <ufp4/format/scales.hpp>
#include <ufp4/gpu/thread/decode.hpp>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// Is every value of the grid zero or a normal number of E4M3?
constexpr bool fits_containers(const grid4& grid) {
  for (const float v : grid.value)
    if (v != 0.0f && (static_cast<float>(e4m3(v)) != v || ufp4::detail::magnitude(v) < 0x1p-6f)) return false;
  return true;
}

/// The E4M3 byte of each code. As a kernel's parameter it is in constant memory.
using container_table = byte_table;

/// The table of a grid for which fits_containers().
constexpr container_table container_table_of(const grid4& grid) {
  container_table table;
  for (unsigned c = 0; c < 16; ++c) table.set(c, e4m3(grid.value[c]).bits());
  return table;
}

/// Eight elements in the order of K, the first in the lowest byte: those of codes 0 to 3 and of codes 4 to 7.
struct eight_containers {
  std::uint32_t first, last;  ///< four bytes each
};

/// In eleven integer instructions.
UFP4_DEVICE eight_containers containers_of(std::uint32_t codes, const container_table& table) {
  std::uint32_t bytes[2];
  look_up8(table, selectors_of(codes), bytes);
  return {bytes[0], bytes[1]};
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
