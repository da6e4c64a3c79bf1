// ufp4 - the verb `dequantize`.
// SPDX-License-Identifier: Apache-2.0
#include "dequantize.hpp"

#include "verb.hpp"

namespace tool {

const verb dequantize_verb{"dequantize", "quantized weights of a file as plain numbers", dequantize_help, dequantize};

}  // namespace tool
