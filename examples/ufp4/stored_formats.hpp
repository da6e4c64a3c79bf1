// ufp4 - which tensors of a file are quantized weights: from names, types and metadata, without reading data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/gguf_values.hpp>
#include <ufp4/interop/int4_groups.hpp>
#include <ufp4/interop/safetensors.hpp>
#include <ufp4/matrix/preset_names.hpp>
#include <vector>

namespace tool {

/// How a weight is stored: in a format of the library; as integers of AWQ or GPTQ; in another of ggml's types.
enum class weight_kind : std::uint8_t { format, integers, ggml };

/// A weight that a file holds in 4 bits, and the tensors that are its parts.
struct found_weight {
  std::string name;
  /// Of a .gguf file: the tensor itself, nothing, its scale. Of integers: qweight, scales and qzeros.
  ufp4::interop::quantized_names parts;
  weight_kind kind = weight_kind::format;

  /// Of integers: the name without ".weight".
  std::string stem() const { return parts.codes.substr(0, parts.codes.rfind('.')); }
  /// The names of all tensors that it may have.
  std::set<std::string> tensors() const {
    std::set<std::string> names{parts.codes, parts.scales, parts.tensor_scale};
    if (kind == weight_kind::integers) names.insert(stem() + ".g_idx");
    return names;
  }
};

namespace detail {

using ufp4::interop::number_type;
using ufp4::interop::printable;
using ufp4::interop::safetensors_reader;
using ufp4::interop::stored_tensor;

/// Whether these can be packed codes and the block scales of nvfp4 or mxfp4.
inline bool are_blocks(const stored_tensor* codes, const stored_tensor* scales) {
  if (codes == nullptr || scales == nullptr || codes->shape.size() < 2 || scales->shape.size() != codes->shape.size())
    return false;
  const bool packed =
      codes->type == number_type::u8 || codes->type == number_type::i8 || codes->type == number_type::f4;
  return packed && (scales->type == number_type::f8_e4m3 || scales->type == number_type::f8_e8m0 ||
                    scales->type == number_type::u8);
}
/// Whether these can be GPT-OSS's blocks and scales.
inline bool are_pairs(const stored_tensor* blocks, const stored_tensor* scales) {
  return blocks != nullptr && scales != nullptr && blocks->type == number_type::u8 && scales->type == number_type::u8 &&
         blocks->shape.size() >= 3 && blocks->shape.size() == scales->shape.size() + 1 && blocks->shape.back() == 16;
}

/// Adds the weight of AWQ or GPTQ whose integers of 4 bits are the tensor `codes`.
inline void find_integers(const safetensors_reader& file, const stored_tensor& codes,
                          std::vector<found_weight>& found) {
  constexpr std::string_view ending = ".qweight";
  if (!codes.name.ends_with(ending) || codes.type != number_type::i32) return;
  const std::string stem = codes.name.substr(0, codes.name.size() - ending.size());
  const stored_tensor *const scales = file.find(stem + ".scales"), *const zeros = file.find(stem + ".qzeros");
  if (scales == nullptr || zeros == nullptr || scales->shape.size() != 2 || zeros->shape.size() != 2) return;
  if (zeros->type != number_type::i32 || zeros->shape[1] != scales->shape[1] / 8)
    return;  // of another size than 4 bits
  found.push_back({stem + ".weight", {codes.name, scales->name, zeros->name}, weight_kind::integers});
}

inline void add_if_blocks(const safetensors_reader& file, const std::string& name,
                          const ufp4::interop::quantized_names& parts, std::vector<found_weight>& found) {
  if (are_blocks(file.find(parts.codes), file.find(parts.scales))) found.push_back({name, parts});
}

/// Adds the weight whose codes are the tensor `codes` in the naming of one of the other projects.
inline void find_shared(const safetensors_reader& file, const std::string& codes, std::vector<found_weight>& found) {
  using ufp4::interop::tensor_layout;
  constexpr std::string_view packed = "_packed", qdata = "_qdata";
  if (codes.ends_with(packed)) {
    const std::string name = codes.substr(0, codes.size() - packed.size());
    add_if_blocks(file, name, names_of(name, tensor_layout::compressed_tensors), found);
  }
  if (codes.ends_with(qdata)) {
    const std::string stem = codes.substr(0, codes.size() - qdata.size());
    const std::size_t dot = stem.rfind("._");  // P._L stands for P.L, _L for L
    const std::string name = dot != std::string::npos ? stem.substr(0, dot + 1) + stem.substr(dot + 2)
                             : stem.starts_with('_')  ? stem.substr(1)
                                                      : "";
    if (!name.empty()) add_if_blocks(file, name, ufp4::interop::torchao_names_of(name), found);
  }
  constexpr std::string_view blocks = "_blocks";
  if (codes.ends_with(blocks)) {
    const std::string name = codes.substr(0, codes.size() - blocks.size());
    const auto parts = names_of(name, tensor_layout::gpt_oss);
    if (are_pairs(file.find(parts.codes), file.find(parts.scales))) found.push_back({name, parts});
  }
  add_if_blocks(file, codes, names_of(codes, tensor_layout::modelopt), found);
}

}  // namespace detail

inline constexpr std::string_view own_mark = ufp4::interop::own_mark;

/// Whether a metadata key of the ufp4 layout describes a weight that the file does not have.
inline bool is_leftover(const ufp4::interop::safetensors_reader& file, const std::string& key) {
  return key.starts_with(own_mark) && !has_own_layout(file, key.substr(own_mark.size()));
}

/// Sorted by name.
inline std::vector<found_weight> quantized_weights(const ufp4::interop::safetensors_reader& file) {
  std::vector<found_weight> found;
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with(own_mark) || is_leftover(file, key)) continue;
    const std::string name = key.substr(own_mark.size());
    found.push_back({name, names_of(name, ufp4::interop::tensor_layout::ufp4)});
  }
  std::set<std::string> parts;
  for (const found_weight& w : found) parts.insert({w.parts.codes, w.parts.scales});
  for (const ufp4::interop::stored_tensor& t : file.tensors())
    if (!parts.contains(t.name)) {
      detail::find_shared(file, t.name, found);
      detail::find_integers(file, t, found);
    }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

