// ufp4 - the verb `inspect`.
// SPDX-License-Identifier: Apache-2.0
#include "inspect.hpp"

#include "verb.hpp"

namespace tool {

const verb inspect_verb{"inspect", "types and shapes of a file's tensors, and the 4-bit format that suits each",
                        inspect_help, inspect};

}  // namespace tool
