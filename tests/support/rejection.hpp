// ufp4 - the error message of an operation for an invalid argument.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace support {

/// The message of the std::invalid_argument that f throws; empty if it throws none.
template <class F>
std::string rejection(const F& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

}  // namespace support
