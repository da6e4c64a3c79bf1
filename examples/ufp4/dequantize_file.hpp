// ufp4 - a file of quantized weights becomes a file of plain ones, in chunks of rows.
// SPDX-License-Identifier: Apache-2.0
/// | weights | found by names, types and metadata; decoded, their Hadamard transform undone, rounded once           |
/// | copied  | everything else unchanged; metadata except those that describe the weights                            |
/// | memory  | a chunk of rows                                                                                       |
/// | bits    | of ufp4::dequantize, and of hadamard_inverse where a transform was recorded, on the whole weight      |
/// | failure | interop::file_error; the output is then unchanged                                                     |
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/npy.hpp>
#include <utility>
#include <vector>

#include "../common/arguments.hpp"
#include "conversion_report.hpp"
#include "conversion_request.hpp"
#include "output_path.hpp"
#include "placed_safetensors.hpp"
#include "row_chunks.hpp"
#include "stored_formats.hpp"
#include "tensor_input.hpp"

namespace tool {

/// What the command line asks for.
struct dequantize_request : conversion_request {
  ufp4::interop::number_type to = ufp4::interop::number_type::f32;  ///< or bf16, f16
  ufp4::cpu::context ctx{};
  std::size_t chunk = usual_chunk;  ///< elements decoded at once; no bit depends on it
};

namespace detail {

/// A weight to be decoded.
struct decoded_weight {
  found_weight found;
  ufp4::interop::stored_weight stored;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes_before = 0;
};

/// All values of a weight as T, from its first row to its last.
template <class T, class Reader>
void decode_rows(Reader& file, const decoded_weight& w, const dequantize_request& request,
                 const ufp4::interop::byte_sink& sink, const tensor_progress& progress) {
  const ufp4::interop::stored_weight& weight = w.stored;
  const auto height = static_cast<std::size_t>(weight.format.block.rows);
  const std::size_t at_once = rows_at_once(weight.rows, weight.cols, height, request.chunk);
  std::vector<T> out(at_once * weight.cols);
  ufp4::any_quantized q(weight.format, at_once, weight.cols, weight.transform);
  for (std::size_t first = 0; first < weight.rows; first += at_once) {
    const std::size_t count = (std::min)(at_once, weight.rows - first);
    if (count != q.rows()) q = ufp4::any_quantized(weight.format, count, weight.cols, weight.transform);
    read_weight_rows(file, weight, first, q);
    restore(request.ctx, q, ufp4::matrix_view<T>(out.data(), count, weight.cols));
    sink(out.data(), count * weight.cols * sizeof(T));
    progress(first + count, weight.rows);
  }
}

/// The values of a weight in the type of the request.
template <class Reader>
ufp4::interop::byte_source values_of(Reader& file, const decoded_weight& weight, const dequantize_request& request,
                                     const tensor_progress& progress) {
  return [&file, &weight, &request, progress](const ufp4::interop::byte_sink& sink) {
    if (request.to == number_type::bf16) return decode_rows<ufp4::bf16>(file, weight, request, sink, progress);
    if (request.to == number_type::f16) return decode_rows<ufp4::fp16>(file, weight, request, sink, progress);
    decode_rows<float>(file, weight, request, sink, progress);
  };
}

/// A tensor of ggml's blocks keeps its shape, which may have more than two dimensions.
inline std::vector<std::uint64_t> shape_of(const ufp4::interop::stored_weight& weight) {
  if (weight.scales == weight.codes) return weight.codes->shape;
  return {weight.rows, weight.cols};
}

template <class Reader>
decoded_weight decoded(Reader& file, const found_weight& found) {
  const ufp4::interop::stored_weight weight = find_weight(file, found.name);
  decoded_weight d{found, weight, shape_of(weight), weight.codes->bytes};
  if (weight.scales != weight.codes) d.bytes_before += weight.scales->bytes;
  if (file.find(found.parts.tensor_scale) != nullptr) d.bytes_before += sizeof(float);
  return d;
}

/// A message for each pattern that matches no weight's name.
inline std::vector<std::string> unmatched(const ufp4::interop::tensor_file& file, const std::vector<found_weight>& all,
                                          const std::string& flag, const std::vector<std::string>& patterns) {
  std::vector<std::string> names, messages;
  for (const found_weight& w : all) names.push_back(w.name);
  for (const std::string& pattern : tool::unmatched(patterns, names))
    messages.push_back(printable(file.path()) + " has no quantized weight that " + flag + " " + printable(pattern) +
                       " matches; the first of " + std::to_string(all.size()) + " is " + printable(all.front().name));
  return messages;
}

/// The weights that the request selects, checked, by the name of the tensor that holds their codes.
template <class Reader>
std::map<std::string, decoded_weight> weights_of(Reader& file, const dequantize_request& request,
                                                 std::vector<std::string>& notes) {
  const std::vector<found_weight> all = quantized_weights(file);
  if (all.empty()) file.fail("has no quantized weights; it has " + file.names());
  const std::vector<std::string> wrong = unmatched(file, all, "--tensor", request.chosen);
  if (!wrong.empty()) throw common::usage_error(wrong.front());
  notes = unmatched(file, all, "--skip", request.skipped);
  std::map<std::string, decoded_weight> weights;
  for (const found_weight& w : all) {
    if (!request.chosen.empty() && !matches_any(request.chosen, w.name)) continue;
    if (!matches_any(request.skipped, w.name)) weights.emplace(w.parts.codes, decoded(file, w));
  }
  if (weights.empty()) file.fail("has no quantized weight that --skip leaves to be dequantized");
  return weights;
}

/// One tensor of the output.
struct output_tensor {
  const stored_tensor* copied = nullptr;
  const decoded_weight* weight = nullptr;

