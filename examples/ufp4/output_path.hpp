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

/// The value of --json, "-" where it has none. usage_error where it is named as FILE would be: in `--json FILE` that is what
/// it was meant as, and the report would take FILE's place.
inline std::string report_name(common::arguments& rest) {
  const std::string name = rest.optional_value().value_or("-");
  for (const std::string_view ending : {".safetensors", ".npy", ".gguf"})
    if (name.ends_with(ending))
      throw common::usage_error("--json " + ufp4::interop::printable(name) +
                                " would be the report's name, and it ends like a file of tensors; put FILE before "
                                "--json, or name the report otherwise");
  return name;
}

/// usage_error where writing what the flag names would destroy `other`, which the sentence calls `called`.
inline void check_apart(const std::string& flag, const std::string& written, const std::string& other,
                        const std::string& called) {
  if (common::is_same_file(written, other))
    throw common::usage_error(flag + " " + ufp4::interop::printable(written) + " would overwrite " + called);
}

/// Throws usage_error where FILE is missing, and where the report would destroy it.
inline void check_input(const std::string& input, const std::optional<std::string>& json) {
  if (input.empty()) throw common::usage_error("no FILE is given");
  if (json && *json != "-") check_apart("--json", *json, input, "FILE itself");
}

/// Throws usage_error where one is missing, and where writing OUT or the report would destroy FILE, or one the other.
inline void check_input_and_output(const std::string& input, const std::string& output,
                                   const std::optional<std::string>& json) {
  check_input(input, json);
  if (output.empty()) throw common::usage_error("-o OUT is needed");
  check_apart("-o", output, input, "FILE itself");
  if (json && *json != "-") check_apart("--json", *json, output, "OUT");
}

/// Does OUT end in `second`? Throws usage_error unless it ends in one of the two.
inline bool ends_in_second(const std::string& output, std::string_view first, std::string_view second) {
  if (output.ends_with(second)) return true;
  if (output.ends_with(first)) return false;
  throw common::usage_error("-o " + ufp4::interop::printable(output) + " ends in neither " + std::string(first) +
                            " nor " + std::string(second));
}

}  // namespace tool
