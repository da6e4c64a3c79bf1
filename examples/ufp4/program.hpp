// ufp4 - the command-line tool as a function of its arguments and output streams.
// SPDX-License-Identifier: Apache-2.0
/// | status | meaning; every status but 0 comes with one message on `err`                  |
/// |--------|------------------------------------------------------------------------------|
/// | 0      | done                                                                         |
/// | 1      | an input cannot be read or an output cannot be written                       |
/// | 2      | wrong usage of the command line or of UFP4_ISA                               |
/// | 130    | a conversion was interrupted; its output is unchanged                        |
#pragma once

#include <cerrno>
#include <exception>
#include <new>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <ufp4/cpu/dispatch.hpp>
#include <ufp4/interop/text.hpp>
#include <ufp4/version.hpp>

#include "../common/arguments.hpp"
#include "../common/output.hpp"
#include "../common/terminal.hpp"
#include "command.hpp"

namespace tool {

namespace detail {

inline void print_help(std::ostream& out) {
  out << "ufp4 - 4-bit block-scaled numbers: what a file holds, which format suits it, and files in 4 bits.\n\n"
         "usage: ufp4 COMMAND [ARGUMENT]...\n\n";
  for (const command* v : commands) out << "  " << common::left(std::string(v->name), 12) << v->summary << "\n";
  out << R"(
  ufp4 COMMAND --help    what a command takes, with examples
  ufp4 --version

examples
  ufp4 inspect model.safetensors
  ufp4 quantize model.safetensors -f nvfp4 -o model-nvfp4.safetensors
  ufp4 formats

exit status: 0 done; 1 an input cannot be read or an output cannot be written; 2 wrong usage,
of the command line or of the environment variable UFP4_ISA; 130 quantize, dequantize or cast was
interrupted: OUT is unchanged, or a folder that the same command completes
)";
}

inline bool asks_for_help(std::string_view word) { return word == "--help" || word == "-h"; }

inline const command* find_command(std::string_view name) {
  for (const command* v : commands)
    if (v->name == name) return v;
  return nullptr;
}

/// usage_error if UFP4_ISA names instructions that this machine does not have. Before the command prints anything.
inline void check_environment() {
  try {
    ufp4::cpu::resolve(ufp4::cpu::context{});
  } catch (const std::invalid_argument& e) {
    throw common::usage_error(e.what());
  }
}

/// The exit status after all output has been given to `out`.
inline int finished(std::ostream& out, std::ostream& err) {
  try {
    errno = 0;
    common::check_written(out, "standard output");
    return 0;
  } catch (const std::runtime_error& e) {
    err << "ufp4: " << e.what() << "\n";
    return 1;
  }
}

inline int run_command(const command& v, common::arguments& rest, std::ostream& out, std::ostream& err) {
  const std::string name = "ufp4 " + std::string(v.name);
  const auto complain = [&](const std::string& message) { err << name << ": " << message << "\n"; };
  try {
    check_environment();
    const int status = v.run(rest, out, err);
    errno = 0;
    common::check_written(out, "standard output");
    return status;
  } catch (const common::usage_error& e) {
    complain(std::string(e.what()) + "; " + name + " --help lists what is accepted");
    return 2;
  } catch (const std::bad_alloc&) {
    complain("there is not enough memory");
  } catch (const std::exception& e) {
    complain(e.what());
  }
  return 1;
}

}  // namespace detail

inline int run_program(int count, const char* const* values, std::ostream& out, std::ostream& err) {
  const std::string_view first = count > 1 ? values[1] : "";
  if (detail::asks_for_help(first) || first == "--version") {
    if (first == "--version")
      out << "ufp4 " << ufp4::version_string << "\n";
    else
      detail::print_help(out);
    return detail::finished(out, err);
  }
  const command* const v = detail::find_command(first);
  if (v == nullptr) {
    err << "ufp4: "
        << (first.empty() ? std::string("no command is given") : ufp4::interop::printable(first) + " is not a command")
        << "; ufp4 --help lists what is accepted\n";
    return 2;
  }
  for (int i = 2; i < count; ++i) {
    if (!detail::asks_for_help(values[i])) continue;
    out << v->help;
    return detail::finished(out, err);
  }
  common::arguments rest(count - 1, values + 1, "-");
  return detail::run_command(*v, rest, out, err);
}

}  // namespace tool
