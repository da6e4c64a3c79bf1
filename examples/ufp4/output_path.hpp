// ufp4 - the words of a command line that name a file to read and files to write, no two of which may be the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <ufp4/interop/text.hpp>

#include "../common/arguments.hpp"
#include "../common/output.hpp"

namespace tool {

/// A word that is no known flag: FILE, once.
inline void take_input(const std::string& word, std::string& input) {
  const std::string shown = ufp4::interop::printable(word);
  if (word.starts_with('-')) throw common::usage_error("unknown argument " + shown);
  if (!input.empty()) throw common::usage_error(shown + " is a second FILE; give one");
  if (word.empty()) throw common::usage_error("FILE is an empty word");
  input = word;
}

/// Throws usage_error where one is missing, and where writing OUT or the report would destroy FILE, or one the other.
inline void check_input_and_output(const std::string& input, const std::string& output,
                                   const std::optional<std::string>& json) {
  if (input.empty()) throw common::usage_error("which FILE?");
  if (output.empty()) throw common::usage_error("-o OUT is needed");
  if (common::is_same_file(input, output))
    throw common::usage_error("-o " + ufp4::interop::printable(output) + " would overwrite FILE itself");
  if (!json || *json == "-") return;
  for (const std::string* other : {&input, &output})
    if (common::is_same_file(*json, *other))
      throw common::usage_error("--json " + ufp4::interop::printable(*json) + " would overwrite " +
                                (other == &input ? "FILE" : "OUT"));
}

/// Does OUT end in `second`? Throws usage_error unless it ends in one of the two.
inline bool ends_in_second(const std::string& output, std::string_view first, std::string_view second) {
  if (output.ends_with(second)) return true;
  if (output.ends_with(first)) return false;
  throw common::usage_error("-o " + ufp4::interop::printable(output) + " ends in neither " + std::string(first) +
                            " nor " + std::string(second));
}

}  // namespace tool
