// ufp4 - how .safetensors files describe quantized weights: names of tensors, types of scales, the metadata string.
// SPDX-License-Identifier: Apache-2.0
/// docs/interop.md has names, types and shapes of the tensors of each layout, and the meaning of tensor scales and of
/// further dimensions. Tensor scales are F32, [1], of modelopt []. Codes are [R, C/2] for R x C elements, or [R, C].
///
/// The ufp4 layout pads C to whole blocks and transform runs, has scales in their own type (ue5m3 as U8, e8m0 as
/// F8_E8M0; a row of them for each row of square blocks), and a metadata string "ufp4.NAME". Where more than a scale is
/// stored for a block or a row (the number of a grid, one-bit exponents, outer scales), scales are U8, [R, bytes of a
/// row of blocks], in the order of numerics 5.
///
///   grid=0,0.25,0.5,0.75,1,1.25,1.5,1.75,-0,... scale=f32 block=1x16 cols=1000 hadamard=16 bf16=0 signs=00002f6a
///
/// the values of the codes 0 .. 15, or int8*0.015625: 8-bit integers times that unit, or fp8_e4m3, fp8_e5m2, fp6_e3m2,
/// fp6_e2m3; the scale's type; the block; C; the transform that was applied (1: none), whether it rounded to bf16, and
/// its sign bits in words of 32, the first first. Behind grid come more grids of a block, each with its factor
/// ("grid1=...*0.25"); behind scale the outer scales ("outer=f32/128" for 128 columns, "outer=f32/row",
/// "outer=bf16/tensor"; none for a binary32 tensor scale); in block the groups of one-bit exponents ("block=1x64/8/4").
/// " axis=1" follows if C is dimension 1 of the weight and not its last, as which it is stored.
///
/// Sources: vllm-project/compressed-tensors, compressors nvfp4 and mxfp4; vLLM, which takes 1 / weight_global_scale;
/// NVIDIA/Model-Optimizer, NVFP4QTensor; pytorch/ao, NVFP4Tensor, MXTensor and flatten_tensor_state_dict;
/// huggingface/transformers, integrations/mxfp4.py; huggingface/safetensors, Dtype.
#pragma once

#include <charconv>
#include <cmath>
#include <ufp4/block/presets.hpp>
#include <ufp4/interop/stored_tensor.hpp>
#include <ufp4/matrix/any_quantized.hpp>

namespace ufp4::interop::inline UFP4_TYPES {

/// Whose names, and whose meaning of the tensor scale.
enum class tensor_layout : std::uint8_t { compressed_tensors, modelopt, ufp4, f4, gpt_oss };
/// All of them.
inline constexpr tensor_layout tensor_layouts[] = {tensor_layout::compressed_tensors, tensor_layout::modelopt,
                                                   tensor_layout::ufp4, tensor_layout::f4, tensor_layout::gpt_oss};

/// Prefix of the metadata keys of the ufp4 layout; the weight's name follows.
inline constexpr const char own_mark[] = "ufp4.";

/// Whether the other projects' layouts have this format: nvfp4 and mxfp4.
constexpr bool is_shared_format(const format_spec& format) {
  return format == spec_of<nvfp4> || format == spec_of<mxfp4>;
}
/// Whether a layout has this format.
constexpr bool has_format(tensor_layout layout, const format_spec& format) {
  return layout == tensor_layout::ufp4 ||
         (layout == tensor_layout::gpt_oss ? format == spec_of<mxfp4> : is_shared_format(format));
}

/// The default of a new file: the layout of most readers where it has the format, else ours.
constexpr tensor_layout usual_layout(const format_spec& format) {
  return is_shared_format(format) ? tensor_layout::compressed_tensors : tensor_layout::ufp4;
}

/// The layout's name, as above.
constexpr const char* name_of(tensor_layout layout) {
  constexpr const char* names[] = {"compressed_tensors", "modelopt", "ufp4", "f4", "gpt_oss"};
  return names[static_cast<int>(layout)];
}

}  // namespace ufp4::interop::inline UFP4_TYPES

