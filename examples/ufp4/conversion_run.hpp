// ufp4 - a conversion as the user sees it: its options, progress, Ctrl-C, then the table and the JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <ostream>
#include <string>
#include <ufp4/cpu/context.hpp>
#include <ufp4/interop/text.hpp>

#include "../common/arguments.hpp"
#include "../common/interrupt.hpp"
#include "../common/output.hpp"
#include "../common/terminal.hpp"
#include "conversion_report.hpp"
#include "conversion_request.hpp"
#include "output_path.hpp"
#include "tensor_input.hpp"

namespace tool {

/// As shells report the end by SIGINT.
inline constexpr int interrupted_status = 130;

/// The command line of a conversion.
template <class Request>
struct conversion_command {
  std::string input;
  std::optional<std::string> json;  ///< "-" is standard output
  Request request;
};

/// An option that quantize and dequantize have in common, or FILE.
template <class Request>
void take_common(const std::string& word, common::arguments& rest, ufp4::cpu::context& ctx,
                 conversion_command<Request>& c) {
  if (word == "-o" || word == "--output")
    c.request.output = rest.value(word);
  else if (word == "--tensor")
    c.request.chosen.push_back(rest.value(word));
  else if (word == "--skip")
    c.request.skipped.push_back(rest.value(word));
  else if (word == "--dry-run")
    c.request.dry_run = true;
  else if (word == "--threads")
    ctx.threads = static_cast<int>(rest.number(word, 0, 4096));
  else if (word == "--json")
    c.json = report_name(rest);
  else
    take_input(word, c.input);
}

namespace detail {
struct interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};
}  // namespace detail

/// Runs convert(input file), which returns the conversion and calls request.progress for every chunk. An interruption
/// leaves the output unchanged. Returns the exit status.
template <class Request, class Convert>
int run_conversion(conversion_command<Request>& c, std::ostream& out, std::ostream& err, Convert convert) {
  tensor_input in(c.input);
  if (c.json) common::check_writable(*c.json);
  const common::progress_line line;
  const common::interrupt stop;
  c.request.progress = [&](std::size_t at, std::size_t of, const std::string& what, double) {
    if (stop.seen()) throw detail::interrupted();
    line.step(at, of, what);
  };
  conversion report;
  try {
    report = convert(in, c.request);
  } catch (const detail::interrupted&) {
    line.clear();
    err << "ufp4: interrupted; " << ufp4::interop::printable(c.request.output) << " is unchanged\n";
    return interrupted_status;
  }
  line.clear();
  for (const std::string& note : report.notes) err << "ufp4: note: " << note << "\n";
  if (c.json != "-") print_table(out, report);
  if (c.json) common::write_to(*c.json, out, [&](std::ostream& to) { print_json(to, report); });
  return 0;
}

}  // namespace tool
