// ufp4 - the value of --rht, and the random Hadamard transform of a length known at run time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <ufp4/hadamard/signs.hpp>
#include <ufp4/interop/text.hpp>

#include "../common/arguments.hpp"

namespace tool {

/// The flag's value, 0 for no transform.
inline std::uint32_t transform_length(common::arguments& rest, const std::string& flag) {
  const std::string text = rest.value(flag);
  for (const std::uint32_t n : {0u, 16u, 32u, 64u, 128u, 256u})
    if (text == std::to_string(n)) return n;
  throw common::usage_error(flag + " takes 16, 32, 64, 128 or 256, or 0 for none, not " +
                            ufp4::interop::printable(text));
}

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
