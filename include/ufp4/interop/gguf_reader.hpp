// ufp4 - reading GGUF files: metadata and tensors.
// SPDX-License-Identifier: Apache-2.0
/// Versions 2 and 3, little-endian. Strings and integers are kept. Types not in ggml_types are listed without a size.
///
/// | part         | content                                                                                           |
/// |--------------|---------------------------------------------------------------------------------------------------|
/// | head         | "GGUF", u32 version, u64 number of tensors, u64 number of key-value pairs                         |
/// | pairs        | string key, u32 type, value; a string is a u64 length and its bytes                               |
/// | tensors      | string name, u32 dimensions, u64 extents (the contiguous one first), u32 type, u64 offset         |
/// | data         | from the next multiple of the alignment (general.alignment, else 32); so does every tensor        |
///
/// Sources: ggml-org/ggml, docs/gguf.md; enum ggml_type of ggml.h; the block structures of ggml-common.h.
#pragma once

#include <array>
#include <map>
#include <ufp4/interop/tensor_file.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// One value of ggml's enum ggml_type.
struct ggml_type {
  std::uint32_t id;               ///< in GGUF files
  std::string_view name;          ///< as ggml spells it; that of a number_type for the types that are decoded here
  std::uint16_t elements, bytes;  ///< of one block; blocks are contiguous along the last dimension
};

/// Every type whose block size is known here.
inline constexpr ggml_type ggml_types[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},        {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},     {8, "Q8_0", 32, 34},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},  {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210},
    {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},         {25, "I16", 1, 2},       {26, "I32", 1, 4},        {27, "I64", 1, 8},
    {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},  {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},   {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18}};

/// The type with that number or name, or nullptr.
constexpr const ggml_type* find_ggml_type(std::uint32_t id) { return find_entry(ggml_types, &ggml_type::id, id); }
constexpr const ggml_type* find_ggml_type(std::string_view name) {
  return find_entry(ggml_types, &ggml_type::name, name);
}

/// The header of a file from front to back, read in parts of 64 KiB. file_error where the file ends.
class gguf_cursor {
 public:
  explicit gguf_cursor(input_file& file) : file_(file) {}  ///< at the beginning of the file

  std::uint64_t at() const { return at_; }                   ///< offset of the next byte
  std::uint64_t left() const { return file_.size() - at_; }  ///< bytes that follow

  /// The next `count` bytes.
  void read(void* to, std::uint64_t count) {
    expect_left(count);
    const std::uint64_t kept = begin_ + window_.size();
    if (at_ < begin_ || at_ + count > kept) {
      begin_ = at_;
      window_.resize(static_cast<std::size_t>((std::max)(count, (std::min<std::uint64_t>)(left(), 1 << 16))));
      file_.read(at_, window_.data(), window_.size());
    }
    if (count != 0) std::memcpy(to, window_.data() + (at_ - begin_), static_cast<std::size_t>(count));
    at_ += count;
  }
  /// Leaves out `count` bytes.
  void skip(std::uint64_t count) {
    expect_left(count);
    at_ += count;
  }
  /// An unsigned number of that many bytes.
  std::uint64_t number(std::uint64_t bytes) {
    std::uint64_t value = 0;
    read(&value, bytes);
    return value;
  }
  /// A string: its length, then its bytes.
  std::string string() {
    const std::uint64_t length = number(8);
    if (length > left())
      file_.fail("string too long: ", length, " bytes at byte ", at_, ", but only ", left(), " follow");
    std::string text(static_cast<std::size_t>(length), '\0');
    read(text.data(), length);
    return text;
  }

 private:
  void expect_left(std::uint64_t count) const {
    if (count > left()) file_.fail("header cut off: the file ends inside its header, at byte ", at_);
  }

  input_file& file_;
  std::uint64_t at_ = 0, begin_ = 0;
  std::vector<char> window_;  // the bytes from begin_ on
};

/// Reads the header in the constructor, the data when asked for.
class gguf_reader : public tensor_file {
 public:
  /// Opens a file and reads its header. Throws file_error if it is not valid GGUF.
  explicit gguf_reader(const std::string& path) : tensor_file(path) {
    gguf_cursor in(file_);
    char magic[4] = {};
    if (in.left() < head_bytes) fail("is not a .gguf file: it is shorter than that format's head of 24 bytes");
    in.read(magic, 4);
    if (std::string_view(magic, 4) != "GGUF") fail("is not a .gguf file: it does not begin with GGUF");
    const std::uint64_t version = in.number(4);
    if (version == 2u << 24 || version == 3u << 24) fail("is a big-endian GGUF file; little-endian ones can be read");
    if (version != 2 && version != 3) fail("has GGUF version ", version, "; 2 and 3 can be read");
    const std::uint64_t tensors = in.number(8);
    pair_count_ = in.number(8);
    for (std::uint64_t i = 0; i < pair_count_; ++i) read_pair(in);
    pairs_end_ = in.at();
    if (const auto found = integers_.find("general.alignment"); found != integers_.end()) alignment_ = found->second;
    if (alignment_ == 0 || alignment_ % 8 != 0 || alignment_ > 1 << 20)
      fail("general.alignment must be a multiple of 8 up to 1048576, got ", alignment_);
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor(in);
    sort_tensors();
    for (stored_tensor& t : tensors_) place(t, (in.at() + alignment_ - 1) / alignment_ * alignment_);
  }

