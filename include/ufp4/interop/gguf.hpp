// ufp4 - GGUF files: ggml's MXFP4 and NVFP4 blocks, and plain float tensors, in and out.
// SPDX-License-Identifier: Apache-2.0
/// | part         | what (version 3, little-endian)                                                                   |
/// |--------------|---------------------------------------------------------------------------------------------------|
/// | head         | "GGUF", u32 version, u64 number of tensors, u64 number of key-value pairs                         |
/// | pairs        | string key, u32 type, value; a string is a u64 length and its bytes                               |
/// | tensors      | string name, u32 dimensions, u64 extents (the contiguous one first), u32 type, u64 offset         |
/// | data         | from the next multiple of the alignment (general.alignment, else 32); so does every tensor        |
/// | MXFP4 (39)   | 17 bytes for 32 elements: e8m0 scale; 16 bytes, byte j holds elements j (low) and j + 16          |
/// | NVFP4 (40)   | 36 bytes for 64 elements: 4 e4m3 scales; 4 times 8 bytes, byte j holds elements j and j + 8       |
///
/// A tensor scale of NVFP4 is a tensor of its own: "blk.0.ffn_up.scale", F32 [1], a factor, beside
/// "blk.0.ffn_up.weight".
/// ggml reads the e4m3 code 0x7F and the e8m0 code 0xFF, NaNs here, as 0 and as 2^128; the sign of e4m3 is not read.
///
///   interop::gguf_reader file("model.gguf");
///   const auto q = interop::read_quantized<nvfp4>(file, "blk.0.ffn_up.weight");
///
/// Read: versions 2 and 3; all values are skipped but strings and integers. Tensors of ggml's other types are listed;
/// their bytes can be read and written, where ggml_blocks says how many they are. Sources: ggml-org/ggml, docs/gguf.md,
/// ggml.h and ggml-common.h; llama.cpp's conversion of NVFP4 checkpoints.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <ufp4/block/layouts.hpp>
#include <ufp4/block/presets.hpp>
#include <ufp4/interop/quantized_weight.hpp>
#include <ufp4/interop/tensor_file.hpp>
#include <ufp4/matrix/quantized_matrix.hpp>
#include <utility>
#include <vector>

