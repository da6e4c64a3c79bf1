// ufp4 - a file of quantized weights becomes one of weights in another format, without loss where they fit.
// SPDX-License-Identifier: Apache-2.0
/// | weights | found by names, types and metadata; cast part by part (interop::read_part); transforms stay   |
/// | copied  | everything else unchanged; metadata except those that describe the weights                       |
/// | memory  | a slice of a weight in both formats                                                              |
/// | bits    | of ufp4::cast on the whole weight, or on each slice of three or more dimensions                  |
/// | failure | interop::file_error; the output is then unchanged                                                |
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <ufp4/cast.hpp>
#include <utility>
#include <vector>

#include "../common/arguments.hpp"
#include "dequantize_file.hpp"

namespace tool {

/// What the command line asks for. Of dequantize_request only the weights and the threads have a meaning.
struct cast_request : dequantize_request {
  std::string format;                                  ///< its name
  ufp4::format_spec spec{};                            ///< the same as data
  std::optional<ufp4::interop::tensor_layout> layout;  ///< none: the first that can represent every weight
};

namespace detail {

using ufp4::interop::tensor_layout;

/// file_error unless the operation casts the weight's format: it checks a matrix without elements in the same way.
inline void check_castable(const ufp4::interop::safetensors_reader& file, const decoded_weight& w,
                           const cast_request& request) {
  const std::string label = "weight " + printable(w.found.name) + " is " + w.format;
  if (w.found.kind != weight_kind::format)
    file.fail(label + ", whose groups have zero points: it cannot be cast; --skip leaves it");
  try {
    (void)ufp4::cast(ufp4::any_quantized(w.stored.format, 0, 0), request.spec);
  } catch (const std::invalid_argument& e) {
    file.fail(label + " and cannot become " + request.format + ": " + e.what() + "; --skip leaves it");
  }
}

/// Why a layout other than ufp4 cannot represent a weight after the cast; empty if it can.
inline std::string layout_mismatch(tensor_layout layout, const decoded_weight& w, const cast_request& request) {
  if (layout == tensor_layout::ufp4) return {};
  const std::string has = "weight " + printable(w.found.name) + " has ";
  if (!ufp4::interop::has_format(layout, request.spec))
    return std::string("has ") + (layout == tensor_layout::gpt_oss ? "" : "nvfp4 and ") + "mxfp4 only, not " +
           request.format;
  if (w.stored.transform.n != 1) return "does not record a Hadamard transform, but " + has + "one";
  if (w.shape.size() != 2)
    return "gets matrices only, but " + has + std::to_string(w.shape.size()) + " dimensions (--skip leaves it)";
  if (w.stored.cols % static_cast<std::size_t>(request.spec.block.cols) != 0)
    return "has no padding, but " + has + std::to_string(w.stored.cols) + " columns, not a multiple of " +
           std::to_string(request.spec.block.cols) + " (--skip leaves it)";
  return {};
}

/// The layout of the output. usage_error if the one of the request cannot represent every weight.
inline tensor_layout layout_for(const std::map<std::string, decoded_weight>& weights, const cast_request& request) {
  const tensor_layout wanted = request.layout.value_or(ufp4::interop::usual_layout(request.spec));
  for (const auto& [codes, weight] : weights) {
    const std::string wrong = layout_mismatch(wanted, weight, request);
    if (wrong.empty()) continue;
    if (!request.layout) return tensor_layout::ufp4;
    throw common::usage_error("layout " + std::string(name_of(wanted)) + " " + wrong +
                              "; --layout ufp4 represents everything");
  }
  return wanted;
}

/// The tensors of a weight after the cast.
inline ufp4::interop::quantized_tensors cast_tensors(const decoded_weight& w, tensor_layout layout,
                                                     const cast_request& request) {
  return tensors_of(request.spec, ufp4::interop::with_axis_last(w.shape, w.stored.axis), w.stored.transform, layout);
}

inline converted_tensor row_of(const output_tensor& o, tensor_layout layout, const cast_request& request) {
  converted_tensor row = row_of(o, request);
  if (o.weight == nullptr) return row;
  const auto t = cast_tensors(*o.weight, layout, request);
  const auto bytes = [](number_type type, const std::vector<std::uint64_t>& shape) {
    return ufp4::interop::byte_count(type, shape).value();
  };
  row.after = request.format;
  row.bytes_after = bytes(t.codes_type, t.codes) + bytes(t.scales_type, t.scales) +
                    (request.spec.has_tensor_scale() ? bytes(number_type::f32, t.tensor_scale) : 0);
  return row;
}

/// The output of one cast: places of codes, scales and tensor scales, then their bytes.
class cast_output {
 public:
  cast_output(const cast_request& request, tensor_layout layout)
      : request_(request), layout_(layout), out_(request.output) {}

  placed_safetensors& file() { return out_; }

