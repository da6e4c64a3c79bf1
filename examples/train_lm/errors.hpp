// ufp4 - what train_lm refuses: each message is one sentence that names the flag or the file and the value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace train_lm {

/// A command line that cannot be meant.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A file that cannot be read, written or used.
struct file_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace train_lm
