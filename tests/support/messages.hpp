// ufp4 - tests: error messages of file readers and of the command-line tool.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <ufp4/interop/input_file.hpp>

#include "support/catch.hpp"

namespace support {

/// The message of the file_error that f throws, or "accepted".
template <class F>
std::string file_rejection(const F& f) {
  try {
    f();
  } catch (const ufp4::interop::file_error& error) {
    return error.what();
  }
  return "accepted";
}

/// Checks that a message is one line and contains `part`.
inline bool reports(const std::string& message, const std::string& part) {
  INFO(message);
  CHECK(message.find('\n') == std::string::npos);
  const bool found = message.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace support
