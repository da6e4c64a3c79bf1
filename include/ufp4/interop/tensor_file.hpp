// ufp4 - the common part of all readers: tensors by name, their bytes, rows of matrices.
// SPDX-License-Identifier: Apache-2.0
/// A reader parses the header in its constructor; data are read when asked for, so a file may be larger than memory.
/// Input is untrusted: every size is checked against the file before memory is allocated or data are read. Errors of a
/// file are file_error (input_file.hpp), errors of a call std::invalid_argument.
#pragma once

#include <ufp4/interop/input_file.hpp>
#include <ufp4/interop/stored_tensor.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// A file whose header has been read. Members that return a reference to a part of it return a copy for a temporary.
class tensor_file {
 public:
  const std::string& path() const& { return file_.path(); }                ///< as it was given to the constructor
  std::string path() const&& { return file_.path(); }                      ///< the same
  const std::vector<stored_tensor>& tensors() const& { return tensors_; }  ///< sorted by name
  std::vector<stored_tensor> tensors() const&& { return tensors_; }        ///< the same

  /// The tensor of that name, or nullptr.
  const stored_tensor* find(std::string_view name) const& {
    const auto found =
        std::lower_bound(tensors_.begin(), tensors_.end(), name,
                         [](const stored_tensor& t, std::string_view wanted) { return t.name < wanted; });
    return found != tensors_.end() && found->name == name ? &*found : nullptr;
  }
  const stored_tensor* find(std::string_view name) const&& = delete;  ///< the tensor ends with its statement
  /// The tensor of that name; file_error, which lists the names of the file, if there is none.
  const stored_tensor& at(std::string_view name) const& {
    const stored_tensor* found = find(name);
    if (found == nullptr) fail("has no tensor named " + printable(name) + "; it has " + names());
    return *found;
  }
  stored_tensor at(std::string_view name) const&& { return at(name); }  ///< the same

  /// For messages: "a, b, c and 4 more", or "none".
  std::string names() const {
    constexpr std::size_t shown = 12;
    std::string text;
    for (std::size_t i = 0; i < tensors_.size() && i < shown; ++i)
      text += (i != 0 ? ", " : "") + printable(tensors_[i].name);
    if (tensors_.size() > shown) text += " and " + std::to_string(tensors_.size() - shown) + " more";
    return text.empty() ? "none" : text;
  }

  /// Bytes first .. first + count - 1 of a tensor.
  void read_bytes(const stored_tensor& t, std::uint64_t first, void* to, std::size_t count) {
    expects(first <= t.bytes && count <= t.bytes - first, "read_bytes: range out of bounds: bytes ", first, " to ",
            first + count, ", but tensor ", printable(t.name), " has ", t.bytes);
    file_.read(t.offset + first, to, count);
  }

  /// Rows first .. first + out.rows() - 1 of a matrix of plain numbers, rounded once, to nearest. file_error as
  /// check_matrix. A matrix in Fortran order is read by columns; rows of transpose(t), its columns, need no seeking.
  template <ufp4::detail::matrix_scalar T>
  void read_rows(const stored_tensor& t, std::uint64_t first, const matrix_view<T>& out) {
    check_matrix(t);
    expects(out.cols() == t.shape[1], "read_rows: shape mismatch: out has ", out.cols(), " columns, but tensor ",
            printable(t.name), " has ", t.shape[1]);
    expects(first <= t.shape[0] && out.rows() <= t.shape[0] - first, "read_rows: range out of bounds: rows ", first,
            " to ", first + out.rows(), ", but tensor ", printable(t.name), " has ", t.shape[0]);
    ufp4::detail::check_output("read_rows", "out", out);
    if (t.column_major)
      read_runs(ufp4::transpose(out), t, t.shape[0], first);
    else
      read_runs(out, t, t.shape[1], first * t.shape[1]);
  }

  /// file_error unless the tensor is a matrix of plain numbers with at least one element.
  void check_matrix(const stored_tensor& t) const {
    const std::string label = t.name.empty() ? "the array" : "tensor " + printable(t.name);
    if (!is_plain_number(t.type))
      fail(label, " has type ", printable(t.type_name),
           "; F32, F16, BF16, F8_E4M3, F8_E8M0, U8 and I8 can be read as numbers");
    if (t.shape.size() != 2)
      fail(label, " has ", t.shape.size(), t.shape.size() == 1 ? " dimension (" : " dimensions (", shape_text(t.shape),
           "); a matrix has 2");
    if (t.shape[0] == 0 || t.shape[1] == 0) fail(label + " is an empty matrix: " + shape_text(t.shape));
  }

  /// A file_error about this file, of words and numbers.
  [[noreturn]] void fail(const auto&... what) const { file_.fail(what...); }

 protected:
  explicit tensor_file(const std::string& path) : file_(path) {}  ///< Opens the file.

  /// Sorts tensors_ by name, as find() needs it; file_error if two have the same name.
  void sort_tensors() {
    std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(tensors_.begin(), tensors_.end(),
                                          [](const auto& a, const auto& b) { return a.name == b.name; });
    if (twice != tensors_.end()) fail("two tensors have the name " + printable(twice->name));
  }

  /// The text of a header of `length` bytes at `begin`; file_error if the file has fewer, or more than `longest`.
  std::string header_text(std::uint64_t begin, std::uint64_t length, std::uint64_t longest, const char* limit) {
    if (length > file_.size() - begin)
      fail("header cut off: its length is ", length, " bytes, but only ", file_.size() - begin, " bytes follow");
    if (length > longest) fail("header too long: ", length, " bytes; ", limit);
    std::string text(static_cast<std::size_t>(length), '\0');
    file_.read(begin, text.data(), text.size());
    return text;
  }

  /// file_error unless a tensor's shape and type take t.bytes bytes. `values`: the beginning of the message.
  void check_size(const stored_tensor& t, const std::string& values, const char* before, const char* after) const {
    const auto bytes = byte_count(t.type, t.shape);
    const bool counted = t.type == number_type::f4 && byte_count(1, 1, t.shape).has_value();
    if (!bytes) fail(values, counted ? " are not a whole number of bytes" : " are more bytes than 64 bits can count");
    if (*bytes != t.bytes) fail(values, " are ", *bytes, " bytes, but ", before, t.bytes, after);
  }

  input_file file_;                     ///< the file
  std::vector<stored_tensor> tensors_;  ///< filled by the derived reader

 private:
  /// Row i of out from the elements at begin + i * stride of the tensor.
  template <class T>
  void read_runs(const matrix_view<T>& out, const stored_tensor& t, std::uint64_t stride, std::uint64_t begin) {
    const std::uint64_t width = byte_count(t.type, {}).value();
    buffer_.resize(out.cols() * static_cast<std::size_t>(width));
    for (std::size_t i = 0; i < out.rows(); ++i) {
      read_bytes(t, (begin + i * stride) * width, buffer_.data(), buffer_.size());
      for (std::size_t k = 0; k < out.cols(); ++k)
        out(i, k) =
            ufp4::detail::round_to<T>(decode_number(t.type, buffer_.data() + k * static_cast<std::size_t>(width)));
    }
  }

  std::vector<unsigned char> buffer_;  ///< for conversions
};

}  // namespace ufp4::interop::inline UFP4_CODE
