// ufp4 - the verb `compare`.
// SPDX-License-Identifier: Apache-2.0
#include "compare.hpp"

#include "verb.hpp"

namespace tool {

const verb compare_verb{"compare", "every format on one matrix, with a report", compare_help, compare};

}  // namespace tool
