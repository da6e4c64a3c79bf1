// ufp4 - the words of a command line that name a file to read and files to write, no two of which may be the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <stdexcept>
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

/// The value of --json, "-" where it has none, of a command whose FILE may have been meant by it.
inline std::string report_name(common::arguments& rest) {
  const std::string name = rest.optional_value().value_or("-");
  common::check_report_name("--json", name, "put FILE before --json, or name the report otherwise");
  return name;
}

/// usage_error where writing what the flag names would destroy `other`, which the message calls `called`.
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

/// Throws usage_error unless OUT ends in one of these.
inline void check_ending(const std::string& output, std::initializer_list<std::string_view> endings) {
  std::string listed;
  for (const std::string_view ending : endings) {
    if (output.ends_with(ending)) return;
    listed += (listed.empty() ? " neither " : " nor ") + std::string(ending);
  }
  throw common::usage_error("-o " + ufp4::interop::printable(output) + " ends in" + listed);
}

/// Runs what tells a gguf_writer of tensors: what ggml cannot have, a name, a type or a shape, becomes usage_error.
template <class Describe>
void describe_gguf(const std::string& output, Describe describe) {
  try {
    describe();
  } catch (const std::invalid_argument& e) {
    std::string_view reason = e.what();
    constexpr std::string_view speaker = "gguf_writer: ";
    if (reason.starts_with(speaker)) reason.remove_prefix(speaker.size());
    throw common::usage_error(ufp4::interop::printable(output) + " cannot be a .gguf file: " + std::string(reason));
  }
}

}  // namespace tool
