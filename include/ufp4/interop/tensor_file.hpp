// ufp4 - what files of tensors have in common: where a tensor lies, reading it by rows, writing it piece by piece.
// SPDX-License-Identifier: Apache-2.0
/// A reader parses a header and knows where each tensor lies; data are read when they are asked for, so one tensor of a
/// file that is larger than memory costs its own rows. A writer is told of tensors first and asks for their bytes as it
/// writes.
///
/// | byte order | little-endian, in the file and on the machine                                                    |
/// | input      | arbitrary bytes: every size is checked against the file before anything is allocated or read     |
/// | failure    | file_error: one message that names the file; what a file says is shown as printable text        |
/// | output     | goes to a new file beside PATH, PATH.tmp or PATH.tmp-1 ..., which becomes PATH when it is whole;  |
/// |            | after a failure it is gone and PATH what it was. A PATH that is a link stays one, and the file it |
/// |            | names is replaced; a file that is replaced passes on its permissions; only regular files are      |
#pragma once

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <ufp4/detail/compiler.hpp>
#include <ufp4/detail/expects.hpp>
#include <ufp4/format/scales.hpp>
#include <ufp4/interop/text.hpp>
#include <ufp4/matrix/matrix_view.hpp>
#include <utility>
#include <vector>

static_assert(std::endian::native == std::endian::little,
              "ufp4: tensor files are little-endian and copied as they are");

namespace ufp4::interop::inline UFP4_TYPES {

/// A file that cannot be read, does not hold what it should, or cannot be written.
struct file_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What one stored number is; `other` for anything not listed. The last two are ggml's blocks, of 32 and 64 elements.
enum class number_type : std::uint8_t { f32, f16, bf16, f8_e4m3, f8_e8m0, u8, i8, f64, i64, i32, mxfp4, nvfp4, other };

/// Where a tensor lies in a file.
struct stored_tensor {
  std::string name;
  std::string type_name;  ///< as the file spells it
  number_type type = number_type::other;
  bool column_major = false;         ///< of a matrix: NumPy's Fortran order
  std::vector<std::uint64_t> shape;  ///< the last is the one whose elements lie side by side
  std::uint64_t offset = 0;          ///< of the first byte, from the start of the file
  std::uint64_t bytes = 0;
};

/// Takes the next bytes of a tensor.
using byte_sink = std::function<void(const void*, std::size_t)>;
/// Writes all bytes of a tensor into a sink, in as many pieces as it likes.
using byte_source = std::function<void(const byte_sink&)>;

/// A tensor to be written: `write` is called once, when the file gets to it.
struct tensor_source {
  number_type type = number_type::other;
  std::vector<std::uint64_t> shape;
  byte_source write;
};

}  // namespace ufp4::interop::inline UFP4_TYPES

namespace ufp4::interop::inline UFP4_CODE {

/// Throws file_error; without exceptions prints the message and aborts.
[[noreturn]] inline void fail_file(const std::string& path, const std::string& what) {
  const std::string text = printable(path) + ": " + what;
#if defined(UFP4_NO_EXCEPTIONS)
  std::fprintf(stderr, "%s\n", text.c_str());
  std::abort();
#else
  throw file_error(text);
#endif
}

/// ": No space left on device": why a call failed, as errno says it; empty for 0.
inline std::string cause_text(int error) { return error == 0 ? "" : ": " + std::string(std::strerror(error)); }

/// The bytes of `elements` numbers, or nothing where the type has no size here or 64 bits do not hold the count.
inline std::optional<std::uint64_t> byte_count(number_type type, const std::vector<std::uint64_t>& shape) {
  constexpr std::uint64_t bytes[] = {4, 2, 2, 1, 1, 1, 1, 8, 8, 4, 17, 36, 0};
  constexpr std::uint64_t elements[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 32, 64, 1};
  const auto which = static_cast<std::size_t>(type);
  std::uint64_t count = bytes[which];
  if (count == 0) return {};
  for (const std::uint64_t extent : shape)
    if (extent == 0) return 0;
  if (!shape.empty() && shape.back() % elements[which] != 0) return {};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::uint64_t extent = i + 1 == shape.size() ? shape[i] / elements[which] : shape[i];
    if (count > (std::numeric_limits<std::uint64_t>::max)() / extent) return {};
    count *= extent;
  }
  return count;
}

/// "2 x 3", or "no shape".
inline std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const std::uint64_t extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text.empty() ? "no shape" : text;
}

