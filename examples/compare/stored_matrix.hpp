// ufp4 - a matrix inside a file: where its bytes lie, and how they become binary32.
// SPDX-License-Identifier: Apache-2.0
/// npy.hpp and safetensors.hpp say *where* a matrix lies (`stored_matrix`); `load` reads only the rows that are used,
/// so one matrix of a file of many gigabytes costs its own rows and no more.
///
/// | byte order  | little-endian in the file, any on the machine                             |
/// | values      | finite, else an input_error that names row and column                     |
/// | file sizes  | checked against the header before anything is allocated                   |
#pragma once

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <ufp4/ufp4.hpp>
#include <vector>

#include "matrix.hpp"

namespace compare {

/// A regular file of known size that is read at given places. Every failure is an input_error with the file's name.
class input_file {
 public:
  explicit input_file(const std::string& path) : name_(printable(path)) {
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

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }

  void read(std::uint64_t offset, void* to, std::size_t count) {
    stream_.seekg(static_cast<std::streamoff>(offset));
    stream_.read(static_cast<char*>(to), static_cast<std::streamsize>(count));
    if (!stream_) fail("could not be read at byte " + std::to_string(offset));
  }

  /// An unsigned little-endian number of `bytes` bytes at `offset`.
  std::uint64_t read_number(std::uint64_t offset, std::size_t bytes) {
    unsigned char raw[8] = {};
    read(offset, raw, bytes);
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;) value = value << 8 | raw[i];
    return value;
  }

  [[noreturn]] void fail(const std::string& what) const { throw input_error(name_ + ": " + what); }

 private:
  std::string name_;
  std::ifstream stream_;
  std::uint64_t size_ = 0;
};

enum class dtype { float32, float16, bfloat16 };

inline std::size_t size_of(dtype type) { return type == dtype::float32 ? 4 : 2; }

inline const char* name_of(dtype type) {
  return type == dtype::float32 ? "float32" : type == dtype::float16 ? "float16" : "bfloat16";
}

struct stored_matrix {
  dtype type = dtype::float32;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  bool column_major = false;  ///< NumPy's Fortran order
  std::uint64_t offset = 0;   ///< of the first value, in bytes from the start of the file
};

/// Bytes of rows x cols values, or nothing where 64 bits do not hold the number.
inline std::optional<std::uint64_t> byte_count(std::uint64_t rows, std::uint64_t cols, dtype type) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  if (cols != 0 && rows > most / cols) return {};
  if (rows * cols > most / size_of(type)) return {};
  return rows * cols * size_of(type);
}

namespace detail {

inline float decode(const unsigned char* at, dtype type) {
  const auto low = static_cast<std::uint16_t>(at[0] | at[1] << 8);
  if (type == dtype::float16) return static_cast<float>(ufp4::fp16::from_bits(low));
  if (type == dtype::bfloat16) return static_cast<float>(ufp4::bf16::from_bits(low));
  const auto high = static_cast<std::uint16_t>(at[2] | at[3] << 8);
  return std::bit_cast<float>(static_cast<std::uint32_t>(high) << 16 | low);
}

}  // namespace detail

/// Reads at most `row_limit` rows, evenly spaced (0: all). The bytes must lie inside the file: the format's reader
/// has checked that.
inline matrix load(input_file& file, const stored_matrix& where, std::size_t row_limit, const std::string& label) {
  const auto rows = static_cast<std::size_t>(where.rows), cols = static_cast<std::size_t>(where.cols);
  const std::size_t used = rows_used(rows, row_limit), width = size_of(where.type);
  matrix m;
  m.source = label + ", " + name_of(where.type);
  m.source += used == rows ? ", all rows" : ", " + grouped(used) + " of " + grouped(rows) + " rows";
  m.rows = used;
  m.cols = cols;
  m.values.resize(used * cols);

  const auto store = [&](std::size_t i, std::size_t k, const unsigned char* at) {
    const float value = detail::decode(at, where.type);
    if (!std::isfinite(value))
      file.fail(std::string("holds ") + (std::isnan(value) ? "a NaN" : "an infinity") + " at row " +
                std::to_string(spaced_row(i, used, rows)) + ", column " + std::to_string(k) +
                "; compare needs finite values");
    m.values[i * cols + k] = value;
  };

  std::vector<unsigned char> run((where.column_major ? rows : cols) * width);  // what lies side by side in the file
  if (where.column_major) {
    for (std::size_t k = 0; k < cols; ++k) {
      file.read(where.offset + std::uint64_t{k} * run.size(), run.data(), run.size());
      for (std::size_t i = 0; i < used; ++i) store(i, k, run.data() + spaced_row(i, used, rows) * width);
    }
  } else {
    for (std::size_t i = 0; i < used; ++i) {
      file.read(where.offset + std::uint64_t{spaced_row(i, used, rows)} * run.size(), run.data(), run.size());
      for (std::size_t k = 0; k < cols; ++k) store(i, k, run.data() + k * width);
    }
  }
  require_some_value(m);
  return m;
}

}  // namespace compare
