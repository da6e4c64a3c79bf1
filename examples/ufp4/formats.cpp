// ufp4 - the verb `formats`.
// SPDX-License-Identifier: Apache-2.0
#include "formats.hpp"

#include "verb.hpp"

namespace tool {

const verb formats_verb{"formats", "the formats by name: values, blocks, scales, what others call them", formats_help,
                        formats};

}  // namespace tool
