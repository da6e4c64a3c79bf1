// ufp4 - `ufp4 quantize`: the matrices of a file in 4 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "../common/arguments.hpp"
#include "conversion_run.hpp"
#include "format_list.hpp"
#include "output_path.hpp"
#include "quantize_file.hpp"
#include "quantize_model.hpp"
#include "random_transform.hpp"
#include "scale_rule_options.hpp"

namespace tool {

inline constexpr const char* quantize_help =
    R"(ufp4 quantize - the matrices of a file, or of a model, in 4 bits.

usage: ufp4 quantize FILE -f FORMAT [OPTION]... -o OUT

FILE is .safetensors, .npy (float32, float16 or bfloat16) or .gguf; OUT ends in .safetensors, or in .gguf for nvfp4 and
mxfp4. Matrices of F32, F16 and BF16 are quantized along their rows, if a row has at least one block. A tensor of more
dimensions, such as experts, is the stack of its matrices: each index of the first dimension has its own tensor scale.
It is quantized along its last dimension, or along another with --axis: the weights of convolutions, [out, in, height,
width], with --axis 1. Everything else is copied, and the table gives the reason: also FP8, and parts of weights that
are already quantized; from .gguf to .gguf also ggml's other types. A FILE with nothing to quantize is copied with a
note on standard error, since a model in several files may have one. FILE and any tensor in it may be larger than
memory; a format with a tensor scale reads its tensors twice. Metadata are kept: from .gguf to .gguf all, else the
strings; so a .gguf file has a general.architecture only if FILE has it. Configuration beside FILE (config.json,
hf_quant_config.json, the index.json of a model in several files) is neither read nor written. An existing OUT is
replaced when the new one is complete, and keeps its permissions. The SQNR of the table compares the input with the
dequantized output, the transform undone.

FILE may be the folder of a model: then OUT is a folder, which must be new, empty or the output of the same command.
Every .safetensors file that the model's index.json names is converted, or every one if there is no index. The index and
the quantization_config of config.json are written again; other files are copied, but for other weights and folders.
After an interruption, also by SIGKILL, the same command continues: OUT/ufp4_conversion.json has what is complete.

  -f, --format FORMAT     as `ufp4 formats` lists them
  -o, --output OUT
  --tensor PATTERN        quantize only tensors of these names; may be repeated. * is any text, ? any character. It is
                          an error if no tensor has such a name, or none of them can be quantized
  --skip PATTERN          copy tensors of these names; may be repeated. A note is printed if no tensor has such a name
  --axis [PATTERN=]N      quantize tensors of such names along dimension N, counted from 0; without PATTERN all tensors
                          of three or more dimensions; may be repeated, the last that matches counts (default: the
                          last dimension)
  --rht N                 a random Hadamard transform of 16, 32, 64, 128 or 256 columns first; 0: none (default)
  --rounding HOW          nearest (default) or stochastic
  --rule RULE             how the amax of a block becomes its scale: default, scale_up, mx_floor, mx_even, mx_ceil,
                          four_over_six, four_over_six_mae (nvfp4), or percentile:P, P in thousandths
  --search ERROR          near that scale, the one with the smallest error: mse, mae, or mse:BELOW,ABOVE with the
                          steps of the window
  --choose-grid ERROR     of formats with several grids (if4, mixfp4, razer): a block has the grid with the smallest
                          squared (mse, default), absolute (mae) or largest (max) error
  --seed S                of the transform's signs and of stochastic rounding (default 0)
  --layout LAYOUT         names and meaning of the tensors in a .safetensors OUT: compressed_tensors, modelopt or f4
                          (nvfp4 and mxfp4), gpt_oss (mxfp4), all of whole blocks and without --rht; or ufp4, which
                          represents everything. Default: compressed_tensors if it can represent every weight of FILE,
                          else ufp4; a folder gets one layout for all files
  --dry-run               print the sizes and write nothing
  --threads N             0: all cores (default)
  --json [JSON]           the report as JSON, into a file; without JSON, or with -, on standard output instead of
                          the table. JSON must not end in .safetensors, .npy or .gguf

examples
  ufp4 quantize model.safetensors -f nvfp4 --search mse -o model-nvfp4.safetensors
  ufp4 quantize model.safetensors -f nvfp4 --skip 'lm_head.*' --skip '*embed*' -o model-nvfp4.safetensors
  ufp4 quantize model.safetensors -f e1m2_f32 --rht 16 --seed 7 -o model-ufp4.safetensors
  ufp4 quantize weights.npy -f mxfp4 -o weights.gguf
  ufp4 quantize Model-8B -f nvfp4 --skip lm_head.weight --skip '*embed*' -o Model-8B-NVFP4

exit status: 0 done; 1 FILE cannot be read or OUT cannot be written; 2 wrong usage; 130 interrupted, OUT is
unchanged, or a folder that the same command completes
)";

namespace detail {

inline ufp4::interop::tensor_layout layout_named(const std::string& text) {
  std::string names;
  for (const ufp4::interop::tensor_layout layout : ufp4::interop::tensor_layouts) {
    if (text == name_of(layout)) return layout;
    names += (names.empty() ? "" : ", ") + std::string(name_of(layout));
  }
  throw common::usage_error("--layout takes one of " + names + ", not " + printable(text));
}

inline bool rounding_is_stochastic(const std::string& text) {
  if (text != "nearest" && text != "stochastic")
    throw common::usage_error("--rounding takes nearest or stochastic, not " + printable(text));
  return text == "stochastic";
}

inline conversion_command<quantize_request> parse_quantize(common::arguments& rest) {
  conversion_command<quantize_request> c;
  quantize_request& request = c.request;
  std::uint32_t rht = 0;
  bool stochastic = false;
  while (!rest.empty()) {
    const std::string word = rest.next();
    if (word == "-f" || word == "--format")
      request.format = rest.value(word);
    else if (word == "--axis")
      request.axes.push_back(parse_axis(rest.value(word)));
    else if (word == "--rht")
      rht = transform_length(rest, word);
    else if (word == "--rounding")
      stochastic = rounding_is_stochastic(rest.value(word));
    else if (word == "--rule")
      take_rule(rest, word, request.scales);
    else if (word == "--search")
      take_search(rest, word, request.scales);
    else if (word == "--choose-grid")
      take_grid_choice(rest, word, request.scales);
    else if (word == "--seed")
      request.seed = rest.number(word, 0, UINT64_MAX);
    else if (word == "--layout")
      request.layout = layout_named(rest.value(word));
    else
      take_common(word, rest, request.with.ctx, c);
  }
  check_input_and_output(c.input, request.output, c.json);
  if (!is_folder(c.input)) check_ending(request.output, {".safetensors", ".gguf"});
  if (request.format.empty())
    throw common::usage_error("-f FORMAT is needed; there are " + ufp4::detail::preset_names());
  request.spec = format_named(request.format).spec;
  check_rule(request.scales, format_named(request.format));
  request.with.rule = request.scales.rule;
  request.with.transform = random_transform(rht, request.seed);
  if (stochastic) request.with.rounding = ufp4::stochastic{request.seed, 0};
  return c;
}

}  // namespace detail

inline int quantize(common::arguments& rest, std::ostream& out, std::ostream& err) {
  auto c = detail::parse_quantize(rest);
  if (is_folder(c.input)) return run_model(c, quantize_method(), out, err);
  return run_conversion(c, out, err, [](tensor_input& in, const auto& request) { return quantize_file(in, request); });
}

}  // namespace tool
