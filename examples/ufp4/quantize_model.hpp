// ufp4 - a model's folder for `ufp4 quantize`: one layout for all its files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convert_model.hpp"
#include "model_config.hpp"
#include "quantize_file.hpp"

namespace tool {

namespace detail {

/// " --flag value" for each value.
inline std::string options_text(const std::string& flag, const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += " " + flag + " " + value;
  return text;
}

/// The values of --axis as they were given.
inline std::vector<std::string> axis_values(const quantize_request& request) {
  std::vector<std::string> values;
  values.reserve(request.axes.size());
  for (const axis_choice& c : request.axes)
    values.push_back((c.pattern.empty() ? "" : c.pattern + "=") + std::to_string(c.axis));
  return values;
}

/// Chooses the layout that represents the weights of all files, and checks the patterns.
inline std::vector<std::string> prepare_quantize(const model_files& model, quantize_request& request) {
  std::vector<std::string> names, axes;
  const tensor_layout usual = ufp4::interop::usual_layout(request.spec);
  bool fits = true;
  for (const std::string& shard : model.shards) {
    tensor_input in(model.path(shard));
    for (const stored_tensor& t : in.file().tensors()) names.push_back(in.name_of(t));
    fits = fits && layout_mismatch(usual, plan_of(in, request), request).empty();
  }
  if (!request.layout) request.layout = fits ? usual : tensor_layout::ufp4;
  for (const axis_choice& c : request.axes)
    if (!c.pattern.empty()) axes.push_back(c.pattern);
  return check_patterns(model.folder, names, {{"--tensor", request.chosen}, {"--axis", axes}}, request.skipped);
}

inline std::string quantize_settings_text(const quantize_request& request) {
  const bool stochastic = request.with.rounding.what == ufp4::rounding_spec::kind::stochastic;
  const std::uint32_t rht = request.with.transform.n;
  const auto rule = [](const char* flag, const std::string& value) {
    return value.empty() ? "" : " " + std::string(flag) + " " + value;
  };
  return "quantize --format " + request.format + " --layout " + name_of(*request.layout) +
         (rht == 1 ? "" : " --rht " + std::to_string(rht)) + (stochastic ? " --rounding stochastic" : "") +
         (rht != 1 || stochastic ? " --seed " + std::to_string(request.seed) : "") +
         rule("--rule", request.scales.name) + rule("--search", request.scales.search) +
         rule("--choose-grid", request.scales.grids) + options_text("--axis", axis_values(request)) +
         options_text("--tensor", request.chosen) + options_text("--skip", request.skipped);
}

}  // namespace detail

/// How `ufp4 quantize` converts a model's folder.
inline model_method<quantize_request> quantize_method() {
  return {.convert = [](tensor_input& in, const quantize_request& request) { return quantize_file(in, request); },
          .prepare = detail::prepare_quantize,
          .settings = detail::quantize_settings_text,
          .config = quantization_config,
          .from_plain = true};
}

}  // namespace tool
