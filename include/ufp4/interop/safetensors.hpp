// ufp4 - quantized weights in .safetensors files, in the layouts of PyTorch's projects and in ours.
// SPDX-License-Identifier: Apache-2.0
/// Layouts: safetensors_layout.hpp. Codes and scales are moved, never rounded; the tensor scale comes back in its bits.
#pragma once

#include <ufp4/interop/quantized_weight.hpp>
#include <ufp4/interop/safetensors_file.hpp>
#include <ufp4/interop/safetensors_layout.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// std::invalid_argument where a layout other than ufp4 cannot represent the matrix.
inline void check_layout(const std::string& name, const any_quantized_view& q, tensor_layout layout) {
  if (layout == tensor_layout::ufp4) return;
  const std::string label =
      "add_quantized: not representable in layout " + std::string(name_of(layout)) + ": " + printable(name);
  const std::string instead = "; tensor_layout::ufp4 represents every matrix";
  expects(is_shared_format(q.spec()), label, " is neither nvfp4 nor mxfp4", instead);
  expects(q.transform().n == 1, label, " was quantized after a Hadamard transform of ", q.transform().n, instead);
  expects(q.cols() == q.padded_cols(), label, " has ", q.cols(), " columns, not a multiple of the block's ",
          q.spec().block.cols, instead);
  expects(
      layout != tensor_layout::compressed_tensors || !q.spec().has_tensor_scale() || divisor_of(q.tensor_scale()) != 0,
      label, " has the tensor scale ", q.tensor_scale(), ", which is not the reciprocal of a float",
      "; tensor_layout::modelopt stores the scale itself");
}

/// std::invalid_argument for a format that no layout represents.
inline void check_storable(const char* operation, const std::string& name, const format_spec& format) {
  const std::string format_name(preset_name(format));
  expects(!ufp4::detail::is_extended(format), operation, ": format not available in safetensors: ", printable(name),
          format_name.empty() ? "" : " is " + format_name + ", which", " has ", ufp4::detail::extended_parts);
}

/// Adds the tensors of a quantized matrix, whose memory must stay valid until the file is written.
/// std::invalid_argument where the layout cannot represent it: another format, a transform, padding, or
/// (compressed_tensors) a tensor scale that is not a float's reciprocal. The ufp4 layout represents every matrix.
inline void add_quantized(safetensors_writer& out, const std::string& name, const any_quantized_view& q,
                          tensor_layout layout) {
  check_storable("add_quantized", name, q.spec());
  check_layout(name, q, layout);
  const quantized_names names = names_of(name, layout);
  const block_shape& block = q.spec().block;
  const std::uint64_t blocks = q.padded_cols() / static_cast<std::size_t>(block.cols);
  out.add(names.codes, source_of(number_type::u8, {q.rows(), q.padded_cols() / 2}, q.codes().data()));
  out.add(names.scales, source_of(scale_number(q.spec().scale, layout),
                                  {ufp4::detail::scale_rows(q.rows(), block), blocks}, q.scale_bytes().data()));
  if (q.spec().has_tensor_scale()) {
    const bool divides = layout == tensor_layout::compressed_tensors;
    const std::vector<std::uint64_t> shape(layout == tensor_layout::modelopt ? 0 : 1, 1);
    out.add(names.tensor_scale, source_of(divides ? divisor_of(q.tensor_scale()) : q.tensor_scale(), shape));
  }
  if (layout == tensor_layout::ufp4)
    out.set_metadata(own_mark + name, format_text(q.spec()) + extent_text(q.cols(), q.transform()));
}
/// In usual_layout(q.spec()).
inline void add_quantized(safetensors_writer& out, const std::string& name, const any_quantized_view& q) {
  add_quantized(out, name, q, usual_layout(q.spec()));
}

/// Whether the file describes the weight in the ufp4 layout and has a tensor of it: the string may outlive the weight.
inline bool has_own_layout(const safetensors_reader& file, const std::string& name) {
  if (!file.metadata().contains(own_mark + name)) return false;
  const quantized_names own = names_of(name, tensor_layout::ufp4);
  return file.find(own.codes) != nullptr || file.find(own.scales) != nullptr || file.find(own.tensor_scale) != nullptr;
}

/// The tensors of one weight, found by the names that exist.
struct quantized_place {
  quantized_names names;        ///< of its tensors
  bool own = false;             ///< the ufp4 layout
  bool divides = false;         ///< the tensor scale is a divisor
  bool may_lack_scale = false;  ///< without a tensor scale it is 1
};
/// Finds the tensors of a quantized weight. Throws file_error if there are none.
inline quantized_place find_quantized(const safetensors_reader& file, const std::string& name) {
  if (has_own_layout(file, name)) return {names_of(name, tensor_layout::ufp4), true, false, false};
  const quantized_place ct{names_of(name, tensor_layout::compressed_tensors), false, true, false};
  const quantized_place torchao{torchao_names_of(name), false, false, true};
  const quantized_place modelopt{names_of(name, tensor_layout::modelopt), false, false, false};
  if (file.find(ct.names.codes) != nullptr) return ct;
  if (file.find(torchao.names.codes) != nullptr) return torchao;
  if (file.find(modelopt.names.codes) == nullptr || file.find(modelopt.names.scales) == nullptr)
    file.fail("has no quantized weight named " + printable(name) + ": neither " + printable(ct.names.codes) + " nor " +
              printable(torchao.names.codes) + " nor " + printable(name) + " with " + printable(modelopt.names.scales));
  return modelopt;
}

