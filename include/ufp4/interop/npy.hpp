// ufp4 - NumPy's .npy files: matrices of float32, float16, bfloat16 and bytes, in and out.
// SPDX-License-Identifier: Apache-2.0
/// | bytes     | what                                                                                               |
/// |-----------|----------------------------------------------------------------------------------------------------|
/// | 8         | \x93NUMPY, the version 1.0, 2.0 or 3.0 as two bytes                                                |
/// | 2, or 4   | length of the header, little-endian; 4 bytes from version 2.0 on                                   |
/// | that many | a Python dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and spaces         |
/// | the rest  | the data                                                                                           |
///
/// descr: '<f4', '<f2', '|u1', '|i1', and the two bytes '<V2' or '|V2' that NumPy writes for ml_dtypes.bfloat16 (which
/// load as array.view(ml_dtypes.bfloat16)). Fortran order is read in up to two dimensions; C order is written.
///
///   interop::npy_reader file("weights.npy");
///   file.read_rows(file.array(), 0, rows);
///   interop::write_npy("codes.npy", interop::codes_of(q));
///
/// Source: NumPy, numpy.lib.format.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <ufp4/interop/tensor_file.hpp>
#include <ufp4/matrix/quantized_matrix.hpp>
#include <utility>
#include <vector>

namespace ufp4::interop::inline UFP4_CODE {

/// The header's Python dictionary: three known keys, in any order.
struct npy_header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::uint64_t>> shape;
};

/// Reads just the Python literals that NumPy writes there. Each member returns false at the first surprise.
class npy_header_parser {
 public:
  explicit npy_header_parser(std::string_view text) : rest_(text) {}

  bool parse(npy_header& header) {
    if (!take('{')) return false;
    while (!take('}')) {
      std::string key;
      if (!string(key) || !take(':') || !value(key, header)) return false;
      if (!take(',') && !starts('}')) return false;
    }
    skip_space();
    return rest_.empty() && header.descr && header.fortran_order && header.shape;
  }

