// ufp4 - reads a matrix from a NumPy .npy file.
// SPDX-License-Identifier: Apache-2.0
/// Format versions 1.0, 2.0 and 3.0; '<f4', '<f2' and, for bfloat16, the two bytes '<V2' or '|V2' that NumPy writes for
/// ml_dtypes.bfloat16; C and Fortran order. Anything else is an input_error. Safe on arbitrary bytes.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stored_matrix.hpp"

namespace compare {

namespace detail {

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

inline dtype npy_dtype(const input_file& file, const std::string& descr) {
  if (descr == "<f4") return dtype::float32;
  if (descr == "<f2") return dtype::float16;
  if (descr == "<V2" || descr == "|V2") return dtype::bfloat16;
  const std::string shown = "'" + printable(descr) + "'";
  if (descr.starts_with('>')) file.fail("is big-endian (" + shown + "); save it in little-endian order, as '<f4'");
  file.fail("holds values of type " + shown + "; compare reads float32 ('<f4'), float16 ('<f2') and bfloat16 ('<V2')");
}

/// Place and meaning of the matrix in `file`, every size checked.
inline stored_matrix find_npy(input_file& file) {
  constexpr std::string_view magic = "\x93NUMPY";
  char begin[6] = {};
  if (file.size() >= sizeof begin) file.read(0, begin, sizeof begin);
  if (std::string_view(begin, sizeof begin) != magic)
    file.fail("is not a .npy file: it does not begin with \\x93NUMPY");
  if (file.size() < 10) file.fail("ends inside the .npy header");
  const std::uint64_t version = file.read_number(6, 1);
  if (version < 1 || version > 3) file.fail("has .npy version " + std::to_string(version) + "; compare reads 1 to 3");

  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::uint64_t text_begin = 8 + length_bytes;
  if (file.size() < text_begin) file.fail("ends inside the .npy header");
  const std::uint64_t length = file.read_number(8, length_bytes);
  if (length > file.size() - text_begin)
    file.fail("says its header is " + std::to_string(length) + " bytes long, but only " +
              std::to_string(file.size() - text_begin) + " bytes follow");
  constexpr std::uint64_t longest = 1 << 20;  // NumPy itself stops at 10,000 for untrusted files
  if (length > longest) file.fail("has a header of " + std::to_string(length) + " bytes, which no matrix needs");

  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(text_begin, text.data(), text.size());
  npy_header header;
  if (!npy_header_parser(text).parse(header)) {
    file.fail("has a header that is not NumPy's dictionary of one plain descr, fortran_order and shape: " +
              printable(text.substr(0, text.find_last_not_of(" \n") + 1)));
  }

  stored_matrix found{.type = npy_dtype(file, *header.descr), .offset = text_begin + length};
  const auto& shape = *header.shape;
  if (shape.size() != 2)
    file.fail("holds an array of " + std::to_string(shape.size()) + " dimension" + (shape.size() == 1 ? "" : "s") +
              "; compare takes a matrix, which has 2");
  found.rows = shape[0];
  found.cols = shape[1];
  found.column_major = *header.fortran_order;
  const std::string size = std::to_string(found.rows) + " x " + std::to_string(found.cols) + " " + name_of(found.type);
  if (found.rows == 0 || found.cols == 0) file.fail("holds an empty matrix: " + size);
  const auto bytes = byte_count(found.rows, found.cols, found.type);
  if (!bytes) file.fail("says it holds " + size + " values, more bytes than 64 bits can count");
  if (*bytes != file.size() - found.offset)
    file.fail("says it holds " + size + " values, which are " + std::to_string(*bytes) + " bytes, but " +
              std::to_string(file.size() - found.offset) + " bytes follow the header");
  return found;
}

}  // namespace detail

/// The matrix of the .npy file at `path`, at most `row_limit` rows of it (0: all).
inline matrix read_npy(const std::string& path, std::size_t row_limit) {
  input_file file(path);
  return load(file, detail::find_npy(file), row_limit, file.name());
}

}  // namespace compare