  void add(const decoded_weight& w) {
    const ufp4::interop::quantized_names names = names_of(w.found.name, layout_);
    const auto t = cast_tensors(w, layout_, request_);
    places& p = places_[w.found.name];
    p.codes = out_.add(names.codes, t.codes_type, t.codes);
    p.scales = out_.add(names.scales, t.scales_type, t.scales);
    if (request_.spec.has_tensor_scale())
      p.tensor_scale = out_.add(names.tensor_scale, number_type::f32, t.tensor_scale);
    if (layout_ == tensor_layout::ufp4)
      out_.set_metadata(ufp4::interop::own_mark + w.found.name,
                        ufp4::interop::format_text(request_.spec) +
                            ufp4::interop::extent_text(w.stored.cols, w.stored.transform) +
                            ufp4::interop::axis_text(w.stored.axis, w.shape.size()));
  }

  /// Casts part by part.
  ufp4::cast_report write(ufp4::interop::safetensors_reader& file, const decoded_weight& w,
                          const tensor_progress& progress) {
    const places& p = places_.at(w.found.name);
    ufp4::cast_report lost;
    std::uint64_t codes = 0, scales = 0;
    for (std::size_t i = 0; i < w.stored.parts(); ++i) {
      const ufp4::any_quantized q = ufp4::cast(read_part(file, w.stored, i), request_.spec, lost, request_.ctx);
      out_.write(p.codes, std::exchange(codes, codes + q.codes().size()), q.codes().data(), q.codes().size());
      out_.write(p.scales, std::exchange(scales, scales + q.scale_bytes().size()), q.scale_bytes().data(),
                 q.scale_bytes().size());
      if (request_.spec.has_tensor_scale()) write_tensor_scale(file, w, p, i, q.tensor_scale());
      progress((i + 1) * w.stored.part_rows(), w.stored.rows);
    }
    return lost;
  }

 private:
  struct places {
    std::size_t codes = 0, scales = 0, tensor_scale = 0;
  };

  void write_tensor_scale(const ufp4::interop::safetensors_reader& file, const decoded_weight& w, const places& p,
                          std::size_t slice, float factor) {
    const float scale = layout_ == tensor_layout::compressed_tensors ? ufp4::interop::divisor_of(factor) : factor;
    if (scale == 0)
      file.fail("weight " + printable(w.found.name) + " gets the tensor scale " + ufp4::detail::concat(factor) +
                ", which is not the reciprocal of a float; --layout modelopt stores the scale itself");
    out_.write(p.tensor_scale, slice * sizeof scale, &scale, sizeof scale);
  }

  const cast_request& request_;
  tensor_layout layout_;
  placed_safetensors out_;
  std::map<std::string, places> places_;
};

inline void write_cast(ufp4::interop::safetensors_reader& file, const std::vector<output_tensor>& outputs,
                       tensor_layout layout, const cast_request& request, std::vector<converted_tensor>& rows) {
  cast_output output(request, layout);
  placed_safetensors& out = output.file();
  for (const auto& [key, value] : plain_strings(file, outputs)) out.set_metadata(key, value);
  std::vector<std::size_t> copies;
  for (const output_tensor& o : outputs) {
    if (o.weight != nullptr) output.add(*o.weight);
    copies.push_back(o.weight != nullptr ? 0 : out.add(o.name(), *o.copied));
  }
  out.open();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const tensor_progress progress(request, i, outputs.size(), outputs[i].name());
    progress();
    if (outputs[i].weight == nullptr) {
      out.write(copies[i], bytes_of(file, *outputs[i].copied, progress));
      continue;
    }
    const ufp4::cast_report lost = output.write(file, *outputs[i].weight, progress);
    rows[i].has_error = true;
    rows[i].sqnr_db = lost.sqnr_db();
    rows[i].blocks = lost.blocks;
    rows[i].inexact_blocks = lost.inexact_blocks;
  }
  out.finish();
}

}  // namespace detail

/// Casts what the request selects of `in` into request.output, which is written only if all of it can be.
inline conversion cast_file(tensor_input& in, const cast_request& request) {
  conversion report{in.file().path(), request.output, {{"format", request.format}}, {}, {}, request.dry_run};
  if (in.safetensors() == nullptr)
    in.file().fail("is not a .safetensors file; `ufp4 cast` reads and writes those only");
  ufp4::interop::safetensors_reader& file = *in.safetensors();
  const auto weights = detail::weights_of(file, request, report.notes);
  for (const auto& [codes, weight] : weights) detail::check_castable(file, weight, request);
  const auto layout = detail::layout_for(weights, request);
  const std::vector<detail::output_tensor> outputs = detail::outputs_of(file, weights);
  for (const detail::output_tensor& o : outputs) report.tensors.push_back(detail::row_of(o, layout, request));
  report.settings.push_back({"layout", std::string(name_of(layout))});
  if (!request.dry_run) detail::write_cast(file, outputs, layout, request, report.tensors);
  return report;
}

}  // namespace tool
