// ufp4 - the PTX interpreter: what the instructions of tcgen05 have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/ptx/bulk.hpp"
#include "gpu/ptx/state.hpp"

#include <vector>

namespace ptx {

/// An address of tensor memory: the lane, and the column.
struct tensor_address {
  unsigned lane, column;
  explicit tensor_address(word w)
      : lane(static_cast<unsigned>(w >> 16 & 0xFFFFu)), column(static_cast<unsigned>(w & 0xFFFFu)) {}
};

/// Of shared memory, as tcgen05 reads it.
struct tensor_descriptor {
  std::uint32_t start, leading, stride;
  unsigned span;  ///< of the swizzle in bytes; 0: none

  explicit tensor_descriptor(word w) {
    const auto field = [w](unsigned at) { return static_cast<std::uint32_t>(w >> at & 0x3FFFu) << 4; };
    start = field(0);
    leading = field(16);
    stride = field(32);
    if ((w >> 46 & 7) != 1) reject("has a descriptor without the constant 1 in bits 46 to 48");
    if ((w >> 49 & 7) != 0) reject("has a descriptor with a base offset, which the interpreter does not know");
    constexpr word unused = word{3} << 14 | word{3} << 30 | word{0x1FF} << 52;
    if ((w & unused) != 0) reject("has a descriptor with bits that must be 0");
    switch (w >> 61) {
      case 0: span = 0; break;
      case 2: span = 128; break;
      case 4: span = 64; break;
      case 6: span = 32; break;
      default: reject("has a descriptor with a swizzle that the interpreter does not know");
    }
  }
  /// 16 bytes of a row of an operand that is contiguous along K.
  std::uint32_t place(unsigned row, unsigned piece) const {
    if (span == 0) return start + row / 8 * stride + piece * leading + row % 8 * 16;
    return swizzled(start + row / 8 * stride + row % 8 * span + piece * 16, span);
  }
};

/// After a wait at a barrier and before an instruction that uses tensor memory there is a fence.
void require_tensor_fence(const warp& w);
/// The thread blocks, 1 or 2, that an instruction concerns.
std::vector<thread_block*> tensor_group(warp& w, unsigned blocks);

/// tcgen05.mma. in: d, a, b, descriptor, scales of a and of b, predicate. a: thread blocks; b: scales of a row
void multiply_blocks(warp& w, const instruction& i, mask m);

}  // namespace ptx
