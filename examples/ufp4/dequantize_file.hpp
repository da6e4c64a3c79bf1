// ufp4 - a file of quantized weights becomes a file of plain ones, in chunks of rows.
// SPDX-License-Identifier: Apache-2.0
/// | weights | found by names, types and metadata; decoded, their Hadamard transform undone, rounded once           |
/// | copied  | everything else unchanged; metadata except those that describe the weights                            |
/// | memory  | a chunk of rows; of a weight that is quantized along another dimension than its last one index of     |
/// |         | its first; a weight of AWQ or GPTQ whole                                                              |
/// | bits    | of ufp4::dequantize, and of hadamard_inverse where a transform was recorded, on the whole weight      |
/// | failure | interop::file_error; the output is then unchanged                                                     |
#pragma once

#include <cstddef>
#include <cstdint>
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
#include "conversion_request.hpp"
#include "gptq_version.hpp"
#include "output_path.hpp"
#include "placed_safetensors.hpp"
#include "row_chunks.hpp"
#include "stored_formats.hpp"
#include "tensor_input.hpp"

namespace tool {

/// What the command line asks for.
struct dequantize_request : conversion_request {
  ufp4::interop::number_type to = ufp4::interop::number_type::f32;  ///< or bf16, f16
  std::optional<ufp4::interop::int4_layout> gptq;  ///< version of GPTQ; none: as its configuration states
  ufp4::cpu::context ctx{};
  std::size_t chunk = usual_chunk;  ///< elements decoded at once; no bit depends on it
};

namespace detail {

/// A weight to be decoded.
struct decoded_weight {
  found_weight found;
  std::string format;                     ///< its name, for the report
  std::vector<std::uint64_t> shape;       ///< of the values
  std::uint64_t bytes_before = 0;         ///< of all its tensors
  ufp4::interop::stored_weight stored{};  ///< of weight_kind::format
  ufp4::interop::int4_layout integers{};  ///< of weight_kind::integers
};

/// The product of the extents behind the dimension along which a weight is quantized.
inline std::size_t inner_rows(const ufp4::interop::stored_weight& w) {
  std::size_t inner = 1;
  for (std::size_t i = w.axis + 1; i < w.shape.size(); ++i) inner *= static_cast<std::size_t>(w.shape[i]);
  return inner;
}

/// Decodes rows of one tensor scale; q is memory that may be reused.
template <class T, class Reader>
void decode_part(Reader& file, const ufp4::interop::stored_weight& weight, const ufp4::cpu::context& ctx,
                 std::size_t first, ufp4::any_quantized& q, const ufp4::matrix_view<T>& out) {
  if (out.rows() != q.rows()) q = ufp4::any_quantized(weight.format, out.rows(), weight.cols, weight.transform);
  read_weight_rows(file, weight, first, q);
  restore(ctx, q, out);
}

/// All values of a weight as T, in the order of its shape: chunks of rows or, where blocks run along another dimension
/// than the last, all rows of one index of the dimensions before it, transposed.
template <class T, class Reader>
void decode_rows(Reader& file, const decoded_weight& w, const dequantize_request& request,
                 const ufp4::interop::byte_sink& sink, const tensor_progress& progress) {
  const ufp4::interop::stored_weight& weight = w.stored;
  const std::size_t inner = inner_rows(weight), limit = weight.part_scales.empty() ? weight.rows : weight.part_rows();
  const auto height = static_cast<std::size_t>(weight.format.block.rows);
  const std::size_t at_once = inner != 1 ? inner : rows_at_once(limit, weight.cols, height, request.chunk);
  std::vector<T> out(at_once * weight.cols);
  ufp4::any_quantized q;
  for (std::size_t first = 0, count = 0; first < weight.rows; first += count) {
    count = inner != 1 ? inner : (std::min)(at_once, limit - first % limit);
    const ufp4::matrix_view<T> values = inner != 1 ? transpose(ufp4::matrix_view<T>(out.data(), weight.cols, count))
                                                   : ufp4::matrix_view<T>(out.data(), count, weight.cols);
    for (std::size_t part = 0, rows = 0; part < count; part += rows) {
      rows = (std::min)(count - part, limit - (first + part) % limit);
      decode_part(file, weight, request.ctx, first + part, q, row_range(values, part, rows));
    }
    sink(out.data(), count * weight.cols * sizeof(T));
    progress(first + count, weight.rows);
  }
}

/// All values of a weight of AWQ or GPTQ as T: [outputs, inputs].
template <class T>
void decode_integers(ufp4::interop::safetensors_reader& file, const decoded_weight& w,
                     const ufp4::interop::byte_sink& sink) {
  const ufp4::interop::int4_groups weight = ufp4::interop::read_int4_groups(file, w.found.stem(), w.integers);
  std::vector<T> row(weight.cols);
  for (std::size_t n = 0; n < weight.rows; ++n) {
    for (std::size_t k = 0; k < weight.cols; ++k) row[k] = ufp4::detail::round_to<T>(weight(n, k));
    sink(row.data(), row.size() * sizeof(T));
  }
}

/// All values of a tensor of ggml's other 4-bit types as T.
template <class T>
void decode_ggml(ufp4::interop::gguf_reader& file, const decoded_weight& w, const dequantize_request& request,
                 const ufp4::interop::byte_sink& sink, const tensor_progress& progress) {
  const stored_tensor& t = file.at(w.found.parts.codes);
  const auto rows = static_cast<std::size_t>(ufp4::interop::row_count(t.shape).value());
  const auto cols = static_cast<std::size_t>(t.shape.back());
  const std::size_t at_once = rows_at_once(rows, cols, 1, request.chunk);
  std::vector<T> out(at_once * cols);
  for (std::size_t first = 0; first < rows; first += at_once) {
    const std::size_t count = (std::min)(at_once, rows - first);
    ufp4::interop::read_ggml_values(file, t, first, ufp4::matrix_view<T>(out.data(), count, cols));
    sink(out.data(), count * cols * sizeof(T));
    progress(first + count, rows);
  }
}

/// All values of a weight of any kind as T.
template <class T, class Reader>
void decode(Reader& file, const decoded_weight& w, const dequantize_request& request,
            const ufp4::interop::byte_sink& sink, const tensor_progress& progress) {
  if (w.found.kind == weight_kind::format) return decode_rows<T>(file, w, request, sink, progress);
  if constexpr (std::is_same_v<Reader, ufp4::interop::gguf_reader>)
    decode_ggml<T>(file, w, request, sink, progress);
  else
    decode_integers<T>(file, w, sink);
}

/// The values of a weight in the type of the request.
template <class Reader>
ufp4::interop::byte_source values_of(Reader& file, const decoded_weight& weight, const dequantize_request& request,
                                     const tensor_progress& progress) {
  return [&file, &weight, &request, progress](const ufp4::interop::byte_sink& sink) {
    if (request.to == number_type::bf16) return decode<ufp4::bf16>(file, weight, request, sink, progress);
    if (request.to == number_type::f16) return decode<ufp4::fp16>(file, weight, request, sink, progress);
    decode<float>(file, weight, request, sink, progress);
  };
}

/// Format and shape of a weight that is in no format of the library.
inline void describe(ufp4::interop::safetensors_reader& file, const dequantize_request& request, decoded_weight& d) {
  using ufp4::interop::int4_layout;
  const std::string stem = d.found.stem();
  d.integers = int4_layout_of(file, stem, request.gptq ? *request.gptq : gptq_version_beside(file.path()));
  const ufp4::interop::int4_groups shape = read_group_shape(file, stem, d.integers);
  d.shape = {shape.rows, shape.cols};
  d.format = std::string(name_of(d.integers)) + " " + integers_name(shape);
}
inline void describe(ufp4::interop::gguf_reader& file, const dequantize_request&, decoded_weight& d) {
  d.shape = file.at(d.found.parts.codes).shape;
  d.format = file.at(d.found.parts.codes).type_name;
}

template <class Reader>
decoded_weight decoded(Reader& file, const found_weight& found, const dequantize_request& request) {
  decoded_weight d{found, {}, {}};
  for (const std::string& name : found.tensors())
    if (const stored_tensor* const part = file.find(name)) d.bytes_before += part->bytes;
  if (found.kind != weight_kind::format) {
    describe(file, request, d);
    return d;
  }
  d.stored = find_weight(file, found.name);
  d.shape = d.stored.shape;
  d.format = stored_format_name(d.stored.format);
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

/// Whether the patterns of the request select a weight.
inline bool is_chosen(const conversion_request& request, const std::string& name) {
  return (request.chosen.empty() || matches_any(request.chosen, name)) && !matches_any(request.skipped, name);
}

/// The weights that the request selects, checked, by the name of the tensor that holds their codes.
template <class Reader>
std::map<std::string, decoded_weight> weights_of(Reader& file, const dequantize_request& request,
                                                 std::vector<std::string>& notes) {
  const std::vector<found_weight> all = quantized_weights(file);
  std::map<std::string, decoded_weight> weights;
  if (request.part_of_model) {
    for (const found_weight& w : all)
      if (is_chosen(request, w.name)) weights.emplace(w.parts.codes, decoded(file, w, request));
    return weights;
  }
  if (all.empty()) file.fail("has no quantized weights; it has " + file.names());
  const std::vector<std::string> wrong = unmatched(file, all, "--tensor", request.chosen);
  if (!wrong.empty()) throw common::usage_error(wrong.front());
  notes = unmatched(file, all, "--skip", request.skipped);
  for (const found_weight& w : all)
    if (is_chosen(request, w.name)) weights.emplace(w.parts.codes, decoded(file, w, request));
  if (weights.empty()) file.fail("has no quantized weight that --skip leaves to be converted");
  return weights;
}

/// One tensor of the output.
struct output_tensor {
  const stored_tensor* copied = nullptr;
  const decoded_weight* weight = nullptr;
  std::string type;  ///< of a weight's codes, as the file spells it

  const std::string& name() const { return copied != nullptr ? copied->name : weight->found.name; }
};

inline std::vector<output_tensor> outputs_of(const ufp4::interop::tensor_file& file,
                                             const std::map<std::string, decoded_weight>& weights) {
  std::set<std::string> parts;
  for (const auto& [codes, weight] : weights) parts.merge(weight.found.tensors());
  std::vector<output_tensor> outputs;
  for (const stored_tensor& t : file.tensors()) {
    const auto weight = weights.find(t.name);
    if (weight != weights.end())
      outputs.push_back({nullptr, &weight->second, t.type_name});
    else if (!parts.contains(t.name))
      outputs.push_back({&t, nullptr, {}});
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
    row.type = o.type;
    row.format = o.weight->format;
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
    const decoded_weight& weight = weights.begin()->second;
    const output_tensor only{nullptr, &weight, file.at(weight.found.parts.codes).type_name};
    report.tensors.push_back(row_of(only, request));
    if (request.dry_run) return;
    const ufp4::interop::byte_source values =
        values_of(file, *only.weight, request, tensor_progress(request, 0, 1, only.name()));
    return ufp4::interop::write_npy(request.output, {request.to, only.weight->shape, values});
  }
  const std::vector<output_tensor> outputs = outputs_of(file, weights);
  for (const output_tensor& o : outputs) {
    if (o.copied != nullptr) check_copy(in, *o.copied, request.to_gguf());
    report.tensors.push_back(row_of(o, request));
  }
  if (request.dry_run) return;
  if (request.to_gguf()) return write_plain_gguf(file, plain_strings(file, outputs), outputs, request);
  write_plain(file, plain_strings(file, outputs), outputs, request);
}

}  // namespace detail

/// Decodes what the request selects of `in` into request.output, which is written only if all of it can be.
inline conversion dequantize_file(tensor_input& in, const dequantize_request& request) {
  conversion report{in.file().path(), request.output, {{"to", std::string(type_text(request.to))}}, {}, {},
                    request.dry_run};
  if (in.npy() != nullptr)
    in.file().fail("is a .npy file, which has no quantized weights; .safetensors and .gguf files can have them");
  if (in.gguf() != nullptr)
    detail::dequantize_file(in, *in.gguf(), request, report);
  else
    detail::dequantize_file(in, *in.safetensors(), request, report);
  return report;
}

}  // namespace tool
