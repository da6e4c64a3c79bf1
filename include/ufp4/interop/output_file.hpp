// ufp4 - a file that appears under its name only when it is complete.
// SPDX-License-Identifier: Apache-2.0
/// Bytes go to a new file beside PATH (PATH.tmp, PATH.tmp-1, ...): finish() renames it to PATH, a failure removes it.
///
/// | PATH is      | then                                                                                            |
/// |--------------|-------------------------------------------------------------------------------------------------|
/// | a link       | it stays a link; the file that it names is replaced                                             |
/// | a file       | the new file gets its permissions                                                               |
/// | another kind | file_error: only regular files are replaced                                                     |
#pragma once

#include <ufp4/interop/input_file.hpp>
#include <ufp4/interop/stored_tensor.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// The path behind all links, whether a file exists there or not. file_error if the links form a cycle.
inline std::filesystem::path end_of_links(const std::string& path) {
  std::error_code error;
  std::filesystem::path target(path);
  for (int links = 0; std::filesystem::is_symlink(target, error); ++links) {
    if (links == 40) fail_file(path, "too many links: more than 40 in a row");  // Linux's limit
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
  }
  return target;
}

/// A new file that the destructor removes unless it has been renamed.
class temporary_file {
 public:
  /// Creates BESIDE.tmp or, where files of such names exist, BESIDE.tmp-1, BESIDE.tmp-2, ...
  explicit temporary_file(const std::string& beside) {
    constexpr int most = 1000;
    for (int i = 0; i < most && path_.empty(); ++i) {
      const std::string name = i == 0 ? beside + ".tmp" : beside + ".tmp-" + std::to_string(i);
      errno = 0;
      if (std::FILE* const made = std::fopen(name.c_str(), "wbx")) {
        std::fclose(made);
        path_ = name;
      } else if (errno != EEXIST || i + 1 == most) {
        fail_file(beside, "cannot be opened for writing" + cause_text(errno == 0 ? EIO : errno));
      }
    }
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
  }

  const std::string& path() const { return path_; }  ///< empty after rename()
  /// Replaces the file `to`, if there is one.
  std::error_code rename(const std::string& to) {
    std::error_code error;
    std::filesystem::rename(path_, to, error);
    if (!error) path_.clear();
    return error;
  }

 private:
  std::string path_;
};

/// The file that a writer writes.
class output_file {
 public:
  /// Creates the temporary file beside `path`. Throws file_error if it cannot.
  explicit output_file(const std::string& path) : path_(path), target_(checked(path)), temporary_(target_) {
    keep_permissions();
    errno = 0;
    stream_.open(temporary_.path(), std::ios::binary | std::ios::trunc);
    if (!stream_) fail("cannot be opened for writing" + cause_text(errno == 0 ? EIO : errno));
  }

  /// Behind what was written last.
  void write(const void* data, std::size_t count) {
    errno = 0;
    stream_.write(static_cast<const char*>(data), static_cast<std::streamsize>(count));
    if (!stream_) fail("could not be written to its end" + cause_text(errno));
    written_ += count;
  }
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// At any offset; write() continues behind it. Bytes that are never written are undefined.
  void write_at(std::uint64_t offset, const void* data, std::size_t count) {
    errno = 0;
    stream_.seekp(static_cast<std::streamoff>(offset));  // flushes, which may fail
    if (!stream_) fail("could not be written to its end" + cause_text(errno));
    write(data, count);
  }
  /// The bytes of a number.
  template <class Number>
  void write_number(Number value) {
    static_assert(std::is_arithmetic_v<Number>);
    write(&value, sizeof value);
  }
  /// Zeros up to a multiple of `alignment` bytes.
  void pad(std::uint64_t alignment) {
    while (written_ % alignment != 0) write("\0", 1);
  }

  /// All bytes of a tensor. file_error, which calls it `name`, unless they are as many as its type and shape require.
  void write(const std::string& name, const tensor_source& tensor) {
    write(name, byte_count(tensor.type, tensor.shape).value(), tensor.write);
  }
  /// The same of a source that must give `expected` bytes.
  void write(const std::string& name, std::uint64_t expected, const byte_source& bytes) {
    const std::uint64_t before = written_;
    bytes([&](const void* data, std::size_t count) {
      if (count > expected - (written_ - before)) fail(name, ": too many bytes from its source: more than ", expected);
      write(data, count);
    });
    if (written_ - before != expected)
      fail(name, ": too few bytes from its source: ", written_ - before, " of ", expected);
  }

  /// Renames the complete file to PATH.
  void finish() {
    errno = 0;
    stream_.flush();
    if (stream_) stream_.close();  // some file systems report a failed write only here
    if (!stream_) fail("could not be written to its end" + cause_text(errno));
    const std::error_code error = temporary_.rename(target_);
    if (error) fail("cannot be replaced: " + error.message());
  }

  std::uint64_t written() const { return written_; }  ///< number of bytes passed to write() and write_at()
  /// A file_error about this file, of words and numbers.
  [[noreturn]] void fail(const auto&... what) const { fail_file(path_, ufp4::detail::concat(what...)); }

 private:
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
    if (error) fail("permissions cannot be kept: " + error.message());
  }

  std::string path_, target_;
  temporary_file temporary_;  // declared before the stream: closed first, then removed
  std::ofstream stream_;
  std::uint64_t written_ = 0;
};

}  // namespace ufp4::interop::inline UFP4_CODE