inline std::vector<found_weight> quantized_weights(const ufp4::interop::gguf_reader& file) {
  using ufp4::interop::number_type;
  std::vector<found_weight> found;
  for (const ufp4::interop::stored_tensor& t : file.tensors()) {
    if (t.type == number_type::mxfp4 || t.type == number_type::nvfp4)
      found.push_back(
          {t.name, {t.name, "", t.type == number_type::nvfp4 ? ufp4::interop::ggml_scale_name(t.name) : ""}});
    else if (ufp4::interop::find_ggml_decoder(t.type_name) != nullptr && t.bytes != 0)
      found.push_back({t.name, {t.name, "", ""}, weight_kind::ggml});
  }
  return found;
}

/// The tensors that quantized weights consist of: existing codes, their scales and tensor scales.
template <class Reader>
std::set<std::string> parts_of_weights(const Reader& file) {
  std::set<std::string> parts;
  for (const found_weight& w : quantized_weights(file))
    if (file.find(w.parts.codes) != nullptr) parts.merge(w.tensors());
  return parts;
}

/// The tensor whose scales `name` seems to be, in a layout that is not read here: FP8 with scales beside it, integers
/// in groups. nullptr for a matrix that is not recognized as scales.
inline const ufp4::interop::stored_tensor* scaled_by(const ufp4::interop::tensor_file& file, std::string_view name) {
  for (const std::string_view ending : {"_scale", "_scale_inv", "_scales", ".scales"}) {
    if (!name.ends_with(ending)) continue;
    const std::string stem(name.substr(0, name.size() - ending.size()));
    for (const char* codes : {"", "_packed", "_qdata", "_blocks", ".weight", ".qweight"})
      if (const ufp4::interop::stored_tensor* const beside = file.find(stem + codes)) return beside;
  }
  return nullptr;
}

/// "nvfp4", "nvfp4 in 16 x 16", or for ggml's own NVFP4 "nvfp4 without a tensor scale".
inline std::string stored_format_name(const ufp4::format_spec& format) {
  if (format == ufp4::spec_of<ufp4::interop::ggml_nvfp4>) return "nvfp4 without a tensor scale";
  ufp4::format_spec rows = format;
  rows.block.rows = 1;
  const std::string name(ufp4::detail::preset_name(rows)), size = std::to_string(format.block.cols);
  return format.block.rows == 1 ? name : name + " in " + size + " x " + size;
}

/// "int4 (groups of 128)": the format of a weight of AWQ or GPTQ.
inline std::string integers_name(const ufp4::interop::int4_groups& shape) {
  return "int4 (groups of " + std::to_string(shape.cols / shape.groups) + ")";
}
/// "awq", "gptq" or "gptq_v2".
inline std::string_view name_of(ufp4::interop::int4_layout layout) {
  constexpr std::string_view names[] = {"awq", "gptq", "gptq_v2"};
  return names[static_cast<int>(layout)];
}

}  // namespace tool
