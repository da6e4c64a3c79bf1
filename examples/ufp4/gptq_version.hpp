// ufp4 - the version of GPTQ that the configuration beside a file states.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <ufp4/interop/int4_groups.hpp>
#include <ufp4/interop/json_cursor.hpp>

#include "../common/text_files.hpp"

namespace tool {

namespace detail {

/// The string "checkpoint_format" of an object, or of the object "quantization_config" in it.
inline bool find_checkpoint_format(ufp4::interop::json_cursor& json, std::string& found) {
  return json.object([&](const std::string& key) {
    if (key == "checkpoint_format" && json.at('"')) return json.string(found);
    if (key == "quantization_config" && json.at('{')) return find_checkpoint_format(json, found);
    return json.skip_value();
  });
}

}  // namespace detail

/// gptq_v2 if quantize_config.json or config.json in the file's folder has that checkpoint_format, else gptq.
inline ufp4::interop::int4_layout gptq_version_beside(const std::string& path) {
  for (const char* name : {"quantize_config.json", "config.json"}) {
    const std::string text = common::read_text(std::filesystem::path(path).parent_path() / name);
    ufp4::interop::json_cursor json(text);
    std::string format;
    if (detail::find_checkpoint_format(json, format) && !format.empty())
      return format == "gptq_v2" ? ufp4::interop::int4_layout::gptq_v2 : ufp4::interop::int4_layout::gptq;
  }
  return ufp4::interop::int4_layout::gptq;
}

}  // namespace tool
