// ufp4 - the commands of the command-line tool: each is a header and a file of its own, and one row here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string_view>

#include "../common/arguments.hpp"

namespace tool {

/// `run` gets the words after the command; what it throws, program.hpp turns into a message and an exit status.
struct command {
  std::string_view name;
  std::string_view summary;
  const char* help;
  int (*run)(common::arguments& rest, std::ostream& out, std::ostream& err);
};

extern const command formats_command, inspect_command, quantize_command, dequantize_command, bench_command,
    compare_command;

inline constexpr const command* commands[] = {&inspect_command, &quantize_command, &dequantize_command,
                                              &formats_command, &bench_command,    &compare_command};

}  // namespace tool
