// ufp4 - quantized matrices in .safetensors files, as PyTorch's projects keep them and in a layout of our own.
// SPDX-License-Identifier: Apache-2.0
/// A weight of R x C elements called NAME ("layers.0.up_proj.weight") is two or three tensors. Codes are uint8
/// [R, C/2], the even column in the low nibble; scales are [R, C/B], row-major.
///
/// | layout             | formats      | codes       | scales             | tensor scale                         |
/// |--------------------|--------------|-------------|--------------------|--------------------------------------|
/// | compressed_tensors | nvfp4        | NAME_packed | NAME_scale F8_E4M3 | NAME_global_scale F32 [1], a divisor |
/// |                    | mxfp4        | NAME_packed | NAME_scale U8      |                                      |
/// | modelopt           | nvfp4        | NAME        | NAME_scale F8_E4M3 | NAME_scale_2 F32 [], a factor        |
/// |                    | mxfp4        | NAME        | NAME_scale U8      |                                      |
/// | torchao, read only | nvfp4, mxfp4 | P._L_qdata  | P._L_scale         | P._L_per_tensor_scale F32, a factor  |
/// | ufp4               | every format | NAME_packed | NAME_scale         | NAME_tensor_scale F32 [1], a factor  |
///
/// For torchao NAME is P.L, scales are read where they are row-major, not swizzled, and the tensor scale may be absent,
/// which is 1. A factor f means value = code * (scale * f), a divisor d value = code * (scale / d): here the tensor
/// scale is then fl(1/d). The ufp4 layout pads C to whole blocks and transform runs, has scales in their own type
/// (ue5m3 as U8, e8m0 as F8_E8M0; a row of them for each row of square blocks), and a metadata string "ufp4.NAME":
///
///   grid=0,0.25,0.5,0.75,1,1.25,1.5,1.75,-0,... scale=f32 block=1x16 cols=1000 hadamard=16 bf16=0 signs=00002f6a
///
/// the values of the codes 0 .. 15; the scale's type; the block; C; the transform that was applied (1: none), whether
/// it rounded to bf16, and its sign bits in words of 32, the first first.
///
/// Sources: vllm-project/compressed-tensors, compressors nvfp4 and mxfp4; vLLM, which takes 1 / weight_global_scale;
/// NVIDIA/Model-Optimizer, NVFP4QTensor; pytorch/ao, NVFP4Tensor, MXTensor and flatten_tensor_state_dict.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <ufp4/block/presets.hpp>
#include <ufp4/interop/quantized_weight.hpp>
#include <ufp4/interop/safetensors_file.hpp>
#include <ufp4/matrix/quantized_matrix.hpp>
#include <vector>

namespace ufp4::interop::inline UFP4_TYPES {

/// Whose names and whose meaning of the tensor scale.
enum class tensor_layout : std::uint8_t { compressed_tensors, modelopt, ufp4 };

/// What the metadata strings of weights in the ufp4 layout begin with, before the weight's name.
inline constexpr const char own_mark[] = "ufp4.";

/// The formats that the other projects' layouts hold.
template <class F>
inline constexpr bool is_shared_format = std::is_same_v<F, nvfp4> || std::is_same_v<F, mxfp4>;

/// Where a new file is to be read by others: theirs if they have the format, else ours.
template <class F>
inline constexpr tensor_layout usual_layout =
    is_shared_format<F> ? tensor_layout::compressed_tensors : tensor_layout::ufp4;

}  // namespace ufp4::interop::inline UFP4_TYPES

namespace ufp4::interop::inline UFP4_CODE {

/// Everything of the metadata string that the format decides.
template <any_block_format F>
std::string format_text() {
  constexpr const char* scales[] = {"f32", "bf16", "e4m3", "ue5m3", "e8m0"};
  std::string text = "grid=";
  for (int c = 0; c < 16; ++c) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, spec_of<F>.grid.value[c]).ptr;
    text += (c != 0 ? "," : "") + std::string(digits, end);
  }
  return text + " scale=" + scales[static_cast<int>(spec_of<F>.scale)] + " block=" + std::to_string(F::block.rows) +
         "x" + std::to_string(F::block.cols);
}

