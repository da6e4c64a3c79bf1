// ufp4 - the command `dequantize`: its command line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "../common/arguments.hpp"
#include "conversion_run.hpp"
#include "dequantize_file.hpp"
#include "output_path.hpp"
#include "tensor_input.hpp"

namespace tool {

inline constexpr const char* dequantize_help =
    R"(ufp4 dequantize - quantized weights of a file as plain numbers.

usage: ufp4 dequantize FILE [OPTION]... -o OUT

FILE is .safetensors, with weights as compressed-tensors, Model Optimizer, torchao or ufp4 keep them, or .gguf with
MXFP4 and NVFP4. Which tensors are weights, and in which format, is found by their names, types and metadata. A
Hadamard transform that FILE records is undone. OUT ends in .safetensors or .gguf, which have everything else of FILE
too, or in .npy for one weight. ggml's blocks that stay as they are (other types than MXFP4 and NVFP4, weights that are
not chosen) need .gguf: .safetensors has no type for them. FILE and any weight in it may be larger than memory. An OUT
that exists is replaced when the new one is whole, and keeps its permissions. Configuration beside FILE (config.json,
hf_quant_config.json, the index.json of a model in several files) is neither read nor written.

  -o, --output OUT
  --to TYPE           f32 (default; loses nothing), bf16 or f16, rounded to nearest; beyond f16's range are infinities
  --tensor PATTERN    only weights of these names; may be repeated. * is any text, ? any character
  --skip PATTERN      leave weights of these names quantized; may be repeated
  --threads N         0: all cores (default)
  --json [JSON]       what was done as JSON, into a file; without JSON, or with -, on standard output instead of the
                      table. JSON ends in none of .safetensors, .npy and .gguf

examples
  ufp4 dequantize model-nvfp4.safetensors --to bf16 -o model.safetensors
  ufp4 dequantize model.gguf --to f16 -o model-f16.gguf
  ufp4 dequantize model.gguf --tensor blk.0.ffn_up.weight -o up.npy

exit status: 0 done; 1 FILE cannot be read or OUT cannot be written; 2 wrong usage; 130 interrupted, OUT is what it was
)";

namespace detail {

struct dequantize_command {
  std::string input;
  std::optional<std::string> json;  ///< "-" is standard output
  dequantize_request request;
};

inline number_type plain_type_named(const std::string& text) {
  if (text == "f32") return number_type::f32;
  if (text == "bf16") return number_type::bf16;
  if (text == "f16") return number_type::f16;
  throw common::usage_error("--to takes f32, bf16 or f16, not " + printable(text));
}

inline dequantize_command parse_dequantize(common::arguments& rest) {
  dequantize_command c;
  while (!rest.empty()) {
    const std::string word = rest.next();
    if (word == "-o" || word == "--output")
      c.request.output = rest.value(word);
    else if (word == "--to")
      c.request.to = plain_type_named(rest.value(word));
    else if (word == "--tensor")
      c.request.chosen.push_back(rest.value(word));
    else if (word == "--skip")
      c.request.skipped.push_back(rest.value(word));
    else if (word == "--threads")
      c.request.ctx.threads = static_cast<int>(rest.number(word, 0, 4096));
    else if (word == "--json")
      c.json = report_name(rest);
    else
      take_input(word, c.input);
  }
  check_input_and_output(c.input, c.request.output, c.json);
  check_ending(c.request.output, {".safetensors", ".gguf", ".npy"});
  return c;
}

}  // namespace detail

inline int dequantize(common::arguments& rest, std::ostream& out, std::ostream& err) {
  detail::dequantize_command c = detail::parse_dequantize(rest);
  tensor_input in(c.input);
  return run_conversion(c.request, c.json, out, err, [&] { return dequantize_file(in, c.request); });
}

}  // namespace tool