/// The format of a weight: of the ufp4 layout one of known_formats() by the metadata string, else nvfp4 or mxfp4 by the
/// type of the scales. file_error if the string describes none of them.
inline format_spec format_of_weight(const safetensors_reader& file, const std::string& name) {
  const quantized_place place = find_quantized(file, name);
  if (!place.own) return file.at(place.names.scales).type == number_type::f8_e4m3 ? spec_of<nvfp4> : spec_of<mxfp4>;
  const std::string& text = file.metadata().at(own_mark + name);
  const bool two_level = file.find(place.names.tensor_scale) != nullptr;
  for (const format_spec& format : known_formats())
    if (format.has_tensor_scale() == two_level && text.starts_with(format_text(format) + " ")) return format;
  file.fail("tensor " + printable(name) + ": unknown format: " + printable(text));
}

/// Columns and transform, from the metadata string of the ufp4 layout. file_error for a format other than the weight's.
inline void read_extent(const safetensors_reader& file, const std::string& name, stored_weight& weight) {
  const std::string label = "tensor " + printable(weight.codes->name);
  const std::string &text = file.metadata().at(own_mark + name), expected = format_text(weight.format);
  std::uint64_t cols = 0;
  if (!text.starts_with(expected))
    file.fail(label + ": format mismatch: it has " + printable(text) + ", not " + expected);
  if (!parse_extent(std::string_view(text).substr(expected.size()), cols, weight.transform))
    file.fail(label + ": invalid metadata: " + printable(text.substr(expected.size())));
  weight.cols = static_cast<std::size_t>(cols);
}

/// file_error unless the tensor of block scales has the type and the shape of the weight.
inline void check_scales(const safetensors_reader& file, const stored_weight& weight) {
  const stored_tensor &codes = *weight.codes, &scales = *weight.scales;
  const format_spec& format = weight.format;
  const number_type expected = scale_number(format.scale, tensor_layout::ufp4);
  const std::vector<std::uint64_t> shape{ufp4::detail::scale_rows(weight.rows, format.block),
                                         weight.padded_cols() / static_cast<std::size_t>(format.block.cols)};
  const bool as_bytes = scales.type == number_type::u8 && ufp4::detail::scale_bytes(format.scale) == 1;
  if ((scales.type != expected && !as_bytes) || scales.shape != shape)
    file.fail(tensor_text(scales) + "; the scales of " + shape_text(codes.shape) + " bytes of these codes are " +
              shape_text(shape) + " " + std::string(safetensors_name(expected)));
}

/// The weight `name` in any layout, checked and not yet read. file_error if it is missing, broken or of another format.
inline stored_weight find_weight(safetensors_reader& file, const std::string& name, const format_spec& format) {
  check_storable("find_weight", name, format);
  const quantized_place place = find_quantized(file, name);
  stored_weight weight{.format = format, .codes = &file.at(place.names.codes), .scales = &file.at(place.names.scales)};
  const stored_tensor& codes = *weight.codes;
  const std::string label = "tensor " + printable(codes.name);
  if (!place.own && !is_shared_format(format))
    file.fail(label + " has no ufp4 metadata, so it can be read as nvfp4 or mxfp4 only");
  if ((codes.type != number_type::u8 && codes.type != number_type::i8) || codes.shape.size() != 2)
    file.fail(tensor_text(codes) + "; packed codes are a matrix of U8");
  const bool countable = codes.shape[1] <= (std::numeric_limits<std::uint64_t>::max)() / 2;
  const std::size_t padded = countable ? static_cast<std::size_t>(2 * codes.shape[1]) : 0;
  weight.rows = static_cast<std::size_t>(codes.shape[0]);
  weight.cols = padded;
  if (place.own) read_extent(file, name, weight);
  if (weight.cols > padded || padded != weight.padded_cols())
    file.fail(label, ": shape mismatch: ", padded, " codes a row are not ", weight.cols, " columns in blocks of ",
              format.block.cols);
  check_scales(file, weight);
  const bool has_scale = file.find(place.names.tensor_scale) != nullptr;
  if (place.own && has_scale && !format.has_tensor_scale())
    file.fail(label + ": format mismatch: it has a tensor scale, " + printable(place.names.tensor_scale));
  if (format.has_tensor_scale() && (has_scale || !place.may_lack_scale))
    weight.tensor_scale = read_tensor_scale(file, file.at(place.names.tensor_scale), place.divides);
  return weight;
}
/// The same of a weight in the format that the file states.
inline stored_weight find_weight(safetensors_reader& file, const std::string& name) {
  return find_weight(file, name, format_of_weight(file, name));
}

/// Rows first .. first + out.rows() - 1 of a weight. std::invalid_argument as check_weight_rows.
inline void read_weight_rows(safetensors_reader& file, const stored_weight& weight, std::size_t first,
                             quantized_memory& out) {
  check_weight_rows(weight, first, out);
  out.set_tensor_scale(weight.tensor_scale);
  const std::size_t strip = storage_size(weight.format, 1, weight.cols, weight.transform).scales;  // one row of blocks
  file.read_bytes(*weight.codes, std::uint64_t{first} * out.padded_cols() / 2, out.codes().data(), out.codes().size());
  file.read_bytes(*weight.scales, std::uint64_t{first} / static_cast<std::uint64_t>(weight.format.block.rows) * strip,
                  out.scale_bytes().data(), out.scale_bytes().size());
}

}  // namespace ufp4::interop::inline UFP4_CODE
