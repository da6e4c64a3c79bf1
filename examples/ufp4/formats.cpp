// ufp4 - the command `formats`.
// SPDX-License-Identifier: Apache-2.0
#include "formats.hpp"

#include "command.hpp"

namespace tool {

const command formats_command{"formats", "the formats by name: values, blocks, scales, what others call them",
                              formats_help, formats};

}  // namespace tool
