// ufp4 - opening a file of tensors of any kind, and choosing tensors by patterns of names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/npy.hpp>
#include <ufp4/interop/safetensors.hpp>
#include <utility>
#include <variant>
#include <vector>

namespace tool {

/// A .safetensors, .npy or .gguf file; its first bytes decide which, not its name.
class tensor_input {
 public:
  /// Throws interop::file_error.
  explicit tensor_input(const std::string& path) : reader_(open(path)) {}

  ufp4::interop::tensor_file& file() {
    return std::visit([](auto& reader) -> ufp4::interop::tensor_file& { return reader; }, reader_);
  }
  /// The reader, or nullptr if the file is of another kind.
  ufp4::interop::safetensors_reader* safetensors() { return std::get_if<ufp4::interop::safetensors_reader>(&reader_); }
  ufp4::interop::npy_reader* npy() { return std::get_if<ufp4::interop::npy_reader>(&reader_); }
  ufp4::interop::gguf_reader* gguf() { return std::get_if<ufp4::interop::gguf_reader>(&reader_); }

  /// A tensor's name; the array of a .npy file has the file's: "up" for "weights/up.npy".
  std::string name_of(const ufp4::interop::stored_tensor& t) {
    return npy() != nullptr ? std::filesystem::path(file().path()).stem().string() : t.name;
  }

 private:
  using any_reader =
      std::variant<ufp4::interop::safetensors_reader, ufp4::interop::npy_reader, ufp4::interop::gguf_reader>;

  static any_reader open(const std::string& path) {
    ufp4::interop::input_file file(path);
    char begin[9] = {};
    file.read(0, begin, file.size() < sizeof begin ? static_cast<std::size_t>(file.size()) : sizeof begin);
    const std::string_view head(begin, sizeof begin);
    if (head.starts_with("GGUF")) return any_reader(std::in_place_type<ufp4::interop::gguf_reader>, path);
    if (head.starts_with("\x93NUMPY")) return any_reader(std::in_place_type<ufp4::interop::npy_reader>, path);
    if (head[8] == '{' || path.ends_with(".safetensors"))
      return any_reader(std::in_place_type<ufp4::interop::safetensors_reader>, path);
    file.fail("is not a .safetensors, .npy or .gguf file by its first bytes");
  }

  any_reader reader_;
};

/// Rejects tensors of a .gguf file that cannot be copied: types of unknown size, and ggml's blocks where the output is
/// not .gguf.
inline void check_copy(tensor_input& in, const ufp4::interop::stored_tensor& t, bool to_gguf) {
  if (in.gguf() == nullptr || t.type != ufp4::interop::number_type::other) return;
  const std::string is = "tensor " + ufp4::interop::printable(t.name) + " is " + t.type_name;
  if (ufp4::interop::find_ggml_type(t.type_name) == nullptr)
    in.file().fail(is + ", a type of unknown size that can be neither read nor copied");
  if (!to_gguf) in.file().fail(is + " in ggml's blocks, which only .gguf files can have: use -o OUT.gguf");
}

/// Bytes of the first character of `text`; 1 if it is not UTF-8.
inline std::size_t character_length(std::string_view text) {
  const std::size_t length = ufp4::interop::utf8_length(text);
  return length == 0 ? 1 : length;
}

/// Whether all of `name` matches; '*' stands for any characters, '?' for one.
inline bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == '?') {
      ++p;
      n += character_length(name.substr(n));
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {  // the last star matches one character more
      p = star + 1;
      n = taken += character_length(name.substr(taken));
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

/// The patterns that none of the names matches.
inline std::vector<std::string> unmatched(const std::vector<std::string>& patterns,
                                          const std::vector<std::string>& names) {
  std::vector<std::string> left;
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (const std::string& name : names) any = any || matches(pattern, name);
    if (!any) left.push_back(pattern);
  }
  return left;
}

inline bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  for (const std::string& pattern : patterns)
    if (matches(pattern, name)) return true;
  return false;
}

}  // namespace tool
