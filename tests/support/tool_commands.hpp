// ufp4 - the tool's quantize and dequantize as functions of their arguments, for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string>
#include <ufp4/interop/input_file.hpp>
#include <utility>
#include <vector>

#include "../../examples/ufp4/dequantize.hpp"
#include "../../examples/ufp4/quantize.hpp"
#include "catch.hpp"

namespace support {

/// Runs a command as the program does, without the program.
struct finished {
  std::string out, rejected;
  bool usage = false;
  std::string notes;  ///< on standard error
};
template <class Command>
finished run(Command command, std::vector<std::string> words) {
  std::vector<const char*> values{"ufp4"};
  for (const std::string& word : words) values.push_back(word.c_str());
  common::arguments rest(static_cast<int>(values.size()), values.data(), "-");
  std::ostringstream out, err;
  int status = 0;
  try {
    status = command(rest, out, err);
  } catch (const common::usage_error& e) {
    return {out.str(), e.what(), true, {}};
  } catch (const ufp4::interop::file_error& e) {
    return {out.str(), e.what(), false, {}};
  }
  CHECK(status == 0);
  return {out.str(), {}, false, err.str()};
}
inline finished quantize_with(std::vector<std::string> words) { return run(tool::quantize, std::move(words)); }
inline finished dequantize_with(std::vector<std::string> words) { return run(tool::dequantize, std::move(words)); }

inline bool contains(const std::string& message, const std::string& part) {
  UNSCOPED_INFO(message);
  return message.find(part) != std::string::npos;
}

}  // namespace support
