// ufp4 - skips a test case with a message.
// SPDX-License-Identifier: Apache-2.0
/// In the body of a TEST_CASE: `if (!has_avx512()) return support::skip("this machine has no AVX-512");`
/// The reason goes to stderr. A program whose test cases were all skipped is `Skipped` in CTest, not `Passed`.
#pragma once

#include <cstdio>
#include <string>

namespace support {

inline bool skipped = false;  // in the current test case; read by main.cpp

inline void skip(const std::string& reason) {
  skipped = true;
  std::fprintf(stderr, "SKIPPED: %s\n", reason.c_str());
}

}  // namespace support
