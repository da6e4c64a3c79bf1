// ufp4 - skipping a test case aloud.
// SPDX-License-Identifier: Apache-2.0
/// In the body of a TEST_CASE: `if (!has_avx512()) return support::skip("this machine has no AVX-512");`
/// The reason goes to stderr. A binary in which nothing but skipping happened is `Skipped` in CTest, not `Passed`.
#pragma once

#include <cstdio>
#include <string>

namespace support {

inline bool skipped = false;  // since the test case began; main.cpp looks at it

inline void skip(const std::string& reason) {
  skipped = true;
  std::fprintf(stderr, "SKIPPED: %s\n", reason.c_str());
}

}  // namespace support
