// ufp4 - the words of a command line that name a file to read and a file to write, which must not be the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <ufp4/interop/text.hpp>

#include "../common/arguments.hpp"

namespace tool {

/// A word that is no known flag: FILE, once.
inline void take_input(const std::string& word, std::string& input) {
  const std::string shown = ufp4::interop::printable(word);
  if (word.starts_with('-')) throw common::usage_error("unknown argument " + shown);
  if (!input.empty()) throw common::usage_error(shown + " is a second FILE; give one");
  if (word.empty()) throw common::usage_error("FILE is an empty word");
  input = word;
}

/// Throws usage_error where one is missing, and where writing OUT would destroy FILE under whatever name: an output is
/// OUT.tmp until it is whole.
inline void check_input_and_output(const std::string& input, const std::string& output) {
  if (input.empty()) throw common::usage_error("which FILE?");
  if (output.empty()) throw common::usage_error("-o OUT is needed");
  std::error_code none;
  for (const char* ending : {"", ".tmp"}) {
    const std::string written = output + ending;
    if (written != input && !std::filesystem::equivalent(input, written, none)) continue;
    throw common::usage_error("-o " + ufp4::interop::printable(output) + " would overwrite FILE" +
                              (*ending == '\0' ? " itself" : ", which has the name of the unfinished output"));
  }
}

/// Does OUT end in `second`? Throws usage_error unless it ends in one of the two.
inline bool ends_in_second(const std::string& output, std::string_view first, std::string_view second) {
  if (output.ends_with(second)) return true;
  if (output.ends_with(first)) return false;
  throw common::usage_error("-o " + ufp4::interop::printable(output) + " ends in neither " + std::string(first) +
                            " nor " + std::string(second));
}

}  // namespace tool
