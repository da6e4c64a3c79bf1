// ufp4 - the verb `quantize`.
// SPDX-License-Identifier: Apache-2.0
#include "quantize.hpp"

#include "verb.hpp"

namespace tool {

const verb quantize_verb{"quantize", "the matrices of a file in 4 bits", quantize_help, quantize};

}  // namespace tool
