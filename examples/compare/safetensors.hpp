// ufp4 - reads a matrix from a .safetensors file.
// SPDX-License-Identifier: Apache-2.0
/// F32, F16 and BF16 tensors of two dimensions. Anything else is an input_error. Safe on arbitrary bytes.
/// Layout of such a file: an 8-byte length, a JSON object of name -> {dtype, shape, data_offsets}, the data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "json_cursor.hpp"
#include "stored_matrix.hpp"

namespace compare {

/// "FILE" or "FILE:TENSOR" apart. A name with a colon in it is fine on either side as long as the file exists.
inline std::pair<std::string, std::string> split_tensor_argument(const std::string& argument) {
  std::error_code ignored;
  if (std::filesystem::exists(argument, ignored)) return {argument, ""};
  for (std::size_t colon = argument.find(':'); colon != std::string::npos; colon = argument.find(':', colon + 1)) {
    if (std::filesystem::is_regular_file(argument.substr(0, colon), ignored))
      return {argument.substr(0, colon), argument.substr(colon + 1)};
  }
  const std::size_t last = argument.rfind(':');
  return {argument.substr(0, last), last == std::string::npos ? "" : argument.substr(last + 1)};
}

namespace detail {

struct tensor_entry {
  std::string name;
  std::string type;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  ///< in bytes from the start of the data
  std::uint64_t end = 0;

