// ufp4 - reading and writing NumPy's .npy files: arrays of float32, float16, bfloat16, int8 and uint8.
// SPDX-License-Identifier: Apache-2.0
/// \x93NUMPY, the version as two bytes, the length of the header in 2 bytes (4 from version 2.0 on), the header, the
/// data. The header is a Python dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and spaces.
///
/// descr: '<f4', '<f2', '|u1', '|i1', and '<V2' or '|V2', which NumPy writes for ml_dtypes.bfloat16 (read it back with
/// array.view). Fortran order is read in up to two dimensions; C order is written. Source: NumPy, numpy.lib.format.
#pragma once

#include <ufp4/interop/json_cursor.hpp>
#include <ufp4/interop/output_file.hpp>
#include <ufp4/interop/tensor_file.hpp>
#include <ufp4/matrix/any_quantized.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// A type of elements and NumPy's name of it.
struct npy_type {
  number_type type;        ///< of the elements
  std::string_view descr;  ///< as NumPy writes it
};
/// The types that are read; of two names for one the first is written.
inline constexpr npy_type npy_types[] = {{number_type::f32, "<f4"},  {number_type::f16, "<f2"},
                                         {number_type::bf16, "<V2"}, {number_type::bf16, "|V2"},
                                         {number_type::u8, "|u1"},   {number_type::i8, "|i1"}};

/// The header's Python dictionary: exactly these keys, in any order.
struct npy_header {
  std::optional<std::string> descr;                 ///< the element type, as NumPy writes it
  std::optional<bool> fortran_order;                ///< column-major
  std::optional<std::vector<std::uint64_t>> shape;  ///< the extents
};

/// A string in either kind of quotes.
inline bool parse_npy_string(json_cursor& in, std::string& out) {
  const char quote = in.at('\'') ? '\'' : '"';
  return in.take(quote) && in.until(quote, out);
}

/// The value of one key, which must be new.
inline bool parse_npy_value(json_cursor& in, const std::string& key, npy_header& header) {
  if (key == "descr" && !header.descr) return parse_npy_string(in, header.descr.emplace());
  if (key == "fortran_order" && !header.fortran_order) {
    header.fortran_order = in.take_word("True");
    return *header.fortran_order || in.take_word("False");
  }
  if (key != "shape" || header.shape || !in.take('(')) return false;
  header.shape.emplace();
  while (!in.take(')')) {
    if (!in.unsigned_number(header.shape->emplace_back())) return false;
    in.take('L');  // the suffix of long integers in Python 2
    if (!in.take(',') && !in.at(')')) return false;
  }
  return true;
}

/// The dictionary of a header's text; nothing where it is not one. Python's literals are close to JSON's.
inline std::optional<npy_header> parse_npy_header(std::string_view text) {
  npy_header header;
  json_cursor in(text);
  if (!in.take('{')) return {};
  while (!in.take('}')) {
    std::string key;
    if (!parse_npy_string(in, key) || !in.take(':') || !parse_npy_value(in, key, header)) return {};
    if (!in.take(',') && !in.at('}')) return {};
  }
  if (!in.at_end() || !header.descr || !header.fortran_order || !header.shape) return {};
  return header;
}

/// A file of one array, whose name is empty. Reads the header in the constructor, the data when asked for.
class npy_reader : public tensor_file {
 public:
  /// Opens a file and reads its header. Throws file_error if it is not valid .npy.
  explicit npy_reader(const std::string& path) : tensor_file(path) {
    constexpr std::string_view magic = "\x93NUMPY";
    char begin[6] = {};
    if (file_.size() >= sizeof begin) file_.read(0, begin, sizeof begin);
    if (std::string_view(begin, sizeof begin) != magic) fail("is not a .npy file: it does not begin with \\x93NUMPY");
    if (file_.size() < 10) fail("ends inside the .npy header");
    const std::uint64_t version = file_.read_number(6, 1);
    if (version < 1 || version > 3) fail("has .npy version ", version, "; 1 to 3 can be read");
    const std::size_t length_bytes = version == 1 ? 2 : 4;
    const std::uint64_t text_begin = 8 + length_bytes;
    if (file_.size() < text_begin) fail("ends inside the .npy header");
    const std::uint64_t length = file_.read_number(8, length_bytes);
    constexpr std::uint64_t longest = 1 << 20;  // NumPy's own limit for untrusted files is 10,000
    place(parsed(header_text(text_begin, length, longest, "1048576 are read")), text_begin + length);
  }

  const stored_tensor& array() const& { return tensors_.front(); }  ///< the array
  stored_tensor array() const&& { return tensors_.front(); }        ///< the same

 private:
  npy_header parsed(std::string_view text) const {
    const auto header = parse_npy_header(text);
    if (!header)
      fail("invalid header: not NumPy's dictionary of one plain descr, fortran_order and shape: " +
           printable(text.substr(0, text.find_last_not_of(" \n") + 1)));
    return *header;
  }

  number_type type_of(const std::string& descr) const {
    if (const auto* const known = find_entry(npy_types, &npy_type::descr, descr)) return known->type;
    const std::string shown = "'" + printable(descr) + "'";
    if (descr.starts_with('>'))
      fail("is big-endian (", shown, "); save it in little-endian order, as '", descr == ">f2" ? "<f2" : "<f4", "'");
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
           " in Fortran order, which is read in up to two dimensions; np.ascontiguousarray makes it C order");
    t.column_major = *header.fortran_order && t.shape.size() == 2;
    t.offset = data_begin;
    t.bytes = file_.size() - data_begin;
    check_size(t, "size mismatch: " + shape_text(t.shape) + " values of type '" + t.type_name + "'", "",
               " bytes follow the header");
    tensors_.push_back(std::move(t));
  }
};

/// Writes one array in C order. std::invalid_argument for other types than those above.
inline void write_npy(const std::string& path, const tensor_source& array) {
  const auto* const known = find_entry(npy_types, &npy_type::type, array.type);
  expects(known != nullptr, "write_npy: unsupported type: the array is not of float32, float16, ",
          "bfloat16, uint8 or int8");
  expects(byte_count(array.type, array.shape).has_value(), "write_npy: array too large: ", shape_text(array.shape),
          " values are more bytes than 64 bits can count");
  std::string shape;
  for (const std::uint64_t extent : array.shape)
    shape += std::to_string(extent) + (array.shape.size() == 1 ? "," : ", ");
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  std::string text =
      "{'descr': '" + std::string(known->descr) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';  // NumPy aligns the data to 64 bytes
  text += '\n';
  expects(text.size() < 65536, "write_npy: too many dimensions for a header: ", array.shape.size());
  output_file file(path);
  file.write(std::string_view("\x93NUMPY\x01\x00", 8));
  file.write_number(static_cast<std::uint16_t>(text.size()));
  file.write(text);
  file.write("the array", array);
  file.finish();
}

/// The codes of a quantized matrix: uint8 [rows, padded_cols() / 2], the even column in the low nibble; of elements of
/// one byte [rows, padded_cols()], int8 or, of floats, uint8.
inline tensor_source codes_of(const any_quantized_view& q) {
  return source_of(q.spec().byte == ufp4::detail::byte_element::int8 ? number_type::i8 : number_type::u8,
                   {q.rows(), ufp4::detail::code_bytes(q.spec(), q.padded_cols())}, q.codes().data());
}

}  // namespace ufp4::interop::inline UFP4_CODE
