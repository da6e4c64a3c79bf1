// ufp4 - compare as a function: arguments in, reports out, exit status back.
// SPDX-License-Identifier: Apache-2.0
/// | 0 | done                                                                                       |
/// | 1 | an input that cannot be read or an output that cannot be written: one sentence on `err`     |
/// | 2 | wrong usage: one sentence on `err`                                                         |
#pragma once

#include <exception>
#include <fstream>
#include <functional>
#include <new>
#include <ostream>
#include <string>
#include <ufp4/version.hpp>

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
    case options::input::headers: break;
  }
  return read_standard_headers(o.rows);
}

/// "-" is `standard`. A full disk is noticed here and not by the reader of half a file.
inline void write_to(const std::string& path, std::ostream& standard, const std::function<void(std::ostream&)>& write) {
  const std::string name = path == "-" ? "standard output" : printable(path);
  std::ofstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) throw input_error(name + ": cannot be opened for writing");
  }
  std::ostream& out = path == "-" ? standard : file;
  write(out);
  out.flush();
  if (!out) throw input_error(name + ": could not be written to its end");
}

inline comparison measure(const options& o) {
  const progress_line line;
  line.show("reading the matrix");
  return run_comparison(read_input(o), o.with,
                        [&](std::size_t at, std::size_t of, const std::string& what) { line.step(at, of, what); });
}

inline void report(const options& o, const comparison& result, std::ostream& standard) {
  const bool talk = o.on_stdout() == 0;
  if (talk) write_to("-", standard, [&](std::ostream& out) { print_table(out, result, stdout_wants_color()); });
  if (o.json) write_to(*o.json, standard, [&](std::ostream& out) { write_json(out, result, ufp4::version_string); });
  if (o.csv) write_to(*o.csv, standard, [&](std::ostream& out) { write_csv(out, result); });
  if (o.html_refused || (!talk && !o.html_asked)) return;
  write_to(o.html, standard, [&](std::ostream& out) { write_html(out, result, ufp4::version_string); });
  if (talk) standard << "report: " << printable(o.html) << "\n";
}

}  // namespace detail

inline int run_program(int count, const char* const* values, std::ostream& out, std::ostream& err) {
  const auto complain = [&](const std::string& sentence) { err << "compare: " << sentence << "\n"; };
  try {
    const options o = parse_options(count, values);
    if (o.show_help)
      out << help_text;
    else if (o.show_version)
      out << "compare, ufp4 " << ufp4::version_string << "\n";
    else
      detail::report(o, detail::measure(o), out);
    return 0;
  } catch (const usage_error& e) {
    complain(std::string(e.what()) + "; compare --help shows what there is");
    return 2;
  } catch (const input_error& e) {
    complain(e.what());
  } catch (const std::bad_alloc&) {
    complain("there is not enough memory for a matrix of this size; --rows takes fewer rows");
  } catch (const std::exception& e) {
    complain(e.what());
  }
  return 1;
}

}  // namespace compare
