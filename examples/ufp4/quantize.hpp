// ufp4 - the command `quantize`: its command line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "../common/arguments.hpp"
#include "conversion_run.hpp"
#include "format_list.hpp"
#include "output_path.hpp"
#include "quantize_file.hpp"
#include "random_transform.hpp"
#include "tensor_input.hpp"

namespace tool {

inline constexpr const char* quantize_help =
    R"(ufp4 quantize - the matrices of a file in 4 bits.

usage: ufp4 quantize FILE -f FORMAT [OPTION]... -o OUT

FILE is .safetensors, .npy (float32, float16 or bfloat16) or .gguf; OUT ends in .safetensors, or in .gguf for nvfp4 and
mxfp4. Matrices, tensors of 2 dimensions, of F32, F16 and BF16 are quantized along their rows, if a row holds a block;
everything else is copied, and the table says why: tensors of 3 dimensions too (experts), FP8, and what is part of a
weight that is quantized already; from .gguf to .gguf ggml's other types too. A FILE without any such matrix is copied,
with a note on standard error: a model in several files has such ones. FILE and any matrix in it may be larger than
memory; a format with a tensor scale reads its matrices twice. Metadata are kept: of GGUF all from .gguf to .gguf, else
the strings; so a .gguf file has a general.architecture only if FILE has it. Configuration beside FILE (config.json,
hf_quant_config.json, the index.json of a model in several files) is neither read nor written. An OUT that exists is
replaced when the new one is whole, and keeps its permissions. The SQNR of the table is of what comes back, with the
transform undone.

  -f, --format FORMAT     as `ufp4 formats` lists them
  -o, --output OUT
  --tensor PATTERN        quantize only tensors of these names; may be repeated. * is any text, ? any character. An
                          error where none has such a name, or nothing so named can be quantized
  --skip PATTERN          copy tensors of these names as they are; may be repeated. A note where none has such a name
  --rht N                 a random Hadamard transform of 16, 32, 64, 128 or 256 columns first; 0: none (default)
  --rounding HOW          nearest (default) or stochastic
  --seed S                of the transform's signs and of stochastic rounding (default 0)
  --layout LAYOUT         names and meaning of the tensors in a .safetensors OUT: compressed_tensors or modelopt (nvfp4
                          and mxfp4, whole blocks, no --rht), or ufp4, which holds everything. Default:
                          compressed_tensors if it can hold every matrix of FILE, else ufp4; so name it for a model
                          in several files
  --threads N             0: all cores (default)
  --json [JSON]           what was done as JSON, into a file; without JSON, or with -, on standard output instead of
                          the table. JSON ends in none of .safetensors, .npy and .gguf

examples
  ufp4 quantize model.safetensors -f nvfp4 --skip 'lm_head.*' --skip '*embed*' -o model-nvfp4.safetensors
  ufp4 quantize model.safetensors -f e1m2_f32 --rht 16 --seed 7 -o model-ufp4.safetensors
  ufp4 quantize weights.npy -f mxfp4 -o weights.gguf

exit status: 0 done; 1 FILE cannot be read or OUT cannot be written; 2 wrong usage; 130 interrupted, OUT is what it was
)";

namespace detail {

struct quantize_command {
  std::string input;
  std::uint32_t rht = 0;  ///< the length; 0 is none
  bool stochastic = false;
  std::optional<std::string> json;  ///< "-" is standard output
  quantize_request request;
};

inline ufp4::interop::tensor_layout layout_named(const std::string& text) {
  using ufp4::interop::tensor_layout;
  for (const tensor_layout layout : {tensor_layout::compressed_tensors, tensor_layout::modelopt, tensor_layout::ufp4})
    if (text == name_of(layout)) return layout;
  throw common::usage_error("--layout takes compressed_tensors, modelopt or ufp4, not " + printable(text));
}

inline bool rounding_is_stochastic(const std::string& text) {
  if (text != "nearest" && text != "stochastic")
    throw common::usage_error("--rounding takes nearest or stochastic, not " + printable(text));
  return text == "stochastic";
}

/// One flag and its value; false for what is none.
inline bool take_flag(const std::string& flag, common::arguments& rest, quantize_command& c) {
  quantize_request& request = c.request;
  if (flag == "-f" || flag == "--format")
    request.format = rest.value(flag);
  else if (flag == "-o" || flag == "--output")
    request.output = rest.value(flag);
  else if (flag == "--tensor")
    request.chosen.push_back(rest.value(flag));
  else if (flag == "--skip")
    request.skipped.push_back(rest.value(flag));
  else if (flag == "--rht")
    c.rht = transform_length(rest, flag);
  else if (flag == "--rounding")
    c.stochastic = rounding_is_stochastic(rest.value(flag));
  else if (flag == "--seed")
    request.seed = rest.number(flag, 0, UINT64_MAX);
  else if (flag == "--layout")
    request.layout = layout_named(rest.value(flag));
  else if (flag == "--threads")
    request.with.ctx.threads = static_cast<int>(rest.number(flag, 0, 4096));
  else if (flag == "--json")
    c.json = report_name(rest);
  else
    return false;
  return true;
}

inline quantize_command parse_quantize(common::arguments& rest) {
  quantize_command c;
  while (!rest.empty()) {
    const std::string word = rest.next();
    if (take_flag(word, rest, c)) continue;
    take_input(word, c.input);
  }
  check_input_and_output(c.input, c.request.output, c.json);
  check_ending(c.request.output, {".safetensors", ".gguf"});
  if (c.request.format.empty()) throw common::usage_error("-f FORMAT is needed; there are " + listed_formats());
  c.request.with.transform = random_transform(c.rht, c.request.seed);
  if (c.stochastic) c.request.with.rounding = ufp4::stochastic{c.request.seed, 0};
  return c;
}

}  // namespace detail

inline int quantize(common::arguments& rest, std::ostream& out, std::ostream& err) {
  detail::quantize_command c = detail::parse_quantize(rest);
  visit_format(c.request.format, [](auto) { return 0; });  // an unknown name is said before FILE is looked at
  tensor_input in(c.input);
  return run_conversion(c.request, c.json, out, err, [&] {
    return visit_format(c.request.format,
                        [&](auto format) { return quantize_file<typename decltype(format)::type>(in, c.request); });
  });
}

}  // namespace tool
