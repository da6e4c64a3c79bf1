// ufp4 - the command `compare`.
// SPDX-License-Identifier: Apache-2.0
#include "../compare/program.hpp"

#include "command.hpp"

namespace tool {

const command compare_command{"compare", "formats on one matrix, with a report", compare::help_text, compare::run};

}  // namespace tool