/// A matrix in Fortran order is its transpose in C order: the same bytes, described the other way.
inline stored_tensor transpose(stored_tensor t) {
  ufp4::detail::expects(t.shape.size() == 2, "transpose: the tensor has ", t.shape.size(), " dimensions, not 2");
  std::swap(t.shape[0], t.shape[1]);
  t.column_major = !t.column_major;
  return t;
}

/// A regular file of known size that is read at given places.
class input_file {
 public:
  explicit input_file(const std::string& path) : path_(path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (std::filesystem::is_directory(status)) fail("is a directory, not a file");
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) fail("is not a regular file");
    errno = 0;
    stream_.open(path, std::ios::binary);
    if (!stream_) fail("cannot be opened: " + std::string(std::strerror(errno == 0 ? ENOENT : errno)));
    size_ = std::filesystem::file_size(path, error);
    if (error) fail("cannot be measured: " + error.message());
    if (size_ == 0) fail("is empty (0 bytes)");
  }

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }

  void read(std::uint64_t offset, void* to, std::size_t count) {
    if (count == 0) return;
    if (offset > size_ || count > size_ - offset)
      fail("ends before byte " + std::to_string(offset) + " and what follows");
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(offset));
    stream_.read(static_cast<char*>(to), static_cast<std::streamsize>(count));
    if (!stream_) fail("could not be read at byte " + std::to_string(offset));
  }

  /// An unsigned little-endian number of `bytes` bytes at `offset`.
  std::uint64_t read_number(std::uint64_t offset, std::size_t bytes) {
    std::uint64_t value = 0;
    read(offset, &value, bytes);
    return value;
  }

  [[noreturn]] void fail(const std::string& what) const { fail_file(path_, what); }

 private:
  std::string path_;
  std::ifstream stream_;
  std::uint64_t size_ = 0;
};

/// A new file that is removed again unless it is given another name.
class temporary_file {
 public:
  /// Of a name that nothing has yet: what others have there, or write at the same time, stays whole.
  explicit temporary_file(const std::string& beside) {
    constexpr int most = 1000;
    for (int i = 0; i < most && path_.empty(); ++i) {
      const std::string name = beside + ".tmp" + (i == 0 ? "" : "-" + std::to_string(i));
      errno = 0;
      if (std::FILE* const made = std::fopen(name.c_str(), "wbx")) {
        std::fclose(made);
        path_ = name;
      } else if (errno != EEXIST || i + 1 == most) {
        fail_file(beside, "cannot be opened for writing: " + std::string(std::strerror(errno == 0 ? EIO : errno)));
      }
    }
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::error_code rename(const std::string& to) {
    std::error_code error;
    std::filesystem::rename(path_, to, error);
    if (!error) path_.clear();
    return error;
  }

 private:
  std::string path_;
};

/// What a path names once its links are followed, whether that is there or not. file_error where they do not end.
inline std::filesystem::path end_of_links(const std::string& path) {
  std::error_code error;
  std::filesystem::path target(path);
  for (int links = 0; std::filesystem::is_symlink(target, error); ++links) {
    if (links == 40) fail_file(path, "is a link to a link, and so on without end");  // as Linux counts
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
  }
  return target;
}

/// A file that appears whole or not at all.
class output_file {
 public:
  explicit output_file(const std::string& path) : path_(path), target_(checked(path)), temporary_(target_) {
    keep_permissions();
    errno = 0;
    stream_.open(temporary_.path(), std::ios::binary | std::ios::trunc);
    if (!stream_) fail("cannot be opened for writing: " + std::string(std::strerror(errno == 0 ? EIO : errno)));
  }

  void write(const void* data, std::size_t count) {
    errno = 0;
    stream_.write(static_cast<const char*>(data), static_cast<std::streamsize>(count));
    if (!stream_) fail("could not be written to its end" + cause_text(errno));
    written_ += count;
  }
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// At a place of its own, before or beyond what has been written; write() goes on behind it. What lies between places
  /// is undefined until it is written.
  void write_at(std::uint64_t offset, const void* data, std::size_t count) {
    errno = 0;
    stream_.seekp(static_cast<std::streamoff>(offset));  // which writes what waits for a place before
    if (!stream_) fail("could not be written to its end" + cause_text(errno));
    write(data, count);
  }
  template <class Number>
  void write_number(Number value) {
    static_assert(std::is_arithmetic_v<Number>);
    write(&value, sizeof value);
  }
  void pad(std::uint64_t alignment) {
    while (written_ % alignment != 0) write("\0", 1);
  }