/// The rest of it.
inline std::string extent_text(std::uint64_t cols, const transform_spec& t) {
  std::string text = " cols=" + std::to_string(cols) + " hadamard=" + std::to_string(t.n) +
                     " bf16=" + (t.rounds_to_bf16 ? "1" : "0") + " signs=";
  for (std::uint32_t word = 0; word < (t.n + 31) / 32; ++word) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[t.signs[word] >> shift & 15u];
  }
  return text;
}

/// Reads what extent_text wrote; false where it did not write that.
inline bool parse_extent(std::string_view text, std::uint64_t& cols, transform_spec& t) {
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
  const bool known = t.n == 1 || t.n == 16 || t.n == 32 || t.n == 64 || t.n == 128 || t.n == 256;
  if (!known || rounds > 1) return false;
  t.rounds_to_bf16 = rounds == 1;
  for (std::uint32_t word = 0; word < (t.n + 31) / 32; ++word)
    if (!number(word == 0 ? " signs=" : "", t.signs[word], 16, 8)) return false;
  return text.empty() && (t.n >= 32 || t.signs[0] >> t.n == 0);
}

/// A d with fl(1/d) == factor, which the factors of quantize<nvfp4> have; 0 where there is none.
inline float divisor_of(float factor) {
  const float middle = 1.0f / factor;
  for (const float d :
       {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, (std::numeric_limits<float>::max)())})
    if (d > 0 && std::isfinite(d) && 1.0f / d == factor) return d;
  return 0;
}

/// The names that a weight has in a file.
struct quantized_names {
  std::string codes, scales, tensor_scale;
};
inline quantized_names names_of(const std::string& name, tensor_layout layout) {
  switch (layout) {
    case tensor_layout::compressed_tensors: return {name + "_packed", name + "_scale", name + "_global_scale"};
    case tensor_layout::modelopt: return {name, name + "_scale", name + "_scale_2"};
    case tensor_layout::ufp4: break;
  }
  return {name + "_packed", name + "_scale", name + "_tensor_scale"};
}
inline quantized_names torchao_names_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  const std::string stem = dot == std::string::npos ? "_" + name : name.substr(0, dot) + "._" + name.substr(dot + 1);
  return {stem + "_qdata", stem + "_scale", stem + "_per_tensor_scale"};
}

/// The type that a layout keeps scales in.
constexpr number_type scale_number(scale_kind kind, tensor_layout layout) {
  switch (kind) {
    case scale_kind::f32: return number_type::f32;
    case scale_kind::bf16: return number_type::bf16;
    case scale_kind::e4m3: return number_type::f8_e4m3;
    case scale_kind::ue5m3: return number_type::u8;
    case scale_kind::e8m0: break;
  }
  return layout == tensor_layout::ufp4 ? number_type::f8_e8m0 : number_type::u8;
}

/// One float as a tensor: of shape [1], or of no dimension.
inline tensor_source source_of(float value, std::vector<std::uint64_t> shape) {
  return {number_type::f32, std::move(shape), [value](const byte_sink& sink) { sink(&value, sizeof value); }};
}

