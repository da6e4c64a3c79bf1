// ufp4 - a file of quantized weights becomes a file of plain ones, by chunks of rows.
// SPDX-License-Identifier: Apache-2.0
/// | weights | found by names, types and metadata; decoded, their Hadamard transform undone, rounded once           |
/// | copied  | everything else as it is; metadata but what describes the weights                                     |
/// | memory  | a chunk of rows                                                                                       |
/// | bits    | of ufp4::dequantize, and of hadamard_inverse where a transform was recorded, on the whole weight      |
/// | failure | interop::file_error; OUT is then what it was                                                          |
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <ufp4/interop/npy.hpp>
#include <utility>
#include <vector>

#include "../common/arguments.hpp"
#include "conversion_report.hpp"
#include "placed_safetensors.hpp"
#include "row_chunks.hpp"
#include "stored_formats.hpp"
#include "tensor_input.hpp"

namespace tool {

struct dequantize_request {
  std::string output;                                               ///< a .npy file if it ends so, else .safetensors
  std::vector<std::string> chosen;                                  ///< patterns; none: every weight
  ufp4::interop::number_type to = ufp4::interop::number_type::f32;  ///< or bf16, f16
  ufp4::cpu::context ctx{};
  std::size_t chunk = usual_chunk;  ///< elements decoded at once; changes no bit
  std::function<void(std::size_t at, std::size_t of, const std::string& what)> progress;

