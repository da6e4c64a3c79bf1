// ufp4 - reading and writing .safetensors files: tensors of any type and metadata strings.
// SPDX-License-Identifier: Apache-2.0
/// The length of the header in 8 bytes, the header (safetensors_header.hpp), the data, from where its offsets count;
/// row-major, little-endian. Source: the format's own description, huggingface/safetensors README.
#pragma once

#include <map>
#include <set>
#include <ufp4/interop/output_file.hpp>
#include <ufp4/interop/safetensors_header.hpp>
#include <ufp4/interop/tensor_file.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// The format's name of a type; empty for types that it does not have.
constexpr std::string_view safetensors_name(number_type type) {
  return type < number_type::mxfp4 ? type_text(type) : std::string_view();
}

/// Reads the header in the constructor, the data when asked for.
class safetensors_reader : public tensor_file {
 public:
  /// Opens a file and reads its header. Throws file_error if it is not valid.
  explicit safetensors_reader(const std::string& path) : tensor_file(path) {
    if (file_.size() < 8) fail("is not a .safetensors file: it is shorter than the 8-byte header length");
    const std::uint64_t length = file_.read_number(0, 8);
    const auto header = parse_safetensors_header(header_text(8, length, 100'000'000, "the format allows 100000000"));
    if (!header) fail("has a header that is not a JSON object of tensors with dtype, shape and data_offsets");
    for (const auto& [key, value] : header->metadata) metadata_[key] = value;
    for (const auto& [name, dtype, shape, begin, end] : header->tensors) {  // place() replaces begin and end
      const number_type type = number_type_named(dtype);
      tensors_.push_back(
          {name, dtype, type < number_type::mxfp4 ? type : number_type::other, false, shape, begin, end});
    }
    sort_tensors();
    place(8 + length);
  }

  const std::map<std::string, std::string>& metadata() const& { return metadata_; }  ///< the strings of "__metadata__"
  std::map<std::string, std::string> metadata() const&& { return metadata_; }        ///< the same

 private:
  void place(std::uint64_t data_begin) {
    const std::uint64_t data = file_.size() - data_begin;
    std::uint64_t last = 0;
    for (stored_tensor& t : tensors_) {
      const std::string label = "tensor " + printable(t.name);
      const std::uint64_t begin = t.offset, end = t.bytes;
      if (begin > end || end > data)
        fail(label, ": data outside the file: bytes ", begin, " to ", end, " of the data, which have ", data, " bytes");
      last = (std::max)(last, end);
      t.offset = data_begin + begin;
      t.bytes = end - begin;
      if (t.type == number_type::other) continue;
      check_size(t, label + ": size mismatch: " + shape_text(t.shape) + " " + printable(t.type_name) + " values",
                 "its data_offsets span ", "");
    }
    if (last != data) fail("size mismatch: the header describes ", last, " bytes of data, the file has ", data);
  }

  std::map<std::string, std::string> metadata_;
};

/// Collects tensors, then writes them, wider types first, so that each is aligned to its size; else in order of add().
class safetensors_writer {
 public:
  /// std::invalid_argument for a name that is already there and a type that the format does not have.
  void add(const std::string& name, tensor_source tensor) {
    const std::string shown = "safetensors_writer: tensor " + printable(name);
    expects(is_utf8(name) && name != "__metadata__", shown, ": the name is not UTF-8, or is reserved by the format");
    expects(!names_.contains(name), shown, " is already in the file");
    expects(!safetensors_name(tensor.type).empty(), shown, " has a type that .safetensors does not have");
    expects(byte_count(tensor.type, tensor.shape).has_value(), shown, ": ", shape_text(tensor.shape),
            " values are more bytes than 64 bits can count");
    tensors_.emplace_back(name, std::move(tensor));
    names_.insert(name);
  }

  /// A string of "__metadata__"; it replaces one of the same key.
  void set_metadata(const std::string& key, const std::string& value) {
    expects(is_utf8(key) && is_utf8(value), "safetensors_writer: not UTF-8: metadata ", printable(key));
    metadata_[key] = value;
  }

  /// Writes the file. file_error if a source gives another number of bytes than the tensor's shape requires.
  void write(const std::string& path) const {
    std::vector<const entry*> order;
    for (const std::uint64_t width : {8u, 4u, 2u, 1u})
      for (const entry& e : tensors_)
        if (byte_count(e.second.type, {}) == width) order.push_back(&e);
    output_file file(path);
    const std::string header = header_of(order);
    file.write_number(std::uint64_t{header.size()});
    file.write(header);
    for (const entry* e : order) file.write("tensor " + printable(e->first), e->second);
    file.finish();
  }

 private:
  using entry = std::pair<std::string, tensor_source>;

  std::string header_of(const std::vector<const entry*>& order) const {
    safetensors_header header{{metadata_.begin(), metadata_.end()}, {}};
    std::uint64_t offset = 0;
    for (const entry* e : order) {
      const tensor_source& t = e->second;
      const std::uint64_t end = offset + byte_count(t.type, t.shape).value();
      header.tensors.push_back({e->first, std::string(safetensors_name(t.type)), t.shape, offset, end});
      offset = end;
    }
    return to_text(header);
  }

  std::map<std::string, std::string> metadata_;
  std::vector<entry> tensors_;
  std::set<std::string> names_;  // of tensors_
};

}  // namespace ufp4::interop::inline UFP4_CODE
