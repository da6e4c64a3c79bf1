// ufp4 - the command `quantize`.
// SPDX-License-Identifier: Apache-2.0
#include "quantize.hpp"

#include "command.hpp"

namespace tool {

const command quantize_command{"quantize", "the matrices of a file in 4 bits", quantize_help, quantize};

}  // namespace tool
