// ufp4 - the PTX interpreter: the copy engine, and the tensor map that the driver's encoder would make.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/ptx/state.hpp"

namespace ptx {

/// In the 128 bytes of a CUtensorMap, in this form. Dimension 0 is the innermost.
struct tensor_map {
  static constexpr std::uint32_t signature = 0x70617475u;
  std::uint32_t is_map;
  std::uint8_t rank, element_bytes, swizzle, interleave;
  std::uint64_t address;
  std::uint64_t strides[5];  ///< in bytes; of dimension 0 the element
  std::uint32_t sizes[5];
  std::uint16_t box[5];
  std::uint8_t steps[5];
};
static_assert(sizeof(tensor_map) <= 128);

/// Bytes that have arrived, at a barrier.
void complete_bytes(thread_block& b, std::uint32_t barrier, unsigned bytes);

/// The place of an address in memory whose 16-byte pieces are swizzled: span is 0, 32, 64 or 128 bytes.
constexpr std::uint32_t swizzled(std::uint32_t at, unsigned span) {
  const unsigned bits = span == 128 ? 7 : span == 64 ? 3 : span == 32 ? 1 : 0;
  return at ^ (at >> 7 & bits) << 4;
}

}  // namespace ptx
