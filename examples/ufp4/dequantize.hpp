// ufp4 - `ufp4 dequantize`: quantized weights of a file as plain numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>

#include "../common/arguments.hpp"
#include "conversion_run.hpp"
#include "dequantize_file.hpp"
#include "dequantize_model.hpp"
#include "output_path.hpp"

namespace tool {

inline constexpr const char* dequantize_help =
    R"(ufp4 dequantize - quantized weights of a file, or of a model, as plain numbers.

usage: ufp4 dequantize FILE [OPTION]... -o OUT

FILE is .safetensors, with weights in the layouts of compressed-tensors, Model Optimizer, torchao, GPT-OSS or ufp4, of
type F4, or of AWQ and GPTQ in 4 bits; or .gguf with MXFP4, NVFP4, Q4_0, Q4_1, Q4_K and IQ4_NL. Names, types and
metadata tell which tensors are weights and in which format. A Hadamard transform that FILE records is undone. OUT ends
in .safetensors or .gguf, which also get everything else of FILE, or in .npy for one weight. ggml's blocks that are not
dequantized (other types, weights that are not chosen) need .gguf: .safetensors has no type for them. FILE and any
weight in it may be larger than memory, but one of AWQ or GPTQ. An existing OUT is replaced when the new one is
complete, and keeps its permissions. Configuration beside FILE (config.json, hf_quant_config.json, the index.json of a
model in several files) is not written.

FILE may be the folder of a model, as for `ufp4 quantize`; config.json of OUT has no quantization_config.

  -o, --output OUT
  --to TYPE           f32 (default; exact), bf16 or f16, rounded to nearest; values beyond f16's range become infinities
  --tensor PATTERN    only weights of these names; may be repeated. * is any text, ? any character
  --skip PATTERN      leave weights of these names quantized; may be repeated
  --gptq VERSION      how zero points of GPTQ are stored: 1 (gptq) or 2 (gptq_v2). Default: the checkpoint_format of
                      quantize_config.json or config.json beside FILE, else 1
  --dry-run           print the sizes and write nothing
  --threads N         0: all cores (default)
  --json [JSON]       the report as JSON, into a file; without JSON, or with -, on standard output instead of the
                      table. JSON must not end in .safetensors, .npy or .gguf

examples
  ufp4 dequantize model-nvfp4.safetensors --to bf16 -o model.safetensors
  ufp4 dequantize model.gguf --to f16 -o model-f16.gguf
  ufp4 dequantize Model-8B-AWQ --to bf16 -o Model-8B
  ufp4 dequantize model.gguf --tensor blk.0.ffn_up.weight -o up.npy

exit status: 0 done; 1 FILE cannot be read or OUT cannot be written; 2 wrong usage; 130 interrupted, OUT is
unchanged, or a folder that the same command completes
)";

namespace detail {

inline number_type plain_type_named(const std::string& text) {
  if (text == "f32") return number_type::f32;
  if (text == "bf16") return number_type::bf16;
  if (text == "f16") return number_type::f16;
  throw common::usage_error("--to takes f32, bf16 or f16, not " + printable(text));
}

inline conversion_command<dequantize_request> parse_dequantize(common::arguments& rest) {
  conversion_command<dequantize_request> c;
  while (!rest.empty()) {
    const std::string word = rest.next();
    if (word == "--to")
      c.request.to = plain_type_named(rest.value(word));
    else if (word == "--gptq")
      c.request.gptq =
          rest.number(word, 1, 2) == 1 ? ufp4::interop::int4_layout::gptq : ufp4::interop::int4_layout::gptq_v2;
    else
      take_common(word, rest, c.request.ctx, c);
  }
  check_input_and_output(c.input, c.request.output, c.json);
  if (!is_folder(c.input)) check_ending(c.request.output, {".safetensors", ".gguf", ".npy"});
  return c;
}

}  // namespace detail

inline int dequantize(common::arguments& rest, std::ostream& out, std::ostream& err) {
  auto c = detail::parse_dequantize(rest);
  if (is_folder(c.input)) return run_model(c, dequantize_method(), out, err);
  return run_conversion(c, out, err,
                        [](tensor_input& in, const auto& request) { return dequantize_file(in, request); });
}

}  // namespace tool