  bool readable() const { return shape.size() == 2 && (type == "F32" || type == "F16" || type == "BF16"); }
  std::string shape_text() const {
    std::string text;
    for (const std::uint64_t extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
    return text.empty() ? "no shape" : text;
  }
};

inline bool parse_tensor(json_cursor& json, tensor_entry& tensor) {
  bool type = false, shape = false, offsets = false;
  const bool whole = json.object([&](const std::string& key) {
    std::vector<std::uint64_t> bounds;
    const auto numbers = [&](std::vector<std::uint64_t>& to) {
      return json.array([&] { return json.unsigned_number(to.emplace_back()); });
    };
    if (key == "dtype") return std::exchange(type, true) == false && json.string(tensor.type);
    if (key == "shape") return std::exchange(shape, true) == false && numbers(tensor.shape);
    if (key != "data_offsets") return json.skip_value();
    if (std::exchange(offsets, true) || !numbers(bounds) || bounds.size() != 2) return false;
    tensor.begin = bounds[0];
    tensor.end = bounds[1];
    return true;
  });
  return whole && type && shape && offsets;
}

inline bool parse_safetensors_header(std::string_view text, std::vector<tensor_entry>& tensors) {
  json_cursor json(text);
  const bool whole = json.object([&](const std::string& name) {
    if (name == "__metadata__") return json.skip_value();
    return parse_tensor(json, tensors.emplace_back(tensor_entry{.name = name, .type = {}, .shape = {}}));
  });
  return whole && json.at_end();
}

/// "a, b, c and 4 more": what a person may type instead.
inline std::string names_of(const std::vector<tensor_entry>& tensors) {
  constexpr std::size_t shown = 12;
  std::string text;
  for (std::size_t i = 0; i < tensors.size() && i < shown; ++i) text += (i ? ", " : "") + printable(tensors[i].name);
  if (tensors.size() > shown) text += " and " + std::to_string(tensors.size() - shown) + " more";
  return text;
}

/// The tensor of that name, or without a name the largest matrix, the first in name order among equals.
inline const tensor_entry& choose_tensor(const input_file& file, const std::vector<tensor_entry>& tensors,
                                         const std::string& name) {
  if (!name.empty()) {
    for (const auto& tensor : tensors)
      if (tensor.name == name) return tensor;
    file.fail("has no tensor named " + printable(name) + "; it has " + names_of(tensors));
  }
  const tensor_entry* largest = nullptr;
  for (const auto& tensor : tensors) {
    if (!tensor.readable()) continue;
    if (largest == nullptr || tensor.end - tensor.begin > largest->end - largest->begin) largest = &tensor;
  }
  if (largest == nullptr)
    file.fail("has no float32, float16 or bfloat16 tensor of 2 dimensions; it has " + names_of(tensors));
  return *largest;
}

inline stored_matrix locate(const input_file& file, const tensor_entry& tensor, std::uint64_t data_begin) {
  const std::string label = "tensor " + printable(tensor.name);
  if (tensor.type != "F32" && tensor.type != "F16" && tensor.type != "BF16")
    file.fail(label + " has type " + printable(tensor.type) + "; compare reads F32, F16 and BF16");
  if (tensor.shape.size() != 2)
    file.fail(label + " has " + std::to_string(tensor.shape.size()) + " dimension" +
              (tensor.shape.size() == 1 ? "" : "s") + " (" + tensor.shape_text() +
              "); compare takes a matrix, which has 2");
  stored_matrix found{.type = tensor.type == "F32"   ? dtype::float32
                              : tensor.type == "F16" ? dtype::float16
                                                     : dtype::bfloat16,
                      .rows = tensor.shape[0],
                      .cols = tensor.shape[1],
                      .offset = data_begin + tensor.begin};
  const std::string size = tensor.shape_text() + " " + name_of(found.type);
  if (found.rows == 0 || found.cols == 0) file.fail(label + " is an empty matrix: " + size);
  const auto bytes = byte_count(found.rows, found.cols, found.type);
  if (!bytes) file.fail(label + " claims " + size + " values, more bytes than 64 bits can count");
  if (*bytes != tensor.end - tensor.begin)
    file.fail(label + " claims " + size + " values, which are " + std::to_string(*bytes) +
              " bytes, but its data_offsets span " + std::to_string(tensor.end - tensor.begin));
  return found;
}

/// Every tensor of the file in name order, with offsets that lie inside it, and where the data begins.
inline std::uint64_t read_safetensors_header(input_file& file, std::vector<tensor_entry>& tensors) {
  if (file.size() < 8) file.fail("is not a .safetensors file: it is shorter than the 8-byte header length");
  const std::uint64_t length = file.read_number(0, 8);
  constexpr std::uint64_t longest = 100'000'000;  // the format's own limit
  if (length > file.size() - 8)
    file.fail("says its header is " + std::to_string(length) + " bytes long, but only " +
              std::to_string(file.size() - 8) + " bytes follow");
  if (length > longest) file.fail("has a header of " + std::to_string(length) + " bytes; the format allows 100000000");
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(8, text.data(), text.size());
  if (!parse_safetensors_header(text, tensors))
    file.fail("has a header that is not a JSON object of tensors with dtype, shape and data_offsets");
  if (tensors.empty()) file.fail("holds no tensors");
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twin =
      std::adjacent_find(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twin != tensors.end()) file.fail("names tensor " + printable(twin->name) + " twice");

  const std::uint64_t data = file.size() - 8 - length;
  std::uint64_t last = 0;
  for (const auto& tensor : tensors) {
    if (tensor.begin > tensor.end || tensor.end > data)
      file.fail("says tensor " + printable(tensor.name) + " lies at bytes " + std::to_string(tensor.begin) + " to " +
                std::to_string(tensor.end) + " of the data, but there are " + std::to_string(data) + " bytes");
    last = std::max(last, tensor.end);
  }
  if (last != data)
    file.fail("describes " + std::to_string(last) + " bytes of data, but holds " + std::to_string(data));
  return 8 + length;
}

}  // namespace detail

/// The matrix that `argument`, FILE or FILE:TENSOR, names, at most `row_limit` rows of it (0: all).
inline matrix read_safetensors(const std::string& argument, std::size_t row_limit) {
  const auto [path, name] = split_tensor_argument(argument);
  input_file file(path);
  std::vector<detail::tensor_entry> tensors;
  const std::uint64_t data_begin = detail::read_safetensors_header(file, tensors);
  const auto& tensor = detail::choose_tensor(file, tensors, name);
  return load(file, detail::locate(file, tensor, data_begin), row_limit, file.name() + ":" + printable(tensor.name));
}

}  // namespace compare