  /// All bytes of a tensor, which must be as many as its type and shape say.
  void write(const std::string& name, const tensor_source& tensor) {
    write(name, byte_count(tensor.type, tensor.shape).value(), tensor.write);
  }
  /// All of them, `asked` in number.
  void write(const std::string& name, std::uint64_t asked, const byte_source& bytes) {
    const std::uint64_t before = written_;
    bytes([&](const void* data, std::size_t count) {
      if (count > asked - (written_ - before)) fail("got more than the " + std::to_string(asked) + " bytes of " + name);
      write(data, count);
    });
    if (written_ - before != asked)
      fail("got " + std::to_string(written_ - before) + " bytes of " + name + ", which has " + std::to_string(asked));
  }

  void finish() {
    errno = 0;
    stream_.flush();
    if (stream_) stream_.close();  // where some file systems tell that the bytes did not arrive
    if (!stream_) fail("could not be written to its end" + cause_text(errno));
    const std::error_code error = temporary_.rename(target_);
    if (error) fail("cannot be replaced: " + error.message());
  }

  /// How many bytes have been given to write() and write_at().
  std::uint64_t written() const { return written_; }
  [[noreturn]] void fail(const std::string& what) const { fail_file(path_, what); }

 private:
  /// The name that is to be replaced: at the end of the links.
  static std::string checked(const std::string& path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (std::filesystem::is_directory(status)) fail_file(path, "is a directory, not a file to be replaced");
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
      fail_file(path, "is not a regular file, so it cannot be replaced by one");
    return end_of_links(path).string();
  }

  void keep_permissions() const {
    std::error_code error;
    const auto before = std::filesystem::status(target_, error);
    if (!std::filesystem::exists(before)) return;
    if (before.permissions() == std::filesystem::status(temporary_.path(), error).permissions()) return;
    std::filesystem::permissions(temporary_.path(), before.permissions(), error);
    if (error) fail("has permissions that a new file cannot have: " + error.message());
  }

  std::string path_, target_;
  temporary_file temporary_;  // before the stream, which is closed first
  std::ofstream stream_;
  std::uint64_t written_ = 0;
};

/// A stored number as binary32, exactly; `other` and wider integers are not asked for.
inline float decode_number(number_type type, const unsigned char* at) {
  std::uint16_t half = 0;
  float single = 0;
  switch (type) {
    case number_type::f32: std::memcpy(&single, at, 4); return single;
    case number_type::f16: std::memcpy(&half, at, 2); return static_cast<float>(fp16::from_bits(half));
    case number_type::bf16: std::memcpy(&half, at, 2); return static_cast<float>(bf16::from_bits(half));
    case number_type::f8_e4m3: return static_cast<float>(e4m3::from_bits(*at));
    case number_type::f8_e8m0: return static_cast<float>(e8m0::from_bits(*at));
    case number_type::u8: return static_cast<float>(*at);
    case number_type::i8: return static_cast<float>(static_cast<signed char>(*at));
    default: return 0;
  }
}

/// Is it one number an element that binary32 holds exactly?
constexpr bool is_plain_number(number_type type) { return type <= number_type::i8; }

/// A file whose header has been read: what the readers of all formats share.
class tensor_file {
 public:
  const std::string& path() const { return file_.path(); }
  /// In order of their names.
  const std::vector<stored_tensor>& tensors() const { return tensors_; }

  const stored_tensor* find(std::string_view name) const {
    const auto found =
        std::lower_bound(tensors_.begin(), tensors_.end(), name,
                         [](const stored_tensor& t, std::string_view wanted) { return t.name < wanted; });
    return found != tensors_.end() && found->name == name ? &*found : nullptr;
  }
  /// A tensor that must be there; the message lists those that are.
  const stored_tensor& at(std::string_view name) const {
    const stored_tensor* found = find(name);
    if (found == nullptr) fail("has no tensor named " + printable(name) + "; it has " + names());
    return *found;
  }

  /// "a, b, c and 4 more": what may be asked for instead.
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
    ufp4::detail::expects(first <= t.bytes && count <= t.bytes - first, "read_bytes: bytes ", first, " to ",
                          first + count, ", but tensor ", printable(t.name), " has ", t.bytes);
    file_.read(t.offset + first, to, count);
  }

