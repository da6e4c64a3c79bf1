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
#include <type_traits>
#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/npy.hpp>
#include <utility>
#include <vector>

#include "../common/arguments.hpp"
#include "conversion_report.hpp"
#include "output_path.hpp"
#include "placed_safetensors.hpp"
#include "row_chunks.hpp"
#include "stored_formats.hpp"
#include "tensor_input.hpp"

namespace tool {

struct dequantize_request {
  std::string output;                                               ///< .npy or .gguf if it ends so, else .safetensors
  std::vector<std::string> chosen, skipped;                         ///< patterns; no `chosen`: every weight
  ufp4::interop::number_type to = ufp4::interop::number_type::f32;  ///< or bf16, f16
  ufp4::cpu::context ctx{};
  std::size_t chunk = usual_chunk;  ///< elements decoded at once; changes no bit
  std::function<void(std::size_t at, std::size_t of, const std::string& what)> progress;

  bool to_npy() const { return output.ends_with(".npy"); }
  bool to_gguf() const { return output.ends_with(".gguf"); }
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

/// Of ggml's blocks that of the tensor, which may have more than two dimensions.
template <class F>
std::vector<std::uint64_t> shape_of(const ufp4::interop::stored_weight<F>& weight) {
  if (weight.scales == weight.codes) return weight.codes->shape;
  return {weight.rows, weight.cols};
}

template <class F, class Reader>
decoded_weight decoded(Reader& file, const found_weight& found, const dequantize_request& request) {
  const auto weight = ufp4::interop::find_weight<F>(file, found.name);
  decoded_weight d{found, shape_of(weight), weight.codes->type_name, stored_format_name<F>(), weight.codes->bytes, {}};
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

/// A message for each pattern that no weight's name matches.
inline std::vector<std::string> unmatched(const ufp4::interop::tensor_file& file, const std::vector<found_weight>& all,
                                          const std::string& flag, const std::vector<std::string>& patterns) {
  std::vector<std::string> names, messages;
  for (const found_weight& w : all) names.push_back(w.name);
  for (const std::string& pattern : tool::unmatched(patterns, names))
    messages.push_back(printable(file.path()) + " has no quantized weight that " + flag + " " + printable(pattern) +
                       " matches; the first of " + std::to_string(all.size()) + " is " + printable(all.front().name));
  return messages;
}

/// The weights that the request is for, checked, by the name of the tensor that holds their codes.
template <class Reader>
std::map<std::string, decoded_weight> weights_of(Reader& file, const dequantize_request& request,
                                                 std::vector<std::string>& notes) {
  const std::vector<found_weight> all = quantized_weights(file);
  if (all.empty()) file.fail("holds no quantized weights; it has " + file.names());
  const std::vector<std::string> wrong = unmatched(file, all, "--tensor", request.chosen);
  if (!wrong.empty()) throw common::usage_error(wrong.front());
  notes = unmatched(file, all, "--skip", request.skipped);
  std::map<std::string, decoded_weight> weights;
  for (const found_weight& w : all) {
    if (!request.chosen.empty() && !matches_any(request.chosen, w.name)) continue;
    if (matches_any(request.skipped, w.name)) continue;
    visit_stored(file, w, [&](auto format) {
      using F = typename decltype(format)::type;
      weights.emplace(w.parts.codes, decoded<F>(file, w, request));
    });
  }
  if (weights.empty()) file.fail("has no quantized weight that --skip leaves to be dequantized");
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
    row.kept = request.chosen.empty() && request.skipped.empty() ? "is no quantized weight"
               : request.chosen.empty()                          ? "is no quantized weight, or is left by --skip"
                                                                 : "is no weight that --tensor chooses";
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
    std::uint64_t rows = 1;
    for (std::size_t i = 0; i + 1 < weight.shape.size(); ++i) rows *= weight.shape[i];
    weight.write(sink, [&](std::size_t row) {
      if (request.progress)
        request.progress(at + 1, of,
                         printable(weight.found.name) + ", row " + std::to_string(row) + " of " + std::to_string(rows));
    });
  };
}

/// Calls request.progress where there is one.
inline std::function<void()> told_of(const output_tensor& o, const dequantize_request& request, std::size_t at,
                                     std::size_t of) {
  const std::string& name = o.copied != nullptr ? o.copied->name : o.weight->found.name;
  return [&request, at, of, name] {
    if (request.progress) request.progress(at + 1, of, printable(name));
  };
}

inline ufp4::interop::byte_source bytes_of_output(ufp4::interop::tensor_file& file, const output_tensor& o,
                                                  const dequantize_request& request, std::size_t at, std::size_t of) {
  if (o.copied == nullptr) return source_of(*o.weight, request, at, of);
  return bytes_of(file, *o.copied, told_of(o, request, at, of));
}

template <class Reader>
void write_plain(Reader& file, const std::map<std::string, std::string>& metadata,
                 const std::vector<output_tensor>& outputs, const dequantize_request& request) {
  placed_safetensors out(request.output);
  for (const auto& [key, value] : metadata) out.set_metadata(key, value);
  std::vector<std::size_t> numbers;
  numbers.reserve(outputs.size());
  for (const output_tensor& o : outputs) {
    told_of(o, request, numbers.size(), outputs.size())();
    numbers.push_back(o.copied != nullptr ? out.add(o.copied->name, *o.copied)
                                          : out.add(o.weight->found.name, request.to, o.weight->shape));
  }
  out.open();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    out.write(numbers[i], bytes_of_output(file, outputs[i], request, i, outputs.size()));
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
      told_of(o, request, i, outputs.size())();
      const ufp4::interop::byte_source bytes = bytes_of_output(file, o, request, i, outputs.size());
      if (o.copied != nullptr)
        out.add_copy(o.copied->name, *o.copied, bytes);
      else
        out.add(o.weight->found.name, {request.to, o.weight->shape, bytes});
    }
  });
  out.write(request.output);
}

