// ufp4 - the PTX interpreter: matrix descriptors, where wgmma and tcgen05 find an operand in shared memory.
// SPDX-License-Identifier: Apache-2.0
//
// Source: PTX ISA, "Matrix Descriptor" of wgmma, "Shared memory descriptor" of tcgen05, canonical layouts.
#pragma once

#include "gpu/ptx/bulk.hpp"

namespace ptx {

/// The fields that both have. A derived type decodes the swizzle, which has other bits in each.
struct matrix_descriptor {
  std::uint32_t start, leading, stride;
  unsigned span;  ///< of the swizzle in bytes; 0: none

  /// `unused`: bits that must be 0.
  matrix_descriptor(word w, unsigned swizzle_span, word unused) : span(swizzle_span) {
    const auto field = [w](unsigned at) { return static_cast<std::uint32_t>(w >> at & 0x3FFFu) << 4; };
    start = field(0);
    leading = field(16);
    stride = field(32);
    if ((w >> 49 & 7) != 0) reject("has a descriptor with a base offset, which the interpreter does not know");
    if ((w & unused) != 0) reject("has a descriptor with bits that must be 0");
  }
  /// 16 bytes of an operand that is contiguous along K: of a row, the piece-th 16 bytes.
  std::uint32_t along_k(unsigned row, unsigned piece) const {
    if (span == 0) return start + row / 8 * stride + piece * leading + row % 8 * 16;
    return swizzled(start + row / 8 * stride + row % 8 * span + piece * 16, span);
  }
};

}  // namespace ptx
