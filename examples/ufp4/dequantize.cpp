// ufp4 - the command `dequantize`.
// SPDX-License-Identifier: Apache-2.0
#include "dequantize.hpp"

#include "command.hpp"

namespace tool {

const command dequantize_command{"dequantize", "quantized weights of a file as plain numbers", dequantize_help,
                                 dequantize};

}  // namespace tool
