// ufp4 - writing GGUF files, version 3.
// SPDX-License-Identifier: Apache-2.0
/// Tensors are added first and written together: the file is larger than memory only if the sources are. What GGUF
/// cannot represent is std::invalid_argument when it is added. gguf_reader.hpp describes the bytes.
#pragma once

#include <set>
#include <ufp4/interop/gguf_reader.hpp>
#include <ufp4/interop/output_file.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// Collects tensors and metadata, then writes the file. llama.cpp requires the string general.architecture.
class gguf_writer {
 public:
  /// std::invalid_argument for a name that is already there or exceeds 63 bytes, and a type or shape that ggml lacks.
  void add(const std::string& name, tensor_source tensor) {
    add(name, find_ggml_type(type_text(tensor.type)), std::move(tensor.shape), std::move(tensor.write));
  }
  /// A tensor as another GGUF file has it: of any type of ggml_types.
  void add_copy(const std::string& name, const stored_tensor& like, byte_source bytes) {
    const bool known = like.type != number_type::other;
    add(name, find_ggml_type(known ? type_text(like.type) : like.type_name), like.shape, std::move(bytes));
  }

  /// A metadata value; it replaces one of the same key.
  void set_string(const std::string& key, const std::string& value) {
    expects(is_utf8(key) && is_utf8(value), "gguf_writer: not UTF-8: the key or value of ", printable(key));
    strings_[key] = value;
  }

  /// Takes all key-value pairs and the alignment of another file. Not together with set_string.
  void keep_pairs(gguf_reader& from) {
    pairs_ = from.pair_bytes();
    pair_count_ = from.pair_count();
    alignment_ = from.alignment();
  }

  /// Writes the file. std::invalid_argument after both keep_pairs and set_string, which could give one key twice.
  void write(const std::string& path) const {
    expects(pair_count_ == 0 || strings_.empty(), "gguf_writer: both keep_pairs and set_string: ", pair_count_,
            " keys and ", strings_.size(), " keys; use one of them");
    output_file file(path);
    write_header(file);
    for (const entry& t : tensors_) {
      file.pad(alignment_);
      file.write("tensor " + printable(t.name), t.bytes, t.write);
    }
    file.pad(alignment_);
    file.finish();
  }

 private:
  struct entry {
    std::string name;
    std::uint32_t type;  // ggml's number
    std::vector<std::uint64_t> shape;
    std::uint64_t bytes;
    byte_source write;
  };

  void add(const std::string& name, const ggml_type* type, std::vector<std::uint64_t> shape, byte_source write) {
    const std::string tensor = "gguf_writer: tensor " + printable(name);
    expects(type != nullptr, tensor, " has a type that ggml does not have");
    expects(name.size() < 64, "gguf_writer: the name ", printable(name), " has ", name.size(), " bytes; ggml takes 63");
    expects(!names_.contains(name), tensor, " is already in the file");
    expects(!shape.empty() && shape.size() <= 4, tensor, " has ", shape.size(), " dimensions; ggml takes 1 to 4");
    const std::optional<std::uint64_t> bytes = byte_count(type->elements, type->bytes, shape);
    expects(bytes.has_value(), tensor, " has no byte count: ", shape_text(shape), " ", type->name,
            " is not a whole number of blocks, or exceeds 64 bits");
    names_.insert(name);
    tensors_.push_back({name, type->id, std::move(shape), *bytes, std::move(write)});
  }

  void write_header(output_file& file) const {
    file.write("GGUF");
    file.write_number(std::uint32_t{3});
    file.write_number(std::uint64_t{tensors_.size()});
    file.write_number(pair_count_ + strings_.size());
    file.write(pairs_);
    for (const auto& [key, value] : strings_) {
      write_string(file, key);
      file.write_number(std::uint32_t{8});  // the value type string
      write_string(file, value);
    }
    std::uint64_t offset = 0;
    for (const entry& t : tensors_) {
      write_string(file, t.name);
      file.write_number(static_cast<std::uint32_t>(t.shape.size()));
      for (auto extent = t.shape.rbegin(); extent != t.shape.rend(); ++extent) file.write_number(*extent);
      file.write_number(t.type);
      file.write_number(offset);
      offset = (offset + t.bytes + alignment_ - 1) / alignment_ * alignment_;
    }
  }

  static void write_string(output_file& file, const std::string& text) {
    file.write_number(std::uint64_t{text.size()});
    file.write(text);
  }

  std::map<std::string, std::string> strings_;
  std::string pairs_;
  std::uint64_t pair_count_ = 0, alignment_ = 32;  // 32: without general.alignment
  std::vector<entry> tensors_;
  std::set<std::string> names_;  // of tensors_
};

}  // namespace ufp4::interop::inline UFP4_CODE
