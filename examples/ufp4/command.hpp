// ufp4 - the list of the tool's commands. Each command is a header and a .cpp file, and one entry here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string_view>

#include "../common/arguments.hpp"

namespace tool {

/// `run` gets the words after the command's name; program.hpp turns exceptions into messages and exit statuses.
struct command {
  std::string_view name;
  std::string_view summary;
  const char* help;
  int (*run)(common::arguments& rest, std::ostream& out, std::ostream& err);
};

extern const command formats_command, inspect_command, quantize_command, dequantize_command, cast_command,
    bench_command, compare_command;

inline constexpr const command* commands[] = {&inspect_command, &quantize_command, &dequantize_command, &cast_command,
                                              &formats_command, &bench_command,    &compare_command};

}  // namespace tool