  const std::string& name() const { return copied != nullptr ? copied->name : weight->found.name; }
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

inline converted_tensor row_of(const output_tensor& o, const dequantize_request& request) {
  converted_tensor row;
  row.name = o.name();
  if (o.copied != nullptr) {
    row.shape = o.copied->shape;
    row.type = o.copied->type_name;
    row.kept = request.chosen.empty() && request.skipped.empty() ? "is no quantized weight"
               : request.chosen.empty()                          ? "is no quantized weight, or is left by --skip"
                                                                 : "is no weight that --tensor chooses";
    row.bytes_before = row.bytes_after = o.copied->bytes;
  } else {
    row.shape = o.weight->shape;
    row.type = o.weight->stored.codes->type_name;
    row.format = stored_format_name(o.weight->stored.format);
    row.after = type_text(request.to);
    row.bytes_before = o.weight->bytes_before;
    row.bytes_after = ufp4::interop::byte_count(request.to, row.shape).value();
  }
  return row;
}

/// The outputs with the place of each among all: bytes and progress.
template <class Reader>
ufp4::interop::byte_source bytes_of_output(Reader& file, const std::vector<output_tensor>& outputs, std::size_t at,
                                           const dequantize_request& request) {
  const tensor_progress progress(request, at, outputs.size(), outputs[at].name());
  if (outputs[at].copied != nullptr) return bytes_of(file, *outputs[at].copied, progress);
  return values_of(file, *outputs[at].weight, request, progress);
}

template <class Reader>
void write_plain(Reader& file, const std::map<std::string, std::string>& metadata,
                 const std::vector<output_tensor>& outputs, const dequantize_request& request) {
  placed_safetensors out(request.output);
  for (const auto& [key, value] : metadata) out.set_metadata(key, value);
  std::vector<std::size_t> numbers;
  numbers.reserve(outputs.size());
  for (const output_tensor& o : outputs) {
    tensor_progress(request, numbers.size(), outputs.size(), o.name())();
    numbers.push_back(o.copied != nullptr ? out.add(o.name(), *o.copied)
                                          : out.add(o.name(), request.to, o.weight->shape));
  }
  out.open();
  for (std::size_t i = 0; i < outputs.size(); ++i) out.write(numbers[i], bytes_of_output(file, outputs, i, request));
  out.finish();
}

template <class Reader>
void write_plain_gguf(Reader& file, const std::map<std::string, std::string>& metadata,
                      const std::vector<output_tensor>& outputs, const dequantize_request& request) {
  ufp4::interop::gguf_writer out;
  describe_gguf(request.output, [&] {
    if constexpr (std::is_same_v<Reader, ufp4::interop::gguf_reader>)
      out.keep_pairs(file);
    else
      for (const auto& [key, value] : metadata) out.set_string(key, value);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const output_tensor& o = outputs[i];
      tensor_progress(request, i, outputs.size(), o.name())();
      const ufp4::interop::byte_source bytes = bytes_of_output(file, outputs, i, request);
      if (o.copied != nullptr)
        out.add_copy(o.name(), *o.copied, bytes);
      else
        out.add(o.name(), {request.to, o.weight->shape, bytes});
    }
  });
  out.write(request.output);
}

/// torchao stores a list of all tensors and a description of each as metadata. Descriptions of weights that are plain
/// now are dropped; if other quantized weights remain, they become torchao's description of plain tensors.
inline void drop_torchao_strings(std::map<std::string, std::string>& metadata,
                                 const std::vector<output_tensor>& outputs) {
  if (!metadata.contains("tensor_names")) return;
  bool left = false;
  for (const output_tensor& o : outputs) left = left || (o.copied != nullptr && o.copied->name.ends_with("_qdata"));
  for (const output_tensor& o : outputs) {
    const auto description = metadata.find(o.name());
    if (description == metadata.end() || !description->second.starts_with("{\"_type\"")) continue;
    if (!left)
      metadata.erase(description);
    else if (o.weight != nullptr)
      description->second = R"({"_type": "Tensor"})";
  }
  if (!left) metadata.erase("tensor_names");
}

/// The metadata of the input without those that describe weights which are plain now or do not exist.
inline std::map<std::string, std::string> plain_strings(const ufp4::interop::safetensors_reader& file,
                                                        const std::vector<output_tensor>& outputs) {
  std::map<std::string, std::string> strings = file.metadata();
  std::erase_if(strings, [&](const auto& pair) { return is_leftover(file, pair.first); });
  for (const output_tensor& o : outputs)
    if (o.weight != nullptr) strings.erase(ufp4::interop::own_mark + o.weight->found.name);
  drop_torchao_strings(strings, outputs);
  return strings;
}
inline std::map<std::string, std::string> plain_strings(const ufp4::interop::gguf_reader& file,
                                                        const std::vector<output_tensor>&) {
  return file.strings();
}

template <class Reader>
void dequantize_file(tensor_input& in, Reader& file, const dequantize_request& request, conversion& report) {
  const std::map<std::string, decoded_weight> weights = weights_of(file, request, report.notes);
  if (request.to_npy()) {
    if (weights.size() != 1)
      throw common::usage_error("-o " + printable(request.output) + " is for one array, but " +
                                std::to_string(weights.size()) + " weights would be dequantized; --tensor chooses one");
    const output_tensor only{nullptr, &weights.begin()->second};
    report.tensors.push_back(row_of(only, request));
    const ufp4::interop::byte_source values =
        values_of(file, *only.weight, request, tensor_progress(request, 0, 1, only.name()));
    return ufp4::interop::write_npy(request.output, {request.to, only.weight->shape, values});
  }
  const std::vector<output_tensor> outputs = outputs_of(file, weights);
  for (const output_tensor& o : outputs) {
    if (o.copied != nullptr) check_copy(in, *o.copied, request.to_gguf());
    report.tensors.push_back(row_of(o, request));
  }
  if (request.to_gguf()) return write_plain_gguf(file, plain_strings(file, outputs), outputs, request);
  write_plain(file, plain_strings(file, outputs), outputs, request);
}

}  // namespace detail

/// Decodes what the request selects of `in` into request.output, which is written only if all of it can be.
inline conversion dequantize_file(tensor_input& in, const dequantize_request& request) {
  conversion report{in.file().path(), request.output, {{"to", std::string(type_text(request.to))}}, {}, {}};
  if (in.npy() != nullptr)
    in.file().fail("is a .npy file, which has no quantized weights; .safetensors and .gguf files can have them");
  if (in.gguf() != nullptr)
    detail::dequantize_file(in, *in.gguf(), request, report);
  else
    detail::dequantize_file(in, *in.safetensors(), request, report);
  return report;
}

}  // namespace tool