namespace ufp4::interop::inline UFP4_CODE {

/// The names of the tensors of one weight.
struct quantized_names {
  std::string codes, scales, tensor_scale;  ///< names of the three tensors; tensor_scale may be empty
};
/// The names of the tensors of weight `name` in a layout.
inline quantized_names names_of(const std::string& name, tensor_layout layout) {
  if (layout == tensor_layout::modelopt || layout == tensor_layout::f4)
    return {name, name + "_scale", name + "_scale_2"};
  if (layout == tensor_layout::gpt_oss) return {name + "_blocks", name + "_scales", ""};
  const char* const tensor_scale = layout == tensor_layout::ufp4 ? "_tensor_scale" : "_global_scale";
  return {name + "_packed", name + "_scale", name + tensor_scale};
}
/// torchao's, whose layout is only read.
inline quantized_names torchao_names_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  const std::string stem = dot == std::string::npos ? "_" + name : name.substr(0, dot) + "._" + name.substr(dot + 1);
  return {stem + "_qdata", stem + "_scale", stem + "_per_tensor_scale"};
}

/// Whether scales are stored as bytes: where not every one is a number of the scale's type.
constexpr bool has_bytes_of_scales(const format_spec& format) {
  return format.has_outer_array() || format.choice.count != 0 || format.block.group[0] != 0;
}
/// The type in which a layout stores block scales.
constexpr number_type scale_number(const format_spec& format, tensor_layout layout) {
  constexpr number_type types[] = {number_type::f32,     number_type::bf16, number_type::f8_e4m3, number_type::u8,
                                   number_type::f8_e8m0, number_type::u8};  // as scale_kind lists them
  const bool as_byte = layout != tensor_layout::ufp4 && layout != tensor_layout::f4;
  if ((format.scale == scale_kind::e8m0 && as_byte) || has_bytes_of_scales(format)) return number_type::u8;
  return types[static_cast<int>(format.scale)];
}

/// Types and shapes of the tensors of one weight.
struct quantized_tensors {
  number_type codes_type, scales_type;       ///< of codes and block scales
  std::vector<std::uint64_t> codes, scales;  ///< their shapes
  std::vector<std::uint64_t> tensor_scale;   ///< F32; its shape, where the format has one
};
/// The tensors of a weight in a layout. `shape`: of the values, at least two dimensions, in the order in which they are
/// stored. Square blocks require a matrix.
inline quantized_tensors tensors_of(const format_spec& format, const std::vector<std::uint64_t>& shape,
                                    const transform_spec& transform, tensor_layout layout) {
  const auto cols = static_cast<std::size_t>(shape.back()), block = static_cast<std::size_t>(format.block.cols);
  const std::size_t padded = ufp4::detail::padded_length(cols, format.block, transform);
  const number_type codes = format.byte == ufp4::detail::byte_element::int8 ? number_type::i8 : number_type::u8;
  quantized_tensors t{codes, scale_number(format, layout), shape, shape, {}};
  t.scales.back() = has_bytes_of_scales(format) ? ufp4::detail::scale_strip_of(format, padded).bytes() : padded / block;
  if (shape.size() == 2) t.scales[0] = ufp4::detail::scale_rows(static_cast<std::size_t>(shape[0]), format.block);
  t.codes.back() = ufp4::detail::code_bytes(format, padded);
  if (layout == tensor_layout::f4) {
    t.codes_type = number_type::f4;
    t.codes.back() = padded;
  }
  if (layout == tensor_layout::gpt_oss) {
    t.codes.back() = padded / block;
    t.codes.push_back(block / 2);
  }
  if (shape.size() > 2)
    t.tensor_scale = {shape[0]};
  else if (layout != tensor_layout::modelopt && layout != tensor_layout::f4)
    t.tensor_scale = {1};
  return t;
}

/// The shortest decimal number that is x.
inline std::string shortest_text(float x) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