/// Adds the tensors of a quantized matrix, whose memory must stay until the file is written. std::invalid_argument
/// where the layout cannot say what the matrix is: it has another format, a transform, padding, or
/// (compressed_tensors) a tensor scale that is no float's reciprocal. The ufp4 layout can say all.
template <quantized Q>
void add_quantized(safetensors_writer& out, const std::string& name, const Q& q,
                   tensor_layout layout = usual_layout<typename Q::format>) {
  using F = typename Q::format;
  using ufp4::detail::expects;
  const bool own = layout == tensor_layout::ufp4, divides = layout == tensor_layout::compressed_tensors;
  expects(own || is_shared_format<F>, "add_quantized: layout ", divides ? "compressed_tensors" : "modelopt",
          " holds nvfp4 and mxfp4 alone; tensor_layout::ufp4 holds every format");
  expects(own || q.transform().n == 1, "add_quantized: ", printable(name),
          " was quantized after a Hadamard transform of ", q.transform().n, ", which only tensor_layout::ufp4 records");
  expects(own || q.cols() == q.padded_cols(), "add_quantized: ", printable(name), " has ", q.cols(),
          " columns, not a multiple of the block's ", F::block_size, ", which only tensor_layout::ufp4 records");
  const float scale = divides && F::two_level ? divisor_of(q.tensor_scale()) : q.tensor_scale();
  expects(!divides || !F::two_level || scale != 0, "add_quantized: ", printable(name), " has the tensor scale ",
          q.tensor_scale(), ", which is no float's reciprocal; tensor_layout::modelopt keeps it as it is");

  const quantized_names names = names_of(name, layout);
  const quantized_view<F> view = q;
  const std::uint64_t rows = q.rows(), padded = q.padded_cols();
  out.add(names.codes, source_of(number_type::u8, {rows, padded / 2}, view.codes().data()));
  out.add(names.scales,
          source_of(scale_number(spec_of<F>.scale, layout),
                    {ufp4::detail::scale_rows(q.rows(), F::block), padded / F::block_size}, view.scales().data()));
  if (F::two_level)
    out.add(names.tensor_scale, source_of(scale, layout == tensor_layout::modelopt ? std::vector<std::uint64_t>{}
                                                                                   : std::vector<std::uint64_t>{1}));
  if (own) out.set_metadata(own_mark + name, format_text<F>() + extent_text(q.cols(), q.transform()));
}

/// Does the file say of a weight in the ufp4 layout what it is, and have any of its tensors? A string that others left
/// behind when they made the weight plain says nothing.
inline bool has_own_layout(const safetensors_reader& file, const std::string& name) {
  if (!file.metadata().contains(own_mark + name)) return false;
  const quantized_names own = names_of(name, tensor_layout::ufp4);
  return file.find(own.codes) != nullptr || file.find(own.scales) != nullptr || file.find(own.tensor_scale) != nullptr;
}

/// How one weight is stored: found by the names that are there.
struct quantized_place {
  quantized_names names;
  bool own = false;
  bool divides = false;         ///< the tensor scale is a divisor
  bool may_lack_scale = false;  ///< without a tensor scale it is 1
};
inline quantized_place find_quantized(const safetensors_reader& file, const std::string& name) {
  if (has_own_layout(file, name)) return {names_of(name, tensor_layout::ufp4), true, false, false};
  quantized_place ct{names_of(name, tensor_layout::compressed_tensors), false, true, false};
  if (file.find(ct.names.codes) != nullptr) return ct;
  quantized_place torchao{torchao_names_of(name), false, false, true};
  if (file.find(torchao.names.codes) != nullptr) return torchao;
  quantized_place modelopt{names_of(name, tensor_layout::modelopt), false, false, false};
  if (file.find(modelopt.names.codes) == nullptr || file.find(modelopt.names.scales) == nullptr)
    file.fail("has no quantized weight named " + printable(name) + ": neither " + printable(ct.names.codes) + " nor " +
              printable(torchao.names.codes) + " nor " + printable(name) + " with " + printable(modelopt.names.scales));
  return modelopt;
}

/// The stored tensor scale as the factor that this library keeps.
inline float read_tensor_scale(safetensors_reader& file, const quantized_place& place) {
  if (place.may_lack_scale && file.find(place.names.tensor_scale) == nullptr) return 1;
  const stored_tensor& t = file.at(place.names.tensor_scale);
  float scale = 0;
  if (t.type != number_type::f32 || t.bytes != sizeof scale)
    file.fail("tensor " + printable(t.name) + " is " + shape_text(t.shape) + " " + printable(t.type_name) +
              "; a tensor scale is one F32");
  file.read_bytes(t, 0, &scale, sizeof scale);
  const float factor = place.divides ? 1.0f / scale : scale;
  if (!std::isfinite(scale) || !std::isfinite(factor) || factor < 0)
    file.fail("tensor " + printable(t.name) + " is " + ufp4::detail::concat(scale) + ", which is no tensor scale");
  return factor;
}