  const std::map<std::string, std::string>& strings() const& { return strings_; }  ///< keys whose values are strings
  std::map<std::string, std::string> strings() const&& { return strings_; }        ///< the same
  /// Keys whose values are integers or booleans; negative values wrap.
  const std::map<std::string, std::uint64_t>& integers() const& { return integers_; }
  std::map<std::string, std::uint64_t> integers() const&& { return integers_; }  ///< the same
  std::uint64_t alignment() const { return alignment_; }                         ///< of tensors, in bytes
  std::uint64_t pair_count() const { return pair_count_; }  ///< number of key-value pairs, of all types
  /// The bytes of all key-value pairs.
  std::string pair_bytes() {
    std::string bytes(static_cast<std::size_t>(pairs_end_ - head_bytes), '\0');
    file_.read(head_bytes, bytes.data(), bytes.size());
    return bytes;
  }

 private:
  /// Sizes of the value types 0 .. 12: u8 i8 u16 i16 u32 i32 f32 bool string array u64 i64 f64.
  static constexpr std::array<std::uint8_t, 13> value_bytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  static constexpr std::uint64_t f32_type = 6, string_type = 8, array_type = 9, f64_type = 12;
  static constexpr std::uint64_t head_bytes = 24;

  void skip_value(gguf_cursor& in, std::uint64_t type, int depth) const {
    if (type >= value_bytes.size() || depth == 0)
      fail("metadata value not readable: type ", type, " before byte ", in.at(),
           " is not a GGUF type, or arrays are nested too deeply");
    if (type == string_type) return in.skip(in.number(8));
    if (type != array_type) return in.skip(value_bytes[type]);
    const std::uint64_t inner = in.number(4), count = in.number(8);
    if (inner < value_bytes.size() && value_bytes[inner] != 0) {
      if (count > in.left() / value_bytes[inner])
        fail("header cut off: the file ends inside an array of ", count, " values before byte ", in.at());
      return in.skip(count * value_bytes[inner]);
    }
    for (std::uint64_t i = 0; i < count; ++i) skip_value(in, inner, depth - 1);  // each takes 8 bytes or more
  }

  void read_pair(gguf_cursor& in) {
    std::string key = in.string();
    const std::uint64_t type = in.number(4);
    if (type == string_type)
      strings_[std::move(key)] = in.string();
    else if (type < value_bytes.size() && type != array_type && type != f32_type && type != f64_type)
      integers_[std::move(key)] = in.number(value_bytes[type]);
    else
      skip_value(in, type, 8);
  }

  void read_tensor(gguf_cursor& in) {
    stored_tensor t;
    t.name = in.string();
    const std::uint64_t dimensions = in.number(4);
    if (dimensions > 4) fail("tensor ", printable(t.name), " has ", dimensions, " dimensions; ggml has up to 4");
    for (std::uint64_t i = 0; i < dimensions; ++i) t.shape.insert(t.shape.begin(), in.number(8));
    const auto id = static_cast<std::uint32_t>(in.number(4));
    const ggml_type* const known = find_ggml_type(id);
    t.type_name = known != nullptr ? std::string(known->name) : "number " + std::to_string(id) + " of ggml";
    t.type = number_type_named(t.type_name);
    t.offset = in.number(8);
    tensors_.push_back(std::move(t));
  }

  /// Replaces an offset in the data by one in the file and sets the size.
  void place(stored_tensor& t, std::uint64_t begin) const {
    const ggml_type* const type = find_ggml_type(t.type_name);
    if (type == nullptr) return;  // of unknown size
    const std::string label = "tensor " + printable(t.name);
    const auto bytes = byte_count(type->elements, type->bytes, t.shape);
    if (!bytes)
      fail(label, ": no byte count: ", shape_text(t.shape), " ", t.type_name,
           " is not a whole number of blocks, or exceeds 64 bits");
    const std::uint64_t data = begin > file_.size() ? 0 : file_.size() - begin;
    if (t.offset > data || *bytes > data - t.offset)
      fail(label, ": data outside the file: ", *bytes, " bytes at byte ", t.offset, " of the data, which have ", data,
           " bytes");
    t.offset += begin;
    t.bytes = *bytes;
  }

  std::uint64_t alignment_ = 32, pair_count_ = 0, pairs_end_ = 0;
  std::map<std::string, std::string> strings_;
  std::map<std::string, std::uint64_t> integers_;
};

}  // namespace ufp4::interop::inline UFP4_CODE
