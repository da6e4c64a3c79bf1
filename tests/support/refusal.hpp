// ufp4 - what a verb says to a bad argument.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace support {

/// The sentence of the std::invalid_argument that f throws; empty if it throws none.
template <class F>
std::string refusal(const F& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

}  // namespace support
