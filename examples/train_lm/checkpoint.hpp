// ufp4 - checkpoints: named binary32 matrices and metadata in a .safetensors file that is complete or absent.
// SPDX-License-Identifier: Apache-2.0
/// | written  | to FILE.tmp, fsync, renamed to FILE, fsync of the folder:                                            |
/// |          | a program that is killed leaves the last complete checkpoint                                         |
/// | read     | completely; damage, a foreign file and other shapes are file_errors, before anything is changed      |
/// | checksum | of the header (with zeros in place of the checksum) and the data                                     |
/// | layout   | an 8-byte length; a JSON object of name -> {dtype, shape, data_offsets} and __metadata__; the data   |
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <ufp4/interop/safetensors_header.hpp>
#include <utility>
#include <vector>

#include "../compare/text.hpp"
#include "errors.hpp"
#include "fingerprint.hpp"
#include "matrix.hpp"

namespace train_lm {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian and copied as they are");

using word_map = std::map<std::string, std::string>;

/// A matrix and its name in a file.
struct named_matrix {
  std::string name;
  matrix<float>* value;

  std::size_t bytes() const { return static_cast<std::size_t>(value->size()) * sizeof(float); }
};

/// The hash of the matrices; the same for every number of threads and processes.
inline std::string data_hash(const std::vector<named_matrix>& matrices) {
  fingerprint all;
  for (const named_matrix& m : matrices) all.add(m.value->data(), m.bytes());
  return all.text();
}

namespace detail {

/// A file descriptor; every failure is a file_error with the system's reason.
class output_file {
 public:
  output_file(const std::string& path, int flags) : path_(path), fd_(::open(path.c_str(), flags, 0666)) {
    if (fd_ < 0) fail("cannot be opened for writing");
  }
  ~output_file() {
    if (fd_ >= 0) ::close(fd_);
  }
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  void write(const void* data, std::size_t bytes) {
    for (const char* at = static_cast<const char*>(data); bytes > 0;) {
      const ssize_t written = ::write(fd_, at, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail("could not be written to its end");
      at += written;
      bytes -= static_cast<std::size_t>(written);
    }
  }
  /// Returns when the data is on the disk.
  void sync() {
    if (::fsync(fd_) != 0 && errno != EINVAL) fail("could not be written to the disk");  // EINVAL: not a regular file
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw file_error(compare::printable(path_) + ": " + what + ": " + std::strerror(errno));
  }
  std::string path_;
  int fd_;
};

inline void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  output_file(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY).sync();
}

inline constexpr std::string_view checksum_key = "\"checksum\":\"";

/// The header, and the position of the checksum's sixteen digits in it.
inline std::pair<std::string, std::size_t> header_of(const word_map& metadata,
                                                     const std::vector<named_matrix>& matrices) {
  ufp4::interop::safetensors_header header{{{"checksum", std::string(16, '0')}}, {}};
  header.metadata.insert(header.metadata.end(), metadata.begin(), metadata.end());
  std::uint64_t end = 0;
  for (const named_matrix& m : matrices) {
    const std::uint64_t begin = std::exchange(end, end + m.bytes());
    const std::vector<std::uint64_t> shape{static_cast<std::uint64_t>(m.value->rows()),
                                           static_cast<std::uint64_t>(m.value->cols())};
    header.tensors.push_back({m.name, "F32", shape, begin, end});
  }
  std::string text = to_text(header);
  const std::size_t digits = text.find(checksum_key) + checksum_key.size();  // it comes first
  return {std::move(text), digits};
}

}  // namespace detail

/// Writes `text` so that the file is the old or the new one at any moment, and on the disk on return.
inline void write_atomically(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  {
    detail::output_file file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(text.data(), text.size());
    file.sync();
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) throw file_error(compare::printable(path) + ": cannot be replaced: " + error.message());
  detail::sync_folder_of(path);
}

inline void write_checkpoint(const std::string& path, const word_map& metadata,
                             const std::vector<named_matrix>& matrices) {
  auto [header, digits] = detail::header_of(metadata, matrices);
  fingerprint sum;
  sum.add(header);
  for (const named_matrix& m : matrices) sum.add(m.value->data(), m.bytes());
  header.replace(digits, 16, sum.text());
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file += header;
  for (const named_matrix& m : matrices) file.append(reinterpret_cast<const char*>(m.value->data()), m.bytes());
  write_atomically(path, file);
}

/// A checkpoint in memory, complete and undamaged.
class checkpoint {
 public:
  explicit checkpoint(const std::string& path) : name_(compare::printable(path)) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (error) fail("cannot be read: " + error.message());
    bytes_.resize(static_cast<std::size_t>(size));
    std::ifstream stream(path, std::ios::binary);
    if (!stream.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()))) fail("could not be read to its end");
    std::uint64_t length = 0;
    if (bytes_.size() < 8) fail("is not a checkpoint: it has " + std::to_string(bytes_.size()) + " bytes");
    std::memcpy(&length, bytes_.data(), 8);
    if (length > bytes_.size() - 8) fail("is truncated, or not a checkpoint: its header would end beyond the file");
    data_ = 8 + static_cast<std::size_t>(length);
    check_sum();
    if (!parse()) fail("is not a checkpoint of train_lm: its header cannot be read");
  }

  /// A value of the metadata; throws file_error if it is absent.
  const std::string& word(const std::string& key) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end()) fail("is not a checkpoint of train_lm: its metadata has no " + key);
    return found->second;
  }

  /// Fills every matrix, or none.
  void fill(const std::vector<named_matrix>& matrices) const {
    for (const named_matrix& m : matrices) {
      const auto found = tensors_.find(m.name);
      if (found == tensors_.end()) fail("has no tensor " + m.name);
      const tensor& t = found->second;
      if (t.rows != static_cast<std::uint64_t>(m.value->rows()) ||
          t.cols != static_cast<std::uint64_t>(m.value->cols()))
        fail("shape mismatch: tensor " + m.name + " is " + std::to_string(t.rows) + " x " + std::to_string(t.cols) +
             ", this model's is " + std::to_string(m.value->rows()) + " x " + std::to_string(m.value->cols()));
    }
    for (const named_matrix& m : matrices)
      std::memcpy(m.value->data(), bytes_.data() + data_ + tensors_.at(m.name).begin, m.bytes());
  }

  [[noreturn]] void fail(const std::string& what) const { throw file_error(name_ + ": " + what); }

 private:
  struct tensor {
    std::uint64_t rows = 0, cols = 0, begin = 0, end = 0;
  };

  void check_sum() {
    const std::size_t at = std::string_view(bytes_).substr(0, data_).find(detail::checksum_key);
    const std::size_t digits = at + detail::checksum_key.size();
    if (at == std::string_view::npos || digits + 16 > data_)
      fail("is not a checkpoint of train_lm: its header has no checksum");
    const std::string stored = bytes_.substr(digits, 16);
    bytes_.replace(digits, 16, 16, '0');
    if (fingerprint{}.add(bytes_.data() + 8, bytes_.size() - 8).text() != stored)
      fail("is damaged: its " + compare::grouped(bytes_.size()) + " bytes do not match its checksum");
  }

  bool parse() {
    const auto header = ufp4::interop::parse_safetensors_header(std::string_view(bytes_).substr(8, data_ - 8));
    if (!header) return false;
    for (const auto& [key, value] : header->metadata) metadata_[key] = value;
    for (const ufp4::interop::safetensors_entry& t : header->tensors)
      if (!keep(t)) return false;
    return true;
  }

  bool keep(const ufp4::interop::safetensors_entry& entry) {
    if (entry.dtype != "F32" || entry.shape.size() != 2) return false;
    const tensor t{entry.shape[0], entry.shape[1], entry.begin, entry.end};
    tensors_[entry.name] = t;
    const std::uint64_t held = bytes_.size() - data_;
    return t.begin <= t.end && t.end <= held && (t.cols == 0 || t.rows <= held / t.cols) &&
           t.rows * t.cols * sizeof(float) == t.end - t.begin;
  }

  std::string name_, bytes_;
  std::size_t data_ = 0;
  word_map metadata_;
  std::map<std::string, tensor> tensors_;
};

}  // namespace train_lm
