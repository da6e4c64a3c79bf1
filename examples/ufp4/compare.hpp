// ufp4 - `ufp4 compare`: examples/compare as a command.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>

#include "../compare/program.hpp"

namespace tool {

inline constexpr const char* compare_help = compare::help_text;

inline int compare(common::arguments& rest, std::ostream& out, std::ostream& err) {
  return compare::run_program(rest, out, err);
}

}  // namespace tool
