// ufp4 - the tensors of a file for `ufp4 inspect`, with the parts of a quantized weight joined.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/safetensors.hpp>
#include <utility>
#include <vector>

#include "format_list.hpp"
#include "gptq_version.hpp"
#include "quantize_plan.hpp"
#include "stored_formats.hpp"
#include "tensor_input.hpp"

namespace tool {

using ufp4::interop::number_type;
using ufp4::interop::stored_tensor;

/// One tensor, or the tensors that are one quantized weight.
struct file_entry {
  std::string name;
  stored_tensor tensor;              ///< of a quantized weight, its codes
  std::vector<std::uint64_t> shape;  ///< of the values; the codes of a quantized weight are packed
  std::uint64_t bytes = 0;           ///< with the scales; 0 where the file does not state the size
  std::string format;                ///< of a quantized weight
  std::string layout;                ///< of a quantized weight: whose names and meaning
  std::uint32_t hadamard = 1;        ///< length of the transform that was applied before quantizing
  std::size_t axis = 0;              ///< of what is measured: along which dimension
  std::string not_measured;          ///< the reason; empty for what can be measured
};

namespace detail {

inline std::string layout_of(const safetensors_reader& file, const found_weight& weight) {
  if (has_own_layout(file, weight.name)) return "ufp4";
  if (weight.kind == weight_kind::integers) {
    const auto layout = int4_layout_of(file, weight.stem(), ufp4::interop::int4_layout::gptq);
    return std::string(layout == ufp4::interop::int4_layout::gptq ? name_of(gptq_version_beside(file.path()))
                                                                  : name_of(layout));
  }
  if (file.at(weight.parts.codes).type == number_type::f4) return "f4";
  if (weight.parts.codes == weight.name) return "modelopt";
  if (weight.parts.codes.ends_with("_blocks")) return "gpt_oss";
  return weight.parts.codes.ends_with("_qdata") ? "torchao" : "compressed_tensors";
}

/// Codes, scales and tensor scale as one entry, whose format is empty where they do not fit each other.
inline file_entry joined(safetensors_reader& file, const found_weight& weight) {
  file_entry entry{
      .name = weight.name, .tensor = {}, .shape = {}, .format = {}, .layout = {}, .not_measured = "quantized"};
  for (const std::string& part : weight.tensors())
    if (const stored_tensor* const t = file.find(part)) entry.bytes += t->bytes;
  try {
    entry.layout = layout_of(file, weight);
    if (weight.kind == weight_kind::integers) {
      const auto layout = int4_layout_of(file, weight.stem());
      const auto sizes = read_group_shape(file, weight.stem(), layout);
      entry.tensor = file.at(weight.parts.codes);
      entry.shape = {sizes.rows, sizes.cols};
      entry.format = integers_name(sizes);
      return entry;
    }
    const ufp4::interop::stored_weight found = find_weight(file, weight.name);
    entry.tensor = *found.codes;
    entry.shape = found.shape;
    entry.hadamard = found.transform.n;
    entry.format = stored_format_name(found.format);
  } catch (const ufp4::interop::file_error&) {  // NOLINT(bugprone-empty-catch)
    // Listed as separate tensors; `dequantize` reports the error.
  }
  return entry;
}

/// Why a tensor cannot be measured as a matrix of numbers.
inline std::string why_not_measured(const stored_tensor& t, bool vectors) {
  if (t.type == number_type::u8 || t.type == number_type::i8 || t.type == number_type::i32 ||
      t.type == number_type::i64)
    return "integers";
  if (t.type == number_type::f8_e8m0) return "powers of two";
  if (!ufp4::interop::is_plain_number(t.type)) return "a type that cannot be read";
  if (t.shape.empty()) return "a single number";
  for (const std::uint64_t extent : t.shape)
    if (extent == 0) return "empty";
  return t.shape.size() == 1 && !vectors ? "a vector" : "";
}

/// A weight in ggml's blocks, which hold codes and scales; adds the tensor scale of an NVFP4 weight to `parts`.
inline void join_ggml(const ufp4::interop::tensor_file& file, file_entry& entry, std::set<std::string>& parts) {
  const number_type type = entry.tensor.type;
  if (ufp4::interop::find_ggml_decoder(entry.tensor.type_name) != nullptr) {
    entry.layout = "ggml";
    entry.not_measured = "quantized";
    entry.format = entry.tensor.type_name;
  }
  if (type != number_type::mxfp4 && type != number_type::nvfp4) return;
  entry.layout = "ggml";
  entry.not_measured = "quantized";
  const stored_tensor* const scale =
      type == number_type::nvfp4 ? file.find(ufp4::interop::ggml_scale_name(entry.name)) : nullptr;
  entry.format = stored_format_name(type == number_type::mxfp4 ? ufp4::spec_of<ufp4::mxfp4>
                                    : scale != nullptr         ? ufp4::spec_of<ufp4::nvfp4>
                                                               : ufp4::spec_of<ufp4::interop::ggml_nvfp4>);
  if (scale == nullptr) return;
  entry.bytes += scale->bytes;
  parts.insert(scale->name);
}

}  // namespace detail

/// Why `ufp4 quantize -f FORMAT` copies a tensor; empty where it converts it.
inline std::string why_copied(const format_facts& format, const file_entry& e) {
  if (!e.format.empty()) return "is a quantized weight";
  quantize_request request;
  request.axes = {{"*", e.axis}};
  request.spec = format.spec;
  return detail::why_kept(e.tensor, e.name, request);
}

/// Why `ufp4 quantize` copies it in every format: the reason of the one with the shortest blocks.
inline std::string why_copied(const file_entry& e) {
  const auto& formats = all_formats();
  return why_copied(
      *std::min_element(formats.begin(), formats.end(),
                        [](const auto& a, const auto& b) { return a.spec.block.cols < b.spec.block.cols; }),
      e);
}

inline std::string_view kind_of(tensor_input& input) {
  return input.safetensors() != nullptr ? "safetensors" : input.npy() != nullptr ? "npy" : "gguf";
}

/// Sorted by name. A vector is measured, as a matrix of one row, if `vectors` is set or it is the only tensor of the
/// file; what is measured has blocks along the dimension that `axes` chooses, else the last.
inline std::vector<file_entry> entries_of(tensor_input& input, bool vectors,
                                          const std::vector<axis_choice>& axes = {}) {
  const auto& tensors = input.file().tensors();
  vectors = vectors || tensors.size() == 1;
  std::vector<file_entry> found;
  std::set<std::string> parts;  // of weights that have an entry
  if (auto* const file = input.safetensors())
    for (const found_weight& weight : quantized_weights(*file)) {
      file_entry entry = detail::joined(*file, weight);
      if (entry.format.empty()) continue;
      parts.merge(weight.tensors());
      found.push_back(std::move(entry));
    }
  for (const stored_tensor& t : tensors) {
    if (parts.contains(t.name)) continue;
    file_entry entry{input.name_of(t), t, t.shape, t.bytes, "", "", 1, 0, detail::why_not_measured(t, vectors)};
    if (entry.not_measured.empty() && t.shape.size() > 1) entry.axis = axis_of(t, entry.name, axes);
    detail::join_ggml(input.file(), entry, parts);
    found.push_back(std::move(entry));
  }
  std::erase_if(found, [&](const file_entry& e) { return e.format.empty() && parts.contains(e.tensor.name); });
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

}  // namespace tool