/// The weight called `name` in whichever layout the file has, checked and not yet read. file_error where it is not
/// there, is of another format, or its tensors do not fit each other.
template <any_block_format F>
stored_weight<F> find_weight(safetensors_reader& file, const std::string& name) {
  const quantized_place place = find_quantized(file, name);
  const stored_tensor &codes = file.at(place.names.codes), &scales = file.at(place.names.scales);
  const std::string label = "tensor " + printable(codes.name), other = "tensor " + printable(scales.name);
  if (!place.own && !is_shared_format<F>)
    file.fail(label + " has no ufp4 metadata, so it is read as nvfp4 or mxfp4 and nothing else");
  if ((codes.type != number_type::u8 && codes.type != number_type::i8) || codes.shape.size() != 2)
    file.fail(label + " is " + shape_text(codes.shape) + " " + printable(codes.type_name) +
              "; packed codes are a matrix of U8");

  std::uint64_t cols = codes.shape[1] > (std::numeric_limits<std::uint64_t>::max)() / 2 ? 0 : 2 * codes.shape[1];
  const std::uint64_t rows = codes.shape[0], padded = cols;
  transform_spec transform;
  if (place.own) {
    const std::string &said = file.metadata().at(own_mark + name), want = format_text<F>();
    if (!said.starts_with(want)) file.fail(label + " holds " + printable(said) + ", not " + want);
    if (!parse_extent(std::string_view(said).substr(want.size()), cols, transform))
      file.fail(label + " has metadata that ends in " + printable(said.substr(want.size())));
  }
  const bool fits = cols <= padded && padded == ufp4::detail::padded_length(cols, F::block, transform);
  if (!fits)
    file.fail(label + " has " + std::to_string(padded) + " codes a row, which do not hold " + std::to_string(cols) +
              " columns in blocks of " + std::to_string(F::block_size));
  const std::vector<std::uint64_t> shape{ufp4::detail::scale_rows(static_cast<std::size_t>(rows), F::block),
                                         padded / F::block_size};
  using scale_type = typename F::scale_type;
  const bool same_type = scales.type == scale_number(spec_of<F>.scale, tensor_layout::ufp4) ||
                         (sizeof(scale_type) == 1 && scales.type == number_type::u8);
  if (!same_type || scales.shape != shape)
    file.fail(other + " is " + shape_text(scales.shape) + " " + printable(scales.type_name) + "; the scales of " +
              shape_text(codes.shape) + " bytes of these codes are " + shape_text(shape) + " " +
              std::string(safetensors_name(scale_number(spec_of<F>.scale, tensor_layout::ufp4))));

  const float tensor_scale = F::two_level ? read_tensor_scale(file, place) : 1.0f;
  return {&codes, &scales, tensor_scale, static_cast<std::size_t>(rows), static_cast<std::size_t>(cols), transform};
}

/// Rows first .. first + out.rows() - 1 of a weight, of square blocks whole ones, into a matrix made for its columns
/// and its transform.
template <any_block_format F>
void read_weight_rows(safetensors_reader& file, const stored_weight<F>& weight, std::size_t first,
                      quantized_matrix<F>& out) {
  check_weight_rows(weight, first, out);
  const std::uint64_t strip = first / static_cast<std::size_t>(F::block.rows),
                      blocks = out.padded_cols() / F::block_size;
  out.set_tensor_scale(weight.tensor_scale);
  file.read_bytes(*weight.codes, std::uint64_t{first} * out.padded_cols() / 2, out.codes().data(),
                  out.codes().size_bytes());
  file.read_bytes(*weight.scales, strip * blocks * sizeof(typename F::scale_type), out.scales().data(),
                  out.scales().size_bytes());
}

/// All of it; file_error as find_weight.
template <any_block_format F>
quantized_matrix<F> read_quantized(safetensors_reader& file, const std::string& name) {
  const stored_weight<F> weight = find_weight<F>(file, name);
  quantized_matrix<F> q(weight.rows, weight.cols, weight.transform);
  read_weight_rows(file, weight, 0, q);
  return q;
}

}  // namespace ufp4::interop::inline UFP4_CODE