  bool to_npy() const { return output.ends_with(".npy"); }
};

namespace detail {

/// A weight to be decoded: what the output has of it, and a function that writes its bytes.
struct decoded_weight {
  found_weight found;
  std::vector<std::uint64_t> shape;
  std::string type, format;  ///< of the codes; of the weight
  std::uint64_t bytes_before = 0;
  std::function<void(const ufp4::interop::byte_sink&, const std::function<void(std::size_t row)>&)> write;
};

/// All bytes of a weight as T, from its first row to its last.
template <class F, class T, class Reader>
void decode_rows(Reader& file, const ufp4::interop::stored_weight<F>& weight, const dequantize_request& request,
                 const ufp4::interop::byte_sink& sink, const std::function<void(std::size_t row)>& progress) {
  const std::size_t at_once = rows_at_once(weight.rows, weight.cols, F::block.rows, request.chunk);
  std::vector<T> out(at_once * weight.cols);
  ufp4::quantized_matrix<F> q(at_once, weight.cols, weight.transform);
  for (std::size_t first = 0; first < weight.rows; first += at_once) {
    const std::size_t count = (std::min)(at_once, weight.rows - first);
    if (count != q.rows()) q = ufp4::quantized_matrix<F>(count, weight.cols, weight.transform);
    read_weight_rows(file, weight, first, q);
    restore(request.ctx, q.view(), ufp4::matrix_view<T>(out.data(), count, weight.cols));
    sink(out.data(), count * weight.cols * sizeof(T));
    progress(first + count);
  }
}

template <class F, class Reader>
decoded_weight decoded(Reader& file, const found_weight& found, const dequantize_request& request) {
  const auto weight = ufp4::interop::find_weight<F>(file, found.name);
  decoded_weight d{
      found, {weight.rows, weight.cols}, weight.codes->type_name, stored_format_name<F>(), weight.codes->bytes, {}};
  if (weight.scales != weight.codes) d.bytes_before += weight.scales->bytes;
  if (file.find(found.parts.tensor_scale) != nullptr) d.bytes_before += sizeof(float);
  d.write = [&file, weight, &request](const auto& sink, const auto& progress) {
    if (request.to == number_type::bf16)
      decode_rows<F, ufp4::bf16>(file, weight, request, sink, progress);
    else if (request.to == number_type::f16)
      decode_rows<F, ufp4::fp16>(file, weight, request, sink, progress);
    else
      decode_rows<F, float>(file, weight, request, sink, progress);
  };
  return d;
}

/// The weights that the request is for, checked, by the name of the tensor that holds their codes.
template <class Reader>
std::map<std::string, decoded_weight> weights_of(Reader& file, const dequantize_request& request) {
  const std::vector<found_weight> all = quantized_weights(file);
  if (all.empty()) file.fail("holds no quantized weights; it has " + file.names());
  std::map<std::string, decoded_weight> weights;
  for (const std::string& pattern : request.chosen) {
    bool any = false;
    for (const found_weight& w : all) any = any || matches(pattern, w.name);
    if (!any)
      throw common::usage_error(printable(file.path()) + " has no quantized weight that --tensor " +
                                printable(pattern) + " matches; the first of " + std::to_string(all.size()) + " is " +
                                printable(all.front().name));
  }
  for (const found_weight& w : all) {
    if (!request.chosen.empty() && !matches_any(request.chosen, w.name)) continue;
    visit_stored(file, w, [&](auto format) {
      using F = typename decltype(format)::type;
      weights.emplace(w.parts.codes, decoded<F>(file, w, request));
    });
  }
  return weights;
}

/// One tensor of the output.
struct output_tensor {
  const stored_tensor* copied = nullptr;
  const decoded_weight* weight = nullptr;
};

inline std::vector<output_tensor> outputs_of(const ufp4::interop::tensor_file& file,
                                             const std::map<std::string, decoded_weight>& weights) {
  std::set<std::string> parts;
  for (const auto& [codes, weight] : weights)
    parts.insert({weight.found.parts.scales, weight.found.parts.tensor_scale});
  std::vector<output_tensor> outputs;
  for (const stored_tensor& t : file.tensors()) {
    const auto weight = weights.find(t.name);
    if (weight != weights.end())
      outputs.push_back({nullptr, &weight->second});
    else if (!parts.contains(t.name))
      outputs.push_back({&t, nullptr});
  }
  return outputs;
}

inline const char* type_text(number_type type) {
  return type == number_type::bf16 ? "BF16" : type == number_type::f16 ? "F16" : "F32";
}

inline converted_tensor row_of(const output_tensor& o, const dequantize_request& request) {
  converted_tensor row;
  if (o.copied != nullptr) {
    row.name = o.copied->name;
    row.shape = o.copied->shape;
    row.type = o.copied->type_name;
    row.kept = request.chosen.empty() ? "is no quantized weight" : "is no weight that --tensor chooses";
    row.bytes_before = row.bytes_after = o.copied->bytes;
  } else {
    row.name = o.weight->found.name;
    row.shape = o.weight->shape;
    row.type = o.weight->type;
    row.format = o.weight->format;
    row.after = type_text(request.to);
    row.bytes_before = o.weight->bytes_before;
    row.bytes_after = ufp4::interop::byte_count(request.to, row.shape).value();
  }
  return row;
}

inline ufp4::interop::byte_source source_of(const decoded_weight& weight, const dequantize_request& request,
                                            std::size_t at, std::size_t of) {
  return [&weight, &request, at, of](const ufp4::interop::byte_sink& sink) {
    weight.write(sink, [&](std::size_t row) {
      if (request.progress)
        request.progress(
            at + 1, of,
            printable(weight.found.name) + ", row " + std::to_string(row) + " of " + std::to_string(weight.shape[0]));
    });
  };
}

inline ufp4::interop::byte_source copy_of(ufp4::interop::tensor_file& file, const stored_tensor& t,
                                          const dequantize_request& request, std::size_t at, std::size_t of) {
  return bytes_of(file, t, [&t, &request, at, of] {
    if (request.progress) request.progress(at + 1, of, printable(t.name));
  });
}

template <class Reader>
void write_plain(Reader& file, const std::map<std::string, std::string>& metadata,
                 const std::vector<output_tensor>& outputs, const dequantize_request& request) {
  placed_safetensors out(request.output);
  for (const auto& [key, value] : metadata) out.set_metadata(key, value);
  std::vector<std::size_t> numbers;
  numbers.reserve(outputs.size());
  for (const output_tensor& o : outputs)
    numbers.push_back(o.copied != nullptr ? out.add(o.copied->name, *o.copied)
                                          : out.add(o.weight->found.name, request.to, o.weight->shape));
  out.open();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    out.write(numbers[i], outputs[i].copied != nullptr ? copy_of(file, *outputs[i].copied, request, i, outputs.size())
                                                       : source_of(*outputs[i].weight, request, i, outputs.size()));
  out.finish();
}

template <class Reader>
void dequantize_file(Reader& file, std::map<std::string, std::string> metadata, const dequantize_request& request,
                     conversion& report) {
  const std::map<std::string, decoded_weight> weights = weights_of(file, request);
  if (request.to_npy()) {
    if (weights.size() != 1)
      throw common::usage_error("-o " + printable(request.output) + " holds one array, but " +
                                std::to_string(weights.size()) + " weights would be dequantized; --tensor chooses one");
    const decoded_weight& weight = weights.begin()->second;
    report.tensors.push_back(row_of({nullptr, &weight}, request));
    return ufp4::interop::write_npy(request.output, {request.to, weight.shape, source_of(weight, request, 0, 1)});
  }
  const std::vector<output_tensor> outputs = outputs_of(file, weights);
  for (const output_tensor& o : outputs) report.tensors.push_back(row_of(o, request));
  for (const auto& [codes, weight] : weights) metadata.erase("ufp4." + weight.found.name);
  write_plain(file, metadata, outputs, request);
}

}  // namespace detail

/// Decodes what of `in` the request says into request.output, which is written only if all of it can be.
inline conversion dequantize_file(tensor_input& in, const dequantize_request& request) {
  conversion report{in.file().path(), request.output, {{"to", detail::type_text(request.to)}}, {}};
  if (in.npy() != nullptr)
    in.file().fail("is a .npy file, which holds no quantized weights; .safetensors and .gguf do");
  if (in.gguf() != nullptr) {
    for (const ufp4::interop::stored_tensor& t : in.file().tensors())
      if (t.type == ufp4::interop::number_type::other && !request.to_npy()) refuse_unknown(in.file(), t);
    detail::dequantize_file(*in.gguf(), in.gguf()->strings(), request, report);
  } else {
    detail::dequantize_file(*in.safetensors(), in.safetensors()->metadata(), request, report);
  }
  return report;
}

}  // namespace tool
