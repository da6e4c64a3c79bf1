// ufp4 - the verb `bench`.
// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"

#include "verb.hpp"

namespace tool {

const verb bench_verb{"bench", "how fast this machine quantizes and multiplies, and with which instructions",
                      bench_help, bench};

}  // namespace tool