  /// Rows first .. first + out.rows() - 1 of a matrix of plain numbers, as float, bf16 or fp16 (rounded once, to
  /// nearest).
  /// A matrix in Fortran order is read column by column: transpose(t) gives its columns without seeking.
  template <matrix_scalar T>
  void read_rows(const stored_tensor& t, std::uint64_t first, const matrix_view<T>& out) {
    check_matrix(t);
    ufp4::detail::expects(out.cols() == t.shape[1], "read_rows: out has ", out.cols(), " columns, but tensor ",
                          printable(t.name), " has ", t.shape[1]);
    ufp4::detail::expects(first <= t.shape[0] && out.rows() <= t.shape[0] - first, "read_rows: rows ", first, " to ",
                          first + out.rows(), ", but tensor ", printable(t.name), " has ", t.shape[0]);
    if (t.column_major)
      read_runs(transpose_view(out), t, t.shape[0], first);
    else
      read_runs(out, t, t.shape[1], first * t.shape[1]);
  }

  /// Rejects what is not a matrix of plain numbers with at least one element.
  void check_matrix(const stored_tensor& t) const {
    const std::string label = t.name.empty() ? "the array" : "tensor " + printable(t.name);
    if (!is_plain_number(t.type))
      fail(label + " has type " + printable(t.type_name) +
           "; F32, F16, BF16, F8_E4M3, F8_E8M0, U8 and I8 can be read as numbers");
    if (t.shape.size() != 2)
      fail(label + " has " + std::to_string(t.shape.size()) + " dimension" + (t.shape.size() == 1 ? "" : "s") + " (" +
           shape_text(t.shape) + "); a matrix has 2");
    if (t.shape[0] == 0 || t.shape[1] == 0) fail(label + " is an empty matrix: " + shape_text(t.shape));
  }

  [[noreturn]] void fail(const std::string& what) const { file_.fail(what); }

 protected:
  explicit tensor_file(const std::string& path) : file_(path) {}

  template <class T>
  static matrix_view<T> transpose_view(const matrix_view<T>& x) {
    return ufp4::transpose(x);
  }

  /// Row i of out from the elements at begin + i * stride of the tensor.
  template <class T>
  void read_runs(const matrix_view<T>& out, const stored_tensor& t, std::uint64_t stride, std::uint64_t begin) {
    const std::uint64_t width = byte_count(t.type, {}).value();
    buffer_.resize(out.cols() * static_cast<std::size_t>(width));
    for (std::size_t i = 0; i < out.rows(); ++i) {
      read_bytes(t, (begin + i * stride) * width, buffer_.data(), buffer_.size());
      for (std::size_t k = 0; k < out.cols(); ++k) {
        const float value = decode_number(t.type, buffer_.data() + k * static_cast<std::size_t>(width));
        if constexpr (std::is_same_v<T, float>)
          out(i, k) = value;
        else
          out(i, k) = round_to<T>(value);
      }
    }
  }

  input_file file_;
  std::vector<stored_tensor> tensors_;
  std::vector<unsigned char> buffer_;
};

/// A matrix in memory as something to write: float, bf16 or fp16, row-major in the file whatever its strides are. The
/// memory must stay until the file is written.
template <matrix_scalar T>
tensor_source source_of(const matrix_view<T>& x) {
  constexpr dtype kind = matrix_element<std::remove_const_t<T>>::kind;
  return {kind == dtype::f32    ? number_type::f32
          : kind == dtype::bf16 ? number_type::bf16
                                : number_type::f16,
          {x.rows(), x.cols()},
          [x](const byte_sink& sink) {
            std::vector<std::remove_const_t<T>> row(x.cols());
            for (std::size_t i = 0; i < x.rows(); ++i) {
              for (std::size_t k = 0; k < x.cols(); ++k) row[k] = x(i, k);
              sink(row.data(), row.size() * sizeof(T));
            }
          }};
}

/// Bytes in memory as a tensor of that type and shape. The memory must stay until the file is written.
inline tensor_source source_of(number_type type, std::vector<std::uint64_t> shape, const void* data) {
  const auto bytes = byte_count(type, shape);
  ufp4::detail::expects(bytes.has_value(), "source_of: ", shape_text(shape),
                        " elements of this type have no byte count");
  const auto count = static_cast<std::size_t>(*bytes);
  return {type, std::move(shape), [data, count](const byte_sink& sink) { sink(data, count); }};
}

}  // namespace ufp4::interop::inline UFP4_CODE
