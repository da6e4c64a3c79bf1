// ufp4 - the command `inspect`.
// SPDX-License-Identifier: Apache-2.0
#include "inspect.hpp"

#include "command.hpp"

namespace tool {

const command inspect_command{"inspect", "types and shapes of a file's tensors, and the 4-bit format that suits each",
                              inspect_help, inspect};

}  // namespace tool
