// ufp4 - the files that a command line names: one to read, others to write, all different.
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

/// A word that is not a known flag: FILE, once.
inline void take_input(const std::string& word, std::string& input) {
  const std::string shown = ufp4::interop::printable(word);
  if (word.starts_with('-')) common::reject_argument(word);
  if (!input.empty()) throw common::usage_error(shown + " is a second FILE; give one");
  if (word.empty()) throw common::usage_error("FILE is an empty word");
  input = word;
}

/// The value of --json, "-" by default, of a command that reads a FILE.
inline std::string report_name(common::arguments& rest) {
  const std::string name = rest.optional_value().value_or("-");
  common::check_report_name("--json", name, "put FILE before --json, or name the report otherwise");
  return name;
}

/// usage_error if writing the file of the flag would overwrite `other`, which the message calls `called`.
inline void check_apart(const std::string& flag, const std::string& written, const std::string& other,
                        const std::string& called) {
  if (common::is_same_file(written, other))
    throw common::usage_error(flag + " " + ufp4::interop::printable(written) + " would overwrite " + called);
}

/// usage_error if FILE is missing, or the report would overwrite it.
inline void check_input(const std::string& input, const std::optional<std::string>& json) {
  if (input.empty()) throw common::usage_error("no FILE is given");
  if (json && *json != "-") check_apart("--json", *json, input, "FILE itself");
}

/// usage_error if FILE or OUT is missing, or one of FILE, OUT and the report would overwrite another.
inline void check_input_and_output(const std::string& input, const std::string& output,
                                   const std::optional<std::string>& json) {
  check_input(input, json);
  if (output.empty()) throw common::usage_error("-o OUT is needed");
  check_apart("-o", output, input, "FILE itself");
  if (json && *json != "-") check_apart("--json", *json, output, "OUT");
}

/// usage_error unless OUT ends in one of these.
inline void check_ending(const std::string& output, std::initializer_list<std::string_view> endings) {
  std::string listed;
  for (const std::string_view ending : endings) {
    if (output.ends_with(ending)) return;
    listed += (listed.empty() ? " neither " : " nor ") + std::string(ending);
  }
  throw common::usage_error("-o " + ufp4::interop::printable(output) + " ends in" + listed);
}

/// Runs a function that adds tensors to a gguf_writer. What GGUF cannot represent becomes a usage_error.
template <class Describe>
void describe_gguf(const std::string& output, Describe describe) {
  try {
    describe();
  } catch (const std::invalid_argument& e) {
    std::string_view reason = e.what();
    constexpr std::string_view operation = "gguf_writer: ";
    if (reason.starts_with(operation)) reason.remove_prefix(operation.size());
    throw common::usage_error(ufp4::interop::printable(output) + " cannot be a .gguf file: " + std::string(reason));
  }
}

}  // namespace tool
