// ufp4 - the folder of a model: its .safetensors files, their index, config.json, and what else is in it.
// SPDX-License-Identifier: Apache-2.0
/// | file                                     | a conversion                                                         |
/// |------------------------------------------|----------------------------------------------------------------------|
/// | *.safetensors of the index, or all       | converts each                                                        |
/// | *.safetensors.index.json                 | writes it again, with the names and sizes of the new tensors         |
/// | config.json                              | writes it again with another quantization_config, or without         |
/// | other weights (*.bin, *.gguf, ...)       | leaves out, with a note                                              |
/// | descriptions of a quantization           | leaves out: hf_quant_config, quantize_config, quant_config (.json)   |
/// | folders                                  | leaves out, with a note                                              |
/// | everything else                          | copies                                                               |
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <ufp4/interop/input_file.hpp>
#include <ufp4/interop/json_cursor.hpp>
#include <ufp4/interop/output_file.hpp>
#include <vector>

namespace tool {

/// A member of a JSON object; the value as text.
struct json_member {
  std::string key, value;
};

/// The members of an object in their order; nothing if the text is not one object.
inline std::optional<std::vector<json_member>> json_members(std::string_view text) {
  ufp4::interop::json_cursor json(text);
  std::vector<json_member> members;
  const bool whole = json.object([&](const std::string& key) {
    const std::string_view before = json.rest();
    if (!json.skip_value()) return false;
    std::string_view value = before.substr(0, before.size() - json.rest().size());
    value.remove_prefix(std::min(value.find_first_not_of(" \t\r\n"), value.size()));
    members.push_back({key, std::string(value)});
    return true;
  });
  if (!whole || !json.at_end()) return {};
  return members;
}

/// The object of these members, one a line of the given indentation; the last line has two columns less.
inline std::string object_text(const std::vector<json_member>& members, std::size_t indentation = 2) {
  const std::string begin = "\n" + std::string(indentation, ' ');
  std::string text = "{";
  for (const json_member& m : members)
    text += (text.size() == 1 ? "" : ",") + begin + ufp4::interop::json_text(m.key) + ": " + m.value;
  return text + begin.substr(0, begin.size() - 2) + "}";
}

/// All of a text file. file_error if it cannot be read or is larger than 256 MiB.
inline std::string whole_file(const std::string& path) {
  ufp4::interop::input_file file(path);
  if (file.size() > (1 << 28)) file.fail("too large for a text file: ", file.size(), " bytes");
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

/// Writes a text file, which replaces another of that name.
inline void write_text(const std::string& path, const std::string& text) {
  ufp4::interop::output_file file(path);
  file.write(text);
  file.finish();
}
/// Writes a JSON object of these members.
inline void write_members(const std::string& path, const std::vector<json_member>& members) {
  write_text(path, object_text(members) + "\n");
}

/// The members of a JSON file; file_error if its text is not an object.
inline std::vector<json_member> read_members(const std::string& path) {
  auto members = json_members(whole_file(path));
  if (!members) ufp4::interop::fail_file(path, "is not a JSON object");
  return *std::move(members);
}

/// The files of a model.
struct model_files {
  std::string folder;
  std::vector<std::string> shards;  ///< names of the .safetensors files, sorted
  std::string index;                ///< name of their index; empty if there is none
  std::vector<json_member> kept;    ///< of the index: its metadata but total_size
  bool has_config = false;
  std::vector<std::string> copied;  ///< names, sorted
  std::vector<std::string> notes;   ///< what is left out

  std::string path(const std::string& name) const { return (std::filesystem::path(folder) / name).string(); }
};

namespace detail {

constexpr std::string_view index_ending = ".safetensors.index.json";

/// The names of the files in the index's weight_map, checked to be names of .safetensors files and nothing else.
inline std::set<std::string> indexed_files(const std::string& path, std::vector<json_member>& kept) {
  std::set<std::string> files;
  for (const json_member& m : read_members(path)) {
    if (m.key == "metadata")
      if (auto metadata = json_members(m.value)) kept = *std::move(metadata);
    if (m.key != "weight_map") continue;
    ufp4::interop::json_cursor json(m.value);
    std::string name;
    if (!json.object([&](const std::string&) { return json.string(name) && (files.insert(name), true); }))
      ufp4::interop::fail_file(path, "weight_map is not an object of strings");
  }
  if (files.empty()) ufp4::interop::fail_file(path, "has no weight_map of tensors");
  for (const std::string& name : files)
    if (!name.ends_with(".safetensors") || name.find_first_of("/\\") != std::string::npos || name.starts_with('.'))
      ufp4::interop::fail_file(path, "weight_map has a file that is not a .safetensors file of this folder: " +
                                         ufp4::interop::printable(name));
  std::erase_if(kept, [](const json_member& m) { return m.key == "total_size"; });
  return files;
}

inline bool is_other_weight(std::string_view name) {
  for (const std::string_view ending :
       {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".h5", ".msgpack", ".npz"})
    if (name.ends_with(ending)) return true;
  return false;
}
inline bool is_description(std::string_view name) {
  return name == "hf_quant_config.json" || name == "quantize_config.json" || name == "quant_config.json";
}

/// The names of the regular files of a folder, sorted; names of folders are added to `folders`.
inline std::vector<std::string> names_in(const std::string& folder, std::vector<std::string>& folders) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code unreadable;
    if (at->is_directory(unreadable)) folders.push_back(at->path().filename().string());
    if (at->is_regular_file(unreadable)) names.push_back(at->path().filename().string());
  }
  if (error) ufp4::interop::fail_file(folder, "cannot be read: " + error.message());
  std::sort(names.begin(), names.end());
  std::sort(folders.begin(), folders.end());
  return names;
}

/// "a, b and 3 more".
inline std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 3; ++i)
    text += (i == 0 ? "" : ", ") + ufp4::interop::printable(names[i]);
  return names.size() <= 3 ? text : text + " and " + std::to_string(names.size() - 3) + " more";
}

