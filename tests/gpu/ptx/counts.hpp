// ufp4 - what the interpreter's runtime has executed; for programs that are linked with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ptx {

/// Since the start of the program.
struct executed {
  std::uint64_t launches = 0, warps = 0;
  std::uint64_t instructions = 0;  ///< of all warps
  std::uint64_t products = 0;      ///< mma, wgmma and tcgen05.mma among them
};
executed executed_until_now();

}  // namespace ptx
