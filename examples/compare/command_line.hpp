// ufp4 - the command line of `ufp4 compare`: options and the text of --help.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../common/arguments.hpp"
#include "../common/output.hpp"
#include "experiment.hpp"
#include "random_matrix.hpp"
#include "stored_matrix.hpp"
#include "text.hpp"

namespace compare {

inline constexpr const char* help_text =
    R"(ufp4 compare - quantizes a real matrix in presets of ufp4, with and without a Hadamard
transform, multiplies it with itself, and shows the errors.

usage: ufp4 compare [INPUT] [OPTION]...

input (default: the C++ standard library's own headers as text)
  --npy FILE                    a matrix from NumPy: float32, float16 or bfloat16 (void of 2 bytes)
  --safetensors FILE[:TENSOR]   a matrix of a safetensors file; without TENSOR its largest one
  --text PATH...                text files, or directories of them, one document a row
  --random NAME                 256 x 1024 random numbers: gauss, laplace, t5 (Student's t with 5 degrees of freedom)
                                or outliers (gauss, one of each 16 columns times 20)

output (default: a table here, and compare.html)
  --html FILE                   the report's name (- is stdout)
  --no-html                     no report
  --json [FILE], --csv [FILE]   the numbers; without FILE, or with -, they replace the table here
                                FILE must not end in .safetensors, .npy or .gguf

options
  -f, --format LIST             formats and groups of formats, separated by commas: base, extended, byte, or all
                                (default: base; `ufp4 formats` lists them)
  --rule RULE                   how the amax of a block becomes its scale, as in `ufp4 quantize` (default: default)
  --search ERROR                for each block, the scale near that of the rule with the smallest error: mse, mae, or
                                mse:BELOW,ABOVE with the steps of the window (default: no search)
  --rows N                      at most N rows, evenly spaced over the matrix; 0 is all (default 1000)
  --seed N                      of the transform's signs (default 0)
  --threads N                   0 is all cores (default 0)
  --help

examples
  ufp4 compare
  ufp4 compare --npy embeddings.npy --html embeddings.html
  ufp4 compare --npy embeddings.npy --format nvfp4,mxfp4,nvint4 --search mse
  ufp4 compare --npy embeddings.npy --format nv_e1m2,extended
  ufp4 compare --safetensors model.safetensors:model.layers.0.mlp.down_proj.weight --rows 2000
  ufp4 compare --random laplace --format all --csv
  ufp4 compare --text ~/notes --json | jq '.results[] | {format, rht, sqnr_db}'

exit status: 0 done; 1 the input cannot be read or an output cannot be written; 2 wrong usage
)";

using common::usage_error;

struct options {
  enum class input { headers, npy, safetensors, text, random } from = input::headers;
  std::vector<std::string> paths;
  std::string html = "compare.html";
  bool html_asked = false;
  bool html_excluded = false;
  std::optional<std::string> json;  ///< "-" is stdout
  std::optional<std::string> csv;
  std::size_t rows = 1000;
  settings with;

  int on_stdout() const { return (json == "-") + (csv == "-") + (html == "-"); }
};

/// The flag and the value of each report that will be written.
inline std::vector<std::pair<const char*, std::string>> outputs_of(const options& o) {
  std::vector<std::pair<const char*, std::string>> outputs;
  if (o.json) outputs.emplace_back("--json", *o.json);
  if (o.csv) outputs.emplace_back("--csv", *o.csv);
  if (!o.html_excluded && (o.html_asked || o.on_stdout() == 0)) outputs.emplace_back("--html", o.html);
  return outputs;
}

/// usage_error if two reports have the same name, or one would overwrite an input.
inline void check_outputs(const options& o) {
  const auto outputs = outputs_of(o);
  const auto reject = [](const auto& output, const std::string& what) {
    throw usage_error(output.first + (" " + printable(output.second)) + " would overwrite " + what);
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].second == "-") continue;
    for (std::size_t j = 0; j < i; ++j)
      if (common::is_same_file(outputs[i].second, outputs[j].second))
        reject(outputs[i], "the report of " + std::string(outputs[j].first));
    for (const std::string& path : o.paths) {
      if (o.from == options::input::random) break;
      const std::string input = o.from == options::input::safetensors ? split_tensor_argument(path).first : path;
      if (common::is_same_file(outputs[i].second, input)) reject(outputs[i], "the input " + printable(input));
    }
  }
}

inline options parse_options(common::arguments& rest) {
  options o;
  const auto input_is = [&](options::input kind, const std::string& flag) {
    if (o.from != options::input::headers) throw usage_error(flag + " is a second input; give one");
    o.from = kind;
    o.paths.push_back(rest.value(flag));
  };
  while (!rest.empty()) {
    const std::string flag = rest.next();
    if (flag == "--npy") {
      input_is(options::input::npy, flag);
    } else if (flag == "--safetensors") {
      input_is(options::input::safetensors, flag);
    } else if (flag == "--text") {
      input_is(options::input::text, flag);
      while (auto more = rest.optional_value()) o.paths.push_back(*more);
    } else if (flag == "--random") {
      input_is(options::input::random, flag);
      o.paths.front() = checked_random_name(o.paths.front());
    } else if (flag == "--html") {
      o.html = rest.value(flag);
      common::check_report_name(flag, o.html);
      o.html_asked = true;
    } else if (flag == "--no-html") {
      o.html_excluded = true;
    } else if (flag == "--json") {
      o.json = common::report_name(rest, flag);
    } else if (flag == "--csv") {
      o.csv = common::report_name(rest, flag);
    } else if (flag == "--rows") {
      o.rows = static_cast<std::size_t>(rest.number(flag, 0, std::uint64_t{1} << 31));
    } else if (flag == "--format" || flag == "-f") {
      o.with.formats = tool::formats_in_list(rest.value(flag));
    } else if (flag == "--rule") {
      tool::take_rule(rest, flag, o.with.scales);
    } else if (flag == "--search") {
      tool::take_search(rest, flag, o.with.scales);
    } else if (flag == "--seed") {
      o.with.seed = rest.number(flag, 0, UINT64_MAX);
    } else if (flag == "--threads") {
      o.with.threads = static_cast<int>(rest.number(flag, 0, 4096));
    } else {
      common::reject_argument(flag);
    }
  }
  if (o.on_stdout() > 1) throw usage_error("only one of --json, --csv and --html can go to stdout; name a file");
  if (o.html_asked && o.html_excluded) throw usage_error("--html and --no-html exclude each other");
  check_outputs(o);
  for (const std::string& name : o.with.formats) tool::check_rule(o.with.scales, tool::format_named(name));
  return o;
}

}  // namespace compare