/// The index among the names: model.safetensors.index.json, else the only one. file_error if there are several others.
inline std::string find_index(const std::string& folder, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name == "model.safetensors.index.json") return name;
    if (name.ends_with(index_ending)) found.push_back(name);
  }
  if (found.size() > 1) ufp4::interop::fail_file(folder, "has several models: " + list_text(found));
  return found.empty() ? "" : found.front();
}

}  // namespace detail

/// The files of a model in a folder. file_error if it has no .safetensors file, or not those that its index names.
inline model_files read_model(const std::string& folder) {
  model_files model{.folder = folder, .shards = {}, .index = {}, .kept = {}, .copied = {}, .notes = {}};
  std::vector<std::string> folders, left;
  const std::vector<std::string> names = detail::names_in(folder, folders);
  model.index = detail::find_index(folder, names);
  std::set<std::string> shards;
  if (!model.index.empty())
    shards = detail::indexed_files(model.path(model.index), model.kept);
  else
    for (const std::string& name : names)
      if (name.ends_with(".safetensors")) shards.insert(name);
  if (shards.empty()) ufp4::interop::fail_file(folder, "has no .safetensors files");
  for (const std::string& name : shards)
    if (!std::binary_search(names.begin(), names.end(), name))
      ufp4::interop::fail_file(model.path(model.index),
                               "names a file that is missing: " + ufp4::interop::printable(name));
  model.shards.assign(shards.begin(), shards.end());
  for (const std::string& name : names) {
    if (name == "config.json")
      model.has_config = true;
    else if (shards.contains(name) || name.ends_with(detail::index_ending) || detail::is_description(name))
      continue;
    else
      (detail::is_other_weight(name) ? left : model.copied).push_back(name);
  }
  if (!left.empty()) model.notes.push_back("left out, as other weights: " + detail::list_text(left));
  if (!folders.empty()) model.notes.push_back("left out, as folders: " + detail::list_text(folders));
  return model;
}

}  // namespace tool