namespace ufp4::interop::inline UFP4_TYPES {

/// ggml's own NVFP4: one level of scales (compat::ggml_nvfp4::format).
using ggml_nvfp4 = block_format<fp4<E2M1>, e4m3, 16>;

/// The formats that ggml has blocks for.
template <class F>
concept ggml_format = std::is_same_v<F, mxfp4> || std::is_same_v<F, ggml_nvfp4> || std::is_same_v<F, nvfp4>;

/// The numbers of ggml's enum ggml_type that are read and written here.
struct ggml_type {
  number_type type;
  std::uint32_t id;
  const char* name;
};
inline constexpr ggml_type ggml_types[] = {
    {number_type::f32, 0, "F32"},    {number_type::f16, 1, "F16"},      {number_type::i8, 24, "I8"},
    {number_type::i32, 26, "I32"},   {number_type::i64, 27, "I64"},     {number_type::f64, 28, "F64"},
    {number_type::bf16, 30, "BF16"}, {number_type::mxfp4, 39, "MXFP4"}, {number_type::nvfp4, 40, "NVFP4"}};

/// Types of ggml that are copied and not read: their blocks, of so many elements and bytes.
struct ggml_blocks {
  std::uint32_t id;
  const char* name;
  std::uint16_t elements, bytes;
};
inline constexpr ggml_blocks ggml_other_types[] = {
    {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},
    {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {25, "I16", 1, 2},        {29, "IQ1_M", 256, 56},
    {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {41, "Q1_0", 128, 18}};

}  // namespace ufp4::interop::inline UFP4_TYPES

namespace ufp4::interop::inline UFP4_CODE {

/// The type that a reader calls so; null for one that it does not know either.
inline const ggml_blocks* find_other_type(std::string_view type_name) {
  for (const ggml_blocks& known : ggml_other_types)
    if (type_name == known.name) return &known;
  return nullptr;
}

/// The bytes of a tensor in blocks along its last dimension; nothing where that has no whole number of them, or 64 bits
/// do not hold the count.
inline std::optional<std::uint64_t> byte_count(const ggml_blocks& type, std::vector<std::uint64_t> shape) {
  if (shape.empty() || shape.back() % type.elements != 0) return {};
  shape.back() /= type.elements;
  shape.push_back(type.bytes);
  return byte_count(number_type::u8, shape);
}

/// Reads the header; the data when asked.
class gguf_reader : public tensor_file {
 public:
  explicit gguf_reader(const std::string& path) : tensor_file(path) {
    char magic[4] = {};
    if (file_.size() < 24) fail("is not a .gguf file: it is shorter than that format's head of 24 bytes");
    read(magic, 4);
    if (std::string_view(magic, 4) != "GGUF") fail("is not a .gguf file: it does not begin with GGUF");
    const std::uint64_t version = number(4);
    if (version == 2u << 24 || version == 3u << 24) fail("is a big-endian GGUF file; little-endian ones can be read");
    if (version != 2 && version != 3) fail("has GGUF version " + std::to_string(version) + "; 2 and 3 can be read");
    const std::uint64_t tensors = number(8), pairs = number(8);
    for (std::uint64_t i = 0; i < pairs; ++i) read_pair();
    pair_count_ = pairs;
    pairs_end_ = at_;
    check_alignment();
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor();
    place();
  }

  /// Keys whose values are strings.
  const std::map<std::string, std::string>& strings() const { return strings_; }
  /// Keys whose values are integers or booleans; negative ones wrap.
  const std::map<std::string, std::uint64_t>& integers() const { return integers_; }
  std::uint64_t alignment() const { return alignment_; }

  std::uint64_t pair_count() const { return pair_count_; }
  /// All key-value pairs as the file has them.
  std::string pair_bytes() {
    std::string bytes(static_cast<std::size_t>(pairs_end_ - head_bytes), '\0');
    file_.read(head_bytes, bytes.data(), bytes.size());
    return bytes;
  }

 private:
  /// Sizes of the value types 0 .. 12: u8 i8 u16 i16 u32 i32 f32 bool string array u64 i64 f64.
  static constexpr std::array<std::uint8_t, 13> value_bytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  static constexpr std::uint64_t string_type = 8, array_type = 9;
  static constexpr std::uint64_t head_bytes = 24;  // what stands before the pairs

  std::uint64_t left() const { return file_.size() - at_; }

  void read(void* to, std::uint64_t count) {
    if (count > left()) fail("ends inside its header, at byte " + std::to_string(at_));
    const std::uint64_t kept = window_begin_ + window_.size();
    if (at_ < window_begin_ || at_ + count > kept) {
      window_begin_ = at_;
      window_.resize(static_cast<std::size_t>((std::max)(count, (std::min<std::uint64_t>)(left(), 1 << 16))));
      file_.read(at_, window_.data(), window_.size());
    }
    if (count != 0) std::memcpy(to, window_.data() + (at_ - window_begin_), static_cast<std::size_t>(count));
    at_ += count;
  }
  void skip(std::uint64_t count) {
    if (count > left()) fail("ends inside its header, at byte " + std::to_string(at_));
    at_ += count;
  }
  std::uint64_t number(std::uint64_t bytes) {
    std::uint64_t value = 0;
    read(&value, bytes);
    return value;
  }
  std::string string() {
    const std::uint64_t length = number(8);
    if (length > left())
      fail("has a string of " + std::to_string(length) + " bytes at byte " + std::to_string(at_) + ", but only " +
           std::to_string(left()) + " bytes follow");
    std::string text(static_cast<std::size_t>(length), '\0');
    read(text.data(), length);
    return text;
  }

  void skip_value(std::uint64_t type, int depth) {
    if (type >= value_bytes.size() || depth == 0)
      fail("has a value of type " + std::to_string(type) + " before byte " + std::to_string(at_) +
           ", which is no GGUF type, or arrays nested too deeply");
    if (type == string_type) return skip(number(8));
    if (type != array_type) return skip(value_bytes[type]);
    const std::uint64_t inner = number(4), count = number(8);
    if (inner < value_bytes.size() && value_bytes[inner] != 0) {
      if (count > left() / value_bytes[inner])
        fail("ends inside an array, which begins before byte " + std::to_string(at_));
      return skip(count * value_bytes[inner]);
    }
    for (std::uint64_t i = 0; i < count; ++i) skip_value(inner, depth - 1);  // each takes 8 bytes or more
  }

  void read_pair() {
    std::string key = string();
    const std::uint64_t type = number(4);
    constexpr std::uint64_t f32 = 6, f64 = 12;
    if (type == string_type)
      strings_[std::move(key)] = string();
    else if (type < value_bytes.size() && type != array_type && type != f32 && type != f64)
      integers_[std::move(key)] = number(value_bytes[type]);
    else
      skip_value(type, 8);
  }

  void check_alignment() {
    const auto found = integers_.find("general.alignment");
    if (found != integers_.end()) alignment_ = found->second;
    if (alignment_ == 0 || alignment_ % 8 != 0 || alignment_ > 1 << 20)
      fail("has general.alignment " + std::to_string(alignment_) + ", which is no multiple of 8 up to 1048576");
  }

  void read_tensor() {
    stored_tensor t;
    t.name = string();
    const std::uint64_t dimensions = number(4);
    if (dimensions > 4)
      fail("says tensor " + printable(t.name) + " has " + std::to_string(dimensions) + " dimensions; ggml has up to 4");
    for (std::uint64_t i = 0; i < dimensions; ++i) t.shape.insert(t.shape.begin(), number(8));
    const std::uint64_t id = number(4);
    t.type_name = "number " + std::to_string(id) + " of ggml";
    for (const ggml_type& known : ggml_types) {
      if (known.id != id) continue;
      t.type = known.type;
      t.type_name = known.name;
    }
    for (const ggml_blocks& other : ggml_other_types)
      if (other.id == id) t.type_name = other.name;
    t.offset = number(8);
    tensors_.push_back(std::move(t));
  }

  void place() {
    std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    const std::uint64_t begin = (at_ + alignment_ - 1) / alignment_ * alignment_;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      stored_tensor& t = tensors_[i];
      const std::string label = "tensor " + printable(t.name);
      if (i != 0 && t.name == tensors_[i - 1].name) fail("names " + label + " twice");
      const ggml_blocks* const other = find_other_type(t.type_name);
      if (t.type == number_type::other && other == nullptr) continue;  // nobody here knows how long it is
      const auto bytes = other != nullptr ? byte_count(*other, t.shape) : byte_count(t.type, t.shape);
      if (!bytes) fail(label + " claims " + shape_text(t.shape) + " " + t.type_name + ", which has no byte count");
      const std::uint64_t data = begin > file_.size() ? 0 : file_.size() - begin;
      if (t.offset > data || *bytes > data - t.offset)
        fail("says " + label + " lies at bytes " + std::to_string(t.offset) + " and " + std::to_string(*bytes) +
             " on of the data, but there are " + std::to_string(data) + " bytes");
      t.offset += begin;
      t.bytes = *bytes;
    }
  }

  std::uint64_t at_ = 0, alignment_ = 32, window_begin_ = 0, pair_count_ = 0, pairs_end_ = 0;
  std::vector<char> window_;  // what has been read ahead
  std::map<std::string, std::string> strings_;
  std::map<std::string, std::uint64_t> integers_;
};

/// Collects tensors and strings, then writes version 3. llama.cpp wants at least the string general.architecture.
class gguf_writer {
 public:
  /// A name that is there already, one of more than 63 bytes, and a type or a shape that ggml lacks, are
  /// std::invalid_argument.
  void add(const std::string& name, tensor_source tensor) {
    const ggml_type* const type = find_type(tensor.type);
    ufp4::detail::expects(type != nullptr, "gguf_writer: tensor ", printable(name), " has a type that ggml lacks");
    add({name, type->id, std::move(tensor.shape), {}, std::move(tensor.write)},
        [&](const auto& shape) { return byte_count(tensor.type, shape); });
  }
  /// A tensor as a GGUF file has it, of a type that is not read here too.
  void add_copy(const std::string& name, const stored_tensor& like, byte_source bytes) {
    const ggml_blocks* const other = find_other_type(like.type_name);
    if (like.type != number_type::other || other == nullptr)
      return add(name, {like.type, like.shape, std::move(bytes)});
    add({name, other->id, like.shape, {}, std::move(bytes)},
        [&](const auto& shape) { return byte_count(*other, shape); });
  }

  void set_string(const std::string& key, const std::string& value) {
    ufp4::detail::expects(is_utf8(key) && is_utf8(value), "gguf_writer: ", printable(key), " is not UTF-8");
    strings_[key] = value;
  }

  /// Takes all key-value pairs of another file, of every type, and its alignment, instead of set_string.
  void keep_pairs(gguf_reader& from) {
    pairs_ = from.pair_bytes();
    pair_count_ = from.pair_count();
    alignment_ = from.alignment();
  }

  /// std::invalid_argument after both keep_pairs and set_string: a key might come twice.
  void write(const std::string& path) const {
    ufp4::detail::expects(pair_count_ == 0 || strings_.empty(), "gguf_writer: keep_pairs gave ", pair_count_,
                          " keys and set_string ", strings_.size(), " more; use one of them");
    output_file file(path);
    file.write("GGUF");
    file.write_number(std::uint32_t{3});
    file.write_number(std::uint64_t{tensors_.size()});
    file.write_number(pair_count_ + strings_.size());
    file.write(pairs_);
    for (const auto& [key, value] : strings_) {
      write_string(file, key);
      file.write_number(std::uint32_t{8});
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

  template <class Count>
  void add(entry t, Count count) {
    using ufp4::detail::expects;
    const std::string shown = printable(t.name);
    expects(t.name.size() < 64, "gguf_writer: the name ", shown, " has ", t.name.size(), " bytes; ggml takes 63");
    expects(!names_.contains(t.name), "gguf_writer: tensor ", shown, " is there already");
    expects(!t.shape.empty() && t.shape.size() <= 4, "gguf_writer: tensor ", shown, " has ", t.shape.size(),
            " dimensions; ggml takes 1 to 4");
    const std::optional<std::uint64_t> bytes = count(t.shape);
    expects(bytes.has_value(), "gguf_writer: tensor ", shown, " of ", shape_text(t.shape),
            " is no whole number of blocks, or more bytes than 64 bits can count");
    t.bytes = *bytes;
    names_.insert(t.name);
    tensors_.push_back(std::move(t));
  }

  static const ggml_type* find_type(number_type type) {
    for (const ggml_type& known : ggml_types)
      if (known.type == type) return &known;
    return nullptr;
  }
  static void write_string(output_file& file, const std::string& text) {
    file.write_number(std::uint64_t{text.size()});
    file.write(text);
  }

  std::map<std::string, std::string> strings_;
  std::string pairs_;
  std::uint64_t pair_count_ = 0;
  std::uint64_t alignment_ = 32;  // what holds where no general.alignment is given
  std::vector<entry> tensors_;
  std::set<std::string> names_;  // of tensors_
};

/// One of ggml's blocks: so many elements, scales in front, then codes in split halves of every B elements.
template <ggml_format F>
struct ggml_block {
  static constexpr std::size_t elements = std::is_same_v<F, mxfp4> ? 32 : 64;
  static constexpr std::size_t scales = elements / F::block_size;
  static constexpr std::size_t bytes = scales + elements / 2;
  static constexpr std::uint8_t scale_mask = std::is_same_v<F, mxfp4> ? 0xFF : 0x7F;  ///< ggml's e4m3 has no sign
  static constexpr number_type type = std::is_same_v<F, mxfp4> ? number_type::mxfp4 : number_type::nvfp4;
};

/// Row i of a quantized matrix as ggml's blocks, padded_cols() / elements * bytes of them, and back.
template <ggml_format F>
void to_ggml_row(const quantized_view<F>& q, std::size_t i, std::uint8_t* out) {
  using block = ggml_block<F>;
  const std::uint8_t* codes = q.codes().data() + i * q.padded_cols() / 2;
  const auto* scales = q.scales().data() + i * (q.padded_cols() / F::block_size);
  for (std::size_t b = 0; b < q.padded_cols() / block::elements; ++b, out += block::bytes) {
    for (std::size_t s = 0; s < block::scales; ++s) out[s] = scales[b * block::scales + s].bits();
    split_halves(codes + b * block::elements / 2, block::scales, F::block_size, out + block::scales);
  }
}
template <ggml_format F>
void from_ggml_row(const std::uint8_t* in, quantized_matrix<F>& q, std::size_t i) {
  using block = ggml_block<F>;
  std::uint8_t* codes = q.codes().data() + i * q.padded_cols() / 2;
  auto* scales = q.scales().data() + i * (q.padded_cols() / F::block_size);
  for (std::size_t b = 0; b < q.padded_cols() / block::elements; ++b, in += block::bytes) {
    for (std::size_t s = 0; s < block::scales; ++s)
      scales[b * block::scales + s] = F::scale_type::from_bits(static_cast<std::uint8_t>(in[s] & block::scale_mask));
    join_halves(in + block::scales, block::scales, F::block_size, codes + b * block::elements / 2);
  }
}

/// The name of the tensor scale beside a weight: "x.scale" beside "x.weight".
inline std::string ggml_scale_name(std::string_view weight) {
  constexpr std::string_view ending = ".weight";
  if (weight.ends_with(ending)) weight.remove_suffix(ending.size());
  return std::string(weight) + ".scale";
}

/// Adds a quantized matrix, whose memory must stay until the file is written, as ggml's blocks; nvfp4 with its tensor
/// scale beside it. std::invalid_argument where the columns are no multiple of ggml's block, or a transform was
/// applied.
template <quantized Q>
  requires ggml_format<typename Q::format>
void add_quantized(gguf_writer& out, const std::string& name, const Q& q) {
  using F = typename Q::format;
  using block = ggml_block<F>;
  ufp4::detail::expects(q.transform().n == 1, "add_quantized: ", printable(name),
                        " was quantized after a Hadamard transform of ", q.transform().n,
                        ", which GGUF does not record");
  ufp4::detail::expects(q.cols() % block::elements == 0, "add_quantized: ", printable(name), " has ", q.cols(),
                        " columns, not a multiple of ggml's ", block::elements);
  const quantized_view<F> view = q;
  out.add(name, {block::type, {q.rows(), q.cols()}, [view](const byte_sink& sink) {
                   std::vector<std::uint8_t> row(view.cols() / block::elements * block::bytes);
                   for (std::size_t i = 0; i < view.rows(); ++i) {
                     to_ggml_row(view, i, row.data());
                     sink(row.data(), row.size());
                   }
                 }});
  if constexpr (F::two_level)
    out.add(ggml_scale_name(name),
            {number_type::f32, {1}, [scale = q.tensor_scale()](const byte_sink& sink) { sink(&scale, sizeof scale); }});
}

/// A matrix of ggml's blocks, checked and not yet read; with more than two dimensions (experts) the last is a row.
/// nvfp4 has the tensor scale that stands beside it, or 1; a weight that has one cannot be read as ggml_nvfp4.
/// file_error where it is not there or of another type.
template <ggml_format F>
stored_weight<F> find_weight(gguf_reader& file, const std::string& name) {
  using block = ggml_block<F>;
  const stored_tensor& t = file.at(name);
  const std::string label = "tensor " + printable(name);
  if (t.type != block::type || t.shape.size() < 2)
    file.fail(label + " is " + shape_text(t.shape) + " " + printable(t.type_name) + ", not a matrix of " +
              (block::type == number_type::mxfp4 ? "MXFP4" : "NVFP4"));
  if (t.bytes == 0) file.fail(label + " is an empty matrix: " + shape_text(t.shape));
  const stored_tensor* beside = block::type == number_type::nvfp4 ? file.find(ggml_scale_name(name)) : nullptr;
  if (beside != nullptr && !F::two_level)
    file.fail(label + " has a tensor scale, " + printable(beside->name) + "; it can be read as nvfp4");
  float scale = 1;
  if (beside != nullptr && (beside->type != number_type::f32 || beside->bytes != sizeof scale))
    file.fail("tensor " + printable(beside->name) + " is " + shape_text(beside->shape) + " " +
              printable(beside->type_name) + "; a tensor scale is one F32");
  if (beside != nullptr) file.read_bytes(*beside, 0, &scale, sizeof scale);
  if (!std::isfinite(scale) || scale < 0)
    file.fail("tensor " + printable(beside->name) + " is " + ufp4::detail::concat(scale) +
              ", which is no tensor scale");
  const std::uint64_t cols = t.shape.back(), rows = t.bytes / block::bytes / (cols / block::elements);
  return {&t, &t, scale, static_cast<std::size_t>(rows), static_cast<std::size_t>(cols), {}};
}

/// Rows first .. first + out.rows() - 1 of a weight into a matrix made for its columns.
template <ggml_format F>
void read_weight_rows(gguf_reader& file, const stored_weight<F>& weight, std::size_t first, quantized_matrix<F>& out) {
  check_weight_rows(weight, first, out);
  out.set_tensor_scale(weight.tensor_scale);
  std::vector<std::uint8_t> row(out.cols() / ggml_block<F>::elements * ggml_block<F>::bytes);
  for (std::size_t i = 0; i < out.rows(); ++i) {
    file.read_bytes(*weight.codes, std::uint64_t{first + i} * row.size(), row.data(), row.size());
    from_ggml_row(row.data(), out, i);
  }
}

/// All of it; file_error as find_weight.
template <ggml_format F>
quantized_matrix<F> read_quantized(gguf_reader& file, const std::string& name) {
  const stored_weight<F> weight = find_weight<F>(file, name);
  quantized_matrix<F> q(weight.rows, weight.cols);
  read_weight_rows(file, weight, 0, q);
  return q;
}

}  // namespace ufp4::interop::inline UFP4_CODE
