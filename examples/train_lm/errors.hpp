// ufp4 - what train_lm rejects: each message is one message that names the flag or the file and the value.
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
