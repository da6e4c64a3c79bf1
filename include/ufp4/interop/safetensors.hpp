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
  const std::string format_name(ufp4::detail::preset_name(q.spec()));
  expects(has_format(layout, q.spec()), label, layout == tensor_layout::gpt_oss ? " is not" : " is neither nvfp4 nor",
          " mxfp4", format_name.empty() ? "" : ", but " + format_name, instead);
  expects(q.transform().n == 1, label, " was quantized after a Hadamard transform of ", q.transform().n, instead);
  expects(q.cols() == q.padded_cols(), label, " has ", q.cols(), " columns, not a multiple of the block's ",
          q.spec().block.cols, instead);
  expects(
      layout != tensor_layout::compressed_tensors || !q.spec().has_tensor_scale() || divisor_of(q.tensor_scale()) != 0,
      label, " has the tensor scale ", q.tensor_scale(), ", which is not the reciprocal of a float",
      "; tensor_layout::modelopt stores the scale itself");
}

/// Adds the tensors of a quantized matrix, whose memory must stay valid until the file is written.
/// std::invalid_argument where the layout cannot represent it: another format, a transform, padding, or
/// (compressed_tensors) a tensor scale that is not a float's reciprocal. The ufp4 layout represents every matrix.
inline void add_quantized(safetensors_writer& out, const std::string& name, const any_quantized_view& q,
                          tensor_layout layout) {
  check_layout(name, q, layout);
  const quantized_names names = names_of(name, layout);
  const quantized_tensors t = tensors_of(q.spec(), {q.rows(), q.cols()}, q.transform(), layout);
  out.add(names.codes, source_of(t.codes_type, t.codes, q.codes().data()));
  out.add(names.scales, source_of(t.scales_type, t.scales, q.scale_bytes().data()));
  if (q.spec().has_tensor_scale()) {
    const bool divides = layout == tensor_layout::compressed_tensors;
    out.add(names.tensor_scale, source_of(divides ? divisor_of(q.tensor_scale()) : q.tensor_scale(), t.tensor_scale));
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
  quantized_names names;                       ///< of its tensors
  tensor_layout layout = tensor_layout::ufp4;  ///< whose names these are; torchao's count as modelopt's
  bool may_lack_scale = false;                 ///< without a tensor scale it is 1
};
/// Finds the tensors of a quantized weight. Throws file_error if there are none.
inline quantized_place find_quantized(const safetensors_reader& file, const std::string& name) {
  if (has_own_layout(file, name)) return {names_of(name, tensor_layout::ufp4), tensor_layout::ufp4, false};
  const quantized_names ct = names_of(name, tensor_layout::compressed_tensors), torchao = torchao_names_of(name),
                        modelopt = names_of(name, tensor_layout::modelopt),
                        pair = names_of(name, tensor_layout::gpt_oss);
  if (file.find(ct.codes) != nullptr) return {ct, tensor_layout::compressed_tensors, false};
  if (file.find(torchao.codes) != nullptr) return {torchao, tensor_layout::modelopt, true};
  const stored_tensor* const plain = file.find(modelopt.codes);
  if (plain != nullptr && file.find(modelopt.scales) != nullptr)
    return {modelopt, tensor_layout::modelopt, plain->type == number_type::f4};
  if (file.find(pair.codes) != nullptr) return {pair, tensor_layout::gpt_oss, false};
  file.fail("has no quantized weight named " + printable(name) + ": neither " + printable(ct.codes) + " nor " +
            printable(torchao.codes) + " nor " + printable(pair.codes) + " nor " + printable(name) + " with " +
            printable(modelopt.scales));
}

/// The format of a weight: of the ufp4 layout one of known_formats() by the metadata string, else nvfp4 or mxfp4 by the
/// type of the scales. file_error if the string describes none of them.
inline format_spec format_of_weight(const safetensors_reader& file, const std::string& name) {
  const quantized_place place = find_quantized(file, name);
  if (place.layout != tensor_layout::ufp4)
    return file.at(place.names.scales).type == number_type::f8_e4m3 ? spec_of<nvfp4> : spec_of<mxfp4>;
  const std::string& text = file.metadata().at(own_mark + name);
  const bool two_level = file.find(place.names.tensor_scale) != nullptr;
  for (const format_spec& format : known_formats())
    if (format.has_tensor_scale() == two_level && text.starts_with(format_text(format) + " ")) return format;
  file.fail("tensor " + printable(name) + ": unknown format: " + printable(text));
}

/// The shape that packed codes have as elements. file_error if the tensor cannot be one of packed codes.
inline std::vector<std::uint64_t> shape_of_codes(const safetensors_reader& file, const stored_tensor& t,
                                                 tensor_layout layout, bool byte_elements) {
  const bool pair = layout == tensor_layout::gpt_oss, bytes = t.type == number_type::u8 || t.type == number_type::i8;
  std::vector<std::uint64_t> shape = t.shape;
  if (pair) {
    if (t.type != number_type::u8 || (shape.size() != 3 && shape.size() != 4) || shape.back() != 16)
      file.fail(tensor_text(t) + "; blocks of MXFP4 are U8 of 3 or 4 dimensions, the last of 16 bytes");
    shape.pop_back();
  }
  if ((!bytes && t.type != number_type::f4) || shape.size() < 2)
    file.fail(tensor_text(t) + "; packed codes are a matrix of U8 or F4, or more dimensions of them");
  const std::uint64_t factor = pair ? 32 : bytes && !byte_elements ? 2 : 1;
  const bool countable = shape.back() <= (std::numeric_limits<std::uint64_t>::max)() / factor && row_count(shape);
  if (!countable || (t.type == number_type::f4 && shape.back() % 2 != 0))
    file.fail(tensor_text(t) + "; the rows of packed codes are whole bytes, and 64 bits can count the elements");
  shape.back() *= factor;
  return shape;
}

/// Columns, transform and axis, from the metadata string of the ufp4 layout. file_error if it has another format.
inline void read_extent(const safetensors_reader& file, const std::string& name, stored_weight& weight) {
  const std::string label = "tensor " + printable(weight.codes->name);
  const std::string &text = file.metadata().at(own_mark + name), expected = format_text(weight.format);
  std::uint64_t cols = 0;
  if (!text.starts_with(expected))
    file.fail(label + ": format mismatch: it has " + printable(text) + ", not " + expected);
  if (!parse_extent(std::string_view(text).substr(expected.size()), cols, weight.transform, weight.axis) ||
      weight.axis >= weight.shape.size())
    file.fail(label + ": invalid metadata: " + printable(text.substr(expected.size())));
  weight.cols = static_cast<std::size_t>(cols);
}

/// file_error unless the block scales have the type and the shape of the weight, whose shape is that of stored codes.
inline void check_scales(const safetensors_reader& file, const stored_weight& weight) {
  const stored_tensor& scales = *weight.scales;
  const format_spec& format = weight.format;
  const quantized_tensors wanted = tensors_of(format, weight.shape, weight.transform, tensor_layout::ufp4);
  const bool as_bytes = scales.type == number_type::u8 && ufp4::detail::scale_bytes(format.scale) == 1;
  if ((scales.type != wanted.scales_type && !as_bytes) || scales.shape != wanted.scales)
    file.fail(tensor_text(scales) + "; the scales of " + shape_text(weight.codes->shape) + " " +
              (weight.codes->type == number_type::f4 ? "of these codes are " : "bytes of these codes are ") +
              shape_text(wanted.scales) + " " + std::string(safetensors_name(wanted.scales_type)));
}

/// Rows, columns, transform and shape of a weight from its tensors of codes and scales. file_error if they do not fit.
inline void read_shape(safetensors_reader& file, const std::string& name, tensor_layout layout, stored_weight& weight) {
  const stored_tensor& codes = *weight.codes;
  const format_spec& format = weight.format;
  weight.shape = shape_of_codes(file, codes, layout, format.has_bytes());
  weight.axis = weight.shape.size() - 1;
  weight.rows = static_cast<std::size_t>(row_count(weight.shape).value());
  weight.cols = static_cast<std::size_t>(weight.shape.back());
  const std::string label = "tensor " + printable(codes.name);
  const std::size_t padded = weight.cols;
  if (layout == tensor_layout::ufp4) read_extent(file, name, weight);
  if (weight.cols > padded || padded != weight.padded_cols())
    file.fail(label, ": shape mismatch: ", padded, " codes a row are not ", weight.cols, " columns in blocks of ",
              format.block.cols);
  if (format.block.rows != 1 && weight.shape.size() != 2)
    file.fail(label, ": shape mismatch: blocks of ", format.block.rows, " rows are those of a matrix, not of ",
              weight.shape.size(), " dimensions");
  weight.shape.back() = weight.cols;
  check_scales(file, weight);
  if (layout == tensor_layout::gpt_oss && weight.shape.size() == 3) weight.axis = 1;
  const auto begin = weight.shape.begin(), end = weight.shape.end();
  std::rotate(begin + static_cast<std::ptrdiff_t>(weight.axis), end - 1, end);
}

/// The weight `name` in any layout, checked and not yet read. file_error if it is missing, broken or of another format.
inline stored_weight find_weight(safetensors_reader& file, const std::string& name, const format_spec& format) {
  const quantized_place place = find_quantized(file, name);
  stored_weight weight{.format = format, .codes = &file.at(place.names.codes), .scales = &file.at(place.names.scales)};
  const std::string label = "tensor " + printable(weight.codes->name);
  const bool own = place.layout == tensor_layout::ufp4;
  if (!own && !is_shared_format(format))
    file.fail(label + " has no ufp4 metadata, so it can be read as nvfp4 or mxfp4 only");
  read_shape(file, name, place.layout, weight);
  const bool has_scale = !place.names.tensor_scale.empty() && file.find(place.names.tensor_scale) != nullptr;
  if (own && has_scale && !format.has_tensor_scale())
    file.fail(label + ": format mismatch: it has a tensor scale, " + printable(place.names.tensor_scale));
  if (format.has_tensor_scale() && (has_scale || !place.may_lack_scale))
    read_tensor_scales(file, file.at(place.names.tensor_scale), weight,
                       place.layout == tensor_layout::compressed_tensors);
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
  out.set_tensor_scale(tensor_scale_at(weight, first));
  const std::size_t strip = storage_size(weight.format, 1, weight.cols, weight.transform).scales;  // one row of blocks
  file.read_bytes(*weight.codes, ufp4::detail::code_bytes(out.spec(), first * out.padded_cols()), out.codes().data(),
                  out.codes().size());
  file.read_bytes(*weight.scales, std::uint64_t{first} / static_cast<std::uint64_t>(weight.format.block.rows) * strip,
                  out.scale_bytes().data(), out.scale_bytes().size());
}

}  // namespace ufp4::interop::inline UFP4_CODE
