// ufp4 - the quantization_config that a quantized model has in its config.json.
// SPDX-License-Identifier: Apache-2.0
/// | layout             | quant_method       | what reads it                                                         |
/// |--------------------|--------------------|-----------------------------------------------------------------------|
/// | compressed_tensors | compressed-tensors | compressed-tensors, transformers, vLLM; weights only                  |
/// | modelopt           | modelopt           | vLLM, TensorRT-LLM                                                    |
/// | gpt_oss            | mxfp4              | transformers, vLLM                                                    |
/// | f4, ufp4           | ufp4               | this tool, which does not need it; a record for people                |
///
/// Modules whose weights of two or more dimensions were copied are listed as ignored.
/// Sources: compressed-tensors, QuantizationConfig; Model-Optimizer, convert_hf_config; transformers, Mxfp4Config.
#pragma once

#include <string>
#include <string_view>
#include <ufp4/interop/text.hpp>
#include <ufp4/version.hpp>
#include <vector>

#include "conversion_report.hpp"
#include "quantize_plan.hpp"

namespace tool {

namespace detail {

/// The modules that stay as they were, as a JSON array of names.
inline std::string ignored_modules(const std::vector<conversion>& files) {
  constexpr std::string_view ending = ".weight";
  std::string list = "[";
  for (const conversion& c : files)
    for (const converted_tensor& t : c.tensors) {
      if (t.kept.empty() || t.shape.size() < 2 || !t.name.ends_with(ending)) continue;
      const std::string module = t.name.substr(0, t.name.size() - ending.size());
      list += (list.size() == 1 ? "" : ", ") + ufp4::interop::json_text(module);
    }
  return list + "]";
}

/// The weights of a group of layers, as compressed-tensors describes them.
inline std::string group_text(const quantize_request& request) {
  const bool two_level = request.spec.has_tensor_scale();
  return std::string(R"({"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", )") +
         R"("symmetric": true, "dynamic": false, "strategy": ")" + (two_level ? "tensor_group" : "group") +
         R"(", "group_size": )" + std::to_string(request.block_size()) + R"(, "scale_dtype": ")" +
         (two_level ? "torch.float8_e4m3fn" : "torch.uint8") +
         R"("}, "input_activations": null, "output_activations": null}})";
}

}  // namespace detail

/// The value of "quantization_config" for a model that is quantized in request.layout, which must be set.
inline std::string quantization_config(const quantize_request& request, const std::vector<conversion>& files) {
  using ufp4::interop::tensor_layout;
  const std::string ignored = detail::ignored_modules(files), version = ufp4::version_string;
  switch (*request.layout) {
    case tensor_layout::compressed_tensors:
      return R"({"quant_method": "compressed-tensors", "format": ")" + request.format +
             R"(-pack-quantized", "quantization_status": "compressed", "config_groups": )" +
             detail::group_text(request) + R"(, "ignore": )" + ignored + R"(, "kv_cache_scheme": null})";
    case tensor_layout::modelopt:
      return std::string(R"({"quant_method": "modelopt", "quant_algo": ")") +
             (request.spec.has_tensor_scale() ? "NVFP4" : "MXFP4") + R"(", "group_size": )" +
             std::to_string(request.block_size()) + R"(, "ignore": )" + ignored +
             R"(, "producer": {"name": "ufp4", "version": ")" + version + R"("}})";
    case tensor_layout::gpt_oss: return R"({"quant_method": "mxfp4", "modules_to_not_convert": )" + ignored + "}";
    default:
      return R"({"quant_method": "ufp4", "format": ")" + request.format + R"(", "layout": ")" +
             name_of(*request.layout) + R"(", "rht": )" +
             std::to_string(request.with.transform.n == 1 ? 0 : request.with.transform.n) + R"(, "seed": )" +
             std::to_string(request.seed) + R"(, "ignore": )" + ignored + R"(, "version": ")" + version + R"("})";
  }
}

}  // namespace tool
