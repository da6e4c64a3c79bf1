// ufp4 - writing a .safetensors file whose tensors are filled in any order, a piece at a time.
// SPDX-License-Identifier: Apache-2.0
/// Codes and scales of a chunk of rows are computed together, but are far apart in the file. All sizes follow from the
/// shapes, so the header is written first and each piece at its offset: no data are kept in memory or in another file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <ufp4/interop/safetensors_file.hpp>
#include <ufp4/interop/safetensors_header.hpp>
#include <utility>
#include <vector>

namespace tool {

/// add() all tensors, open(), write() each, finish().
class placed_safetensors {
 public:
  /// Nothing is written before open().
  explicit placed_safetensors(std::string path) : path_(std::move(path)) {}

  /// Returns the tensor's number for write(). file_error for a name that is already there or is not UTF-8.
  std::size_t add(const std::string& name, ufp4::interop::number_type type, const std::vector<std::uint64_t>& shape) {
    const std::uint64_t bytes = ufp4::interop::byte_count(type, shape).value();
    return add({name, std::string(ufp4::interop::safetensors_name(type)), shape, 0, bytes},
               ufp4::interop::byte_count(type, {}).value());
  }
  /// A tensor as another file has it, also of a type that is unknown here. file_error for ggml's blocks, which are not
  /// a type of .safetensors files.
  std::size_t add(const std::string& name, const ufp4::interop::stored_tensor& t) {
    using ufp4::interop::number_type;
    if (!ufp4::interop::safetensors_name(t.type).empty()) return add(name, t.type, t.shape);
    if (t.type == number_type::mxfp4 || t.type == number_type::nvfp4)
      ufp4::interop::fail_file(path_, "cannot have tensor " + ufp4::interop::printable(name) +
                                          " as it is: " + t.type_name +
                                          " in ggml's blocks is no type of .safetensors files; a .gguf "
                                          "file keeps it, and `ufp4 dequantize` makes it plain");
    std::uint64_t elements = 1;
    for (const std::uint64_t extent : t.shape) elements *= extent;  // an overflow affects only the alignment
    return add({name, t.type_name, t.shape, 0, t.bytes}, elements == 0 ? 1 : t.bytes / elements);
  }

  /// A string of "__metadata__".
  void set_metadata(const std::string& key, const std::string& value) { metadata_[key] = value; }

  /// Writes the header: wider types first, so that each tensor is aligned to its size.
  void open() {
    ufp4::interop::safetensors_header header{{metadata_.begin(), metadata_.end()}, {}};
    std::uint64_t end = 0;
    for (const std::uint64_t width : {8u, 4u, 2u, 1u})
      for (placed& t : tensors_) {
        const bool plain = t.width == 8 || t.width == 4 || t.width == 2;
        if ((plain ? t.width : 1) != width) continue;
        t.entry.begin = std::exchange(end, end + t.entry.end);
        t.entry.end = end;
        header.tensors.push_back(t.entry);
      }
    const std::string text = to_text(header);
    file_.emplace(path_);
    file_->write_number(std::uint64_t{text.size()});
    file_->write(text);
    data_ = file_->written();
    size_ = data_ + end;
  }

  /// Bytes at .. at + count - 1 of a tensor; then all bytes of one.
  void write(std::size_t which, std::uint64_t at, const void* data, std::size_t count) {
    file_->write_at(data_ + tensors_[which].entry.begin + at, data, count);
  }
  void write(std::size_t which, const ufp4::interop::byte_source& bytes) {
    std::uint64_t at = 0;
    bytes([&](const void* data, std::size_t count) { write(which, std::exchange(at, at + count), data, count); });
  }

  /// The file gets its name. file_error unless every byte was written.
  void finish() {
    if (file_->written() != size_)
      file_->fail("got " + std::to_string(file_->written()) + " of its " + std::to_string(size_) + " bytes");
    file_->finish();
  }

 private:
  struct placed {
    ufp4::interop::safetensors_entry entry;  ///< before open(), `end` is the size
    std::uint64_t width;                     ///< bytes an element
  };

  std::size_t add(ufp4::interop::safetensors_entry entry, std::uint64_t width) {
    const std::string shown = ufp4::interop::printable(entry.name);
    if (!ufp4::interop::is_utf8(entry.name) || !ufp4::interop::is_utf8(entry.dtype) || entry.name == "__metadata__")
      ufp4::interop::fail_file(path_, "cannot have a tensor named " + shown);
    if (!numbers_.emplace(entry.name, tensors_.size()).second)
      ufp4::interop::fail_file(path_, "would have two tensors named " + shown);
    tensors_.push_back({std::move(entry), width});
    return tensors_.size() - 1;
  }

  std::string path_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<placed> tensors_;
  std::optional<ufp4::interop::output_file> file_;
  std::uint64_t data_ = 0, size_ = 0;
};

}  // namespace tool
