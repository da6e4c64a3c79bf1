// ufp4 - `ufp4 inspect`: the tensors of a file, and the error of each in 4-bit formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "../common/arguments.hpp"
#include "../common/output.hpp"
#include "../common/terminal.hpp"
#include "inspect_report.hpp"
#include "model_files.hpp"
#include "output_path.hpp"
#include "random_transform.hpp"

namespace tool {

inline constexpr const char* inspect_help =
    R"(ufp4 inspect - what is in a file of tensors, and which 4-bit format and transform suit each.

usage: ufp4 inspect FILE [OPTION]...

  FILE                .safetensors, .npy or .gguf, recognized by its first bytes; or the folder of a model,
                      whose .safetensors files (those of its index, or all) are shown one after the other

what to look at
  --tensor PATTERN      the tensors with such a name (* is any text, ? any character); may be
                        repeated. Vectors are measured, as one row, only if selected this way
  --list                only types and shapes: reads the header and no tensor
  --axis [PATTERN=]N    blocks along dimension N of the tensors of such names, counted from 0; without
                        PATTERN of all tensors of three or more dimensions (default: the last)
  --rows N              at most N rows of a tensor, evenly spaced; 0 is all (default 0)

what to measure
  -f, --format LIST     formats and groups of formats, separated by commas: base, extended, byte, or all
                        (`ufp4 formats` lists them; default: base except the int4 formats, which have
                        the values of the E1M2 formats with other codes)
  --rht N               the Hadamard transform's length: 16, 32, 64, 128 or 256; 0 measures without one
                        (default: each format's block)
  --rule RULE           how the amax of a block becomes its scale, as in `ufp4 quantize` (default: default)
  --search ERROR        for each block, the scale near that of the rule with the smallest error: mse, mae, or
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
    if (f.group == format_group::base && !f.is_integer()) chosen.emplace_back(f.name);
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
    else if (word == "--rule")
      take_rule(rest, word, o.plan.scales);
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

/// The selected entries; file_error if a pattern matches none of a file that is shown alone.
inline std::vector<file_entry> chosen_entries(tensor_input& input, const inspect_options& o, bool alone) {
  std::vector<file_entry> entries = entries_of(input, !o.patterns.empty(), o.axes);
  for (const std::string& pattern : o.patterns)
    if (alone && std::none_of(entries.begin(), entries.end(), [&](const auto& e) { return matches(pattern, e.name); }))
      input.file().fail("has no tensor whose name is " + printable(pattern) + "; it has " + names_of_entries(entries));
  if (!o.patterns.empty())
    std::erase_if(entries, [&](const file_entry& e) { return !matches_any(o.patterns, e.name); });
  return entries;
}

inline void print_file_head(std::ostream& out, const inspected_file& file, const std::vector<file_entry>& entries) {
  std::uint64_t bytes = 0;
  for (const file_entry& e : entries) bytes += e.bytes;
  out << printable(file.path) << ": " << file.kind << ", " << compare::grouped(entries.size())
      << (entries.size() == 1 ? " tensor, " : " tensors, ") << compare::byte_size(static_cast<double>(bytes)) << "\n";
}

/// The files of a folder, or the one file. file_error for a folder that is no model, or has no tensor of a pattern.
inline std::vector<std::string> inspected_paths(const inspect_options& o) {
  std::error_code error;
  if (!std::filesystem::is_directory(o.path, error)) return {o.path};
  const model_files model = read_model(o.path);
  std::vector<std::string> paths;
  std::vector<bool> found(o.patterns.size());
  for (const std::string& shard : model.shards) {
    tensor_input input(paths.emplace_back(model.path(shard)));
    const std::vector<file_entry> entries = entries_of(input, true, {});
    for (std::size_t i = 0; i < found.size(); ++i)
      found[i] = found[i] || std::any_of(entries.begin(), entries.end(),
                                         [&](const auto& e) { return matches(o.patterns[i], e.name); });
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!found[i]) ufp4::interop::fail_file(o.path, "has no tensor whose name is " + printable(o.patterns[i]));
  return paths;
}

/// Measures one file. Prints its report except for the last table, unless `out` is null; a single tensor in detail if
/// the file is shown alone.
inline inspected_file inspect_file(const std::string& path, const inspect_options& o, bool alone, std::ostream* out) {
  tensor_input input(path);
  const std::vector<file_entry> entries = chosen_entries(input, o, alone);
  const auto to_measure = static_cast<std::size_t>(
      std::count_if(entries.begin(), entries.end(), [&](const auto& e) { return !o.list && e.not_measured.empty(); }));
  if (o.json) common::check_writable(*o.json);
  const std::vector<double> sizes = sizes_of(o.plan.formats);
  const bool detailed = o.detail || (alone && to_measure == 1);
  inspected_file file{path, std::string(kind_of(input)), {}};
  if (out != nullptr) print_file_head(*out, file, entries);
  if (out != nullptr && to_measure > 0 && !detailed) print_line_head(*out << "\n", o.plan.formats);

  const common::progress_line line;
  std::size_t at = 0;
  for (const file_entry& e : entries) {
    inspected& t = file.tensors.emplace_back(inspected{e, {}});
    if (!o.list && e.not_measured.empty()) {
      ++at;
      t.measured = measure_matrix(input.file(), e, o.plan, [&](double part) {
        line.step(at, to_measure, compare::fixed(100 * part, 0) + " %  " + printable(e.name));
      });
    }
    if (out == nullptr) continue;
    line.clear();
    if (detailed && t.measured)
      print_detail(*out << "\n", t, sizes);
    else
      print_line(*out, t, o.plan.formats, o.list);
    out->flush();
  }
  line.clear();
  return file;
}

}  // namespace detail

inline int inspect(common::arguments& rest, std::ostream& out, std::ostream&) {
  const inspect_options o = detail::parse_inspect(rest);
  const std::vector<std::string> paths = detail::inspected_paths(o);
  const bool prints_text = o.json != "-", alone = paths.front() == o.path;
  std::vector<inspected_file> files;
  for (const std::string& path : paths) {
    if (prints_text && !files.empty()) out << "\n";
    files.push_back(detail::inspect_file(path, o, alone, prints_text ? &out : nullptr));
  }
  std::vector<const inspected*> measured;
  for (const inspected_file& file : files)
    for (const inspected& t : file.tensors)
      if (t.measured) measured.push_back(&t);
  if (prints_text && measured.size() > 1) print_tally(out, measured, detail::sizes_of(o.plan.formats));
  if (o.json)
    common::write_to(*o.json, out, [&](std::ostream& to) {
      if (alone)
        write_inspection_json(to, files.front(), o.plan);
      else
        write_inspection_json(to, o.path, files, o.plan);
    });
  return 0;
}

}  // namespace tool
