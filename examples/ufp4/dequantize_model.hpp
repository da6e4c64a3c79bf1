// ufp4 - a model's folder for `ufp4 dequantize`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert_model.hpp"
#include "dequantize_file.hpp"
#include "quantize_model.hpp"

namespace tool {

namespace detail {

/// file_error if the codes of a weight are in one file of the model and its scales in another: a file is converted by
/// itself. `files`: the file of each tensor.
inline void check_parts_together(const model_files& model, const std::map<std::string, std::string>& files) {
  constexpr std::pair<std::string_view, std::string_view> parts[] = {
      {"_packed", "_scale"},   {"_packed", "_global_scale"}, {"_packed", "_tensor_scale"},
      {"_qdata", "_scale"},    {"_blocks", "_scales"},       {".qweight", ".scales"},
      {".qweight", ".qzeros"}, {".qweight", ".g_idx"},       {"", "_scale"},
      {"", "_scale_2"}};
  for (const auto& [name, file] : files)
    for (const auto& [codes, scales] : parts) {
      if (!name.ends_with(scales)) continue;
      const auto beside = files.find(name.substr(0, name.size() - scales.size()) + std::string(codes));
      if (beside != files.end() && beside->second != file)
        ufp4::interop::fail_file(model.path(file), "has " + printable(name) + ", but " + printable(beside->first) +
                                                       " is in " + printable(beside->second) +
                                                       ": a weight in two files cannot be dequantized");
    }
}

inline std::vector<std::string> prepare_dequantize(const model_files& model, dequantize_request& request) {
  std::map<std::string, std::string> files;
  std::vector<std::string> names;
  for (const std::string& shard : model.shards) {
    ufp4::interop::safetensors_reader file(model.path(shard));
    for (const stored_tensor& t : file.tensors()) files.emplace(t.name, shard);
    for (const found_weight& w : quantized_weights(file)) names.push_back(w.name);
  }
  if (names.empty()) ufp4::interop::fail_file(model.folder, "has no quantized weights");
  check_parts_together(model, files);
  return check_patterns(model.folder, names, {{"--tensor", request.chosen}}, request.skipped);
}

inline std::string dequantize_settings_text(const dequantize_request& request) {
  return "dequantize --to " + std::string(type_text(request.to)) +
         (!request.gptq                                       ? ""
          : *request.gptq == ufp4::interop::int4_layout::gptq ? " --gptq 1"
                                                              : " --gptq 2") +
         options_text("--tensor", request.chosen) + options_text("--skip", request.skipped);
}

}  // namespace detail

/// How `ufp4 dequantize` converts a model's folder: config.json loses its quantization_config.
inline model_method<dequantize_request> dequantize_method() {
  return {.convert = [](tensor_input& in, const dequantize_request& request) { return dequantize_file(in, request); },
          .prepare = detail::prepare_dequantize,
          .settings = detail::dequantize_settings_text,
          .config = [](const dequantize_request&, const std::vector<conversion>&) { return std::string(); },
          .from_plain = false};
}

}  // namespace tool
