// ufp4 - the command `bench`.
// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"

#include "command.hpp"

namespace tool {

const command bench_command{"bench", "how fast this machine quantizes and multiplies, and with which instructions",
                            bench_help, bench};

}  // namespace tool
