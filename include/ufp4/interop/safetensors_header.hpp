// ufp4 - the JSON header of a .safetensors file: text in, text out.
// SPDX-License-Identifier: Apache-2.0
/// {"__metadata__": {"KEY": "STRING", ...},
///  "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
///
/// For programs that write the data themselves; safetensors_file.hpp reads and writes whole files.
#pragma once

#include <optional>
#include <ufp4/interop/json_cursor.hpp>
#include <ufp4/interop/text.hpp>
#include <utility>
#include <vector>

namespace ufp4::interop::inline UFP4_TYPES {

/// One tensor of a header. Not checked against a file; `begin` may exceed `end`.
struct safetensors_entry {
  std::string name;                  ///< of the tensor
  std::string dtype;                 ///< as the file spells it
  std::vector<std::uint64_t> shape;  ///< the extents
  std::uint64_t begin = 0;           ///< of its bytes, from the start of the data
  std::uint64_t end = 0;             ///< behind its last byte
};

/// A header in the file's order.
struct safetensors_header {
  std::vector<std::pair<std::string, std::string>> metadata;  ///< in the order of the file
  std::vector<safetensors_entry> tensors;                     ///< in the order of the file
};

}  // namespace ufp4::interop::inline UFP4_TYPES

namespace ufp4::interop::inline UFP4_CODE {

/// The JSON text. Names, metadata and dtypes must be UTF-8. Padded with spaces to a multiple of 8 bytes: the data,
/// which follow 8 bytes of length and this text, are then aligned to 8 bytes.
inline std::string to_text(const safetensors_header& header) {
  std::string text = "{";
  const auto separate = [&text] { text += text.back() == '{' ? "" : ","; };
  if (!header.metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : header.metadata) {
      separate();
      text += json_text(key) + ":" + json_text(value);
    }
    text += "}";
  }
  for (const safetensors_entry& t : header.tensors) {
    separate();
    std::string shape;
    for (const std::uint64_t extent : t.shape) (shape += shape.empty() ? "" : ",") += std::to_string(extent);
    text += json_text(t.name) + ":{\"dtype\":" + json_text(t.dtype) + ",\"shape\":[" + shape + "],\"data_offsets\":[" +
            std::to_string(t.begin) + "," + std::to_string(t.end) + "]}";
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

/// The value of one tensor: dtype, shape and data_offsets exactly once each; other members are skipped.
inline bool parse_entry(json_cursor& json, safetensors_entry& t) {
  bool type = false, shape = false, offsets = false;
  const bool whole = json.object([&](const std::string& key) {
    std::vector<std::uint64_t> bounds;
    const auto numbers = [&](std::vector<std::uint64_t>& to) {
      return json.array([&] { return json.unsigned_number(to.emplace_back()); });
    };
    if (key == "dtype") return !std::exchange(type, true) && json.string(t.dtype);
    if (key == "shape") return !std::exchange(shape, true) && numbers(t.shape);
    if (key != "data_offsets") return json.skip_value();
    if (std::exchange(offsets, true) || !numbers(bounds) || bounds.size() != 2) return false;
    t.begin = bounds[0];
    t.end = bounds[1];
    return true;
  });
  return whole && type && shape && offsets;
}

/// The header of a text; nothing if it is not one. A name may occur twice, which the caller must handle. Values of
/// "__metadata__" that are no strings, which the format does not allow, are skipped.
inline std::optional<safetensors_header> parse_safetensors_header(std::string_view text) {
  safetensors_header header;
  json_cursor json(text);
  const auto metadata = [&](const std::string& key) {
    return json.at('"') ? json.string(header.metadata.emplace_back(key, "").second) : json.skip_value();
  };
  const bool whole = json.object([&](const std::string& name) {
    if (name == "__metadata__") return json.at('{') ? json.object(metadata) : json.skip_value();
    header.tensors.emplace_back().name = name;
    return parse_entry(json, header.tensors.back());
  });
  if (!whole || !json.at_end()) return {};
  return header;
}

}  // namespace ufp4::interop::inline UFP4_CODE
