// ufp4 - which tensors of a file are quantized weights, and in which format: from names, types and metadata alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <ufp4/block/presets.hpp>
#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/safetensors.hpp>
#include <vector>

#include "format_list.hpp"

namespace tool {

/// A weight that a file holds in 4 bits, and the tensors that are its parts.
struct found_weight {
  std::string name;
  ufp4::interop::quantized_names parts;  ///< of a .gguf file: the tensor itself, nothing, its scale
};

namespace detail {

using ufp4::interop::number_type;
using ufp4::interop::printable;
using ufp4::interop::safetensors_reader;
using ufp4::interop::stored_tensor;

template <class... F>
struct formats {};

template <class F>
using in_squares = ufp4::block_format<typename F::element_type, typename F::scale_type, ufp4::square(F::block.cols),
                                      typename F::tensor_scale_type>;

/// The presets, the same in square blocks, and ggml's NVFP4.
using readable_formats = formats<ufp4::nvfp4, ufp4::nv_e1m2, ufp4::nvint4, ufp4::mxfp4, ufp4::mx_e1m2, ufp4::mxint4,
                                 ufp4::e2m1_f32, ufp4::e1m2_f32, ufp4::int4_f32, in_squares<ufp4::nvfp4>,
                                 in_squares<ufp4::nv_e1m2>, in_squares<ufp4::nvint4>, in_squares<ufp4::mxfp4>,
                                 in_squares<ufp4::mx_e1m2>, in_squares<ufp4::mxint4>, in_squares<ufp4::e2m1_f32>,
                                 in_squares<ufp4::e1m2_f32>, in_squares<ufp4::int4_f32>, ufp4::interop::ggml_nvfp4>;

/// Packed codes are a matrix of bytes, and scales beside them E4M3 or powers of two.
inline bool are_blocks(const stored_tensor* codes, const stored_tensor* scales) {
  if (codes == nullptr || scales == nullptr || codes->shape.size() != 2 || scales->shape.size() != 2) return false;
  const bool bytes = codes->type == number_type::u8 || codes->type == number_type::i8;
  return bytes && (scales->type == number_type::f8_e4m3 || scales->type == number_type::f8_e8m0 ||
                   scales->type == number_type::u8);
}

inline void add_if_blocks(const safetensors_reader& file, const std::string& name,
                          const ufp4::interop::quantized_names& parts, std::vector<found_weight>& found) {
  if (are_blocks(file.find(parts.codes), file.find(parts.scales))) found.push_back({name, parts});
}

/// The name that a tensor of codes called `codes` has in each of the other projects' layouts.
inline void find_shared(const safetensors_reader& file, const std::string& codes, std::vector<found_weight>& found) {
  using ufp4::interop::tensor_layout;
  constexpr std::string_view packed = "_packed", qdata = "_qdata";
  if (codes.ends_with(packed)) {
    const std::string name = codes.substr(0, codes.size() - packed.size());
    add_if_blocks(file, name, names_of(name, tensor_layout::compressed_tensors), found);
  }
  if (codes.ends_with(qdata)) {
    const std::string stem = codes.substr(0, codes.size() - qdata.size());
    const std::size_t dot = stem.rfind("._");  // P._L is P.L's, _L is L's
    const std::string name = dot != std::string::npos ? stem.substr(0, dot + 1) + stem.substr(dot + 2)
                             : stem.starts_with('_')  ? stem.substr(1)
                                                      : "";
    if (!name.empty()) add_if_blocks(file, name, ufp4::interop::torchao_names_of(name), found);
  }
  add_if_blocks(file, codes, names_of(codes, tensor_layout::modelopt), found);
}

}  // namespace detail

inline constexpr std::string_view own_mark = ufp4::interop::own_mark;

/// Is it a string of the ufp4 layout about a weight that is not there?
inline bool is_leftover(const ufp4::interop::safetensors_reader& file, const std::string& key) {
  return key.starts_with(own_mark) && !has_own_layout(file, key.substr(own_mark.size()));
}

/// In order of their names.
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
    if (!parts.contains(t.name)) detail::find_shared(file, t.name, found);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

inline std::vector<found_weight> quantized_weights(const ufp4::interop::gguf_reader& file) {
  std::vector<found_weight> found;
  for (const ufp4::interop::stored_tensor& t : file.tensors())
    if (t.type == ufp4::interop::number_type::mxfp4 || t.type == ufp4::interop::number_type::nvfp4)
      found.push_back(
          {t.name,
           {t.name, "", t.type == ufp4::interop::number_type::nvfp4 ? ufp4::interop::ggml_scale_name(t.name) : ""}});
  return found;
}

namespace detail {

/// Does the metadata string of a weight in the ufp4 layout say this format?
template <class F>
bool says_format(const safetensors_reader& file, const found_weight& weight, const std::string& said) {
  const bool two_level = file.find(weight.parts.tensor_scale) != nullptr;
  return F::two_level == two_level && said.starts_with(ufp4::interop::format_text<F>() + " ");
}

template <class Visit, class... F>
bool visit_said(const safetensors_reader& file, const found_weight& weight, const std::string& said, Visit& visit,
                formats<F...>) {
  return ((says_format<F>(file, weight, said) && (visit(std::type_identity<F>{}), true)) || ...);
}

}  // namespace detail

/// The tensors that quantized weights are made of: codes that are there, their scales and tensor scales.
template <class Reader>
std::set<std::string> parts_of_weights(const Reader& file) {
  std::set<std::string> parts;
  for (const found_weight& w : quantized_weights(file))
    if (file.find(w.parts.codes) != nullptr) parts.insert({w.parts.codes, w.parts.scales, w.parts.tensor_scale});
  return parts;
}

/// The tensor whose scales `name` seems to be, in a layout that is not read here: FP8 with scales beside it, integers
/// in groups. Null where there is none: then it is a matrix like any other.
inline const ufp4::interop::stored_tensor* scaled_by(const ufp4::interop::tensor_file& file, std::string_view name) {
  for (const std::string_view ending : {"_scale", "_scale_inv", "_scales", ".scales"}) {
    if (!name.ends_with(ending)) continue;
    const std::string stem(name.substr(0, name.size() - ending.size()));
    for (const char* codes : {"", "_packed", "_qdata", "_blocks", ".weight", ".qweight"})
      if (const ufp4::interop::stored_tensor* const beside = file.find(stem + codes)) return beside;
  }
  return nullptr;
}

/// visit(std::type_identity<Format>{}) of the format that a weight is stored in; file_error where it is none of ours.
template <class Visit>
void visit_stored(const ufp4::interop::safetensors_reader& file, const found_weight& weight, Visit visit) {
  if (!has_own_layout(file, weight.name)) {
    if (file.at(weight.parts.scales).type == ufp4::interop::number_type::f8_e4m3)
      return visit(std::type_identity<ufp4::nvfp4>{});
    return visit(std::type_identity<ufp4::mxfp4>{});
  }
  const std::string& said = file.metadata().at(ufp4::interop::own_mark + weight.name);
  if (!detail::visit_said(file, weight, said, visit, detail::readable_formats{}))
    file.fail("tensor " + ufp4::interop::printable(weight.name) +
              " is in a format that is no preset: " + ufp4::interop::printable(said));
}
template <class Visit>
void visit_stored(const ufp4::interop::gguf_reader& file, const found_weight& weight, Visit visit) {
  if (file.at(weight.name).type == ufp4::interop::number_type::mxfp4) return visit(std::type_identity<ufp4::mxfp4>{});
  visit(std::type_identity<ufp4::nvfp4>{});
}

/// "nvfp4", "nvfp4 in 16 x 16", or of ggml's own NVFP4 "nvfp4 without a tensor scale".
template <class F>
std::string stored_format_name() {
  if (std::is_same_v<F, ufp4::interop::ggml_nvfp4>) return "nvfp4 without a tensor scale";
  std::string name;
  for (const format_name& f : format_names)
    visit_format(f.name, [&](auto preset) {
      using P = typename decltype(preset)::type;
      const std::string size = std::to_string(P::block_size);
      if (std::is_same_v<F, P>) name = f.name;
      if (std::is_same_v<F, detail::in_squares<P>>) name = std::string(f.name) + " in " + size + " x " + size;
    });
  return name;
}

}  // namespace tool