 private:
  void skip_space() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n' || rest_.front() == '\t')) {
      rest_.remove_prefix(1);
    }
  }

  bool starts(char c) {
    skip_space();
    return !rest_.empty() && rest_.front() == c;
  }

  bool take(char c) {
    if (!starts(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool take(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  bool string(std::string& out) {
    const char quote = starts('\'') ? '\'' : '"';
    if (!take(quote)) return false;
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) return false;
    out = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }

  bool number(std::uint64_t& out) {
    skip_space();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
    if (error != std::errc{}) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }

  bool value(const std::string& key, npy_header& header) {
    if (key == "descr" && !header.descr) return string(header.descr.emplace());
    if (key == "fortran_order" && !header.fortran_order) {
      header.fortran_order = take(std::string_view("True"));
      return *header.fortran_order || take(std::string_view("False"));
    }
    if (key != "shape" || header.shape || !take('(')) return false;
    header.shape.emplace();
    while (!take(')')) {
      if (!number(header.shape->emplace_back())) return false;
      take('L');  // Python 2 wrote its long integers so
      if (!take(',') && !starts(')')) return false;
    }
    return true;
  }

  std::string_view rest_;
};

/// A file of one array, whose name is empty.
class npy_reader : public tensor_file {
 public:
  explicit npy_reader(const std::string& path) : tensor_file(path) {
    constexpr std::string_view magic = "\x93NUMPY";
    char begin[6] = {};
    if (file_.size() >= sizeof begin) file_.read(0, begin, sizeof begin);
    if (std::string_view(begin, sizeof begin) != magic) fail("is not a .npy file: it does not begin with \\x93NUMPY");
    if (file_.size() < 10) fail("ends inside the .npy header");
    const std::uint64_t version = file_.read_number(6, 1);
    if (version < 1 || version > 3) fail("has .npy version " + std::to_string(version) + "; 1 to 3 can be read");
    const std::size_t length_bytes = version == 1 ? 2 : 4;
    const std::uint64_t text_begin = 8 + length_bytes;
    if (file_.size() < text_begin) fail("ends inside the .npy header");
    const std::uint64_t length = file_.read_number(8, length_bytes);
    if (length > file_.size() - text_begin)
      fail("says its header is " + std::to_string(length) + " bytes long, but only " +
           std::to_string(file_.size() - text_begin) + " bytes follow");
    constexpr std::uint64_t longest = 1 << 20;  // NumPy itself stops at 10,000 for untrusted files
    if (length > longest) fail("has a header of " + std::to_string(length) + " bytes, which no matrix needs");
    std::string text(static_cast<std::size_t>(length), '\0');
    file_.read(text_begin, text.data(), text.size());
    place(parsed(text), text_begin + length);
  }

  const stored_tensor& array() const { return tensors_.front(); }

 private:
  npy_header parsed(std::string_view text) const {
    npy_header header;
    if (!npy_header_parser(text).parse(header)) {
      fail("has a header that is not NumPy's dictionary of one plain descr, fortran_order and shape: " +
           printable(text.substr(0, text.find_last_not_of(" \n") + 1)));
    }
    return header;
  }

  number_type type_of(const std::string& descr) const {
    if (descr == "<f4") return number_type::f32;
    if (descr == "<f2") return number_type::f16;
    if (descr == "<V2" || descr == "|V2") return number_type::bf16;
    if (descr == "|u1") return number_type::u8;
    if (descr == "|i1") return number_type::i8;
    const std::string shown = "'" + printable(descr) + "'";
    if (descr.starts_with('>'))
      fail("is big-endian (" + shown + "); save it in little-endian order, as '" + (descr == ">f2" ? "<f2" : "<f4") +
           "'");
    const bool converts = descr.size() > 1 && std::string_view("bfiu").find(descr[1]) != std::string_view::npos;
    fail("holds values of type " + shown +
         "; float32 ('<f4'), float16 ('<f2'), bfloat16 ('<V2'), uint8 ('|u1') and int8 ('|i1') can be read" +
         (converts ? "; NumPy converts with .astype(np.float32)" : ""));
  }

  void place(const npy_header& header, std::uint64_t data_begin) {
    stored_tensor t;
    t.type = type_of(*header.descr);
    t.type_name = *header.descr;
    t.shape = *header.shape;
    if (*header.fortran_order && t.shape.size() > 2)
      fail("is an array of " + shape_text(t.shape) +
           " in Fortran order, which is read in two dimensions alone; np.ascontiguousarray makes it C order");
    t.column_major = *header.fortran_order && t.shape.size() == 2;
    t.offset = data_begin;
    t.bytes = file_.size() - data_begin;
    const std::string claim = "says it holds " + shape_text(t.shape) + " values of type '" + t.type_name + "'";
    const auto bytes = byte_count(t.type, t.shape);
    if (!bytes) fail(claim + ", more bytes than 64 bits can count");
    if (*bytes != t.bytes)
      fail(claim + ", which are " + std::to_string(*bytes) + " bytes, but " + std::to_string(t.bytes) +
           " bytes follow the header");
    tensors_.push_back(std::move(t));
  }
};

/// Writes one array in C order. std::invalid_argument for a type that NumPy has no name for.
inline void write_npy(const std::string& path, const tensor_source& array) {
  const char* const descr = array.type == number_type::f32    ? "<f4"
                            : array.type == number_type::f16  ? "<f2"
                            : array.type == number_type::bf16 ? "<V2"
                            : array.type == number_type::u8   ? "|u1"
                            : array.type == number_type::i8   ? "|i1"
                                                              : nullptr;
  ufp4::detail::expects(descr != nullptr, "write_npy: the array is not of float32, float16, bfloat16, uint8 or int8");
  ufp4::detail::expects(byte_count(array.type, array.shape).has_value(), "write_npy: ", shape_text(array.shape),
                        " values are more bytes than 64 bits can count");
  std::string shape;
  for (const std::uint64_t extent : array.shape)
    shape += std::to_string(extent) + (array.shape.size() == 1 ? "," : ", ");
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  std::string text = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';  // NumPy's alignment of the data, for mapping it
  text += '\n';
  ufp4::detail::expects(text.size() < 65536, "write_npy: ", array.shape.size(), " dimensions do not fit a header");
  output_file file(path);
  file.write(std::string_view("\x93NUMPY\x01\x00", 8));
  file.write_number(static_cast<std::uint16_t>(text.size()));
  file.write(text);
  file.write("the array", array);
  file.finish();
}

/// The packed codes of a quantized matrix as bytes, rows x padded_cols() / 2, even columns low.
template <quantized Q>
tensor_source codes_of(const Q& q) {
  const quantized_view<typename Q::format> view = q;
  return source_of(number_type::u8, {q.rows(), q.padded_cols() / 2}, view.codes().data());
}

}  // namespace ufp4::interop::inline UFP4_CODE
