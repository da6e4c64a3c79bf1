// ufp4 - `ufp4 cast`: quantized weights of a file in another format.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>

#include "../common/arguments.hpp"
#include "cast_file.hpp"
#include "conversion_run.hpp"
#include "output_path.hpp"
#include "quantize.hpp"

namespace tool {

inline constexpr const char* cast_help =
    R"(ufp4 cast - quantized weights of a file in another format, without loss where they fit.

usage: ufp4 cast FILE -f FORMAT [OPTION]... -o OUT

FILE and OUT are .safetensors. FILE has weights in the layouts of compressed-tensors, Model Optimizer, torchao,
GPT-OSS or ufp4, or of type F4. A block whose values and scale fit FORMAT keeps its values: mxfp4 as nvfp4 where the
scales are within 2^17 of the largest, E1M2 as int4 and back, formats with 8-bit scales as those with binary32 scales,
nvfp4 as if4. Other blocks are quantized again from their values, with the search of the smallest squared error;
the table counts the blocks that differ, and its SQNR compares the weights before and after. A
Hadamard transform stays. A weight that has FORMAT already is written in the layout of OUT. Everything else of FILE is
copied. Formats with elements of one byte, and integers with zero points, cannot be cast: --skip leaves such weights.
A weight must fit in memory in both formats, one of three or more dimensions part by part. An existing OUT is
replaced when the new one is complete, and keeps its permissions.

  -f, --format FORMAT     as `ufp4 formats` lists them
  -o, --output OUT
  --tensor PATTERN        only weights of these names; may be repeated. * is any text, ? any character
  --skip PATTERN          leave weights of these names as they are; may be repeated
  --layout LAYOUT         names and meaning of the tensors in OUT: compressed_tensors, modelopt or f4 (nvfp4 and mxfp4),
                          gpt_oss (mxfp4), all of matrices of whole blocks without a transform; or ufp4, which
                          represents everything. Default: compressed_tensors if it can represent every weight, else ufp4
  --dry-run               print the sizes and write nothing
  --threads N             0: all cores (default)
  --json [JSON]           the report as JSON, into a file; without JSON, or with -, on standard output instead of the
                          table. JSON must not end in .safetensors, .npy or .gguf

examples
  ufp4 cast model-mxfp4.safetensors -f nvfp4 -o model-nvfp4.safetensors
  ufp4 cast model-nvfp4.safetensors -f nvfp4 --layout modelopt -o model.safetensors

exit status: 0 done; 1 FILE cannot be read or OUT cannot be written; 2 wrong usage; 130 interrupted, OUT is unchanged
)";

namespace detail {

inline conversion_command<cast_request> parse_cast(common::arguments& rest) {
  conversion_command<cast_request> c;
  while (!rest.empty()) {
    const std::string word = rest.next();
    if (word == "-f" || word == "--format")
      c.request.format = rest.value(word);
    else if (word == "--layout")
      c.request.layout = layout_named(rest.value(word));
    else
      take_common(word, rest, c.request.ctx, c);
  }
  check_input_and_output(c.input, c.request.output, c.json);
  check_ending(c.request.output, {".safetensors"});
  if (is_folder(c.input))
    throw common::usage_error(printable(c.input) + " is a folder; `ufp4 cast` converts one file at a time");
  if (c.request.format.empty())
    throw common::usage_error("-f FORMAT is needed; there are " + ufp4::detail::preset_names());
  c.request.spec = format_named(c.request.format).spec;
  return c;
}

}  // namespace detail

inline int cast(common::arguments& rest, std::ostream& out, std::ostream& err) {
  auto c = detail::parse_cast(rest);
  return run_conversion(c, out, err, [](tensor_input& in, const auto& request) { return cast_file(in, request); });
}

}  // namespace tool
