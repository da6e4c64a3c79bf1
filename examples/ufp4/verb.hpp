// ufp4 - the verbs of the command-line tool: each is a header and a file of its own, and one row here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string_view>

#include "../common/arguments.hpp"

namespace tool {

/// `run` gets the words after the verb; what it throws, program.hpp turns into a sentence and an exit status.
struct verb {
  std::string_view name;
  std::string_view summary;
  const char* help;
  int (*run)(common::arguments& rest, std::ostream& out, std::ostream& err);
};

extern const verb formats_verb, inspect_verb, quantize_verb, dequantize_verb, bench_verb, compare_verb;

inline constexpr const verb* verbs[] = {&inspect_verb, &quantize_verb, &dequantize_verb,
                                        &formats_verb, &bench_verb,    &compare_verb};

}  // namespace tool
