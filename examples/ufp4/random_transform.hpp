// ufp4 - the Hadamard transform of a length that is known when the tool runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/hadamard/signs.hpp>

namespace tool {

/// random_hadamard<n>{seed}; no transform for any other length.
inline ufp4::transform_spec random_transform(std::uint64_t n, std::uint64_t seed) {
  switch (n) {
    case 16: return ufp4::random_hadamard<16>{seed}.spec();
    case 32: return ufp4::random_hadamard<32>{seed}.spec();
    case 64: return ufp4::random_hadamard<64>{seed}.spec();
    case 128: return ufp4::random_hadamard<128>{seed}.spec();
    case 256: return ufp4::random_hadamard<256>{seed}.spec();
    default: return {};
  }
}

}  // namespace tool
