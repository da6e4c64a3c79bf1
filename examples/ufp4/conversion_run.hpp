// ufp4 - a conversion as the user sees it: progress, Ctrl-C, then the table and the JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <ostream>
#include <string>
#include <ufp4/interop/text.hpp>

#include "../common/interrupt.hpp"
#include "../common/output.hpp"
#include "../common/terminal.hpp"
#include "conversion_report.hpp"

namespace tool {

/// As shells count what SIGINT ended.
inline constexpr int interrupted_status = 130;

namespace detail {
struct interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};
}  // namespace detail

/// convert() returns the conversion and calls request.progress for every chunk; where that throws, it leaves no file.
/// Returns the exit status.
template <class Request, class Convert>
int run_conversion(Request& request, const std::optional<std::string>& json, std::ostream& out, std::ostream& err,
                   Convert convert) {
  if (json) common::check_writable(*json);
  const common::progress_line line;
  const common::interrupt stop;
  request.progress = [&](std::size_t at, std::size_t of, const std::string& what) {
    if (stop.seen()) throw detail::interrupted();
    line.step(at, of, what);
  };
  conversion report;
  try {
    report = convert();
  } catch (const detail::interrupted&) {
    line.clear();
    err << "ufp4: interrupted; " << ufp4::interop::printable(request.output) << " is what it was\n";
    return interrupted_status;
  }
  line.clear();
  for (const std::string& note : report.notes) err << "ufp4: note: " << note << "\n";
  if (json != "-") print_table(out, report);
  if (json) common::write_to(*json, out, [&](std::ostream& to) { print_json(to, report); });
  return 0;
}

}  // namespace tool
