// ufp4 - the command `cast`.
// SPDX-License-Identifier: Apache-2.0
#include "cast.hpp"

#include "command.hpp"

namespace tool {

const command cast_command{"cast", "quantized weights of a file in another format", cast_help, cast};

}  // namespace tool