/// The strings that torchao keeps beside its weights: a list of all tensors, and a description of each. Of weights that
/// are now plain they would be wrong; where others are left, such a weight is described as torchao describes plain
/// tensors.
inline void drop_torchao_strings(std::map<std::string, std::string>& metadata,
                                 const std::vector<output_tensor>& outputs) {
  if (!metadata.contains("tensor_names")) return;
  bool left = false;
  for (const output_tensor& o : outputs) left = left || (o.copied != nullptr && o.copied->name.ends_with("_qdata"));
  for (const output_tensor& o : outputs) {
    const auto said = metadata.find(o.copied != nullptr ? o.copied->name : o.weight->found.name);
    if (said == metadata.end() || !said->second.starts_with("{\"_type\"")) continue;
    if (!left)
      metadata.erase(said);
    else if (o.weight != nullptr)
      said->second = R"({"_type": "Tensor"})";
  }
  if (!left) metadata.erase("tensor_names");
}

/// The strings of the input without what describes weights that are plain now, or that it does not have.
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
      throw common::usage_error("-o " + printable(request.output) + " holds one array, but " +
                                std::to_string(weights.size()) + " weights would be dequantized; --tensor chooses one");
    const decoded_weight& weight = weights.begin()->second;
    report.tensors.push_back(row_of({nullptr, &weight}, request));
    return ufp4::interop::write_npy(request.output, {request.to, weight.shape, source_of(weight, request, 0, 1)});
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

/// Decodes what of `in` the request says into request.output, which is written only if all of it can be.
inline conversion dequantize_file(tensor_input& in, const dequantize_request& request) {
  conversion report{in.file().path(), request.output, {{"to", detail::type_text(request.to)}}, {}, {}};
  if (in.npy() != nullptr)
    in.file().fail("is a .npy file, which holds no quantized weights; .safetensors and .gguf do");
  if (in.gguf() != nullptr)
    detail::dequantize_file(in, *in.gguf(), request, report);
  else
    detail::dequantize_file(in, *in.safetensors(), request, report);
  return report;
}

}  // namespace tool
