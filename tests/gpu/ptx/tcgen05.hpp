// ufp4 - the PTX interpreter: what the instructions of tcgen05 have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/ptx/descriptor.hpp"
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
struct tensor_descriptor : matrix_descriptor {
  static unsigned span_of(word w) {
    if ((w >> 46 & 7) != 1) reject("has a descriptor without the constant 1 in bits 46 to 48");
    switch (w >> 61) {
      case 0: return 0;
      case 2: return 128;
      case 4: return 64;
      case 6: return 32;
      default: reject("has a descriptor with a swizzle that the interpreter does not know");
    }
  }
  explicit tensor_descriptor(word w)
      : matrix_descriptor(w, span_of(w), word{3} << 14 | word{3} << 30 | word{0x1FF} << 52) {}
};

/// After a wait at a barrier and before an instruction that uses tensor memory there is a fence.
void require_tensor_fence(const warp& w);
/// The thread blocks, 1 or 2, that an instruction concerns.
std::vector<thread_block*> tensor_group(warp& w, unsigned blocks);

/// tcgen05.mma. in: d, a, b, descriptor, scales of a and of b, predicate. a: thread blocks; b: scales of a row
void multiply_blocks(warp& w, const instruction& i, mask m);

}  // namespace ptx
