// ufp4 - the errors of train_lm. A message begins with the flag or file and has the value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

#include "../common/arguments.hpp"

namespace train_lm {

using common::usage_error;

/// A file that cannot be read, written or used.
struct file_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace train_lm
