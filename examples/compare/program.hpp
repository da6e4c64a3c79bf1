// ufp4 - `ufp4 compare`: reads a matrix, runs the experiment, writes the reports.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <ostream>
#include <stdexcept>
#include <string>
#include <ufp4/version.hpp>

#include "../common/arguments.hpp"
#include "../common/output.hpp"
#include "../common/terminal.hpp"
#include "command_line.hpp"
#include "corpus.hpp"
#include "experiment.hpp"
#include "matrix.hpp"
#include "report_csv.hpp"
#include "report_html.hpp"
#include "report_json.hpp"
#include "stored_matrix.hpp"
#include "table.hpp"

namespace compare {

namespace detail {

inline matrix read_input(const options& o) {
  switch (o.from) {
    case options::input::npy: return read_npy(o.paths.front(), o.rows);
    case options::input::safetensors: return read_safetensors(o.paths.front(), o.rows);
    case options::input::text: return read_corpus(o.paths, o.rows);
    case options::input::random: return random_matrix(o.paths.front(), o.rows);
    case options::input::headers: break;
  }
  return read_standard_headers(o.rows);
}

inline comparison measure(const options& o) {
  const common::progress_line line;
  line.show("reading the matrix");
  return run_comparison(read_input(o), o.with,
                        [&](std::size_t at, std::size_t of, const std::string& what) { line.step(at, of, what); });
}

inline void report(const options& o, const comparison& result, std::ostream& standard) {
  using common::write_to;
  const bool talk = o.on_stdout() == 0;
  if (talk) write_to("-", standard, [&](std::ostream& out) { print_table(out, result, stdout_wants_color()); });
  if (o.json) write_to(*o.json, standard, [&](std::ostream& out) { write_json(out, result, ufp4::version_string); });
  if (o.csv) write_to(*o.csv, standard, [&](std::ostream& out) { write_csv(out, result); });
  if (o.html_excluded || (!talk && !o.html_asked)) return;
  write_to(o.html, standard, [&](std::ostream& out) { write_html(out, result, ufp4::version_string); });
  if (talk) standard << "report: " << printable(o.html) << "\n";
}

}  // namespace detail

/// `ufp4 compare`: reads the arguments after the command's name and writes the reports.
inline int run(common::arguments& rest, std::ostream& out, std::ostream&) {
  const options o = parse_options(rest);
  for (const auto& output : outputs_of(o)) common::check_writable(output.second);
  try {
    detail::report(o, detail::measure(o), out);
  } catch (const std::bad_alloc&) {
    throw std::runtime_error("there is not enough memory for a matrix of this size; --rows takes fewer rows");
  }
  return 0;
}

}  // namespace compare
