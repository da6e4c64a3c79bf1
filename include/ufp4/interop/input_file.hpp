// ufp4 - a file that is read at given offsets, and file_error.
// SPDX-License-Identifier: Apache-2.0
/// Every error is a file_error with a one-line message "PATH: PROBLEM: VALUES"; text from a file is shown by
/// printable(). Without exceptions the message is printed and the program aborts.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <ufp4/detail/expects.hpp>
#include <ufp4/interop/text.hpp>

namespace ufp4::interop::inline UFP4_TYPES {

/// A file that cannot be read, has other content than expected, or cannot be written.
struct file_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace ufp4::interop::inline UFP4_TYPES

namespace ufp4::interop::inline UFP4_CODE {

/// Throws file_error("PATH: WHAT"); without exceptions prints it and aborts.
[[noreturn]] inline void fail_file(const std::string& path, const std::string& what) {
  ufp4::detail::reject<file_error>(printable(path) + ": " + what);
}

/// ": No space left on device": the text of an errno value; empty for 0.
inline std::string cause_text(int error) { return error == 0 ? "" : ": " + std::string(std::strerror(error)); }

/// A regular file of known, non-zero size.
class input_file {
 public:
  /// Opens a regular file. Throws file_error otherwise.
  explicit input_file(const std::string& path) : path_(path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (std::filesystem::is_directory(status)) fail("is a directory, not a file");
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) fail("is not a regular file");
    errno = 0;
    stream_.open(path, std::ios::binary);
    if (!stream_) fail("cannot be opened" + cause_text(errno == 0 ? ENOENT : errno));
    size_ = std::filesystem::file_size(path, error);
    if (error) fail("size unknown: " + error.message());
    if (size_ == 0) fail("is empty (0 bytes)");
  }

  const std::string& path() const { return path_; }  ///< as it was given to the constructor
  std::uint64_t size() const { return size_; }       ///< in bytes

  /// Reads bytes offset .. offset + count - 1. file_error if the file has fewer.
  void read(std::uint64_t offset, void* to, std::size_t count) {
    if (count == 0) return;
    if (offset > size_ || count > size_ - offset)
      fail("file too short: ", count, " bytes at byte ", offset, " of ", size_);
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(offset));
    stream_.read(static_cast<char*>(to), static_cast<std::streamsize>(count));
    if (!stream_) fail("could not be read at byte ", offset);
  }

  /// An unsigned little-endian number of `bytes` bytes at `offset`.
  std::uint64_t read_number(std::uint64_t offset, std::size_t bytes) {
    std::uint64_t value = 0;
    read(offset, &value, bytes);
    return value;
  }

  /// A file_error about this file, of words and numbers.
  [[noreturn]] void fail(const auto&... what) const { fail_file(path_, ufp4::detail::concat(what...)); }

 private:
  std::string path_;
  std::ifstream stream_;
  std::uint64_t size_ = 0;
};

}  // namespace ufp4::interop::inline UFP4_CODE