/// The values of a grid: "0,0.25,...".
inline std::string grid_text(const grid4& grid) {
  std::string text;
  for (int c = 0; c < 16; ++c) (text += c != 0 ? "," : "") += shortest_text(grid.value[c]);
  return text;
}
/// "int8*0.015625", or the name of a float of one byte.
inline std::string byte_text(const format_spec& format) {
  constexpr const char* names[] = {"", "int8*", "fp8_e4m3", "fp8_e5m2", "fp6_e3m2", "fp6_e2m3"};  // as byte_element
  const bool integers = format.byte == ufp4::detail::byte_element::int8;
  return names[static_cast<int>(format.byte)] + (integers ? shortest_text(format.grid.unit) : "");
}

/// First part of the metadata string: what the format decides, "grid=... scale=... block=...".
inline std::string format_text(const format_spec& format) {
  constexpr const char* scales[] = {"f32", "bf16", "e4m3", "ue5m3", "e8m0", "e6m2"};
  const outer_scale& outer = format.outer;
  std::string text = "grid=" + (format.has_bytes() ? byte_text(format) : grid_text(format.grid));
  for (int g = 1; g <= format.choice.count; ++g)
    text += " grid" + std::to_string(g) + "=" + grid_text(ufp4::detail::nth_grid(format, g)) + "*" +
            shortest_text(ufp4::detail::factor_of(format, g));
  text += std::string(" scale=") + scales[static_cast<int>(format.scale)];
  if (format.has_outer_array() || (outer.span == outer_scale::kind::tensor && outer.type != scale_kind::f32))
    text += std::string(" outer=") + scales[static_cast<int>(outer.type)] + "/" +
            (outer.span == outer_scale::kind::tensor ? "tensor"
             : outer.span == outer_scale::kind::row  ? "row"
                                                     : std::to_string(outer.segment));
  text += " block=" + std::to_string(format.block.rows) + "x" + std::to_string(format.block.cols);
  for (int level = 0; level < 2 && format.block.group[level] != 0; ++level)
    text += "/" + std::to_string(format.block.group[level]);
  return text;
}

/// Second part of the metadata string: " cols=... hadamard=... bf16=... signs=...".
inline std::string extent_text(std::uint64_t cols, const transform_spec& t) {
  std::string text = " cols=" + std::to_string(cols) + " hadamard=" + std::to_string(t.n) +
                     " bf16=" + (t.rounds_to_bf16 ? "1" : "0") + " signs=";
  for (std::uint32_t word = 0; word < (t.n + 31) / 32; ++word)
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[t.signs[word] >> shift & 15u];
  return text;
}

/// Third part of the metadata string, " axis=1"; empty for the last of `dimensions`.
inline std::string axis_text(std::size_t axis, std::size_t dimensions) {
  return axis + 1 == dimensions ? "" : " axis=" + std::to_string(axis);
}

/// The inverse of extent_text and axis_text, without which `axis` is unchanged; false for any other text.
inline bool parse_extent(std::string_view text, std::uint64_t& cols, transform_spec& t, std::size_t& axis) {
  const auto number = [&text](std::string_view label, auto& to, int base, std::size_t most) {
    if (!text.starts_with(label)) return false;
    text.remove_prefix(label.size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + (std::min)(most, text.size()), to, base);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return error == std::errc{};
  };
  std::uint32_t rounds = 0;
  if (!number(" cols=", cols, 10, 20) || !number(" hadamard=", t.n, 10, 3) || !number(" bf16=", rounds, 10, 1))
    return false;
  if (!t.valid_length() || rounds > 1) return false;
  t.rounds_to_bf16 = rounds == 1;
  for (std::uint32_t word = 0; word < (t.n + 31) / 32; ++word)
    if (!number(word == 0 ? " signs=" : "", t.signs[word], 16, 8)) return false;
  if (!text.empty() && !number(" axis=", axis, 10, 2)) return false;
  return text.empty() && (t.n >= 32 || t.signs[0] >> t.n == 0);
}

/// A divisor d with fl(1/d) == factor; 0 if no float is one. The tensor scales of quantize<nvfp4> have one.
inline float divisor_of(float factor) {
  const float middle = 1.0f / factor;
  for (const float d :
       {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, (std::numeric_limits<float>::max)())})
    if (d > 0 && std::isfinite(d) && 1.0f / d == factor) return d;
  return 0;
}

}  // namespace ufp4::interop::inline UFP4_CODE
