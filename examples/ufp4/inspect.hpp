// ufp4 - `ufp4 inspect`: the tensors of a file, and the error of each in 4-bit formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../common/arguments.hpp"
#include "../common/output.hpp"
#include "../common/terminal.hpp"
#include "inspect_report.hpp"
#include "output_path.hpp"
#include "random_transform.hpp"

namespace tool {

inline constexpr const char* inspect_help =
    R"(ufp4 inspect - what is in a file of tensors, and which 4-bit format and transform suit each.

usage: ufp4 inspect FILE [OPTION]...

  FILE                .safetensors, .npy or .gguf, recognized by its first bytes

what to look at
  --tensor PATTERN      the tensors with such a name (* is any text, ? any character); may be
                        repeated. Vectors are measured, as one row, only if selected this way
  --list                only types and shapes: reads the header and no tensor
  --axis [PATTERN=]N    blocks along dimension N of the tensors of such names, counted from 0; without
                        PATTERN of all tensors of three or more dimensions (default: the last)
  --rows N              at most N rows of a tensor, evenly spaced; 0 is all (default 0)

what to measure
  -f, --format LIST     formats, separated by commas, or all (default: all except the int4 formats,
                        which have the values of the E1M2 formats with other codes)
  --rht N               the Hadamard transform's length: 16, 32, 64, 128 or 256; 0 measures without one
                        (default: each format's block)
  --search ERROR        for each block, the scale near the default one with the smallest error: mse, mae, or
                        mse:BELOW,ABOVE with the steps of the window (default: no search)
  --seed N              of the transform's signs (default 0)

how to show it
  --detail              every format of every tensor; a single tensor is always shown so
  --json [OUT]          all numbers as JSON; without OUT, or with -, on stdout instead of the text.
                        OUT must not end in .safetensors, .npy or .gguf
  --threads N           0 is all cores (default 0)
  --help

For each size (bits of an element, with its share of the scales) it shows the format with the highest
SQNR, 10 log10(sum x^2 / sum (q - x)^2), x being the input of quantization. +H: after a Hadamard transform.
amax: the largest magnitude. crest: amax / rms. atten.: sum x q / sum x^2, below 1 if rounding shrinks
values; in a tensor's line that of the first format of -f (default nvfp4), without a transform. buckets:
2^entropy of the values used, divided by their number. All rows are measured unless --rows is given; the
file is read by rows and may be larger than memory. Tensors that quantize copies (one dimension, other types
than F32, F16 and BF16, rows shorter than a block) are marked, and not counted at the end. A tensor of three
or more dimensions is the stack of its matrices; each has its own tensor scale.

examples
  ufp4 inspect model.safetensors
  ufp4 inspect model.safetensors --tensor '*down_proj*' --format nvfp4,nv_e1m2 --rht 64
  ufp4 inspect weights.npy
  ufp4 inspect model.gguf --list
  ufp4 inspect model.safetensors --rows 512 --json | jq '.tensors[] | {name, highest_sqnr}'

exit status: 0 done; 1 FILE cannot be read or OUT cannot be written; 2 wrong usage
)";

struct inspect_options {
  std::string path;
  std::vector<std::string> patterns;
  measure_plan plan;
  std::vector<axis_choice> axes;
  bool list = false;
  bool detail = false;
  std::optional<std::string> json;  ///< "-" is stdout
};

namespace detail {

inline std::vector<std::string> usual_formats() {
  std::vector<std::string> chosen;
  for (const format_facts& f : all_formats())
    if (!f.is_integer()) chosen.emplace_back(f.name);
  return chosen;
}

/// `length` for every format, or 0 for no transform at all.
inline void set_transform(measure_plan& plan, std::uint32_t length) {
  plan.hadamard = length != 0;
  plan.hadamard_length = length;
}

inline inspect_options parse_inspect(common::arguments& rest) {
  inspect_options o;
  o.plan.formats = usual_formats();
  while (!rest.empty()) {
    const std::string word = rest.next();
    if (word == "--tensor")
      o.patterns.push_back(rest.value(word));
    else if (word == "--axis")
      o.axes.push_back(parse_axis(rest.value(word)));
    else if (word == "--list")
      o.list = true;
    else if (word == "--rows")
      o.plan.rows = rest.number(word, 0, std::uint64_t{1} << 48);
    else if (word == "--format" || word == "-f")
      o.plan.formats = formats_in_list(rest.value(word));
    else if (word == "--rht")
      set_transform(o.plan, transform_length(rest, word));
    else if (word == "--search")
      take_search(rest, word, o.plan.scales);
    else if (word == "--seed")
      o.plan.seed = rest.number(word, 0, UINT64_MAX);
    else if (word == "--detail")
      o.detail = true;
    else if (word == "--json")
      o.json = report_name(rest);
    else if (word == "--threads")
      o.plan.threads = static_cast<int>(rest.number(word, 0, 4096));
    else
      take_input(word, o.path);
  }
  check_input(o.path, o.json);
  for (const std::string& name : o.plan.formats) check_rule(o.plan.scales, format_named(name));
  return o;
}

/// "a, b, c and 4 more".
inline std::string names_of_entries(const std::vector<file_entry>& entries) {
  constexpr std::size_t shown = 12;
  std::string text;
  for (std::size_t i = 0; i < entries.size() && i < shown; ++i)
    text += (i == 0 ? "" : ", ") + printable(entries[i].name);
  return entries.size() <= shown ? text : text + " and " + std::to_string(entries.size() - shown) + " more";
}

/// The selected entries; file_error if a pattern matches none.
inline std::vector<file_entry> chosen_entries(tensor_input& input, const inspect_options& o) {
  std::vector<file_entry> entries = entries_of(input, !o.patterns.empty(), o.axes);
  for (const std::string& pattern : o.patterns)
    if (std::none_of(entries.begin(), entries.end(), [&](const auto& e) { return matches(pattern, e.name); }))
      input.file().fail("has no tensor whose name is " + printable(pattern) + "; it has " + names_of_entries(entries));
  if (!o.patterns.empty())
    std::erase_if(entries, [&](const file_entry& e) { return !matches_any(o.patterns, e.name); });
  return entries;
}

inline void print_file_head(std::ostream& out, const inspect_options& o, std::string_view kind,
                            const std::vector<file_entry>& entries) {
  std::uint64_t bytes = 0;
  for (const file_entry& e : entries) bytes += e.bytes;
  out << printable(o.path) << ": " << kind << ", " << compare::grouped(entries.size())
      << (entries.size() == 1 ? " tensor, " : " tensors, ") << compare::byte_size(static_cast<double>(bytes)) << "\n";
}

}  // namespace detail

inline int inspect(common::arguments& rest, std::ostream& out, std::ostream&) {
  const inspect_options o = detail::parse_inspect(rest);
  tensor_input input(o.path);
  const std::vector<file_entry> entries = detail::chosen_entries(input, o);
  const auto to_measure = static_cast<std::size_t>(
      std::count_if(entries.begin(), entries.end(), [&](const auto& e) { return !o.list && e.not_measured.empty(); }));
  if (o.json) common::check_writable(*o.json);
  const std::vector<double> sizes = detail::sizes_of(o.plan.formats);
  const bool prints_text = o.json != "-", detailed = o.detail || to_measure == 1;
  if (prints_text) {
    detail::print_file_head(out, o, kind_of(input), entries);
    if (to_measure > 0 && !detailed) print_line_head(out << "\n", sizes);
  }

  const common::progress_line line;
  std::vector<inspected> all;
  std::size_t at = 0;
  for (const file_entry& e : entries) {
    inspected& t = all.emplace_back(inspected{e, {}});
    if (!o.list && e.not_measured.empty()) {
      ++at;
      t.measured = measure_matrix(input.file(), e, o.plan, [&](double part) {
        line.step(at, to_measure, compare::fixed(100 * part, 0) + " %  " + detail::printable(e.name));
      });
    }
    if (!prints_text) continue;
    line.clear();
    if (detailed && t.measured)
      print_detail(out << "\n", t, sizes);
    else
      print_line(out, t, sizes, o.list);
    out.flush();
  }
  line.clear();
  if (prints_text && to_measure > 1) print_tally(out, all, sizes);
  if (o.json)
    common::write_to(*o.json, out,
                     [&](std::ostream& to) { write_inspection_json(to, o.path, kind_of(input), o.plan, all); });
  return 0;
}

}  // namespace tool
